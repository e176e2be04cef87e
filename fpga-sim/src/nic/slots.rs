//! Slot rings: the requester's path for descriptors from GPUs (model only, design section 3).

use std::sync::atomic::{AtomicU64, Ordering};

use extoll_abi::{Descriptor, PageOption};

use super::core::{BURST, Core};
use super::{Nic, NicError};
use crate::wcb::Command;

/// A slot ring (layout `struct ggas_slot`): 32-byte slots of three descriptor words and a sequence word, stored
/// last with release. Entry i uses slot `i & (count - 1)` and carries sequence i + 1, counted from the attachment.
#[derive(Clone, Copy, Debug)]
pub struct SlotRing {
    /// First slot: `count` × 32 bytes, aligned to 8.
    pub base: *mut [u64; 4],
    /// Slots, a power of two.
    pub count: u32,
    /// The card stores here how many slots it has consumed so far, with release.
    pub consumed: *const AtomicU64,
    /// Page option of every descriptor of the ring (spec 2.1): 16 = NLAs, traffic class 0.
    pub option: u32,
}

/// An attached ring of slots of `WORDS` words, the last of them the sequence word.
pub(super) struct Ring<const WORDS: usize> {
    base: *mut [u64; WORDS],
    mask: u64,
    consumed: *const AtomicU64,
    /// Entries taken so far.
    taken: u64,
}

// SAFETY: who attaches a ring promises that it is valid and accessed atomically until detached.
unsafe impl<const WORDS: usize> Send for Ring<WORDS> {}

impl<const WORDS: usize> Ring<WORDS> {
    pub(super) fn new(
        base: *mut [u64; WORDS],
        count: u32,
        consumed: *const AtomicU64,
    ) -> Result<Ring<WORDS>, &'static str> {
        if !count.is_power_of_two() {
            return Err("the number of slots must be a power of two");
        }
        if base.is_null() || !base.cast::<u64>().is_aligned() || consumed.is_null() {
            return Err("slots and the consumed counter must lie at multiples of 8");
        }
        Ok(Ring { base, mask: u64::from(count) - 1, consumed, taken: 0 })
    }

    /// Word `i` of the next slot.
    fn word(&self, i: usize, order: Ordering) -> u64 {
        // SAFETY: slot and word lie inside the ring, which is valid and atomically accessed while attached.
        let at = unsafe {
            AtomicU64::from_ptr(self.base.add((self.taken & self.mask) as usize).cast::<u64>().add(i))
        };
        at.load(order)
    }

    /// The first words of the next entry, if it is published; it stays until [`Ring::take`].
    #[inline]
    pub(super) fn peek<const N: usize>(&self) -> Option<[u64; N]> {
        const { assert!(N < WORDS) };
        if self.word(WORDS - 1, Ordering::Acquire) != self.taken.wrapping_add(1) {
            return None;
        }
        Some(std::array::from_fn(|i| self.word(i, Ordering::Relaxed)))
    }

    pub(super) fn take(&mut self) {
        self.taken = self.taken.wrapping_add(1);
    }

    /// Tells the other side how many slots are free again.
    pub(super) fn publish(&self) {
        // SAFETY: as in `word`.
        unsafe { &*self.consumed }.store(self.taken, Ordering::Release);
    }
}

/// An attached ring of descriptors.
pub(super) struct Slots {
    ring: Ring<4>,
    option: PageOption,
}

impl Slots {
    pub(super) fn new(vpid: u8, ring: SlotRing) -> Result<Slots, NicError> {
        let refuse = |reason| NicError::SlotRing { vpid, reason };
        let Some(option) = u8::try_from(ring.option).ok().and_then(|bits| PageOption::new(bits).ok()) else {
            return Err(refuse("the page option must be below 32"));
        };
        Ok(Slots { ring: Ring::new(ring.base, ring.count, ring.consumed).map_err(refuse)?, option })
    }
}

impl Core {
    pub(super) fn attach_slots(&mut self, vpid: u8, ring: SlotRing) -> Result<(), NicError> {
        let slots = Slots::new(vpid, ring)?;
        let port = self.port(vpid);
        if port.slots.is_some() {
            return Err(NicError::SlotRing { vpid, reason: "it has one already; detach that first" });
        }
        port.slots = Some(slots);
        self.slotted.set(vpid, true);
        Ok(())
    }

    pub(super) fn detach_slots(&mut self, vpid: u8) {
        self.port(vpid).slots = None;
        self.slotted.set(vpid, false);
    }

    /// Takes published descriptors, a burst from each ring in turn; what the requester cannot take stays.
    pub(super) fn poll_slots(&mut self, nic: &Nic) -> bool {
        let mut moved = false;
        for vpid in self.slotted.iter_from(self.turn) {
            let mut taken = 0;
            while taken < BURST && self.can_execute(vpid) {
                let Some(slots) = self.port(vpid).slots.as_mut() else { break };
                let Some(word) = slots.ring.peek() else { break };
                let (option, descriptor) = (slots.option, Descriptor { word });
                let process = nic.fabric.process_at(descriptor.header().dst);
                let command = Command { option, descriptor, process };
                slots.ring.take();
                taken += 1;
                self.execute(nic, vpid, &command);
            }
            if taken > 0 {
                moved = true;
                self.notified = true;
                if let Some(slots) = &self.port(vpid).slots {
                    slots.ring.publish();
                }
            }
        }
        moved
    }
}
