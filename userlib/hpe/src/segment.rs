//! Segments of addresses, and the memory of a device of the executor.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::address::{DeviceId, MAX_DEVICES, SEGMENT_BYTES, VIEW_BIT};
use crate::error::HpeError;
use crate::fork;

/// Objects begin at pages, and no two share one: protection works on whole pages.
pub(crate) const PAGE: usize = 4096;

/// Numbers in use in this process, bit for bit; set under [`fork::changes`] only.
static TAKEN: AtomicU32 = AtomicU32::new(0);

/// Whether a segment is a runtime's. Else what lies there is the host's: a program may have come first.
pub(crate) fn is_reserved(device: DeviceId) -> bool {
    TAKEN.load(Ordering::Acquire) >> device.number() & 1 == 1
}

/// Segments that a runtime could still have.
pub(crate) fn free() -> usize {
    let taken = TAKEN.load(Ordering::Acquire).count_ones();
    usize::from(MAX_DEVICES) - taken as usize
}

/// The segment of a device: reserved addresses, parts of which are given out.
pub(crate) struct Segment {
    device: DeviceId,
    /// Free parts: offset to length. Neighbours are merged.
    free: Mutex<BTreeMap<u64, u64>>,
    generation: u32,
}

impl Segment {
    /// Reserves the first segment that is free with its view.
    pub fn reserve() -> Result<Segment, HpeError> {
        let _changes = fork::changes();
        let mut result = Err(HpeError::Devices { asked: 1, free: 0 });
        for device in (1..=MAX_DEVICES).filter_map(DeviceId::new).filter(|device| !is_reserved(*device)) {
            result = Segment::of(device);
            // Where the program itself has something, the next one may be free.
            if result.is_ok() {
                break;
            }
        }
        result
    }

    fn of(device: DeviceId) -> Result<Segment, HpeError> {
        hold(device.segment())?;
        if let Err(error) = hold(device.segment() | VIEW_BIT) {
            // SAFETY: reserved just now; nobody knows of it.
            unsafe { libc::munmap(device.segment() as *mut _, SEGMENT_BYTES as usize) };
            return Err(error);
        }
        TAKEN.fetch_or(1 << device.number(), Ordering::Release);
        // Offset 0 stays free of objects, so that no pointer to one is a bare device number.
        let first = PAGE as u64;
        let free = Mutex::new(BTreeMap::from([(first, SEGMENT_BYTES - first)]));
        Ok(Segment { device, free, generation: fork::generation() })
    }

    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// Takes room for `bytes`, in whole pages.
    pub fn room(self: &Arc<Segment>, bytes: usize) -> Result<Room, HpeError> {
        let (start, size) = self.take(bytes)?;
        Ok(Room { segment: self.clone(), start, size })
    }

    fn take(&self, bytes: usize) -> Result<(u64, usize), HpeError> {
        let full = || HpeError::Full { device: self.device, bytes };
        let size = bytes.max(1).checked_next_multiple_of(PAGE).ok_or_else(full)?;
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let found = free.iter().find(|(_, len)| **len >= size as u64).map(|(at, len)| (*at, *len));
        let (at, len) = found.ok_or_else(full)?;
        free.remove(&at);
        if len > size as u64 {
            free.insert(at + size as u64, len - size as u64);
        }
        Ok((self.device.segment() + at, size))
    }

    /// Gives room back whose pages are reserved again.
    fn give(&self, address: u64, size: usize) {
        let (mut at, mut len) = (address - self.device.segment(), size as u64);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((&before, &bytes)) =
            free.range(..at).next_back().filter(|(start, len)| **start + **len == at)
        {
            free.remove(&before);
            (at, len) = (before, bytes + len);
        }
        if let Some(bytes) = free.remove(&(at + len)) {
            len += bytes;
        }
        free.insert(at, len);
    }
}

/// Pages of a segment, given back on drop: then they are a mere reservation again.
pub(crate) struct Room {
    segment: Arc<Segment>,
    pub start: u64,
    pub size: usize,
}

