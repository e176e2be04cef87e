//! Posting through a slot ring (design 3): lock-free, any number of threads.

use std::sync::atomic::{AtomicU64, Ordering};

use extoll_abi::PageOption;
use ggas_device::SlotMap;

/// Bit of the running count that says: kernels own the ring.
const KERNELS: u64 = 1 << 63;

/// Why a slot could not be had.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoSlot {
    Full,
    Kernels,
}

/// The host's side of a slot ring.
#[derive(Debug)]
pub(crate) struct Slots {
    map: SlotMap,
    pub(crate) option: PageOption,
    /// Running count of claimed slots, with [`KERNELS`].
    tail: AtomicU64,
}

// SAFETY: the ring's memory is valid as long as the port, which owns this; slots and counters are atomic.
unsafe impl Send for Slots {}
// SAFETY: as above.
unsafe impl Sync for Slots {}

impl Slots {
    pub(crate) fn new(map: SlotMap, option: PageOption) -> Slots {
        Slots { map, option, tail: AtomicU64::new(0) }
    }

    pub(crate) fn map(&self) -> &SlotMap {
        &self.map
    }

    /// Claims a slot and publishes a descriptor in it.
    #[inline]
    pub(crate) fn try_post(&self, words: &[u64; 3]) -> Result<(), NoSlot> {
        let mut tail = self.tail.load(Ordering::Relaxed);
        loop {
            if tail & KERNELS != 0 {
                return Err(NoSlot::Kernels);
            }
            let consumed = self.consumed();
            if tail.wrapping_sub(consumed) as i64 >= i64::from(self.map.slots) {
                // A stale tail only looks emptier than it is; a full ring is full.
                return Err(NoSlot::Full);
            }
            match self.tail.compare_exchange_weak(tail, tail + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => tail = now,
            }
        }
        self.publish(tail, words);
        Ok(())
    }

    fn publish(&self, count: u64, words: &[u64; 3]) {
        let index = count & u64::from(self.map.slots - 1);
        // SAFETY: the index is below `slots`; the ring is mapped as long as the port lives.
        let slot = unsafe { self.map.base.add(index as usize).as_ref() };
        for (place, word) in slot.word.iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
        slot.seq.store(count + 1, Ordering::Release);
    }

    /// Running count of slots that the card has consumed. Acquire: a consumed slot may be written again.
    #[inline]
    pub(crate) fn consumed(&self) -> u64 {
        // SAFETY: the counter is mapped as long as the port lives.
        unsafe { self.map.consumed.as_ref() }.load(Ordering::Acquire)
    }

    /// Slots claimed and not yet consumed.
    pub(crate) fn outstanding(&self) -> u64 {
        (self.tail.load(Ordering::Relaxed) & !KERNELS).saturating_sub(self.consumed())
    }

    /// Gives the ring to kernels and returns the count at which they go on.
    pub(crate) fn give_to_kernels(&self) -> u64 {
        self.tail.fetch_or(KERNELS, Ordering::AcqRel) & !KERNELS
    }

    /// Takes the ring back; kernels have claimed slots up to `tail`.
    pub(crate) fn take_back(&self, tail: u64) {
        self.tail.store(tail, Ordering::Release);
    }
}
