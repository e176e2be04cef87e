//! What memory of this rank's GPUs other processes of its host have open, so that they copy without it: the owner's side.
//!
//! Whoever wants to copy asks once for an allocation's name, and opens it. A table of words, which the others map, says of each name that was
//! given out whether it still holds, and how many have opened it: a free takes the name back, and the memory goes once nobody has it open (CUDA
//! leaves open what becomes of memory that is freed before).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ggas_gpu::{DeviceBuffer, Gpu, IpcName};

use crate::error::HpeError;
use crate::fork;

/// Names that can be given out at a time.
const SLOTS: usize = 4096;
/// Of a table: a word of each name, and behind them how many have opened each.
const BYTES: usize = 2 * 8 * SLOTS;

/// Memory that was freed while others had it open, in any runtime of this process.
static FREED: Mutex<Vec<(Named, DeviceBuffer)>> = Mutex::new(Vec::new());

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
    fn map(file: BorrowedFd<'_>) -> Option<Table> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new pages, of a file of this size.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), BYTES, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        (start != libc::MAP_FAILED).then(|| Table { start: start.cast() })
    }

    fn word(&self, slot: usize) -> &AtomicU64 {
        // SAFETY: a word of the pages.
        unsafe { AtomicU64::from_ptr(self.start.add(slot % SLOTS)) }
    }

    /// How many have opened what a slot names.
    fn users(&self, slot: usize) -> &AtomicU64 {
        // SAFETY: the same, of the second half.
        unsafe { AtomicU64::from_ptr(self.start.add(SLOTS + slot % SLOTS)) }
    }

    /// Whether the name of a slot still holds.
    pub fn holds(&self, slot: u64, id: u64) -> bool {
        id != 0 && self.word(slot as usize).load(Ordering::SeqCst) == id
    }

    /// Has its owner keep what a slot names until the result is dropped, if the name still holds.
    pub fn hold(self: &Arc<Table>, slot: u64, id: u64) -> Option<Held> {
        self.users(slot as usize).fetch_add(1, Ordering::SeqCst);
        let held = Held { table: self.clone(), slot: slot as usize };
        // The owner takes the name back and then looks for users: one of both sees the other.
        self.holds(slot, id).then_some(held)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`; nobody else has it.
        unsafe { libc::munmap(self.start.cast(), BYTES) };
    }
}

/// See [`Table::hold`].
pub(crate) struct Held {
    table: Arc<Table>,
    slot: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.table.users(self.slot).fetch_sub(1, Ordering::SeqCst);
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
    generation: u32,
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
        if unsafe { libc::ftruncate(raw, BYTES as i64) } != 0 {
            return Err(failed());
        }
        let table = Table::map(file.as_fd()).ok_or_else(failed)?;
        let (free, next) = (Mutex::new((0..SLOTS).rev().collect()), AtomicU64::new(1));
        Ok(Names { table, file, free, next, generation: fork::watch() })
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
        let opened = std::fs::File::options().read(true).write(true).open(path).ok()?;
        if number(opened.as_fd()) != Some(file) {
            return None;
        }
        Table::map(opened.as_fd())
    }

    /// Names the allocation of a GPU that begins there; `None` where memory has no name, or all are given out.
    pub fn give(self: &Arc<Names>, gpu: &Gpu, address: u64) -> Option<Named> {
        sweep();
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
        // Children of a fork see the table, and it is not theirs.
        if fork::check(self.names.generation).is_ok() {
            self.names.table.word(self.slot).store(0, Ordering::SeqCst);
        }
    }

    fn is_open(&self) -> bool {
        self.names.table.users(self.slot).load(Ordering::SeqCst) > 0
    }

    /// Frees what it names, at once or when nobody has it open any more.
    pub fn free(self, memory: DeviceBuffer) {
        self.take_back();
        FREED.lock().unwrap_or_else(PoisonError::into_inner).push((self, memory));
        sweep();
    }
}

/// Whether an address is in memory that was freed, and that others have open yet: the driver still knows it.
pub(crate) fn was_freed(address: u64) -> bool {
    let freed = FREED.lock().unwrap_or_else(PoisonError::into_inner);
    freed
        .iter()
        .any(|(_, memory)| (memory.address()..memory.address() + memory.len() as u64).contains(&address))
}

/// Frees what nobody has open any more.
fn sweep() {
    let mut freed = FREED.lock().unwrap_or_else(PoisonError::into_inner);
    freed.retain(|(named, _)| named.is_open());
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
            // No neighbour of a process's number: that may be a thread of this one, whose descriptors are the same.
            other[wrong] ^= if wrong == 0 { 1 << 40 } else { 1 };
            assert!(Names::of(other).is_none(), "word {wrong}");
        }
        assert!(Names::of([0; WHERE]).is_none());
    }
}
