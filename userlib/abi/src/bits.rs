//! Bit fields of a 64-bit word.

/// A value that does not fit its field.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {value:#x}, but at most {max:#x} fits: choose a smaller one")]
pub struct OutOfRange {
    /// Name of the field.
    pub what: &'static str,
    /// The value given.
    pub value: u64,
    /// Largest value that fits.
    pub max: u64,
}

ggas_errors::debug_as_display!(OutOfRange);

/// Bits `[shift + bits - 1 : shift]` of a word.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    shift: u32,
    bits: u32,
}

impl Field {
    /// `bits` (1 to 63) bits from `shift` on.
    pub const fn new(shift: u64, bits: u64) -> Field {
        assert!(bits > 0 && bits < 64 && shift + bits <= 64);
        Field { shift: shift as u32, bits: bits as u32 }
    }

    /// Number of its lowest bit.
    pub const fn low(self) -> u32 {
        self.shift
    }

    /// Number of its highest bit.
    pub const fn high(self) -> u32 {
        self.shift + self.bits - 1
    }

    /// Largest value of the field.
    #[inline]
    pub const fn max(self) -> u64 {
        (1 << self.bits) - 1
    }

    /// The field's bits in place.
    #[inline]
    pub const fn mask(self) -> u64 {
        self.max() << self.shift
    }

    /// The field's value in `word`.
    #[inline]
    pub const fn get(self, word: u64) -> u64 {
        (word >> self.shift) & self.max()
    }

    /// Whether any of the field's bits is set.
    #[inline]
    pub const fn is_set(self, word: u64) -> bool {
        word & self.mask() != 0
    }

    /// `value` in place; bits beyond the field are cut off, so that no field can change another.
    #[inline]
    pub const fn put(self, value: u64) -> u64 {
        (value & self.max()) << self.shift
    }

    /// `word` with this field replaced.
    #[inline]
    pub const fn with(self, word: u64, value: u64) -> u64 {
        word & !self.mask() | self.put(value)
    }

    /// `value` if it fits; `what` names the field in the error.
    pub const fn check(self, what: &'static str, value: u64) -> Result<u64, OutOfRange> {
        if value > self.max() { Err(OutOfRange { what, value, max: self.max() }) } else { Ok(value) }
    }
}

/// What a set of bits has beside what `bitflags` gives it: `NONE`, `ALL`, and words for people, joined by `+`.
macro_rules! words_of_bits {
    ($name:ident, none $none:literal $(, $spelled:path)?) => {
        impl $name {
            /// No bit set.
            pub const NONE: $name = $name::empty();
            /// Every bit set.
            pub const ALL: $name = $name::all();
        }

        impl Default for $name {
            fn default() -> $name {
                $name::NONE
            }
        }

        /// The names of the bits, joined by `+`.
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let names: Vec<String> = self.iter_names().map(|(name, _)| name.to_owned()).collect();
                $( let names: Vec<String> = names.iter().map(|name| $spelled(name)).collect(); )?
                f.write_str(if names.is_empty() { $none } else { "" })?;
                f.write_str(&names.join("+"))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}
pub(crate) use words_of_bits;
