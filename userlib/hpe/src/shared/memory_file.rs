//! The host's side of a shared object.

use std::os::fd::{FromRawFd, OwnedFd};

use crate::error::HpeError;

/// A file in memory of that size, with all its pages: faults of `userfaultfd` are minor ones then.
pub(crate) fn memory_file(size: usize) -> Result<OwnedFd, HpeError> {
    // SAFETY: a name that ends with zero.
    let raw = unsafe { libc::memfd_create(c"ggas-hpe".as_ptr(), libc::MFD_CLOEXEC) };
    if raw < 0 {
        return Err(HpeError::system("making memory for a shared object"));
    }
    // SAFETY: ours alone.
    let file = unsafe { OwnedFd::from_raw_fd(raw) };
    // SAFETY: a descriptor of ours.
    let failed =
        unsafe { libc::ftruncate(raw, size as i64) != 0 || libc::fallocate(raw, 0, 0, size as i64) != 0 };
    if failed {
        return Err(HpeError::system("making memory for a shared object"));
    }
    Ok(file)
}
