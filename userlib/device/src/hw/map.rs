//! Pages of a card in this process.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use extoll_abi::bindings::EXTOLL_PAGE_OPTIONS;

use volatile_register::RW;

use super::file::CardFile;
use crate::{DeviceError, PAGE};

const ACCESS: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

/// A mapping of the driver's, unmapped when dropped. A child of fork does not get it: the port is the parent's.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: all access is volatile or atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `len` bytes at an offset of the driver's (`EXTOLL_MAP_*`).
    pub(super) fn new(
        file: &impl AsFd,
        offset: u64,
        len: usize,
        what: &'static str,
    ) -> Result<Mapping, DeviceError> {
        // SAFETY: a new mapping at an address that the system chooses touches no existing memory.
        let start = unsafe {
            mmap(std::ptr::null_mut(), len, ACCESS, libc::MAP_SHARED, Some((file.as_fd(), offset)))
        };
        let start = start.map_err(|source| DeviceError::Memory { what, bytes: len, source })?;
        let mapping = Mapping { start, len };
        mapping.advise(0, len);
        Ok(mapping)
    }

    /// Keeps the pages from children, and fills them now: the GPU's driver finds no page that was never touched, and
    /// requester pages must not be touched. Older drivers fill mappings at once.
    fn advise(&self, offset: usize, len: usize) {
        for advice in [libc::MADV_DONTFORK, libc::MADV_WILLNEED] {
            // SAFETY: our own mapping.
            unsafe { libc::madvise(self.at(offset).as_ptr().cast(), len, advice) };
        }
    }

    /// The pages of a requester of which bit `i` of `pages` says whether the file may map page `i`; a store to another
    /// one faults.
    pub(super) fn requester(file: &CardFile, offset: u64, pages: u32) -> Result<Mapping, DeviceError> {
        let (len, what) = (EXTOLL_PAGE_OPTIONS as usize * PAGE, "requester pages");
        let memory = |source| DeviceError::Memory { what, bytes: len, source };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new inaccessible mapping touches no existing memory.
        let start = unsafe { mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, None) };
        let mapping = Mapping { start: start.map_err(memory)?, len };
        for Range { start, end } in runs(pages) {
            let (at, from) = (mapping.at(start * PAGE), offset + (start * PAGE) as u64);
            let (bytes, flags) = ((end - start) * PAGE, libc::MAP_SHARED | libc::MAP_FIXED);
            // SAFETY: replaces pages of our own mapping, to which nothing refers yet.
            unsafe { mmap(at.as_ptr(), bytes, ACCESS, flags, Some((file.as_fd(), from))) }.map_err(memory)?;
            mapping.advise(start * PAGE, bytes);
        }
        // SAFETY: our own mapping.
        unsafe { libc::madvise(mapping.start.as_ptr().cast(), len, libc::MADV_DONTFORK) };
        Ok(mapping)
    }

    /// The register, or memory of a card, at byte `offset`: a multiple of its size, inside the mapping.
    #[inline]
    pub(super) fn register<T: Copy>(&self, offset: usize) -> &RW<T> {
        debug_assert!(offset.is_multiple_of(size_of::<T>()) && offset + size_of::<T>() <= self.len);
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned; any bits are a number.
        unsafe { self.at(offset).cast().as_ref() }
    }

    /// The address of byte `offset`.
    #[inline]
    pub(super) fn at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset < self.len);
        // SAFETY: callers stay inside; checked in debug builds.
        unsafe { self.start.add(offset) }
    }

    /// The word at byte `offset`, a multiple of 8.
    pub(super) fn word(&self, offset: usize) -> NonNull<AtomicU64> {
        self.at(offset).cast()
    }

    /// Lets go of the driver's pages. The addresses stay valid, as zeroed memory of this process, for those who still
    /// look at the port.
    pub(super) fn let_go(&self) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        // SAFETY: replaces our own mapping by memory of the same size.
        let replaced = unsafe { mmap(self.start.as_ptr(), self.len, ACCESS, flags, None) };
        if let Err(error) = replaced {
            tracing::error!(
                "letting go of a card's pages: {error}; the port stays open until the process ends"
            );
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, used by nobody any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// The set bits, those in a row together: a mapping each.
fn runs(mut bits: u32) -> impl Iterator<Item = Range<usize>> {
    std::iter::from_fn(move || {
        let start = bits.trailing_zeros();
        let len = bits.checked_shr(start)?.trailing_ones();
        bits &= !((u64::MAX >> (64 - len)) << start) as u32;
        Some(start as usize..(start + len) as usize)
    })
}

/// # Safety
/// With `MAP_FIXED`, what stood at `at` is the caller's to replace.
unsafe fn mmap(
    at: *mut u8,
    len: usize,
    access: libc::c_int,
    flags: libc::c_int,
    from: Option<(BorrowedFd<'_>, u64)>,
) -> io::Result<NonNull<u8>> {
    let (fd, offset) = from.map_or((-1, 0), |(file, offset)| (file.as_raw_fd(), offset as libc::off_t));
    // SAFETY: the caller's promise.
    let start = unsafe { libc::mmap(at.cast(), len, access, flags, fd, offset) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_in_a_row_are_mapped_together() {
        assert_eq!(runs(0).count(), 0);
        assert_eq!(runs(0x0f0f_0001).collect::<Vec<_>>(), [0..1, 16..20, 24..28]);
        assert!(runs(u32::MAX).eq(std::iter::once(0..32)));
        assert_eq!(runs(0x8000_0002).collect::<Vec<_>>(), [1..2, 31..32]);
    }
}
