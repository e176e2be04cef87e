//! Notification queues: the hardware's side of a buffer queue (spec 3.2).
//!
//! A queue is a [`Ring`] of 16-byte slots. A full queue keeps its notifications waiting, in order, until software
//! frees a slot or the timeout drops them.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use extoll_abi::{BqReadPointer, Kind, Notification};

use crate::memory::{Completion, Memory, MemoryError, Ticket, TicketState};
use crate::units::bq::Ring;

/// Unit of the bq_timeout register (spec 3.2 \[the unit is inferred\]): the driver's value 10 is one second, so a
/// consumer that merely lost its CPU for a while loses no notification.
pub const BQ_TIMEOUT_TICK: Duration = Duration::from_millis(100);

/// A notification on its way to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Queue.
    pub vpid: u8,
    /// Unit that writes it.
    pub unit: Kind,
    /// Raise the VPID's interrupt.
    pub interrupt: bool,
    /// The 16 bytes.
    pub entry: Notification,
}

/// What became of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It lies in the queue.
    Written,
    /// The queue is full (or a write is in flight): it waits.
    Waits,
    /// Dropped: no queue, a queue in memory that is not declared, or the timeout.
    Dropped,
}

/// One VPID's queue.
#[derive(Default)]
pub struct Queue {
    ring: Ring,
    backlog: VecDeque<Notice>,
    /// The read pointer at which the queue has been full, and since when.
    full: Option<(BqReadPointer, Instant)>,
    /// Timed out at this read pointer: drop until it moves.
    dropped_at: Option<BqReadPointer>,
    in_flight: Option<Ticket>,
}

impl Deref for Queue {
    type Target = Ring;

    #[inline]
    fn deref(&self) -> &Ring {
        &self.ring
    }
}

impl DerefMut for Queue {
    #[inline]
    fn deref_mut(&mut self) -> &mut Ring {
        &mut self.ring
    }
}

impl Queue {
    /// Writes register wp_lwp_dcq_rp.
    pub fn set_write_pointer(&mut self, value: u64) {
        self.ring.set_write_pointer(value);
        self.dropped_at = None;
    }

    /// Notifications that wait for a free slot.
    pub fn backlog(&self) -> usize {
        self.backlog.len()
    }

    /// Writes a notice, or keeps it in order behind those that wait. `rp` reads the queue's read pointer.
    #[inline]
    pub fn push(&mut self, memory: &dyn Memory, rp: BqReadPointer, notice: Notice) -> Fate {
        if self.backlog.is_empty() {
            if self.dropped_at.is_some_and(|at| at.index() == rp.index()) {
                return Fate::Dropped;
            }
            self.dropped_at = None;
            match self.write(memory, rp, notice.entry) {
                Fate::Waits => {}
                fate => return fate,
            }
        }
        self.backlog.push_back(notice);
        Fate::Waits
    }

    /// Bus address of the slot that the next notice goes to, if it can go there at once.
    pub fn slot(&mut self, memory: &dyn Memory, rp: BqReadPointer) -> Option<u64> {
        if self.in_flight.is_some_and(|ticket| memory.poll(ticket) == TicketState::Pending) {
            return None;
        }
        self.in_flight = None;
        let waits = !self.backlog.is_empty() || self.dropped_at.is_some_and(|at| at.index() == rp.index());
        let free = self.current.is_valid() && !waits && !self.is_full(rp);
        free.then(|| self.slot_address())
    }

    /// Leaves that slot to a device, which writes it behind a copy. Later notices go to the slots after it; the
    /// consumer comes to them when it has this one.
    pub fn pass(&mut self, memory: &dyn Memory) {
        self.dropped_at = None;
        self.advance(memory);
    }

