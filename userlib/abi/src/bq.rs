//! Buffer queues: the segments that make up a notification queue (spec 3.2).

use crate::bits::Field;

const SLOT_SIZE: Field = Field::new(0, 2);
const SLOTS: Field = Field::new(2, 16);
const PAGE: Field = Field::new(18, 40);
const VALID: Field = Field::new(58, 1);
const RP: Field = Field::new(0, 32);
const REARM: Field = Field::new(32, 1);
const PAGE_SHIFT: u32 = 12;

/// Bytes of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SlotSize {
    /// 16 bytes: RMA notifications.
    B16 = 0,
    /// 32 bytes.
    B32 = 1,
    /// 64 bytes: VELO.
    B64 = 2,
    /// 128 bytes: VELO.
    B128 = 3,
}

impl SlotSize {
    /// Bytes.
    #[inline]
    pub const fn bytes(self) -> u32 {
        16 << self as u32
    }
}

/// Why a buffer-queue value cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BqError {
    /// No slots, or more than the field counts.
    #[error("a segment has 1 to 65536 slots, not {0}: use more or fewer segments")]
    Slots(u32),
    /// Not on a page, or too far up.
    #[error("segment address {0:#x} must be a multiple of 4096 below 2^52: allocate whole pages")]
    Address(u64),
}

/// A segment as in the descriptor table and, with the valid bit, in registers: `slots` slots of one size,
/// physically contiguous from a page boundary.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct BqSegment(pub u64);

impl BqSegment {
    /// A segment; not marked valid, as in the descriptor table.
    pub const fn new(slot: SlotSize, slots: u32, address: u64) -> Result<BqSegment, BqError> {
        if slots == 0 || slots as u64 - 1 > SLOTS.max() {
            return Err(BqError::Slots(slots));
        }
        if address & 0xfff != 0 || address >> PAGE_SHIFT > PAGE.max() {
            return Err(BqError::Address(address));
        }
        Ok(BqSegment(
            SLOT_SIZE.put(slot as u64) | SLOTS.put(slots as u64 - 1) | PAGE.put(address >> PAGE_SHIFT),
        ))
    }

    /// With the valid bit so (registers only).
    #[inline]
    pub const fn with_valid(self, valid: bool) -> BqSegment {
        BqSegment(VALID.with(self.0, valid as u64))
    }

    /// Valid bit.
    #[inline]
    pub const fn is_valid(self) -> bool {
        VALID.is_set(self.0)
    }

    /// Size of a slot.
    #[inline]
    pub const fn slot_size(self) -> SlotSize {
        match SLOT_SIZE.get(self.0) {
            0 => SlotSize::B16,
            1 => SlotSize::B32,
            2 => SlotSize::B64,
            _ => SlotSize::B128,
        }
    }

    /// Number of slots, 1 to 65536.
    #[inline]
    pub const fn slots(self) -> u32 {
        SLOTS.get(self.0) as u32 + 1
    }

    /// Bus address of the first slot.
    #[inline]
    pub const fn address(self) -> u64 {
        PAGE.get(self.0) << PAGE_SHIFT
    }

    /// Bytes of the segment.
    #[inline]
    pub const fn bytes(self) -> u64 {
        self.slots() as u64 * self.slot_size().bytes() as u64
    }
}

impl std::fmt::Debug for BqSegment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BqSegment")
            .field("address", &format_args!("{:#x}", self.address()))
            .field("slots", &self.slots())
            .field("slot_size", &self.slot_size())
            .field("valid", &self.is_valid())
            .finish()
    }
}

/// The read-pointer register: index of the next unread slot over the whole queue, and the interrupt's re-arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct BqReadPointer(pub u64);

impl BqReadPointer {
    /// Next unread slot; `rearm`: let this VPID raise its next interrupt.
    #[inline]
    pub const fn new(index: u32, rearm: bool) -> BqReadPointer {
        BqReadPointer(RP.put(index as u64) | REARM.put(rearm as u64))
    }

    /// Next unread slot.
    #[inline]
    pub const fn index(self) -> u32 {
        RP.get(self.0) as u32
    }

    /// Whether the write re-arms the interrupt.
    #[inline]
    pub const fn rearms(self) -> bool {
        REARM.is_set(self.0)
    }
}
