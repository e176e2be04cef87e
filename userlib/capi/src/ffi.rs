//! Pointers that C programs pass.
//!
//! These pointers need not be aligned: C programs keep handles and NLAs in packed structures and messages, and the old
//! library allowed that. So values are read and written unaligned.

use std::fmt;

use crate::error::{Code, INV_VALUE, because};

/// An argument that is null and must not be: its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Null(pub(crate) &'static str);

impl fmt::Display for Null {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} is NULL", self.0)
    }
}

impl From<Null> for Code {
    #[cold]
    fn from(null: Null) -> Code {
        because(INV_VALUE, null)
    }
}

/// Where a result goes: null, or valid for writing.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

/// What a call reads: null, or valid for reading.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T> Out<T> {
    /// The pointer, unless it is null; `what` it points to.
    fn usable(&self, what: &'static str) -> Result<*mut T, Null> {
        if self.0.is_null() { Err(Null(what)) } else { Ok(self.0) }
    }

    /// Checks the pointer before work is done for it; `what` it points to.
    pub(crate) fn check(&self, what: &'static str) -> Result<(), Null> {
        self.usable(what).map(|_| ())
    }

    /// Stores a result.
    pub(crate) fn set(&self, value: T) -> Result<(), Code> {
        let place = self.usable("place for the result")?;
        // SAFETY: the interface's contract: what is not null is valid for writing.
        unsafe { place.write_unaligned(value) };
        Ok(())
    }

    /// What stands there now, and is called `what`.
    pub(crate) fn get(&self, what: &'static str) -> Result<T, Null>
    where
        T: Copy,
    {
        let place = self.usable(what)?;
        // SAFETY: as above; results that are changed hold a value.
        Ok(unsafe { place.read_unaligned() })
    }

    /// Stores a result unless the pointer is null.
    pub(crate) fn set_if_wanted(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: as above.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    pub(crate) fn address(&self) -> *const T {
        self.0
    }
}

impl<T> From<*const T> for In<T> {
    fn from(pointer: *const T) -> In<T> {
        In(pointer)
    }
}

impl<T: Copy> In<T> {
    /// The value.
    #[inline]
    pub(crate) fn get(&self) -> Option<T> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: the interface's contract: what is not null is valid for reading.
        Some(unsafe { self.0.read_unaligned() })
    }

    pub(crate) fn address(&self) -> *const T {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_need_not_be_aligned() {
        let mut bytes = [0xa5u8; 10];
        let out = Out::<u64>(bytes[1..9].as_mut_ptr().cast());
        assert_eq!(out.check("port"), Ok(()));
        assert_eq!(out.set(0x0807_0605_0403_0201), Ok(()));
        assert_eq!(out.get("port"), Ok(0x0807_0605_0403_0201));
        assert_eq!(In::from(out.address()).get(), Some(0x0807_0605_0403_0201));
        assert_eq!(bytes, [0xa5, 1, 2, 3, 4, 5, 6, 7, 8, 0xa5]);
    }

    #[test]
    fn null_is_refused() {
        let out = Out::<u64>(std::ptr::null_mut());
        assert_eq!((out.check("port"), out.get("port")), (Err(Null("port")), Err(Null("port"))));
        assert_eq!(out.set(1), Err(INV_VALUE));
        assert!(In::<u64>::from(std::ptr::null()).get().is_none());
        out.set_if_wanted(1);
    }
    #[test]
    fn the_text_names_what_is_null() {
        let text = |code| crate::error::text(code);
        let out = Out::<u64>(std::ptr::null_mut());
        assert!(text(out.check("port").unwrap_err().into()).ends_with(": the port is NULL"));
        assert!(text(out.set(1).unwrap_err()).ends_with(": the place for the result is NULL"));
        let port = crate::port::enter(std::ptr::null()).err().expect("null");
        assert!(text(port).ends_with(": the port is NULL"));
        let region = crate::region::known(std::ptr::null()).expect_err("null");
        assert!(text(region).ends_with(": the region is NULL"));
        let descriptor = crate::descriptor::read(std::ptr::null()).err().expect("null");
        assert!(text(descriptor).ends_with(": the descriptor is NULL"));
        let connection = crate::connection::remote(std::ptr::null()).expect_err("null");
        assert!(text(connection).ends_with(": the connection is NULL"));
    }
}
