//! Register pages that drivers map: WCB state and read pointer, of RMA and of VELO, a page for each VPID (spec 2.4,
//! 3.2, 7).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicU64;

use extoll_abi::regs;

const PAGE: usize = 4096;
const VPIDS: usize = 256;
/// A page for each VPID.
const AREA: usize = VPIDS * PAGE;

/// Where the areas lie in BAR 0: [`Pages::wcb_state`] and so on, in this order.
const PLACES: [u64; 4] = [
    regs::EXTOLL_RF_RMA_WCB_STATE,
    regs::EXTOLL_RF_BQ_RMA_RP,
    regs::EXTOLL_RF_VELO_WCB_STATE,
    regs::EXTOLL_RF_BQ_VELO_RP,
];

/// 4 MiB of address space; only pages that someone touches take memory.
pub(super) struct Pages {
    areas: [*mut u8; 4],
}

// SAFETY: the pages are reached only as atomics.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Memory of this process.
    pub(super) fn new() -> io::Result<Pages> {
        Pages::map(|_| map_area(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0))
    }

    /// Memory of a file with the layout of BAR 0, for others to map as well. It has at least the register file's
    /// size and keeps it.
    pub(super) fn in_bar(file: BorrowedFd<'_>) -> io::Result<Pages> {
        Pages::map(|place| map_area(libc::MAP_SHARED, file.as_raw_fd(), place))
    }

    fn map(area: impl Fn(u64) -> io::Result<*mut u8>) -> io::Result<Pages> {
        // What is mapped when one fails is unmapped by the drop.
        let mut pages = Pages { areas: [std::ptr::null_mut(); 4] };
        for (at, place) in pages.areas.iter_mut().zip(PLACES) {
            *at = area(place)?;
        }
        Ok(pages)
    }

    fn at(&self, area: usize, vpid: u8) -> &AtomicU64 {
        // SAFETY: inside the area, which has a page for each VPID; aligned, mapped for `self`'s life.
        unsafe { AtomicU64::from_ptr(self.areas[area].add(usize::from(vpid) * PAGE).cast()) }
    }

    #[inline]
    pub(super) fn wcb_state(&self, vpid: u8) -> &AtomicU64 {
        self.at(0, vpid)
    }

    #[inline]
    pub(super) fn rp(&self, vpid: u8) -> &AtomicU64 {
        self.at(1, vpid)
    }

    #[inline]
    pub(super) fn velo_wcb_state(&self, vpid: u8) -> &AtomicU64 {
        self.at(2, vpid)
    }

    #[inline]
    pub(super) fn velo_rp(&self, vpid: u8) -> &AtomicU64 {
        self.at(3, vpid)
    }
}

/// A mapping of one area.
fn map_area(flags: i32, fd: i32, offset: u64) -> io::Result<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping; nothing of ours is replaced.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), AREA, protection, flags, fd, offset as i64) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // Huge pages would make every card take 2 MiB and more. A refusal costs memory, nothing else.
    // SAFETY: our own mapping.
    unsafe { libc::madvise(base, AREA, libc::MADV_NOHUGEPAGE) };
    Ok(base.cast())
}

impl Drop for Pages {
    fn drop(&mut self) {
        for area in self.areas.into_iter().filter(|area| !area.is_null()) {
            // SAFETY: a mapping of `map_area`; references into it ended with the borrow of `self`.
            unsafe { libc::munmap(area.cast(), AREA) };
        }
    }
}

/// Offset in BAR 0 and bytes of every area that drivers may map, a page for each VPID.
pub const MAPPED_REGISTERS: [(u64, u64); 4] = {
    let mut areas = [(0, AREA as u64); 4];
    let mut i = 0;
    while i < areas.len() {
        areas[i].0 = PLACES[i];
        i += 1;
    }
    areas
};
