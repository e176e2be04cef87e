//! Slots of pinned memory for short copies: taken and given back without a lock, so that the copies of many threads do not wait for each
//! other as they do for the few pairs of large buffers.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a slot, and all of them.
pub(crate) const SLOT: usize = 32 << 10;
pub(crate) const ALL: usize = SLOT * u64::BITS as usize;

/// Which slots are taken, bit for bit.
#[derive(Default)]
pub(crate) struct Slots(AtomicU64);

impl Slots {
    /// The number of a slot that was free; `None` where all are taken.
    pub fn take(&self) -> Option<usize> {
        let mut taken = self.0.load(Ordering::Relaxed);
        loop {
            let free = (!taken).trailing_zeros();
            if free == u64::BITS {
                return None;
            }
            let with = taken | 1 << free;
            match self.0.compare_exchange_weak(taken, with, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(free as usize),
                Err(now) => taken = now,
            }
        }
    }

    pub fn give_back(&self, slot: usize) {
        self.0.fetch_and(!(1 << slot), Ordering::Release);
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.0.load(Ordering::Relaxed).count_ones() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_given_to_one_at_a_time() {
        let slots = Slots::default();
        let all: Vec<_> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(all, (0..64).collect::<Vec<_>>());
        slots.give_back(40);
        assert_eq!((slots.taken(), slots.take(), slots.take()), (63, Some(40), None));
    }
}