    /// Writes what waits and now fits; after `timeout` without a free slot, drops all that waits. Calls `done`
    /// with the fate of each notice that left the backlog.
    pub fn drain(
        &mut self,
        memory: &dyn Memory,
        now: Instant,
        timeout: Option<Duration>,
        rp: impl Fn() -> BqReadPointer,
        mut done: impl FnMut(Notice, Fate),
    ) {
        while let Some(notice) = self.backlog.front().copied() {
            let at = rp();
            let fate = self.write(memory, at, notice.entry);
            if fate != Fate::Waits {
                self.full = None;
                self.backlog.pop_front();
                done(notice, fate);
                continue;
            }
            if self.in_flight.is_some() {
                return;
            }
            let since = match self.full {
                Some((full_at, since)) if full_at.index() == at.index() => since,
                _ => self.full.insert((at, now)).1,
            };
            if timeout.is_some_and(|timeout| now.saturating_duration_since(since) >= timeout) {
                self.dropped_at = Some(at);
                self.full = None;
                self.backlog.drain(..).for_each(|notice| done(notice, Fate::Dropped));
            }
            return;
        }
    }

    /// Drops what waits (the port was closed).
    pub fn clear(&mut self, mut dropped: impl FnMut(Notice)) {
        self.full = None;
        self.backlog.drain(..).for_each(&mut dropped);
    }

    #[inline]
    fn write(&mut self, memory: &dyn Memory, rp: BqReadPointer, entry: Notification) -> Fate {
        if let Some(ticket) = self.in_flight {
            if memory.poll(ticket) == TicketState::Pending {
                return Fate::Waits;
            }
            self.in_flight = None;
        }
        if !self.current.is_valid() {
            return Fate::Dropped;
        }
        if self.is_full(rp) {
            return Fate::Waits;
        }
        match self.store(memory, entry) {
            Ok(Completion::Done) => {}
            Ok(Completion::Ticket(ticket)) => self.in_flight = Some(ticket),
            Err(_) => return Fate::Dropped,
        }
        self.advance(memory);
        Fate::Written
    }

