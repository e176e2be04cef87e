//! Buffer queues: the segments that make up a notification queue (spec 3.2).

use crate::bindings as facts;
use crate::bits::Field;

const SLOT_SIZE: Field = Field::new(facts::EXTOLL_BQ_SLOT_SIZE_SHIFT, facts::EXTOLL_BQ_SLOT_SIZE_BITS);
const SLOTS: Field = Field::new(facts::EXTOLL_BQ_SLOTS_SHIFT, facts::EXTOLL_BQ_SLOTS_BITS);
const PAGE: Field = Field::new(facts::EXTOLL_BQ_PAGE_SHIFT, facts::EXTOLL_BQ_PAGE_BITS);
const VALID: Field = Field::new(facts::EXTOLL_BQ_VALID_SHIFT, facts::EXTOLL_BQ_VALID_BITS);
const RP: Field = Field::new(facts::EXTOLL_BQ_RP_SHIFT, facts::EXTOLL_BQ_RP_BITS);
const REARM: Field = Field::new(facts::EXTOLL_BQ_REARM_SHIFT, facts::EXTOLL_BQ_REARM_BITS);
const TABLE_UB: Field = Field::new(facts::EXTOLL_BQ_DCQ_UB_SHIFT, facts::EXTOLL_BQ_DCQ_UB_BITS);
const TABLE_PAGE: Field = Field::new(facts::EXTOLL_BQ_DCQ_PAGE_SHIFT, facts::EXTOLL_BQ_DCQ_PAGE_BITS);
const TABLE_RP: Field = Field::new(facts::EXTOLL_BQ_DCQ_RP_SHIFT, facts::EXTOLL_BQ_DCQ_RP_BITS);
const LWP: Field = Field::new(facts::EXTOLL_BQ_LWP_SHIFT, facts::EXTOLL_BQ_LWP_BITS);
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
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BqError {
    /// No slots, or more than the field counts.
    #[error("a segment has 1 to 65536 slots, not {0}: use more or fewer segments")]
    Slots(u32),
    /// No segments, or more than a table holds.
    #[error("a queue has 1 to 512 segments, not {0}: use larger segments")]
    Segments(u32),
    /// Not on a page, or too far up.
    #[error("segment address {0:#x} must be a multiple of 4096 below 2^52: allocate whole pages")]
    Address(u64),
}

ggas_errors::debug_as_display!(BqError);

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

/// The register that points to the table of segments (DCQ).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct BqTable(pub u64);

impl BqTable {
    /// A table of `segments` (1 to 512) at bus address `address`, a page of its own.
    pub const fn new(address: u64, segments: u32) -> Result<BqTable, BqError> {
        if segments == 0 || segments as u64 > facts::EXTOLL_BQ_MAX_SEGMENTS {
            return Err(BqError::Segments(segments));
        }
        if address & 0xfff != 0 || address >> PAGE_SHIFT > TABLE_PAGE.max() {
            return Err(BqError::Address(address));
        }
        Ok(BqTable(TABLE_UB.put(segments as u64 - 1) | TABLE_PAGE.put(address >> PAGE_SHIFT)))
    }

    /// Bus address of the table.
    #[inline]
    pub const fn address(self) -> u64 {
        TABLE_PAGE.get(self.0) << PAGE_SHIFT
    }

    /// Segments, 1 to 65536: software may write more than a page holds.
    #[inline]
    pub const fn segments(self) -> u32 {
        TABLE_UB.get(self.0) as u32 + 1
    }
}

/// The register with the hardware's write pointer and its place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct BqWritePointer(pub u64);

impl BqWritePointer {
    /// Next slot to write over the whole queue, and the next entry of the table to fetch.
    #[inline]
    pub const fn new(logical: u32, next_segment: u16) -> BqWritePointer {
        BqWritePointer(LWP.put(logical as u64) | TABLE_RP.put(next_segment as u64))
    }

    /// Next slot to write.
    #[inline]
    pub const fn logical(self) -> u32 {
        LWP.get(self.0) as u32
    }

    /// Next entry of the table \[inferred: 16 bits\].
    #[inline]
    pub const fn next_segment(self) -> u16 {
        TABLE_RP.get(self.0) as u16
    }
}
