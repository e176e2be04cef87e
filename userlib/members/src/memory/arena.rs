//! The arena: memory of a process that its peers can copy from.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use super::segment::{self, Mapping, PAGE, SegmentError};

/// Address space of an arena where limits allow it.
pub const ARENA_BYTES: u64 = 64 << 30;
/// Smallest useful arena.
const ARENA_MIN: u64 = 1 << 20;

/// Memory of this process in a sealed memfd, handed out in blocks of whole pages. Only pages that someone touched
/// take memory; those of freed blocks are given back to the system.
pub struct Arena {
    fd: OwnedFd,
    map: Mapping,
    /// Free stretches: offset and bytes, neither adjacent nor empty.
    free: Mutex<BTreeMap<usize, usize>>,
}

impl Arena {
    /// An arena of at most `bytes`; smaller where the limits on address space or file sizes ask for it.
    ///
    /// # Errors
    /// No file descriptor, or not even a small mapping is allowed.
    pub fn create(bytes: u64) -> io::Result<Arc<Arena>> {
        let mut bytes = bytes.clamp(ARENA_MIN, 1 << 46) / PAGE as u64 * PAGE as u64;
        for (resource, share) in [(Resource::RLIMIT_AS, 8), (Resource::RLIMIT_FSIZE, 1)] {
            let (limit, _) = getrlimit(resource)?;
            if limit != RLIM_INFINITY {
                bytes = bytes.min((limit / share).max(ARENA_MIN) / PAGE as u64 * PAGE as u64);
            }
        }
        loop {
            let made = segment::create(c"extoll-arena", bytes)
                .and_then(|fd| Ok((Mapping::new(fd.as_fd(), 0, bytes as usize, true)?, fd)));
            match made {
                Ok((map, fd)) => {
                    // A forked child would hand out the same blocks: it gets none of this memory.
                    // SAFETY: advice on our own mapping, which changes nothing in this process.
                    unsafe { libc::madvise(map.base().cast(), map.len(), libc::MADV_DONTFORK) };
                    let free = Mutex::new(BTreeMap::from([(0, bytes as usize)]));
                    return Ok(Arc::new(Arena { fd, map, free }));
                }
                Err(e) if bytes / 2 < ARENA_MIN => return Err(e),
                Err(_) => bytes = bytes / 2 / PAGE as u64 * PAGE as u64,
            }
        }
    }

    /// A zeroed block; its first byte is a multiple of `align` (a power of two up to 1 GiB) and of the page size.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] where no stretch is long enough; [`io::ErrorKind::InvalidInput`] for a bad
    /// alignment or no bytes.
    pub fn alloc(self: &Arc<Arena>, len: usize, align: usize) -> io::Result<ArenaBlock> {
        if len == 0 || !align.is_power_of_two() || align > 1 << 30 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let align = align.max(PAGE);
        let bytes = len.checked_next_multiple_of(PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let base = self.map.base() as usize;
        let mut free = self.free();
        let found = free.iter().find_map(|(&at, &have)| {
            let start = (base + at).next_multiple_of(align) - base;
            let fits = start.checked_add(bytes).is_some_and(|end| end <= at + have);
            fits.then_some((at, have, start))
        });
        let (at, have, start) = found.ok_or(io::ErrorKind::OutOfMemory)?;
        free.remove(&at);
        if start > at {
            free.insert(at, start - at);
        }
        if start + bytes < at + have {
            free.insert(start + bytes, at + have - start - bytes);
        }
        Ok(ArenaBlock { arena: self.clone(), start, len, bytes, kept: AtomicBool::new(false) })
    }

    /// Whether a descriptor is of an arena, before it is handed on.
    ///
    /// # Errors
    /// [`SegmentError`] says what it is not.
    pub fn check(fd: BorrowedFd<'_>) -> Result<(), SegmentError> {
        segment::sealed_len(fd, "an arena").map(drop)
    }

    /// The memfd, to hand to peers (they map it read-only).
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Bytes of address space.
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Where in the arena these bytes lie; `None` unless all of them do.
    #[inline]
    pub fn offset_of(&self, address: u64, len: usize) -> Option<u64> {
        let offset = address.checked_sub(self.map.base() as u64)?;
        offset.checked_add(len as u64).filter(|end| *end <= self.map.len() as u64).map(|_| offset)
    }

    fn free(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a block back, pages first: the next owner finds zeros.
    fn release(&self, start: usize, bytes: usize) {
        // SAFETY: the block's owner is gone; nobody but peers reads it, and they know that it may change.
        let punched = unsafe { self.map_advise(start, bytes) };
        if punched.is_err() {
            // SAFETY: inside the mapping; the block's owner is gone.
            unsafe { std::ptr::write_bytes(self.map.base().add(start), 0, bytes) };
        }
        let mut free = self.free();
        let (mut at, mut len) = (start, bytes);
        if let Some((&before, &have)) = free.range(..start).next_back()
            && before + have == start
        {
            (at, len) = (before, have + len);
        }
        if let Some(have) = free.remove(&(start + bytes)) {
            len += have;
        }
        free.insert(at, len);
    }

    /// # Safety
    /// The bytes may become zeros.
    unsafe fn map_advise(&self, start: usize, bytes: usize) -> io::Result<()> {
        // SAFETY: inside our own shared mapping; the caller gives the bytes up.
        let done = unsafe { libc::madvise(self.map.base().add(start).cast(), bytes, libc::MADV_REMOVE) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Memory of an [`Arena`], given back when dropped.
pub struct ArenaBlock {
    arena: Arc<Arena>,
    start: usize,
    len: usize,
    bytes: usize,
    /// Its bytes are not given back.
    kept: AtomicBool,
}

// SAFETY: a block is memory that belongs to whoever has it; the arena is shared behind a lock.
unsafe impl Send for ArenaBlock {}
// SAFETY: a shared block only gives out its address.
unsafe impl Sync for ArenaBlock {}

impl ArenaBlock {
    /// First byte; zeroed at first. Peers read it at any time, never write it.
    pub fn ptr(&self) -> *mut u8 {
        // SAFETY: inside the arena's mapping.
        unsafe { self.arena.map.base().add(self.start) }
    }

    /// Bytes asked for.
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Where in the arena it begins.
    pub fn offset(&self) -> u64 {
        self.start as u64
    }

    /// From now on its bytes stay as they are even when it is dropped, until nobody has the arena any more.
    pub fn keep(&self) {
        self.kept.store(true, Ordering::Release);
    }
}

impl Drop for ArenaBlock {
    fn drop(&mut self) {
        if !self.kept.load(Ordering::Acquire) {
            self.arena.release(self.start, self.bytes);
        }
    }
}

impl std::fmt::Debug for ArenaBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArenaBlock").field("offset", &self.start).field("len", &self.len).finish()
    }
}
