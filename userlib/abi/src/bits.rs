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

/// A set of named bits: construction, tests, `|`, and words for people.
macro_rules! bit_set {
    (
        $(#[$meta:meta])*
        $name:ident, all $all:literal, none $none:literal {
            $( $(#[$bit_meta:meta])* $bit:ident = $value:expr, $text:literal; )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            /// No bit set.
            pub const NONE: $name = $name(0);
            /// Every bit set.
            pub const ALL: $name = $name($all);
            $( $(#[$bit_meta])* pub const $bit: $name = $name($value as u8); )*

            /// The set with these bits, or `None` if a bit has no meaning.
            #[inline]
            pub const fn from_bits(bits: u8) -> Option<$name> {
                if bits & !$all == 0 { Some($name(bits)) } else { None }
            }

            /// The set with these bits; bits without meaning are dropped.
            #[inline]
            pub const fn from_bits_truncate(bits: u8) -> $name {
                $name(bits & $all)
            }

            /// The bits as the card has them.
            #[inline]
            pub const fn bits(self) -> u8 {
                self.0
            }

            /// Whether every bit of `other` is set.
            #[inline]
            pub const fn contains(self, other: $name) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether a bit of `other` is set.
            #[inline]
            pub const fn intersects(self, other: $name) -> bool {
                self.0 & other.0 != 0
            }

            /// Whether no bit is set.
            #[inline]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// `|` in constants.
            #[inline]
            pub const fn union(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = $name;
            #[inline]
            fn bitor(self, other: $name) -> $name {
                self.union(other)
            }
        }

        impl std::ops::BitOrAssign for $name {
            #[inline]
            fn bitor_assign(&mut self, other: $name) {
                self.0 |= other.0;
            }
        }

        impl std::ops::BitAnd for $name {
            type Output = $name;
            #[inline]
            fn bitand(self, other: $name) -> $name {
                $name(self.0 & other.0)
            }
        }

        /// The names of the bits, joined by `+`.
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut rest = "";
                $( if self.contains($name::$bit) {
                    write!(f, "{rest}{}", $text)?;
                    rest = "+";
                } )*
                if rest.is_empty() { f.write_str($none) } else { Ok(()) }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}
pub(crate) use bit_set;
