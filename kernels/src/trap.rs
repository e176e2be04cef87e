//! Trapped addresses: each access by kernels is a call, as an access to a card's BAR is a packet. On the CPU executor the thread that makes
//! the access makes the call; for kernels of a GPU a thread of the host does (`src/proxy`).
//!
//! Only the accesses of `vocab.h`, and what is built on them, are calls. There is no memory behind the addresses, so plain
//! C++ accesses, and those of the host, end the process by a fault: none passes unseen.

use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};

use arc_swap::ArcSwap;
use extoll_abi::{Atomic, Operation, Width};

use crate::proxy::{Arena, Serving};
use crate::{MemoryError, Processor};

/// Why an access failed.
pub type TrapError = Box<dyn Error + Send + Sync>;

/// What accesses to a trapped range become. Offsets are bytes from the start of the range.
///
/// Loads, stores and atomic operations are called on the executor's thread, in program order per CUDA thread, which waits for them; those of a
/// GPU's kernels on one thread, in the order in which they were posted. They end within a time of their own, and do not depend on what kernels do
/// meanwhile. An error ends the launch, by [`LaunchError::Access`](crate::LaunchError::Access); a GPU's goes on with ones for what it loads.
pub trait TrapTarget: Send + Sync {
    /// A load of 1 to 1,024 bytes.
    ///
    /// # Errors
    /// Whatever kept the bytes from coming.
    fn load(&self, offset: u64, into: &mut [u8]) -> Result<(), TrapError>;

    /// A store of 1 to 1,024 bytes.
    ///
    /// # Errors
    /// Whatever kept the bytes from going.
    fn store(&self, offset: u64, from: &[u8]) -> Result<(), TrapError>;

    /// An atomic operation on a word, which need not be aligned to be asked for; gives what was there.
    ///
    /// # Errors
    /// Whatever kept it from being done, or its answer from coming. Targets without atomics refuse all.
    fn atomic(&self, _offset: u64, _atomic: Atomic) -> Result<u64, TrapError> {
        Err(NoAtomics.into())
    }

    /// The same, for who does not want to know what was there: it may be done later.
    ///
    /// # Errors
    /// Whatever kept it from going.
    fn reduce(&self, _offset: u64, _atomic: Atomic) -> Result<(), TrapError> {
        Err(NoAtomics.into())
    }

    /// Waits until all stores, and atomic operations without a result, that were taken before are performed.
    ///
    /// # Errors
    /// Whatever kept it from being known.
    fn settle(&self) -> Result<(), TrapError> {
        Ok(())
    }

    /// Does what there is to do for what lies there: called again and again while kernels of a GPU run, between their accesses. Whether
    /// anything moved.
    fn attend(&self) -> bool {
        false
    }

    /// What lies at `offset`, for messages.
    fn place(&self, offset: u64) -> String;
}

/// What a kernel asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Load,
    Store,
    /// `None`: one that this executor does not know.
    Atomic(Option<Operation>),
    /// The same without a result.
    Reduce(Option<Operation>),
    /// What was stored, wherever, is performed.
    Settle,
}

impl Kind {
    /// Of `GGAS_ACCESS_*` (`exec.h`).
    pub fn new(access: u32) -> Kind {
        let [access, operation, ..] = access.to_le_bytes();
        match access {
            0 => Kind::Load,
            1 => Kind::Store,
            2 => Kind::Atomic(Operation::new(operation)),
            4 => Kind::Settle,
            _ => Kind::Reduce(Operation::new(operation)),
        }
    }

    pub fn is_atomic(self) -> bool {
        matches!(self, Kind::Atomic(_) | Kind::Reduce(_))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Load => "a load",
            Kind::Store => "a store",
            Kind::Atomic(_) | Kind::Reduce(_) => "an atomic operation",
            Kind::Settle => "a wait for stores",
        })
    }
}

/// A target without atomics.
#[derive(Debug, thiserror::Error)]
#[error("such a window has no atomics; use loads and stores, or locks of RMA")]
pub struct NoAtomics;

