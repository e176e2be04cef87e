//! How values are combined.

use crate::GaspiError;

/// Combines two vectors of elements into the first one.
pub type Reduction<'a> = dyn FnMut(&mut [u8], &[u8]) -> Result<(), GaspiError> + 'a;

/// Predefined operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// The sum; of integers modulo their range.
    Sum,
}

/// Types of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datatype {
    /// `i32`
    Int,
    /// `u32`
    Uint,
    /// `f32`
    Float,
    /// `f64`
    Double,
    /// `i64`
    Long,
    /// `u64`
    Ulong,
    /// `i8`; this and the next three are not in GASPI.
    Int8,
    /// `u8`: a byte.
    Uint8,
    /// `i16`
    Int16,
    /// `u16`
    Uint16,
}

impl Datatype {
    /// Bytes of an element.
    pub const fn size(self) -> usize {
        match self {
            Datatype::Int8 | Datatype::Uint8 => 1,
            Datatype::Int16 | Datatype::Uint16 => 2,
            Datatype::Int | Datatype::Uint | Datatype::Float => 4,
            Datatype::Double | Datatype::Long | Datatype::Ulong => 8,
        }
    }
}

macro_rules! fold {
    ($type:ty, $operation:expr, $one:expr, $two:expr, $sum:expr) => {
        match $operation {
            Operation::Min => fold!($type, $one, $two, <$type>::min),
            Operation::Max => fold!($type, $one, $two, <$type>::max),
            Operation::Sum => fold!($type, $one, $two, $sum),
        }
    };
    // A loop for each operation, so that the compiler takes vector instructions.
    ($type:ty, $one:expr, $two:expr, $combine:expr) => {
        for (one, two) in $one.as_chunks_mut().0.iter_mut().zip($two.as_chunks().0) {
            *one = $combine(<$type>::from_ne_bytes(*one), <$type>::from_ne_bytes(*two)).to_ne_bytes();
        }
    };
}

/// Combines two vectors of the same length into the first.
pub(crate) fn combine(operation: Operation, datatype: Datatype, one: &mut [u8], two: &[u8]) {
    match datatype {
        Datatype::Int => fold!(i32, operation, one, two, i32::wrapping_add),
        Datatype::Uint => fold!(u32, operation, one, two, u32::wrapping_add),
        Datatype::Long => fold!(i64, operation, one, two, i64::wrapping_add),
        Datatype::Ulong => fold!(u64, operation, one, two, u64::wrapping_add),
        Datatype::Int8 => fold!(i8, operation, one, two, i8::wrapping_add),
        Datatype::Uint8 => fold!(u8, operation, one, two, u8::wrapping_add),
        Datatype::Int16 => fold!(i16, operation, one, two, i16::wrapping_add),
        Datatype::Uint16 => fold!(u16, operation, one, two, u16::wrapping_add),
        Datatype::Float => fold!(f32, operation, one, two, |a: f32, b: f32| a + b),
        Datatype::Double => fold!(f64, operation, one, two, |a: f64, b: f64| a + b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_types_know_all_operations() {
        macro_rules! check {
            ($type:ty, $datatype:expr, $a:expr, $b:expr, $sum:expr) => {
                for (operation, expected) in
                    [(Operation::Min, $a), (Operation::Max, $b), (Operation::Sum, $sum)]
                {
                    let mut one = [<$type>::to_ne_bytes($b), <$type>::to_ne_bytes($a)].concat();
                    let two = [<$type>::to_ne_bytes($a), <$type>::to_ne_bytes($b)].concat();
                    combine(operation, $datatype, &mut one, &two);
                    let expected = <$type>::to_ne_bytes(expected);
                    assert_eq!(one, [expected, expected].concat(), "{:?} {operation:?}", $datatype);
                    assert_eq!($datatype.size(), size_of::<$type>());
                }
            };
        }
        check!(i32, Datatype::Int, -5, i32::MAX, i32::MAX - 5);
        check!(u32, Datatype::Uint, 2, u32::MAX, 1);
        check!(i64, Datatype::Long, -1, i64::MIN + 3 - i64::MIN, 2);
        check!(u64, Datatype::Ulong, 2, u64::MAX, 1);
        check!(i8, Datatype::Int8, -5, i8::MAX, i8::MAX - 5);
        check!(u8, Datatype::Uint8, 2, u8::MAX, 1);
        check!(i16, Datatype::Int16, -5, i16::MAX, i16::MAX - 5);
        check!(u16, Datatype::Uint16, 2, u16::MAX, 1);
        check!(f32, Datatype::Float, -1.5, 2.0, 0.5);
        check!(f64, Datatype::Double, -1.5, 1e300, 1e300);
    }
}
