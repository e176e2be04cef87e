//! Memory of another process, mapped here.

use std::sync::Arc;

/// Bytes that another process lets this one read, and may change at any time. Declared nowhere: no descriptor
/// reaches them, only who has this value.
#[derive(Clone)]
pub struct Foreign {
    address: *const u8,
    len: usize,
    keep: Arc<dyn Send + Sync>,
}

// SAFETY: read-only memory that `keep` keeps mapped, whichever thread reads it.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

impl Foreign {
    /// `len` bytes at `address`; `keep` is dropped when nobody reads them any more.
    ///
    /// # Safety
    /// They stay mapped readable as long as `keep` lives.
    pub unsafe fn new(address: *const u8, len: usize, keep: Arc<dyn Send + Sync>) -> Foreign {
        Foreign { address, len, keep }
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty, reason = "a payload has bytes")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The address of `len` bytes at `offset`, if all of them are there.
    pub(super) fn part(&self, offset: usize, len: usize) -> Option<*const u8> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        // SAFETY: inside the memory that `new` was promised.
        inside.then(|| unsafe { self.address.add(offset) })
    }

    /// Keeps the memory mapped, and its owner informed that it is read.
    pub(super) fn keep(&self) -> Arc<dyn Send + Sync> {
        self.keep.clone()
    }

    /// Copies all of it, as far as `out` has room.
    pub fn read(&self, out: &mut [u8]) {
        let len = out.len().min(self.len);
        // SAFETY: `len` mapped bytes, and as many of ours.
        unsafe { std::ptr::copy_nonoverlapping(self.address, out.as_mut_ptr(), len) };
    }
}

/// Bytes of this process's own, kept as others'.
impl From<Box<[u8]>> for Foreign {
    fn from(bytes: Box<[u8]>) -> Foreign {
        let bytes = Arc::new(bytes);
        // SAFETY: they stay where they are as long as the reference to them does.
        unsafe { Foreign::new(bytes.as_ptr(), bytes.len(), bytes.clone()) }
    }
}

impl std::fmt::Debug for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Foreign").field("len", &self.len).finish_non_exhaustive()
    }
}
