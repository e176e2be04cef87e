//! Slot rings of VELO ports: the way of messages from GPUs (model only, design section 3).

use std::sync::atomic::AtomicU64;

use extoll_abi::VELO_LINE_WORDS;

use super::core::{BURST, Core};
use super::slots::Ring;
use super::{Nic, NicError};
use crate::packet::ANYONE;
use crate::velo::Message;

/// Words of a slot: a line, a spare word, and the sequence word.
pub const VELO_SLOT_WORDS: usize = VELO_LINE_WORDS + 2;

/// A ring of messages (layout `struct ggas_velo_slot`). Entry i uses slot `i & (count - 1)` and carries sequence
/// i + 1, stored last with release, counted from the attachment.
#[derive(Clone, Copy, Debug)]
pub struct VeloSlotRing {
    /// First slot: `count` × 144 bytes, aligned to 8.
    pub base: *mut [u64; VELO_SLOT_WORDS],
    /// Slots, a power of two.
    pub count: u32,
    /// The card stores here how many slots it has consumed so far, with release.
    pub consumed: *const AtomicU64,
    /// Traffic class of every message of the ring: 0 to 3.
    pub class: u8,
}

/// An attached ring.
pub(super) struct VeloSlots {
    ring: Ring<VELO_SLOT_WORDS>,
    class: u8,
}

impl Nic {
    /// Gives a VPID's VELO requester a slot ring (model only).
    ///
    /// # Errors
    /// [`NicError::SlotRing`].
    ///
    /// # Safety
    /// `ring.base` and `ring.consumed` stay valid, and are accessed by others only atomically, until
    /// [`Nic::detach_velo_slots`] returned.
    pub unsafe fn attach_velo_slots(&self, vpid: u8, ring: VeloSlotRing) -> Result<(), NicError> {
        let refuse = |reason| NicError::SlotRing { vpid, reason };
        if ring.class > 3 {
            return Err(refuse("the traffic class must be below 4"));
        }
        let VeloSlotRing { base, count, consumed, class } = ring;
        let slots = VeloSlots { ring: Ring::new(base, count, consumed).map_err(refuse)?, class };
        self.with_core(|core| {
            let port = core.velo.port(vpid);
            if port.slots.is_some() {
                return Err(refuse("it has one already; detach that first"));
            }
            port.slots = Some(slots);
            core.velo.slotted.set(vpid, true);
            Ok(())
        })
    }

    /// Takes the slot ring back. When it returns, the card does not touch the ring any more.
    pub fn detach_velo_slots(&self, vpid: u8) {
        self.with_core(|core| {
            core.velo.port(vpid).slots = None;
            core.velo.slotted.set(vpid, false);
        });
    }
}

impl Core {
    /// Takes published messages, a burst from each ring in turn; while the network does not take a VPID's last one,
    /// its next ones stay.
    pub(super) fn velo_poll_slots(&mut self, nic: &Nic) -> bool {
        let mut moved = false;
        for vpid in self.velo.slotted.iter_from(self.turn) {
            let mut taken = 0;
            while taken < BURST && self.velo.can_send(vpid) {
                let Some(slots) = self.velo.port(vpid).slots.as_mut() else { break };
                let Some(word) = slots.ring.peek() else { break };
                let mut message = Message { tc: slots.class, word, process: ANYONE };
                message.aim(&*nic.fabric);
                slots.ring.take();
                taken += 1;
                self.velo_send(nic, vpid, &message);
            }
            if taken > 0 {
                moved = true;
                self.notified = true;
                if let Some(slots) = &self.velo.port(vpid).slots {
                    slots.ring.publish();
                }
            }
        }
        moved
    }
}
