//! Pointers that C hands in.
//!
//! They need not be aligned: a handle or an NLA in a packed structure or a message is ordinary in C programs, which
//! always could do that here. So everything is read and written byte by byte.

use crate::error::{Code, INV_VALUE};

/// Where a result goes: null, or valid for writing.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

/// What a call reads: null, or valid for reading.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T> Out<T> {
    /// The pointer, unless it is null.
    fn usable(&self) -> Result<*mut T, Code> {
        if self.0.is_null() { Err(INV_VALUE) } else { Ok(self.0) }
    }

    /// Checks the pointer before work is done for it.
    pub(crate) fn check(&self) -> Result<(), Code> {
        self.usable().map(|_| ())
    }

    /// Stores a result.
    pub(crate) fn set(&self, value: T) -> Result<(), Code> {
        let place = self.usable()?;
        // SAFETY: the interface's contract: what is not null is valid for writing.
        unsafe { place.write_unaligned(value) };
        Ok(())
    }

    /// What stands there now.
    pub(crate) fn get(&self) -> Result<T, Code>
    where
        T: Copy,
    {
        let place = self.usable()?;
        // SAFETY: as above; results that are changed hold a value.
        Ok(unsafe { place.read_unaligned() })
    }

    /// Stores a result unless the pointer is null.
    pub(crate) fn set_if_wanted(&self, value: T) {
        if let Ok(place) = self.usable() {
            // SAFETY: as above.
            unsafe { place.write_unaligned(value) };
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
        assert_eq!(out.check(), Ok(()));
        assert_eq!(out.set(0x0807_0605_0403_0201), Ok(()));
        assert_eq!(out.get(), Ok(0x0807_0605_0403_0201));
        assert_eq!(In::from(out.address()).get(), Some(0x0807_0605_0403_0201));
        assert_eq!(bytes, [0xa5, 1, 2, 3, 4, 5, 6, 7, 8, 0xa5]);
    }

    #[test]
    fn null_is_refused() {
        let out = Out::<u64>(std::ptr::null_mut());
        assert!(out.check().is_err() && out.set(1).is_err() && out.get().is_err());
        assert!(In::<u64>::from(std::ptr::null()).get().is_none());
        out.set_if_wanted(1);
    }
}