/// An atomic operation that is none.
#[derive(Debug, thiserror::Error)]
#[error("there is no such operation; build kernels with the headers of this version")]
struct NoOperation;

/// An access after the range was given back.
#[derive(Debug, thiserror::Error)]
#[error("the window is gone; keep it while kernels use it")]
struct Gone;

struct Entry {
    range: Range<u64>,
    /// None once the range is given back. Accesses hold it while they go on.
    target: RwLock<Option<Arc<dyn TrapTarget>>>,
}

static TABLE: LazyLock<ArcSwap<Vec<Arc<Entry>>>> = LazyLock::new(ArcSwap::default);
static CHANGE: Mutex<()> = Mutex::new(());

/// First trapped address, and the first behind all of them: kernels look here before they ask. While some range is trapped
/// they only move apart, so whoever sees one old and one new value still finds each range that is in use.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "its name in C")]
static ggas_exec_traps: [AtomicU64; 2] = [const { AtomicU64::new(u64::MAX) }, const { AtomicU64::new(0) }];

/// A trapped range of addresses. Dropping it waits until accesses under way are over.
pub struct Trap {
    entry: Arc<Entry>,
    /// Where kernels of a GPU have it; goes behind the range.
    proxy: Option<Serving>,
}

impl Trap {
    /// Takes `bytes` of addresses from the system, for accesses to `target`.
    ///
    /// # Errors
    /// [`MemoryError::NoMemory`] where there are not so many.
    pub fn new(bytes: usize, target: Arc<dyn TrapTarget>) -> Result<Trap, MemoryError> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new inaccessible mapping touches no existing memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(MemoryError::NoMemory { bytes });
        }
        Ok(Trap::at(start as u64, bytes, target, None))
    }

    /// The same for kernels of a processor. On a GPU they must have been compiled for it, as `ggas_compile` does, and those that are started from
    /// now on look at each address; the first such range of a GPU loads them.
    ///
    /// # Errors
    /// [`MemoryError::NoMemory`]; [`MemoryError::Gpu`] where the kernels were not compiled for it, or cannot be loaded;
    /// [`MemoryError::NoThread`].
    pub fn on(processor: &Processor, bytes: usize, target: Arc<dyn TrapTarget>) -> Result<Trap, MemoryError> {
        match processor {
            Processor::Cpu(_) => Trap::new(bytes, target),
            Processor::Gpu(gpu) => {
                let serving = Serving::new(processor, gpu)?;
                let start = Arena::here()?.take(bytes)?;
                Ok(Trap::at(start, bytes, target, Some(serving)))
            }
        }
    }

    fn at(start: u64, bytes: usize, target: Arc<dyn TrapTarget>, proxy: Option<Serving>) -> Trap {
        let range = start..start + bytes as u64;
        let entry = Arc::new(Entry { range, target: RwLock::new(Some(target)) });
        let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = Vec::clone(&TABLE.load());
        let at = table.partition_point(|other| other.range.end <= entry.range.start);
        table.insert(at, entry.clone());
        TABLE.store(Arc::new(table));
        let [first, end] = &ggas_exec_traps;
        end.fetch_max(entry.range.end, Ordering::Relaxed);
        first.fetch_min(entry.range.start, Ordering::Relaxed);
        Trap { entry, proxy }
    }

    /// The first address.
    pub fn address(&self) -> u64 {
        self.entry.range.start
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        *self.entry.target.write().unwrap_or_else(PoisonError::into_inner) = None;
        let change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
        let table: Vec<_> =
            TABLE.load().iter().filter(|entry| !Arc::ptr_eq(entry, &self.entry)).cloned().collect();
        if table.is_empty() {
            let [first, end] = &ggas_exec_traps;
            first.store(u64::MAX, Ordering::Relaxed);
            end.store(0, Ordering::Relaxed);
        }
        TABLE.store(Arc::new(table));
        drop(change);
        let Range { start, end } = self.entry.range;
        if self.proxy.is_some() {
            // It was taken from there.
            if let Ok(arena) = Arena::here() {
                arena.give(start);
            }
            return;
        }
        // SAFETY: our own mapping, which nothing is in.
        unsafe { libc::munmap(start as *mut libc::c_void, (end - start) as usize) };
    }
}

