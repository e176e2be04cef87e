//! Register pages that drivers map: WCB state and read pointer, of RMA and of VELO, a page for each VPID (spec 2.4,
//! 3.2, 7).

use std::io;
use std::sync::atomic::AtomicU64;

const PAGE: usize = 4096;
const VPIDS: usize = 256;
const BYTES: usize = 4 * VPIDS * PAGE;

/// 4 MiB of address space; only pages that someone touches take memory.
pub(super) struct Pages {
    base: *mut u8,
}

// SAFETY: the pages are reached only as atomics.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    pub(super) fn new() -> io::Result<Pages> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping; nothing of ours is replaced.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // Huge pages would make every card take 2 MiB and more. A refusal costs memory, nothing else.
        // SAFETY: our own mapping.
        unsafe { libc::madvise(base, BYTES, libc::MADV_NOHUGEPAGE) };
        Ok(Pages { base: base.cast() })
    }

    fn at(&self, index: usize) -> &AtomicU64 {
        // SAFETY: `index` < 1024 in all callers: inside the mapping, aligned, mapped for `self`'s life.
        unsafe { AtomicU64::from_ptr(self.base.add(index * PAGE).cast()) }
    }

    #[inline]
    pub(super) fn wcb_state(&self, vpid: u8) -> &AtomicU64 {
        self.at(usize::from(vpid))
    }

    #[inline]
    pub(super) fn rp(&self, vpid: u8) -> &AtomicU64 {
        self.at(VPIDS + usize::from(vpid))
    }

    #[inline]
    pub(super) fn velo_wcb_state(&self, vpid: u8) -> &AtomicU64 {
        self.at(2 * VPIDS + usize::from(vpid))
    }

    #[inline]
    pub(super) fn velo_rp(&self, vpid: u8) -> &AtomicU64 {
        self.at(3 * VPIDS + usize::from(vpid))
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`; references into it ended with the borrow of `self`.
        unsafe { libc::munmap(self.base.cast(), BYTES) };
    }
}
