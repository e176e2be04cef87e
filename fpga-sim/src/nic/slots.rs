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

/// An attached ring.
pub(super) struct Slots {
    base: *mut [u64; 4],
    mask: u64,
    consumed: *const AtomicU64,
    option: PageOption,
    /// Entries taken so far.
    taken: u64,
}

// SAFETY: `attach_slots` made its caller promise that the ring is valid and accessed atomically until detached.
unsafe impl Send for Slots {}

impl Slots {
    pub(super) fn new(vpid: u8, ring: SlotRing) -> Result<Slots, NicError> {
        let refuse = |reason| Err(NicError::SlotRing { vpid, reason });
        if !ring.count.is_power_of_two() {
            return refuse("the number of slots must be a power of two");
        }
        if ring.base.is_null() || !ring.base.cast::<u64>().is_aligned() || ring.consumed.is_null() {
            return refuse("slots and the consumed counter must lie at multiples of 8");
        }
        let Some(option) = u8::try_from(ring.option).ok().and_then(|bits| PageOption::new(bits).ok()) else {
            return refuse("the page option must be below 32");
        };
        let mask = u64::from(ring.count) - 1;
        Ok(Slots { base: ring.base, mask, consumed: ring.consumed, option, taken: 0 })
    }

    /// Word `i` of the next slot.
    fn word(&self, i: usize, order: Ordering) -> u64 {
        // SAFETY: slot and word lie inside the ring, which is valid and atomically accessed while attached.
        let at = unsafe {
            AtomicU64::from_ptr(self.base.add((self.taken & self.mask) as usize).cast::<u64>().add(i))
        };
        at.load(order)
    }

    /// The next descriptor, if it is published; stays until [`Slots::take`].
    #[inline]
    fn peek(&self) -> Option<Command> {
        if self.word(3, Ordering::Acquire) != self.taken.wrapping_add(1) {
            return None;
        }
        let word = [0, 1, 2].map(|i| self.word(i, Ordering::Relaxed));
        Some(Command { option: self.option, descriptor: Descriptor { word } })
    }

    /// Tells the other side how many slots are free again.
    fn publish(&self) {
        // SAFETY: as in `word`.
        unsafe { &*self.consumed }.store(self.taken, Ordering::Release);
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
                let Some(command) = slots.peek() else { break };
                slots.taken = slots.taken.wrapping_add(1);
                taken += 1;
                self.execute(nic, vpid, &command);
            }
            if taken > 0 {
                moved = true;
                self.notified = true;
                if let Some(slots) = &self.port(vpid).slots {
                    slots.publish();
                }
            }
        }
        moved
    }
}
