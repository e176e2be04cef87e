//! Setting up notification queues through the card's registers (spec 3.2).

use std::ptr::NonNull;

use extoll_abi::{BqReadPointer, BqSegment, BqTable, BqWritePointer, SlotSize, regs};
use extoll_sim::{HostMemory, Nic, RangeKind};

use crate::{DeviceError, HostBuffer, PAGE, PortSetup, QueueMap};

/// Bytes of an entry.
const ENTRY: usize = 16;

/// A port's queue and its descriptor table, one block: the table's page, then the entries.
#[derive(Debug)]
pub(super) struct QueueMemory {
    block: HostBuffer,
    segments: u32,
    entries_per_segment: u32,
}

impl QueueMemory {
    /// Zeroed memory of this shape, declared to the card.
    pub(super) fn new(memory: &HostMemory, setup: &PortSetup) -> Result<QueueMemory, DeviceError> {
        let PortSetup { queue_bytes: bytes, segment_bytes } = *setup;
        let segment = segment_bytes.min(bytes);
        let shape = |problem| DeviceError::QueueShape { bytes, segment: segment_bytes, problem };
        if bytes == 0 || segment == 0 || !bytes.is_multiple_of(PAGE) || !segment.is_multiple_of(PAGE) {
            return Err(shape("both must be multiples of 4096 and not 0"));
        }
        if !bytes.is_multiple_of(segment) {
            return Err(shape("make the queue a multiple of the segment"));
        }
        if segment / ENTRY > 1 << 16 {
            return Err(shape("a segment has at most 65536 entries (1 MiB)"));
        }
        let segments = bytes / segment;
        if segments > regs::EXTOLL_BQ_MAX_SEGMENTS as usize {
            return Err(shape("at most 512 segments: make them larger"));
        }
        let block = HostBuffer::private(PAGE + bytes, PAGE, "a notification queue")?;
        let refused = |_| shape("the model refused its memory");
        // SAFETY: the block lives until `release` has taken the range back.
        unsafe { memory.add_range(RangeKind::Host, block.address(), block.len()) }.map_err(refused)?;
        let segments = segments as u32;
        Ok(QueueMemory { block, segments, entries_per_segment: (segment / ENTRY) as u32 })
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
    pub(super) fn program(&self, nic: &Nic, vpid: u8) -> Result<(), DeviceError> {
        let segment = |i: u32| {
            let at =
                self.block.address() + (PAGE as u64) + u64::from(i * self.entries_per_segment) * ENTRY as u64;
            BqSegment::new(SlotSize::B16, self.entries_per_segment, at).map_err(|_| self.refused())
        };
        for i in 0..self.segments {
            self.block.store_u64(8 * i as usize, segment(i)?.0);
        }
        let table = BqTable::new(self.block.address(), self.segments).map_err(|_| self.refused())?;
        let next_in_table = if self.segments >= 3 { 2 } else { 0 };
        let next = segment(if self.segments > 1 { 1 } else { 0 })?;
        nic.reg_write(regs::bq_ub(vpid), regs::BQ_UB.put(u64::from(self.entries() - 1)));
        nic.reg_write(regs::bq_table(vpid), table.0);
        nic.reg_write(regs::bq_current(vpid), segment(0)?.with_valid(true).0);
        nic.reg_write(regs::bq_next(vpid), next.with_valid(true).0);
        nic.reg_write(regs::bq_wp(vpid), BqWritePointer::new(0, next_in_table).0);
        nic.reg_write(regs::bq_rp(vpid), BqReadPointer::new(0, true).0);
        nic.reg_write(regs::bq_rp(vpid), BqReadPointer::new(0, false).0);
        Ok(())
    }

    /// Zeroes the queue's registers and takes its memory from the card. `false`: the card still uses it.
    pub(super) fn release(&self, nic: &Nic, memory: &HostMemory, vpid: u8) -> bool {
        for register in
            [regs::bq_current, regs::bq_next, regs::bq_table, regs::bq_ub, regs::bq_wp, regs::bq_rp]
        {
            nic.reg_write(register(vpid), 0);
        }
        memory.remove_range(self.block.address(), self.block.len()).is_ok()
    }

    fn refused(&self) -> DeviceError {
        let segment = self.entries_per_segment as usize * ENTRY;
        let problem = "the card cannot address it";
        DeviceError::QueueShape { bytes: self.block.len() - PAGE, segment, problem }
    }
}
