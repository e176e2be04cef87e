//! MPI's operations on MPI's types.

use crate::carrier::Type;
use crate::layout;

/// What works on all types here.
trait Number: Copy {
    fn add(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// The same whichever is first, also of zeros and of what is no number: members may see them in any order.
    fn is_more(self, other: Self) -> bool;
    /// Bits and truth; `None`: not of this type.
    fn bits(self, other: Self, op: u32) -> Option<Self>;
}

macro_rules! integers {
    ($($type:ty),*) => { $(impl Number for $type {
        fn add(self, other: Self) -> Self { self.wrapping_add(other) }
        fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
        fn is_more(self, other: Self) -> bool { self > other }
        fn bits(self, other: Self, op: u32) -> Option<Self> {
            let truth = |is: bool| Some(<$type>::from(is));
            match op {
                layout::GMPI_LAND => truth(self != 0 && other != 0),
                layout::GMPI_LOR => truth(self != 0 || other != 0),
                layout::GMPI_LXOR => truth((self != 0) != (other != 0)),
                layout::GMPI_BAND => Some(self & other),
                layout::GMPI_BOR => Some(self | other),
                layout::GMPI_BXOR => Some(self ^ other),
                _ => None,
            }
        }
    })* };
}
integers!(i8, u8, i16, u16, i32, u32, i64, u64);

macro_rules! floats {
    ($($type:ty),*) => { $(impl Number for $type {
        fn add(self, other: Self) -> Self { self + other }
        fn times(self, other: Self) -> Self { self * other }
        fn is_more(self, other: Self) -> bool { self.total_cmp(&other).is_gt() }
        fn bits(self, _: Self, _: u32) -> Option<Self> { None }
    })* };
}
floats!(f32, f64);

fn one<T: Number>(op: u32, a: T, b: T) -> Option<T> {
    match op {
        layout::GMPI_SUM => Some(a.add(b)),
        layout::GMPI_PROD => Some(a.times(b)),
        layout::GMPI_MAX => Some(if b.is_more(a) { b } else { a }),
        layout::GMPI_MIN => Some(if a.is_more(b) { b } else { a }),
        _ => a.bits(b, op),
    }
}

/// Whether there is such an operation for this type.
pub fn allows(op: u32, of: Type) -> bool {
    let (mut zero, other) = ([0; 8], [0; 8]);
    combine(op, of, &mut zero[..of.size().min(8)], &other[..of.size().min(8)]).is_some()
}

/// into = into op other, element by element, of the whole elements that both have. `None`: not for this type.
pub fn combine(op: u32, of: Type, into: &mut [u8], other: &[u8]) -> Option<()> {
    macro_rules! each {
        ($type:ty) => {
            into.chunks_exact_mut(size_of::<$type>())
                .zip(other.chunks_exact(size_of::<$type>()))
                .try_for_each(|(a, b)| {
                    let read = |bytes: &[u8]| bytes.try_into().map(<$type>::from_ne_bytes).ok();
                    a.copy_from_slice(&one(op, read(a)?, read(b)?)?.to_ne_bytes());
                    Some(())
                })
        };
    }
    match of.0 {
        layout::GMPI_CHAR | layout::GMPI_SIGNED_CHAR => each!(i8),
        layout::GMPI_UNSIGNED_CHAR => each!(u8),
        // Bits alone, as in MPI.
        layout::GMPI_BYTE if matches!(op, layout::GMPI_BAND | layout::GMPI_BOR | layout::GMPI_BXOR) => {
            each!(u8)
        }
        layout::GMPI_SHORT => each!(i16),
        layout::GMPI_UNSIGNED_SHORT => each!(u16),
        layout::GMPI_INT => each!(i32),
        layout::GMPI_UNSIGNED => each!(u32),
        layout::GMPI_LONG | layout::GMPI_LONG_LONG => each!(i64),
        layout::GMPI_UNSIGNED_LONG | layout::GMPI_UNSIGNED_LONG_LONG => each!(u64),
        layout::GMPI_FLOAT => each!(f32),
        layout::GMPI_DOUBLE => each!(f64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_mpi_s() {
        let double = Type(layout::GMPI_DOUBLE);
        let mut sum = 1.5f64.to_ne_bytes();
        assert!(combine(layout::GMPI_SUM, double, &mut sum, &2.25f64.to_ne_bytes()).is_some());
        assert_eq!(f64::from_ne_bytes(sum), 3.75);
        let mut most = (-3i32).to_ne_bytes();
        assert!(combine(layout::GMPI_MAX, Type(layout::GMPI_INT), &mut most, &2i32.to_ne_bytes()).is_some());
        assert_eq!(i32::from_ne_bytes(most), 2);
        assert!(!allows(layout::GMPI_BAND, double) && !allows(0, double) && !allows(99, double));
        assert!(!allows(layout::GMPI_SUM, Type(layout::GMPI_BYTE)) && !allows(layout::GMPI_SUM, Type(8)));
        assert!(allows(layout::GMPI_LXOR, Type(layout::GMPI_UNSIGNED_LONG)));
    }

    #[test]
    fn most_and_least_are_the_same_bits_in_any_order() {
        let of = Type(layout::GMPI_DOUBLE);
        let of_both = |op: u32, a: f64, b: f64| {
            let mut into = a.to_ne_bytes();
            combine(op, of, &mut into, &b.to_ne_bytes()).expect("there is such an operation");
            f64::from_ne_bytes(into).to_bits()
        };
        for (a, b) in [(0.0, -0.0), (1.0, f64::NAN), (-1.0, -f64::NAN), (1.0, 2.0), (f64::INFINITY, f64::NAN)]
        {
            for op in [layout::GMPI_MAX, layout::GMPI_MIN] {
                assert_eq!(of_both(op, a, b), of_both(op, b, a), "{op} {a} {b}");
            }
        }
    }
}