impl fmt::Debug for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trap").field(&self.entry.range).finish()
    }
}

fn find(address: u64) -> Option<Arc<Entry>> {
    let table = TABLE.load();
    let at = table.partition_point(|entry| entry.range.end <= address);
    table.get(at).filter(|entry| entry.range.start <= address).cloned()
}

/// Waits until what kernels stored in trapped ranges, and what they reduced there, is performed.
///
/// # Errors
/// The first range of which that is not known.
pub(crate) fn settle() -> Result<(), Failed> {
    TABLE.load().iter().try_for_each(|entry| {
        // Held while it waits, as by an access; one that is given back has nothing under way.
        let target = entry.target.read().unwrap_or_else(PoisonError::into_inner);
        let Some(target) = &*target else { return Ok(()) };
        target.settle().map_err(|source| Failed { place: "a trapped window".to_owned(), source })
    })
}

/// Does what there is to do for all ranges; whether anything moved.
pub(crate) fn attend() -> bool {
    let attend = |entry: &Arc<Entry>| {
        let target = entry.target.read().unwrap_or_else(PoisonError::into_inner);
        target.as_ref().is_some_and(|target| target.attend())
    };
    TABLE.load().iter().fold(false, |moved, entry| moved | attend(entry))
}

/// Whether any range is trapped.
pub(crate) fn any() -> bool {
    !TABLE.load().is_empty()
}

/// Whether an address is trapped.
pub(crate) fn contains(address: u64) -> bool {
    find(address).is_some()
}

/// A failed access: where it went, and why it failed.
pub(crate) struct Failed {
    pub place: String,
    pub source: TrapError,
}

/// Does an operation with two words, operand and what is expected; the first one is what was there then.
fn with_words(
    operation: Option<Operation>,
    words: &mut [u8],
    operate: impl FnOnce(Atomic) -> Result<u64, TrapError>,
) -> Result<(), TrapError> {
    let (operand, expected) = words.split_at_mut(words.len() / 2);
    let operation = operation.zip(Width::new(operand.len())).ok_or(NoOperation)?;
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let atomic = match operation {
        (Operation::CompareExchange, width) => {
            Atomic::compare_exchange(width, number(expected), number(operand))
        }
        (operation, width) => Atomic::new(operation, width, number(operand)),
    };
    let old = operate(atomic)?;
    operand.copy_from_slice(&old.to_le_bytes()[..operand.len()]);
    Ok(())
}

/// Carries an access to a trapped address out; `bytes` are what is stored, or take what is loaded, or the words of an atomic operation.
pub(crate) fn access(kind: Kind, address: u64, bytes: &mut [u8]) -> Result<(), Failed> {
    if kind == Kind::Settle {
        return settle();
    }
    let gone = || Failed { place: format!("address {address:#x}"), source: Gone.into() };
    let entry = find(address).ok_or_else(gone)?;
    let target = entry.target.read().unwrap_or_else(PoisonError::into_inner);
    let target = target.as_ref().ok_or_else(gone)?;
    let offset = address - entry.range.start;
    let done = match kind {
        Kind::Load => target.load(offset, bytes),
        Kind::Store => target.store(offset, bytes),
        Kind::Atomic(operation) => with_words(operation, bytes, |atomic| target.atomic(offset, atomic)),
        Kind::Reduce(operation) => {
            with_words(operation, bytes, |atomic| target.reduce(offset, atomic).map(|()| 0))
        }
        Kind::Settle => target.settle(),
    };
    done.map_err(|source| Failed { place: target.place(offset), source })
}
