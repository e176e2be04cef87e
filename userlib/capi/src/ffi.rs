//! Pointers that C hands in.

use crate::error::{Code, INV_VALUE};

/// Where a result goes: null, or valid for writing.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

/// What a call reads: null, or valid for reading.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T> Out<T> {
    /// The pointer, unless it is null or misaligned.
    fn usable(&self) -> Result<*mut T, Code> {
        if self.0.is_null() || !self.0.is_aligned() { Err(INV_VALUE) } else { Ok(self.0) }
    }

    /// Checks the pointer before work is done for it.
    pub(crate) fn check(&self) -> Result<(), Code> {
        self.usable().map(|_| ())
    }

    /// Stores a result.
    pub(crate) fn set(&self, value: T) -> Result<(), Code> {
        let place = self.usable()?;
        // SAFETY: the interface's contract: what is not null is valid for writing.
        unsafe { place.write(value) };
        Ok(())
    }

    /// What stands there now.
    pub(crate) fn get(&self) -> Result<T, Code>
    where
        T: Copy,
    {
        let place = self.usable()?;
        // SAFETY: as above; results that are changed hold a value.
        Ok(unsafe { place.read() })
    }
}

impl<T> Out<T> {
    /// Whether a result can be stored, or is not wanted.
    pub(crate) fn is_null_or_usable(&self) -> bool {
        self.0.is_null() || self.0.is_aligned()
    }

    /// Stores a result unless the pointer is null or misaligned.
    pub(crate) fn set_if_wanted(&self, value: T) {
        if let Ok(place) = self.usable() {
            // SAFETY: as above.
            unsafe { place.write(value) };
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
        if self.0.is_null() || !self.0.is_aligned() {
            return None;
        }
        // SAFETY: the interface's contract: what is not null is valid for reading.
        Some(unsafe { self.0.read() })
    }

    pub(crate) fn address(&self) -> *const T {
        self.0
    }
}
