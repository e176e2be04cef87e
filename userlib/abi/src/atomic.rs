//! Atomic operations on memory behind an SMFU: of the model. No card has them, so no specification does.

/// What an [`Atomic`] does to a word. The numbers are those of `kernels/include/ggas/impl/atomic_ops.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Adds; wraps around.
    Add = 0,
    /// Puts the operand there.
    Exchange = 1,
    /// Bits of both.
    And = 2,
    /// Bits of either.
    Or = 3,
    /// Bits of one.
    Xor = 4,
    /// The lesser of two numbers without a sign.
    Min = 5,
    /// The greater one.
    Max = 6,
    /// The lesser of two numbers with a sign.
    MinSigned = 7,
    /// The greater one.
    MaxSigned = 8,
    /// Adds as IEEE binary32 or binary64, to nearest.
    AddFloat = 9,
    /// Puts the operand there where the expected value is.
    CompareExchange = 10,
}

impl Operation {
    const ALL: [Operation; 11] = [
        Operation::Add,
        Operation::Exchange,
        Operation::And,
        Operation::Or,
        Operation::Xor,
        Operation::Min,
        Operation::Max,
        Operation::MinSigned,
        Operation::MaxSigned,
        Operation::AddFloat,
        Operation::CompareExchange,
    ];

    /// The one of a number.
    pub fn new(number: u8) -> Option<Operation> {
        Operation::ALL.get(usize::from(number)).copied()
    }
}

/// Bytes of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Width {
    /// 4 bytes.
    Four = 4,
    /// 8 bytes.
    Eight = 8,
}

impl Width {
    /// Of so many bytes: 4 or 8.
    pub fn new(bytes: usize) -> Option<Width> {
        match bytes {
            4 => Some(Width::Four),
            8 => Some(Width::Eight),
            _ => None,
        }
    }

    /// How many.
    pub fn bytes(self) -> usize {
        self as usize
    }

    fn cut(self, word: u64) -> u64 {
        if self == Width::Four { word & u64::from(u32::MAX) } else { word }
    }

    fn signed(self, word: u64) -> i64 {
        if self == Width::Four { i64::from(word as u32 as i32) } else { word as i64 }
    }
}

/// A read-modify-write of one word, which is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Atomic {
    operation: Operation,
    width: Width,
    operand: u64,
    expected: u64,
}

impl Atomic {
    /// `operation` with `operand`, of which the low bytes count. [`Operation::CompareExchange`] expects 0 so.
    pub fn new(operation: Operation, width: Width, operand: u64) -> Atomic {
        Atomic { operation, width, operand: width.cut(operand), expected: 0 }
    }

    /// Puts `desired` there where `expected` is.
    pub fn compare_exchange(width: Width, expected: u64, desired: u64) -> Atomic {
        let expected = width.cut(expected);
        Atomic { expected, ..Atomic::new(Operation::CompareExchange, width, desired) }
    }

    /// Adds to a word of 8 bytes.
    pub fn add(value: u64) -> Atomic {
        Atomic::new(Operation::Add, Width::Eight, value)
    }

    /// What it does.
    pub fn operation(self) -> Operation {
        self.operation
    }

    /// Bytes of the word.
    pub fn width(self) -> Width {
        self.width
    }

    /// What is in the word afterwards, where `old` was in it.
    pub fn apply(self, old: u64) -> u64 {
        let (width, new) = (self.width, self.operand);
        let old = width.cut(old);
        let new_if = |replaces: bool| if replaces { new } else { old };
        match self.operation {
            Operation::Add => width.cut(old.wrapping_add(new)),
            Operation::Exchange => new,
            Operation::And => old & new,
            Operation::Or => old | new,
            Operation::Xor => old ^ new,
            Operation::Min => old.min(new),
            Operation::Max => old.max(new),
            Operation::MinSigned => new_if(width.signed(new) < width.signed(old)),
            Operation::MaxSigned => new_if(width.signed(new) > width.signed(old)),
            Operation::AddFloat if width == Width::Four => {
                (f32::from_bits(old as u32) + f32::from_bits(new as u32)).to_bits().into()
            }
            Operation::AddFloat => (f64::from_bits(old) + f64::from_bits(new)).to_bits(),
            Operation::CompareExchange => new_if(old == self.expected),
        }
    }

    /// Operation and width as one number, for a packet beside its [`operands`](Self::operands).
    pub fn code(self) -> u16 {
        u16::from(self.operation as u8) | u16::from(self.width as u8) << 8
    }

