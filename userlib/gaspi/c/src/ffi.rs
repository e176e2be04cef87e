//! How functions are exported, and pointers that C programs pass.

use std::ffi::c_int;
use std::fmt::Display;
use std::io::Write;

use ggas_gaspi::GaspiError;

use crate::process::here;

/// Who a process is before it begins, by the launchers that there are.
const RANKS: [&str; 2] = ["GGAS_RANK", "PMIX_RANK"];

/// What C gets.
pub(crate) fn code(result: Result<(), GaspiError>) -> c_int {
    let Err(error) = result else { return 0 };
    if let Some(text) = told(error) {
        say(text);
    }
    error.code()
}

/// What standard error says of an error whose code leaves open what has to be changed.
fn told(error: GaspiError) -> Option<String> {
    use GaspiError::{Device, Ended, Environment, Files, Memory, Reach, Unequal, Unlike};
    match error {
        Ended | Unequal { .. } | Unlike => Some(error.to_string()),
        Device | Environment | Files | Memory | Reach => error.cause(),
        _ => None,
    }
}

/// An error whose code does not say what is wrong: standard error does.
pub(crate) fn refuse(error: GaspiError, why: impl Display) -> GaspiError {
    say(why);
    error
}

/// One line on standard error, with the rank; in one piece, since all processes may write there.
pub(crate) fn say(what: impl Display) {
    let rank = here().ok().map(|here| here.rank().to_string());
    let rank = rank.or_else(|| RANKS.iter().find_map(|name| std::env::var(name).ok()));
    // Nobody may be there to read it.
    let _ = std::io::stderr().write_all(line(rank.as_deref(), what).as_bytes());
}

fn line(rank: Option<&str>, what: impl Display) -> String {
    match rank {
        Some(rank) => format!("gaspi: rank {rank}: {what}\n"),
        None => format!("gaspi: {what}\n"),
    }
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
    fn a_line_says_whose_it_is() {
        assert_eq!(line(Some("3"), "x"), "gaspi: rank 3: x\n");
        assert_eq!(line(None, "x"), "gaspi: x\n");
    }

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
