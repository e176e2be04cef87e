//! Slot rings: the way of descriptors and messages from GPUs (model only, design section 3).

use std::sync::atomic::{AtomicU64, Ordering};

use extoll_abi::{PageOption, VELO_LINE_WORDS};

use super::NicError;
use super::per_vpid::PerVpid;
use crate::units::bits::VpidSet;

/// Words of a slot of the VELO requester: a line, a spare word, and the sequence word.
pub const VELO_SLOT_WORDS: usize = VELO_LINE_WORDS + 2;

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

/// An attached ring of slots of `WORDS` words, the last of them the sequence word.
pub(super) struct Ring<const WORDS: usize, Page> {
    base: *mut [u64; WORDS],
    mask: u64,
    consumed: *const AtomicU64,
    /// The page that its entries stand for.
    page: Page,
    /// Entries taken so far.
    taken: u64,
}

// SAFETY: who attaches a ring promises that it is valid and accessed atomically until detached.
unsafe impl<const WORDS: usize, Page: Send> Send for Ring<WORDS, Page> {}

impl Ring<4, PageOption> {
    pub(super) fn of_descriptors(ring: SlotRing) -> Result<Self, &'static str> {
        let SlotRing { base, count, consumed, option } = ring;
        let page = u8::try_from(option).ok().and_then(|bits| PageOption::new(bits).ok());
        Ring::new(base, count, consumed, page.ok_or("the page option must be below 32")?)
    }
}

impl Ring<4, ()> {
    /// Of triggers: a tag, and the words WHERE and WHAT; the option means nothing.
    pub(super) fn of_triggers(ring: SlotRing) -> Result<Self, &'static str> {
        Ring::new(ring.base, ring.count, ring.consumed, ())
    }
}

impl Ring<VELO_SLOT_WORDS, u8> {
    pub(super) fn of_messages(ring: VeloSlotRing) -> Result<Self, &'static str> {
        let VeloSlotRing { base, count, consumed, class } = ring;
        if class > 3 {
            return Err("the traffic class must be below 4");
        }
        Ring::new(base, count, consumed, class)
    }
}

impl<const WORDS: usize, Page: Copy> Ring<WORDS, Page> {
    fn new(
        base: *mut [u64; WORDS],
        count: u32,
        consumed: *const AtomicU64,
        page: Page,
    ) -> Result<Self, &'static str> {
        if !count.is_power_of_two() {
            return Err("the number of slots must be a power of two");
        }
        if base.is_null() || !base.cast::<u64>().is_aligned() || consumed.is_null() {
            return Err("slots and the consumed counter must lie at multiples of 8");
        }
        Ok(Ring { base, mask: u64::from(count) - 1, consumed, page, taken: 0 })
    }

    /// Word `i` of the next slot.
    fn word(&self, i: usize, order: Ordering) -> u64 {
        // SAFETY: slot and word lie inside the ring, which is valid and atomically accessed while attached.
        let at = unsafe {
            AtomicU64::from_ptr(self.base.add((self.taken & self.mask) as usize).cast::<u64>().add(i))
        };
        at.load(order)
    }

    /// The first words of the next entry, if it is published.
    #[inline]
    fn next<const N: usize>(&mut self) -> Option<(Page, [u64; N])> {
        const { assert!(N < WORDS) };
        if self.word(WORDS - 1, Ordering::Acquire) != self.taken.wrapping_add(1) {
            return None;
        }
        let words = std::array::from_fn(|i| self.word(i, Ordering::Relaxed));
        self.taken = self.taken.wrapping_add(1);
        Some((self.page, words))
    }

    /// Tells the other side how many slots are free again.
    fn publish(&self) {
        // SAFETY: as in `word`.
        unsafe { &*self.consumed }.store(self.taken, Ordering::Release);
    }
}

/// The rings of all VPIDs of a requester.
pub(super) struct SlotRings<const WORDS: usize, Page> {
    rings: PerVpid<Option<Ring<WORDS, Page>>>,
    attached: VpidSet,
}

impl<const WORDS: usize, Page> Default for SlotRings<WORDS, Page> {
    fn default() -> Self {
        SlotRings { rings: PerVpid::default(), attached: VpidSet::default() }
    }
}

impl<const WORDS: usize, Page: Copy> SlotRings<WORDS, Page> {
    /// VPIDs with a ring.
    #[inline]
    pub(super) fn attached(&self) -> &VpidSet {
        &self.attached
    }

    pub(super) fn attach(&mut self, vpid: u8, ring: Ring<WORDS, Page>) -> Result<(), NicError> {
        if self.attached.contains(vpid) {
            return Err(NicError::SlotRing { vpid, reason: "it has one already; detach that first" });
        }
        *self.rings.at(vpid) = Some(ring);
        self.attached.set(vpid, true);
        Ok(())
    }

    pub(super) fn detach(&mut self, vpid: u8) {
        if let Some(ring) = self.rings.get_mut(vpid) {
            *ring = None;
        }
        self.attached.set(vpid, false);
    }

    /// Takes the next entry of a VPID, if one is published: its page, and its first words.
    #[inline]
    pub(super) fn next<const N: usize>(&mut self, vpid: u8) -> Option<(Page, [u64; N])> {
        self.rings.get_mut(vpid)?.as_mut()?.next()
    }

    /// Tells the other side how many slots of a VPID's ring are free again.
    pub(super) fn publish(&self, vpid: u8) {
        if let Some(Some(ring)) = self.rings.get(vpid) {
            ring.publish();
        }
    }
}