    /// Bytes of the operands that belong to a code: one or two words. `None`: it is no operation's.
    pub fn operand_bytes(code: u16) -> Option<usize> {
        let (operation, width) = parts(code)?;
        Some(if operation == Operation::CompareExchange { 2 * width.bytes() } else { width.bytes() })
    }

    /// The operand, little-endian, and behind it what is expected where something is: `operand_bytes` of these count.
    pub fn operands(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.operand.to_le_bytes());
        if self.operation == Operation::CompareExchange {
            let at = self.width.bytes();
            bytes[at..at + 8].copy_from_slice(&self.expected.to_le_bytes());
        }
        bytes
    }

    /// What [`code`](Self::code) and [`operands`](Self::operands) say; `None` where that is nothing.
    pub fn decode(code: u16, operands: &[u8]) -> Option<Atomic> {
        let (operation, width) = parts(code)?;
        if operands.len() != Atomic::operand_bytes(code)? {
            return None;
        }
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let (operand, expected) = operands.split_at(width.bytes());
        Some(Atomic { operation, width, operand: word(operand), expected: word(expected) })
    }
}

fn parts(code: u16) -> Option<(Operation, Width)> {
    let [operation, width] = code.to_le_bytes();
    Some((Operation::new(operation)?, Width::new(width.into())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after(operation: Operation, width: Width, old: u64, operand: u64) -> u64 {
        Atomic::new(operation, width, operand).apply(old)
    }

    #[test]
    fn words_become_what_the_operation_says() {
        use Operation::*;
        use Width::{Eight, Four};
        let minus = |value: i64| value as u64;
        let low = u64::from(u32::MAX);
        for (operation, width, old, operand, new) in [
            (Add, Eight, u64::MAX, 3, 2),
            (Add, Four, low, 3, 2),
            (Exchange, Four, 7, minus(-1), low),
            (And, Eight, 12, 10, 8),
            (Or, Eight, 12, 10, 14),
            (Xor, Eight, 12, 10, 6),
            (Min, Four, low, 1, 1),
            (Max, Four, low, 1, low),
            (MinSigned, Four, low, 1, low),
            (MaxSigned, Four, low, 1, 1),
            (MinSigned, Eight, minus(-5), 4, minus(-5)),
            (MaxSigned, Eight, minus(-5), 4, 4),
            // With a sign of 8 bytes this one has none.
            (MaxSigned, Eight, low, 1, low),
            (AddFloat, Four, f32::to_bits(1.5).into(), f32::to_bits(2.25).into(), f32::to_bits(3.75).into()),
            (AddFloat, Eight, f64::to_bits(1.5), f64::to_bits(-4.0), f64::to_bits(-2.5)),
        ] {
            assert_eq!(after(operation, width, old, operand), new, "{operation:?} {width:?} {old} {operand}");
        }
        for width in [Four, Eight] {
            assert_eq!(Atomic::compare_exchange(width, 7, 9).apply(7), 9);
            assert_eq!(Atomic::compare_exchange(width, 7, 9).apply(8), 8);
        }
    }

    #[test]
    fn codes_of_nothing_are_refused() {
        for operation in Operation::ALL {
            assert_eq!(Operation::new(operation as u8), Some(operation));
        }
        for code in [0, 0x0400 | 11, 0x0800 | 0xff, 0x0500, 0x1000, u16::MAX] {
            assert_eq!(Atomic::operand_bytes(code), None, "{code:#x}");
            assert_eq!(Atomic::decode(code, &[0; 8]), None, "{code:#x}");
        }
        let code = Atomic::add(1).code();
        for len in [0, 4, 7, 9, 16] {
            assert_eq!(Atomic::decode(code, &[0; 16][..len]), None, "{len}");
        }
    }

    proptest! {
        #[test]
        fn codes_keep_operations(number in 0u8..11, eight: bool, operand: u64, expected: u64, old: u64) {
            let width = if eight { Width::Eight } else { Width::Four };
            let atomic = match Operation::new(number).unwrap() {
                Operation::CompareExchange => Atomic::compare_exchange(width, expected, operand),
                operation => Atomic::new(operation, width, operand),
            };
            let bytes = Atomic::operand_bytes(atomic.code()).unwrap();
            let again = Atomic::decode(atomic.code(), &atomic.operands()[..bytes]);
            prop_assert_eq!(again, Some(atomic));
            prop_assert_eq!(width.cut(atomic.apply(old)), atomic.apply(old));
        }
    }
}
