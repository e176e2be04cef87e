//! How functions are exported, and pointers that C programs pass.

use std::ffi::c_int;
use std::io::Write;

use ggas_gaspi::GaspiError;

/// What C gets.
pub(crate) fn code(result: Result<(), GaspiError>) -> c_int {
    let Err(error) = result else { return 0 };
    // Mistakes of programs whose code stands for other errors as well.
    use GaspiError::{Argument, Ended, Unequal, Unlike};
    if matches!(error, Argument | Ended | Unequal { .. } | Unlike) {
        let _ = writeln!(std::io::stderr(), "gaspi: {error}");
    }
    error.code()
}

/// Exports a function that returns a code, under both names.
macro_rules! export {
    ($($(#[$doc:meta])* fn $own:ident / $name:ident ($($argument:ident: $type:ty),*) $body:block)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $own($($argument: $type),*) -> std::ffi::c_int {
            let work = || -> Result<(), ggas_gaspi::GaspiError> { $body };
            $crate::ffi::code(work())
        }

        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> std::ffi::c_int {
            $own($($argument),*)
        }
    )*};
}
pub(crate) use export;

/// Stores a result.
///
/// # Errors
/// [`GaspiError::Null`].
pub(crate) fn put<T>(place: *mut T, value: T) -> Result<(), GaspiError> {
    check(place)?;
    // SAFETY: the interface's contract: what is not null is valid for writing.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// Whether a result can be stored.
pub(crate) fn check<T>(place: *const T) -> Result<(), GaspiError> {
    if place.is_null() { Err(GaspiError::Null) } else { Ok(()) }
}

/// Element `at` of an array.
pub(crate) fn element<T: Copy>(array: *const T, at: usize) -> Result<T, GaspiError> {
    check(array)?;
    // SAFETY: the interface's contract: the array has as many elements as the call says.
    Ok(unsafe { array.add(at).read_unaligned() })
}

/// Stores bytes.
pub(crate) fn put_bytes(place: *mut u8, from: &[u8]) -> Result<(), GaspiError> {
    check(place)?;
    // SAFETY: the interface's contract: there is room for as many.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), place, from.len()) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_need_not_be_aligned_and_null_is_refused() {
        let mut memory = [0xa5u8; 10];
        put(memory[1..9].as_mut_ptr().cast::<u64>(), 0x0807_0605_0403_0201).unwrap();
        assert_eq!(memory, [0xa5, 1, 2, 3, 4, 5, 6, 7, 8, 0xa5]);
        assert_eq!(element(memory[1..9].as_ptr().cast::<u16>(), 1), Ok(0x0403));
        assert_eq!(put(std::ptr::null_mut::<u16>(), 1), Err(GaspiError::Null));
        assert_eq!(element(std::ptr::null::<u16>(), 0), Err(GaspiError::Null));
    }
}
