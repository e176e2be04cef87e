//! Where a buffer's memory comes from: private mappings, or the arena that this process shares with its job.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use super::PAGE;
use super::arena::Block;

/// Memory of one buffer; gives it back when dropped.
#[derive(Debug)]
pub(super) enum Backing {
    /// A mapping: of this process alone, or of memory shared with others.
    Mapped(Mapping),
    /// Part of the arena.
    Arena(Block),
}

impl Backing {
    pub(super) fn start(&self) -> NonNull<u8> {
        match self {
            Backing::Mapped(mapping) => mapping.start,
            Backing::Arena(block) => block.start(),
        }
    }

    /// See [`Mapping::small_pages_only`].
    pub(super) fn small_pages_only(&self) {
        if let Backing::Mapped(mapping) = self {
            mapping.small_pages_only();
        }
    }
}

/// A mapping, unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// `len` zero bytes of this process alone, rounded up to whole pages, aligned to `align` (a power of two, at least a page).
    pub(super) fn new(len: usize, align: usize) -> io::Result<Mapping> {
        let len = len.max(1).checked_next_multiple_of(PAGE).ok_or_else(no_memory)?;
        let padded = len.checked_add(align - PAGE).ok_or_else(no_memory)?;
        // SAFETY: a new private anonymous mapping touches no existing memory.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                padded,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let begin = address as usize;
        let start = begin.next_multiple_of(align);
        // What alignment left over on both sides goes back at once.
        for (from, to) in [(begin, start), (start + len, begin + padded)] {
            if from < to {
                // SAFETY: the range is part of the mapping made above and nothing refers to it.
                unsafe { libc::munmap(from as *mut _, to - from) };
            }
        }
        let start = NonNull::new(start as *mut u8).ok_or_else(no_memory)?;
        Ok(Mapping { start, len })
    }

    /// The first `len` bytes, rounded up to whole pages, of a file that cannot shrink.
    pub(super) fn shared(fd: BorrowedFd<'_>, len: usize) -> io::Result<Mapping> {
        let len = len.max(1).checked_next_multiple_of(PAGE).ok_or_else(no_memory)?;
        // SAFETY: a new mapping touches no existing memory.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(address.cast()).ok_or_else(no_memory)?;
        Ok(Mapping { start, len })
    }

    /// Keeps page tables of huge, mostly untouched mappings from being backed by huge pages.
    fn small_pages_only(&self) {
        // SAFETY: advice on our own mapping. Refusal (no huge pages in this kernel) costs nothing.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.len, libc::MADV_NOHUGEPAGE) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody holds references to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

pub(super) fn no_memory() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
}