impl Room {
    /// The device whose segment it is of.
    pub fn device(&self) -> DeviceId {
        self.segment.device()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // In a child a thread that is not there may have the lock; nobody takes room there any more.
        if fork::check(self.segment.generation).is_ok() {
            self.segment.give(self.start, self.size);
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        for start in [self.device.segment(), self.device.segment() | VIEW_BIT] {
            // SAFETY: reserved by this segment, whose objects are gone.
            unsafe { libc::munmap(start as *mut _, SEGMENT_BYTES as usize) };
        }
        TAKEN.fetch_and(!(1 << self.device.number()), Ordering::Release);
    }
}

/// Keeps others out of 1 TiB of addresses; takes no memory.
fn hold(start: u64) -> Result<(), HpeError> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: new addresses only: with this flag the kernel refuses those in use.
    let got = unsafe { libc::mmap(start as *mut _, SEGMENT_BYTES as usize, libc::PROT_NONE, flags, -1, 0) };
    match got {
        libc::MAP_FAILED => Err(HpeError::Reserve { address: start, error: std::io::Error::last_os_error() }),
        got if got as u64 == start => Ok(()),
        other => {
            // A kernel before 4.17 takes the address as a wish.
            // SAFETY: mapped just now.
            unsafe { libc::munmap(other, SEGMENT_BYTES as usize) };
            Err(HpeError::Reserve { address: start, error: std::io::Error::from_raw_os_error(libc::EEXIST) })
        }
    }
}

/// Maps over reserved pages: zeroed memory that children of a fork do not get, or, with a file, that file.
///
/// # Safety
/// The pages are reserved, taken by the caller, and used by nobody.
pub(crate) unsafe fn map_over(
    start: u64,
    size: usize,
    protection: i32,
    file: Option<i32>,
) -> Result<(), HpeError> {
    let kind = if file.is_some() {
        libc::MAP_SHARED
    } else {
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE
    };
    // SAFETY: the caller's contract.
    let got = unsafe {
        libc::mmap(start as *mut _, size, protection, kind | libc::MAP_FIXED, file.unwrap_or(-1), 0)
    };
    if got == libc::MAP_FAILED {
        return Err(HpeError::system("mapping memory of a device"));
    }
    // SAFETY: mapped just now.
    unsafe { libc::madvise(got, size, libc::MADV_DONTFORK) };
    Ok(())
}

/// Turns pages back into a mere reservation: whoever touches them faults.
///
/// # Safety
/// Nobody uses the pages.
pub(crate) unsafe fn unmap(start: u64, size: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: the caller's contract; the pages stay this segment's.
    unsafe { libc::mmap(start as *mut _, size, libc::PROT_NONE, flags, -1, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_given_out_once_and_merged() {
        let segment = Segment::reserve().unwrap();
        let (one, size) = segment.take(1).unwrap();
        let (two, _) = segment.take(PAGE + 1).unwrap();
        assert_eq!((size, two - one), (PAGE, PAGE as u64));
        segment.give(one, PAGE);
        assert_eq!(segment.take(PAGE).unwrap().0, one, "the first that fits");
        segment.give(two, 2 * PAGE);
        segment.give(one, PAGE);
        let all = SEGMENT_BYTES as usize - PAGE;
        assert_eq!(segment.take(all).unwrap(), (one, all), "merged on both sides");
        assert!(matches!(segment.take(1), Err(HpeError::Full { bytes: 1, .. })));
        assert!(matches!(segment.take(usize::MAX), Err(HpeError::Full { .. })));
    }

    #[test]
    fn what_a_program_has_in_a_segment_stays_its_own() {
        let first = DeviceId::new(MAX_DEVICES).unwrap();
        hold(first.segment()).unwrap();
        assert!(!is_reserved(first) && matches!(Segment::of(first), Err(HpeError::Reserve { .. })));
        // SAFETY: held above.
        unsafe { libc::munmap(first.segment() as *mut _, SEGMENT_BYTES as usize) };
        let segment = Segment::of(first).unwrap();
        assert!(is_reserved(segment.device()));
    }

    #[test]
    fn segments_are_numbered_apart() {
        let (one, two) = (Segment::reserve().unwrap(), Segment::reserve().unwrap());
        assert_ne!(one.device(), two.device());
    }
}