    fn store(&self, memory: &dyn Memory, entry: Notification) -> Result<Completion, MemoryError> {
        memory.store_entry(self.slot_address(), [entry.word0, entry.word1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{HostMemory, RangeKind};
    use extoll_abi::{BqSegment, BqTable, SlotSize};
    use proptest::prelude::*;
    use std::sync::Arc;

    const SLOTS: u32 = 256; // of one 4 KiB page

    /// Pages for segments and the table, and the consumer's side.
    struct Setup {
        pages: Vec<[u64; 512]>,
        base: usize,
        memory: Arc<HostMemory>,
        queue: Queue,
        rp: u32,
    }

    impl Setup {
        /// `order[i]`: which page segment i is.
        fn new(order: &[usize]) -> Setup {
            let segments = order.len();
            let pages = vec![[0u64; 512]; segments + 2];
            let raw = pages.as_ptr() as usize;
            let base = (raw.next_multiple_of(4096) - raw) / 8;
            let memory = HostMemory::new();
            // SAFETY: the pages live as long as the setup.
            unsafe { memory.add_range(RangeKind::Host, raw as u64, pages.len() * 4096).unwrap() };
            let mut setup = Setup { pages, base, memory, queue: Queue::default(), rp: 0 };
            for (i, page) in order.iter().enumerate() {
                let segment = setup.segment(*page);
                *setup.word(segments * 512 + i) = segment.0;
            }
            let table = setup.address(segments);
            setup.queue.ub = u64::from(SLOTS * segments as u32 - 1);
            setup.queue.table = BqTable::new(table, segments as u32).unwrap();
            setup.queue.current = setup.segment(order[0]).with_valid(true);
            setup.queue.next = setup.segment(order[1 % segments]).with_valid(true);
            setup.queue.set_write_pointer(if segments >= 3 { 2 } else { 0 });
            setup
        }

        fn address(&self, page: usize) -> u64 {
            self.pages.as_ptr() as u64 + 8 * self.base as u64 + 4096 * page as u64
        }

        fn segment(&self, page: usize) -> BqSegment {
            BqSegment::new(SlotSize::B16, SLOTS, self.address(page)).unwrap()
        }

        fn word(&mut self, index: usize) -> &mut u64 {
            &mut self.pages.as_flattened_mut()[self.base + index]
        }

        fn push(&mut self, value: u64) -> Fate {
            let rp = BqReadPointer::new(self.rp, false);
            self.queue.push(&*self.memory, rp, notice(value))
        }

        /// Reads and frees the next slot; segments are `order` for the reader.
        fn pop(&mut self, order: &[usize]) -> Option<u64> {
            let (segment, slot) = ((self.rp / SLOTS) as usize, (self.rp % SLOTS) as usize);
            let at = order[segment] * 512 + 2 * slot;
            let value = *self.word(at);
            if *self.word(at + 1) == 0 {
                return None;
            }
            *self.word(at + 1) = 0;
            self.rp = (self.rp + 1) % (SLOTS * order.len() as u32);
            Some(value)
        }
    }

    fn notice(value: u64) -> Notice {
        let entry = Notification { word0: value, word1: 1 };
        Notice { vpid: 0, unit: Kind::Completer, interrupt: false, entry }
    }

    proptest! {
        #[test]
        fn every_notification_arrives_once_and_in_order(
            segments in 1usize..5,
            steps in proptest::collection::vec((0u32..700, 0u32..700), 1..12),
        ) {
            let order: Vec<usize> = (0..segments).rev().collect();
            let mut setup = Setup::new(&order);
            let (mut sent, mut seen, now) = (0u64, 0u64, Instant::now());
            for (push, pop) in steps {
                for _ in 0..push {
                    setup.push(sent);
                    sent += 1;
                }
                for _ in 0..pop {
                    if let Some(value) = setup.pop(&order) {
                        prop_assert_eq!(value, seen);
                        seen += 1;
                    }
                    let (rp, memory) = (BqReadPointer::new(setup.rp, false), setup.memory.clone());
                    setup.queue.drain(&*memory, now, None, || rp, |_, fate| assert_eq!(fate, Fate::Written));
                }
                let capacity = u64::from(SLOTS) * segments as u64 - 1;
                prop_assert_eq!(setup.queue.backlog() as u64, (sent - seen).saturating_sub(capacity));
            }
        }

        #[test]
        fn hostile_registers_do_no_harm(words in proptest::collection::vec(any::<u64>(), 6), rp in any::<u64>()) {
            let mut setup = Setup::new(&[0]);
            let queue = &mut setup.queue;
            queue.ub = words[0];
            queue.table = BqTable(words[1]);
            queue.current = BqSegment(words[2]);
            queue.next = BqSegment(words[3]);
            queue.set_write_pointer(words[4]);
            let at = BqReadPointer(rp);
            for i in 0..10 {
                queue.push(&*setup.memory, at, notice(i));
                queue.drain(&*setup.memory, Instant::now(), Some(Duration::ZERO), || at, |_, _| ());
            }
            prop_assert_eq!(queue.backlog(), 0);
        }
    }

    #[test]
    fn a_full_queue_waits_then_drops_until_the_reader_moves() {
        let mut setup = Setup::new(&[0]);
        let memory = setup.memory.clone();
        for i in 0..u64::from(SLOTS) - 1 {
            assert_eq!(setup.push(i), Fate::Written);
        }
        assert_eq!(setup.push(1000), Fate::Waits);
        assert_eq!(setup.push(1001), Fate::Waits);
        let (start, timeout) = (Instant::now(), Duration::from_secs(1));
        let at = BqReadPointer::new(0, false);
        let mut dropped = 0;
        let mut drain = |queue: &mut Queue, after: u64| {
            let now = start + Duration::from_millis(after);
            queue.drain(
                &*memory,
                now,
                Some(timeout),
                || at,
                |_, fate| {
                    assert_eq!(fate, Fate::Dropped);
                    dropped += 1;
                },
            );
            dropped
        };
        assert_eq!(drain(&mut setup.queue, 0), 0);
        assert_eq!(drain(&mut setup.queue, 999), 0);
        assert_eq!(drain(&mut setup.queue, 1000), 2);
        assert_eq!(setup.push(1002), Fate::Dropped, "no further wait while nothing moves");
        assert_eq!(setup.pop(&[0]), Some(0));
        assert_eq!(setup.push(1003), Fate::Written);
    }

    #[test]
    fn an_absent_queue_drops() {
        let mut queue = Queue::default();
        let memory = HostMemory::new();
        assert_eq!(queue.push(&*memory, BqReadPointer::default(), notice(1)), Fate::Dropped);
    }
}
