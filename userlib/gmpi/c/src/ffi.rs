//! How functions are exported, and pointers that C programs pass.

use ggas_gmpi::Class;

use crate::error::Failure;

/// Exports a function that returns an error class.
macro_rules! export {
    ($($(#[$doc:meta])* fn $name:ident ($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> std::ffi::c_int {
            let work = || -> Result<(), $crate::error::Failure> { $body };
            $crate::error::code(work())
        }
    )*};
}
pub(crate) use export;

fn check<T>(place: *const T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::new(Class::ARG, "a pointer is null where gmpi.h allows none"));
    }
    Ok(())
}

/// Stores a result.
pub(crate) fn put<T>(place: *mut T, value: T) -> Result<(), Failure> {
    check(place)?;
    // SAFETY: the interface's contract: what is not null is valid for writing.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// Reads what a pointer is to.
pub(crate) fn get<T: Copy>(place: *const T) -> Result<T, Failure> {
    check(place)?;
    // SAFETY: the interface's contract: what is not null is valid for reading.
    Ok(unsafe { place.read_unaligned() })
}

/// So many bytes of the program.
pub(crate) fn bytes<'a>(from: *const u8, len: usize) -> Result<&'a [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    check(from)?;
    // SAFETY: the interface's contract: as many bytes are there, and nobody writes them during the call.
    Ok(unsafe { std::slice::from_raw_parts(from, len) })
}

/// The same for results.
pub(crate) fn bytes_mut<'a>(to: *mut u8, len: usize) -> Result<&'a mut [u8], Failure> {
    if len == 0 {
        return Ok(&mut []);
    }
    check(to)?;
    // SAFETY: the interface's contract: there is room for as many, which nobody else uses during the call.
    Ok(unsafe { std::slice::from_raw_parts_mut(to, len) })
}

/// Text with a zero at its end, as much as there is room for.
pub(crate) fn put_text(to: *mut u8, room: usize, text: &str) -> Result<(), Failure> {
    let Some(most) = room.checked_sub(1) else {
        return Err(Failure::new(Class::ARG, "there is no room for a text: give some bytes"));
    };
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // The room may be said to be more than there can be.
    let into = bytes_mut(to, end + 1)?;
    into[..end].copy_from_slice(&text.as_bytes()[..end]);
    into[end] = 0;
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
        assert_eq!(get(memory[1..9].as_ptr().cast::<u16>()).unwrap(), 0x0201);
        assert!(put(std::ptr::null_mut::<u16>(), 1).is_err() && get(std::ptr::null::<u16>()).is_err());
        assert!(bytes(std::ptr::null(), 1).is_err() && bytes(std::ptr::null(), 0).unwrap().is_empty());
    }

    #[test]
    fn texts_are_cut_between_letters() {
        let mut memory = [7u8; 4];
        put_text(memory.as_mut_ptr(), 4, "aäö").unwrap();
        assert_eq!(memory, [b'a', 0xc3, 0xa4, 0]);
        put_text(memory.as_mut_ptr(), 3, "aäö").unwrap();
        assert_eq!(memory[..2], [b'a', 0]);
        put_text(memory.as_mut_ptr(), usize::MAX, "b").unwrap();
        assert_eq!(memory[..2], [b'b', 0]);
        assert!(put_text(memory.as_mut_ptr(), 0, "a").is_err());
    }
}
