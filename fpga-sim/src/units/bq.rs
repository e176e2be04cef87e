//! Buffer queues: rings of slots in memory that the card writes and software reads (spec 3.2).
//!
//! The slots lie in segments that a table lists. The unit knows the current and the next segment and fetches the one
//! after from the table.

use extoll_abi::{BqReadPointer, BqSegment, BqTable, BqWritePointer, Field};

use crate::memory::Memory;

/// Middle field of wp_lwp_dcq_rp: write pointer inside the segment \[position inferred\].
const SEGMENT_WP: Field = Field::new(16, 16);

/// The hardware's side of one queue, as its registers say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ring {
    /// Register ub: slots - 1.
    pub ub: u64,
    /// Register dcq_base_dcq_ub.
    pub table: BqTable,
    /// Register c_base_size_valid.
    pub current: BqSegment,
    /// Register n_base_size_valid.
    pub next: BqSegment,
    logical: u32,
    in_segment: u32,
    next_segment: u16,
}

impl Ring {
    /// Register wp_lwp_dcq_rp.
    pub fn write_pointer(&self) -> u64 {
        BqWritePointer::new(self.logical, self.next_segment).0 | SEGMENT_WP.put(u64::from(self.in_segment))
    }

    /// Writes register wp_lwp_dcq_rp.
    pub fn set_write_pointer(&mut self, value: u64) {
        let pointer = BqWritePointer(value);
        self.logical = pointer.logical();
        self.next_segment = pointer.next_segment();
        self.in_segment = SEGMENT_WP.get(value) as u32;
    }

    /// Whether the next write would find the queue full (one slot stays free, spec 3.2 \[inferred\]).
    #[inline]
    pub fn is_full(&self, rp: BqReadPointer) -> bool {
        self.following() == rp.index()
    }

    /// Whether software has read everything up to `rp`.
    pub fn is_empty(&self, rp: BqReadPointer) -> bool {
        self.free(rp) == self.capacity()
    }

    /// Slots that software may use at once.
    #[inline]
    pub fn capacity(&self) -> u64 {
        self.ub & 0xffff_ffff
    }

    /// Slots that may be written before software frees another.
    #[inline]
    pub fn free(&self, rp: BqReadPointer) -> u64 {
        let slots = self.capacity() + 1;
        let (written, read) = (u64::from(self.logical) % slots, u64::from(rp.index()) % slots);
        let used = if written >= read { written - read } else { written + slots - read };
        self.capacity() - used
    }

    /// Bus address of the slot to write next.
    #[inline]
    pub fn slot_address(&self) -> u64 {
        let slot = u64::from(self.in_segment) * u64::from(self.current.slot_size().bytes());
        // A 52-bit address and a 23-bit offset: no overflow.
        self.current.address() + slot
    }

    /// Goes on to the next slot.
    #[inline]
    pub fn advance(&mut self, memory: &dyn Memory) {
        self.logical = self.following();
        self.in_segment += 1;
        if self.in_segment >= self.current.slots() {
            self.in_segment = 0;
            self.current = self.next;
            self.fetch(memory);
        }
    }

    #[inline]
    fn following(&self) -> u32 {
        if u64::from(self.logical) >= self.capacity() { 0 } else { self.logical + 1 }
    }

    /// Next segment from the table, in a ring.
    fn fetch(&mut self, memory: &dyn Memory) {
        let last = self.table.segments() - 1;
        let index = u32::from(self.next_segment).min(last);
        let entry = memory.load(self.table.address() + 8 * u64::from(index));
        self.next = entry.map_or(BqSegment(0), |value| BqSegment(value).with_valid(true));
        self.next_segment = if index >= last { 0 } else { (index + 1) as u16 };
    }
}
