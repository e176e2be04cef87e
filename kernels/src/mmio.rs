//! Device registers for kernels on the CPU executor.
//!
//! There a kernel's mmio store is a call: the range that it hits is looked up
//! here. Addresses outside of every range are memory and get a plain atomic
//! store.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

/// Registers that kernels on the executor store to.
pub trait MmioTarget: Send + Sync {
    /// One 8-byte store at `offset` bytes into the registered range. Called on
    /// the executor's thread, in program order per CUDA thread; must not block
    /// on a kernel's progress.
    fn store(&self, offset: u64, value: u64);

    /// One 4-byte store, as [`store`](MmioTarget::store). Registers that have none of these ignore it.
    fn store_half(&self, _offset: u64, _value: u32) {}
}

struct Entry {
    range: Range<u64>,
    target: Arc<dyn MmioTarget>,
}

static TABLE: std::sync::LazyLock<ArcSwap<Vec<Arc<Entry>>>> = std::sync::LazyLock::new(ArcSwap::default);
static CHANGE: Mutex<()> = Mutex::new(());

/// Keeps a range registered; dropping it ends the registration. A store that
/// began before may still reach the target.
pub struct Guard(Arc<Entry>);

/// Two registered ranges overlap.
#[derive(thiserror::Error)]
#[error("addresses {:#x}..{:#x} are registered already; drop the earlier guard first", range.start, range.end)]
pub struct Overlap {
    range: Range<u64>,
}

ggas_errors::debug_as_display!(Overlap);

/// Sends mmio stores of executor kernels to addresses in `range` to `target`.
pub fn register(range: Range<u64>, target: Arc<dyn MmioTarget>) -> Result<Guard, Overlap> {
    let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut table = Vec::clone(&TABLE.load());
    let at = table.partition_point(|entry| entry.range.end <= range.start);
    if table.get(at).is_some_and(|next| next.range.start < range.end) {
        return Err(Overlap { range });
    }
    let entry = Arc::new(Entry { range, target });
    table.insert(at, entry.clone());
    TABLE.store(Arc::new(table));
    Ok(Guard(entry))
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
        let table = TABLE.load().iter().filter(|entry| !Arc::ptr_eq(entry, &self.0)).cloned().collect();
        TABLE.store(Arc::new(table));
    }
}

/// A kernel's mmio store of 8 or 4 bytes.
///
/// # Safety
/// `address` lies in a registered range, or is an aligned word of so many bytes that may be stored to.
pub(crate) unsafe fn store(address: u64, value: u64, bytes: u32) {
    let table = TABLE.load();
    let at = table.partition_point(|entry| entry.range.end <= address);
    match table.get(at).filter(|entry| entry.range.start <= address) {
        Some(entry) if bytes == 4 => entry.target.store_half(address - entry.range.start, value as u32),
        Some(entry) => entry.target.store(address - entry.range.start, value),
        None if bytes == 4 => {
            // SAFETY: by the contract above it is a valid aligned word.
            unsafe { AtomicU32::from_ptr(address as *mut u32) }.store(value as u32, Ordering::Release);
        }
        // SAFETY: by the contract above it is a valid aligned word.
        None => unsafe { AtomicU64::from_ptr(address as *mut u64) }.store(value, Ordering::Release),
    }
}
