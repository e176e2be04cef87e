//! Setting up notification queues and mailboxes through the card's registers (spec 3.2).

use std::ptr::NonNull;

use extoll_abi::{BqReadPointer, BqSegment, BqTable, BqWritePointer, SlotSize, regs};
use extoll_sim::{HostMemory, Nic, RangeKind};

use crate::{DeviceError, HostBuffer, PAGE, PortSetup, QueueMap};

/// What a queue is to be like.
pub(super) struct QueueShape {
    pub(super) bytes: usize,
    pub(super) segment_bytes: usize,
    pub(super) slot: SlotSize,
    /// For errors.
    pub(super) what: &'static str,
}

impl From<&PortSetup> for QueueShape {
    fn from(setup: &PortSetup) -> QueueShape {
        let PortSetup { queue_bytes: bytes, segment_bytes } = *setup;
        QueueShape { bytes, segment_bytes, slot: SlotSize::B16, what: "a notification queue" }
    }
}

/// The registers of a VPID's queue.
pub(super) struct QueueRegisters {
    ub: fn(u8) -> u64,
    table: fn(u8) -> u64,
    current: fn(u8) -> u64,
    next: fn(u8) -> u64,
    wp: fn(u8) -> u64,
    rp: fn(u8) -> u64,
}

/// Notification queues.
pub(super) const RMA_QUEUE: QueueRegisters = QueueRegisters {
    ub: regs::bq_ub,
    table: regs::bq_table,
    current: regs::bq_current,
    next: regs::bq_next,
    wp: regs::bq_wp,
    rp: regs::bq_rp,
};

/// Mailboxes (spec 7).
pub(super) const VELO_QUEUE: QueueRegisters = QueueRegisters {
    ub: regs::velo_bq_ub,
    table: regs::velo_bq_table,
    current: regs::velo_bq_current,
    next: regs::velo_bq_next,
    wp: regs::velo_bq_wp,
    rp: regs::velo_bq_rp,
};

/// A port's queue and its descriptor table, one block: the table's page, then the entries.
#[derive(Debug)]
pub(super) struct QueueMemory {
    block: HostBuffer,
    segments: u32,
    entries_per_segment: u32,
    slot: SlotSize,
}

impl QueueMemory {
    /// Zeroed memory of this shape, declared to the card.
    pub(super) fn new(memory: &HostMemory, shape: &QueueShape) -> Result<QueueMemory, DeviceError> {
        let QueueShape { bytes, segment_bytes, slot, what } = *shape;
        let entry = slot.bytes() as usize;
        let segment = segment_bytes.min(bytes);
        let shape = |problem| DeviceError::QueueShape { bytes, segment: segment_bytes, problem };
        if bytes == 0 || segment == 0 || !bytes.is_multiple_of(PAGE) || !segment.is_multiple_of(PAGE) {
            return Err(shape("both must be multiples of 4096 and not 0"));
        }
        if !bytes.is_multiple_of(segment) {
            return Err(shape("make the queue a multiple of the segment"));
        }
        if segment / entry > 1 << 16 {
            return Err(shape("a segment has at most 65536 entries"));
        }
        let segments = bytes / segment;
        if segments > regs::EXTOLL_BQ_MAX_SEGMENTS as usize {
            return Err(shape("at most 512 segments: make them larger"));
        }
        let block = HostBuffer::private(PAGE + bytes, PAGE, what)?;
        let refused = |_| shape("the model refused its memory");
        // SAFETY: the block lives until `release` has taken the range back.
        unsafe { memory.add_range(RangeKind::Host, block.address(), block.len()) }.map_err(refused)?;
        let segments = segments as u32;
        Ok(QueueMemory { block, segments, entries_per_segment: (segment / entry) as u32, slot })
    }

    pub(super) fn entries(&self) -> u32 {
        self.segments * self.entries_per_segment
    }

    /// Where the port's user finds the entries.
    pub(super) fn map(&self) -> QueueMap {
        // SAFETY: the block has a page for the table and then at least one more.
        let base = unsafe { NonNull::new_unchecked(self.block.as_ptr().add(PAGE)) };
        QueueMap { base: base.cast(), entries: self.entries() }
    }

    /// Writes the segment table and the queue's registers (spec 3.2). A single segment has itself as the next one:
    /// the hardware then never finds a null segment.
    pub(super) fn program(&self, nic: &Nic, vpid: u8, registers: &QueueRegisters) -> Result<(), DeviceError> {
        let segment = |i: u32| {
            let before = u64::from(i * self.entries_per_segment) * u64::from(self.slot.bytes());
            let at = self.block.address() + PAGE as u64 + before;
            BqSegment::new(self.slot, self.entries_per_segment, at).map_err(|_| self.refused())
        };
        for i in 0..self.segments {
            self.block.store_u64(8 * i as usize, segment(i)?.0);
        }
        let table = BqTable::new(self.block.address(), self.segments).map_err(|_| self.refused())?;
        let next_in_table = if self.segments >= 3 { 2 } else { 0 };
        let next = segment(if self.segments > 1 { 1 } else { 0 })?;
        nic.reg_write((registers.ub)(vpid), regs::BQ_UB.put(u64::from(self.entries() - 1)));
        nic.reg_write((registers.table)(vpid), table.0);
        nic.reg_write((registers.current)(vpid), segment(0)?.with_valid(true).0);
        nic.reg_write((registers.next)(vpid), next.with_valid(true).0);
        nic.reg_write((registers.wp)(vpid), BqWritePointer::new(0, next_in_table).0);
        nic.reg_write((registers.rp)(vpid), BqReadPointer::new(0, true).0);
        nic.reg_write((registers.rp)(vpid), BqReadPointer::new(0, false).0);
        Ok(())
    }

    /// Zeroes the queue's registers and takes its memory from the card. `false`: the card still uses it.
    pub(super) fn release(
        &self,
        nic: &Nic,
        memory: &HostMemory,
        vpid: u8,
        registers: &QueueRegisters,
    ) -> bool {
        let QueueRegisters { ub, table, current, next, wp, rp } = registers;
        for register in [current, next, table, ub, wp, rp] {
            nic.reg_write(register(vpid), 0);
        }
        self.undeclare(memory)
    }

    /// Takes the memory from the card, which has another queue by now. `false`: the card still uses it.
    pub(super) fn undeclare(&self, memory: &HostMemory) -> bool {
        memory.remove_range(self.block.address(), self.block.len()).is_ok()
    }

    fn refused(&self) -> DeviceError {
        let segment = (self.entries_per_segment * self.slot.bytes()) as usize;
        let problem = "the card cannot address it";
        DeviceError::QueueShape { bytes: self.block.len() - PAGE, segment, problem }
    }
}
