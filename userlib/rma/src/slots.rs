//! Posting through a slot ring (design 3): lock-free, any number of threads.

use std::sync::atomic::{AtomicU64, Ordering};

use extoll_abi::PageOption;
use ggas_device::{NotNow, SlotMap};

/// The host's side of a slot ring.
#[derive(Debug)]
pub(crate) struct Slots {
    map: SlotMap,
    pub(crate) option: PageOption,
    /// Running count of claimed slots.
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

    /// Claims a slot and publishes a descriptor in it.
    #[inline]
    pub(crate) fn try_post(&self, words: &[u64; 3]) -> Result<(), NotNow> {
        let mut tail = self.tail.load(Ordering::Relaxed);
        loop {
            let consumed = self.consumed();
            if tail.wrapping_sub(consumed) as i64 >= i64::from(self.map.slots) {
                // A stale tail only looks emptier than it is; a full ring is full.
                return Err(NotNow);
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
        self.tail.load(Ordering::Relaxed).saturating_sub(self.consumed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ggas_device::Slot;
    use std::ptr::NonNull;

    fn ring(slots: &[Slot], consumed: &AtomicU64) -> Slots {
        let map = SlotMap {
            base: NonNull::from(slots).cast(),
            slots: slots.len() as u32,
            consumed: consumed.into(),
        };
        Slots::new(map, PageOption::default())
    }

    #[test]
    fn one_slot_is_a_ring() {
        let (memory, consumed) = ([Slot::default()], AtomicU64::new(0));
        let slots = ring(&memory, &consumed);
        for i in 0..5 {
            slots.try_post(&[i, i, i]).unwrap();
            assert_eq!(memory[0].seq.load(Ordering::Relaxed), i + 1);
            assert_eq!(slots.try_post(&[9; 3]), Err(NotNow));
            assert_eq!(slots.outstanding(), 1);
            consumed.store(i + 1, Ordering::Relaxed);
        }
    }

    #[test]
    fn threads_get_distinct_slots_and_nothing_is_lost() {
        const EACH: u64 = 20_000;
        let memory: Vec<Slot> = (0..8).map(|_| Slot::default()).collect();
        let consumed = AtomicU64::new(0);
        let slots = ring(&memory, &consumed);
        let mut next = [0u64; 3];
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let slots = &slots;
                scope.spawn(move || {
                    for i in 0..EACH {
                        while slots.try_post(&[thread, i, thread ^ i]) != Ok(()) {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            // The card: consumes in order of the running count.
            for count in 0..3 * EACH {
                let slot = &memory[(count % 8) as usize];
                while slot.seq.load(Ordering::Acquire) != count + 1 {
                    std::thread::yield_now();
                }
                let [thread, i, check] = [0, 1, 2].map(|w| slot.word[w].load(Ordering::Relaxed));
                assert_eq!((i, check), (next[thread as usize], thread ^ i));
                next[thread as usize] += 1;
                consumed.store(count + 1, Ordering::Release);
            }
        });
        assert_eq!(next, [EACH; 3]);
    }
}
