//! What memory of this rank's GPUs other processes of its host have open, so that they copy without it: the owner's side.
//!
//! Whoever wants to copy asks once for an allocation's name, and opens it. A table of words, which the others map, says of each name that was
//! given out whether it still holds: a free takes it back before the memory goes. What was opened stays memory until it is closed there.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ggas_gpu::{Gpu, IpcName};

use crate::error::HpeError;

/// Names that can be given out at a time.
const SLOTS: usize = 4096;

/// An allocation, as others are told of it: where it begins, its bytes, its slot, the word there, its name.
pub(crate) type Said = [u64; 4 + IpcName::WORDS];

/// A table in memory: its words.
pub(crate) struct Table {
    start: *mut u64,
}

// SAFETY: atomic words, mapped as long as this is there.
unsafe impl Send for Table {}
// SAFETY: the same.
unsafe impl Sync for Table {}

impl Table {
    fn map(file: BorrowedFd<'_>, protection: i32) -> Option<Table> {
        // SAFETY: new pages, of a file of this size.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), 8 * SLOTS, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        (start != libc::MAP_FAILED).then_some(Table { start: start.cast() })
    }

    fn word(&self, slot: usize) -> &AtomicU64 {
        // SAFETY: a word of the pages; who only reads them never stores.
        unsafe { AtomicU64::from_ptr(self.start.add(slot % SLOTS)) }
    }

    /// Whether the name of a slot still holds.
    pub fn holds(&self, slot: u64, id: u64) -> bool {
        id != 0 && self.word(slot as usize).load(Ordering::Acquire) == id
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`; nobody else has it.
        unsafe { libc::munmap(self.start.cast(), 8 * SLOTS) };
    }
}

/// Where others find a table: a process, its descriptor, the file's number, and the host with its space of process numbers.
pub(crate) const WHERE: usize = 4;

/// This rank's table.
pub(crate) struct Names {
    table: Table,
    file: OwnedFd,
    free: Mutex<Vec<usize>>,
    next: AtomicU64,
}

impl Names {
    pub fn new() -> Result<Names, HpeError> {
        let failed = || HpeError::system("making a table of memory that others open");
        // SAFETY: a name that ends with zero.
        let raw = unsafe { libc::memfd_create(c"ggas-hpe-names".as_ptr(), libc::MFD_CLOEXEC) };
        if raw < 0 {
            return Err(failed());
        }
        // SAFETY: ours alone.
        let file = unsafe { OwnedFd::from_raw_fd(raw) };
        // SAFETY: a descriptor of ours.
        if unsafe { libc::ftruncate(raw, 8 * SLOTS as i64) } != 0 {
            return Err(failed());
        }
        let table = Table::map(file.as_fd(), libc::PROT_READ | libc::PROT_WRITE).ok_or_else(failed)?;
        Ok(Names { table, file, free: Mutex::new((0..SLOTS).rev().collect()), next: AtomicU64::new(1) })
    }

    /// For the others; zeroes where they could not find it.
    pub fn place(&self) -> [u64; WHERE] {
        match (number(self.file.as_fd()), host()) {
            (Some(file), Some(host)) => {
                [u64::from(std::process::id()), self.file.as_raw_fd() as u64, file, host]
            }
            _ => [0; WHERE],
        }
    }

    /// The table of another rank, if it is one of this host.
    pub fn of([process, descriptor, file, there]: [u64; WHERE]) -> Option<Table> {
        if process == 0 || host() != Some(there) {
            return None;
        }
        let path = format!("/proc/{process}/fd/{descriptor}");
        let opened = std::fs::File::open(path).ok()?;
        if number(opened.as_fd()) != Some(file) {
            return None;
        }
        Table::map(opened.as_fd(), libc::PROT_READ)
    }

    /// Names the allocation of a GPU that begins there; `None` where memory has no name, or all are given out.
    pub fn give(self: &Arc<Names>, gpu: &Gpu, address: u64) -> Option<Named> {
        let name = gpu.ipc_name(address).ok()?;
        let slot = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.table.word(slot).store(id, Ordering::Release);
        Some(Named { names: self.clone(), slot, id, name })
    }
}

/// A name that was given out; taken back on drop.
pub(crate) struct Named {
    names: Arc<Names>,
    slot: usize,
    id: u64,
    name: IpcName,
}

impl Named {
    /// What others are told.
    pub fn said(&self, start: u64, len: usize) -> Said {
        let mut said = Said::default();
        said[..4].copy_from_slice(&[start, len as u64, self.slot as u64, self.id]);
        said[4..].copy_from_slice(self.name.words());
        said
    }

    /// Nobody copies by it from now on.
    pub fn take_back(&self) {
        self.names.table.word(self.slot).store(0, Ordering::SeqCst);
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        self.take_back();
        self.names.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.slot);
    }
}

/// The number of a file.
fn number(file: BorrowedFd<'_>) -> Option<u64> {
    // SAFETY: plain data that the call fills in.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(file.as_raw_fd(), &mut stat) == 0).then_some(stat.st_ino)
    }
}

/// This host since it was started, and the space in which its processes have their numbers, as a word.
fn host() -> Option<u64> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    std::fs::read("/proc/sys/kernel/random/boot_id").ok()?.hash(&mut hasher);
    std::fs::read_link("/proc/self/ns/pid").ok()?.hash(&mut hasher);
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_found_by_its_place_and_by_no_other() {
        let names = Names::new().unwrap();
        let place = names.place();
        let table = Names::of(place).unwrap();
        names.table.word(7).store(9, Ordering::Release);
        assert!(table.holds(7, 9) && !table.holds(7, 8) && !table.holds(6, 0));
        for wrong in 0..WHERE {
            let mut other = place;
            other[wrong] ^= 1;
            assert!(Names::of(other).is_none(), "word {wrong}");
        }
        assert!(Names::of([0; WHERE]).is_none());
    }
}
