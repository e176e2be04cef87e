//! The system notification queue's place in the card: its registers, what triggers it, where its entries and
//! interrupts go. Only in a card that has its node to itself: the kernel that drives a card runs no others.

use std::sync::Arc;

use extoll_abi::regs::*;

use super::board::Board;
use crate::units::snq::{Entry, Snq, Trigger};
use crate::units::timer::Timer;

/// Trigger of global interrupt 0 (spec 8.1, 8.2).
const GLOBAL_INTERRUPT: u64 = 0x45_0000;

pub(super) struct SystemQueue {
    board: Arc<Board>,
    snq: Snq,
    timer: Timer,
}

impl SystemQueue {
    pub(super) fn new(board: Arc<Board>) -> SystemQueue {
        SystemQueue { board, snq: Snq::default(), timer: Timer::default() }
    }

    /// Takes over the triggers that were raised.
    #[inline]
    fn latch(&mut self) {
        let raised = self.board.take_triggers();
        if raised != 0 {
            self.snq.latch(raised);
        }
    }

    /// Whether the kernel uses the queue.
    #[inline]
    pub(super) fn executes(&self) -> bool {
        self.snq.executes()
    }

    /// Whether the card has to look at the time.
    #[inline]
    pub(super) fn has_timer(&self) -> bool {
        self.timer.runs()
    }

    /// Whether a program waits to run, or a trigger for being looked at.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.has_program() || self.is_called()
    }

    /// Whether a program waits to run.
    #[inline]
    pub(super) fn has_program(&self) -> bool {
        self.snq.is_ready()
    }

    /// Whether a trigger waits for being looked at.
    #[inline]
    pub(super) fn is_called(&self) -> bool {
        self.snq.executes() && self.board.has_triggers()
    }

    /// Takes over triggers, those of the timer as well; whether there were any.
    pub(super) fn look(&mut self) -> bool {
        let before = self.snq.pending();
        if self.timer.runs() && self.timer.take(self.board.clock.now()) {
            self.board.raise(Trigger::Timer);
        }
        self.latch();
        self.snq.pending() != before
    }

    /// The unit, to run the next trigger's program, if one waits: its program reads registers of the whole card, its
    /// own it cannot read. To be given [back](SystemQueue::end).
    pub(super) fn begin(&mut self) -> Option<Snq> {
        self.snq.is_ready().then(|| std::mem::take(&mut self.snq))
    }

    /// The unit is back, its program has run.
    pub(super) fn end(&mut self, unit: Snq) {
        let meanwhile = std::mem::replace(&mut self.snq, unit);
        self.snq.latch(meanwhile.pending());
        self.interrupt();
    }

    /// Writes an entry. Memory that is not there is the driver's error; nobody can be told.
    pub(super) fn write(board: &Board, entry: Entry) {
        let mut bytes = [0; 64];
        let words = bytes.as_chunks_mut::<8>().0.iter_mut().zip(entry.word);
        words.for_each(|(to, word)| *to = word.to_le_bytes());
        let _ = board.memory.write(entry.address, &bytes);
    }

    fn interrupt(&mut self) {
        if self.snq.take_interrupt() {
            self.board.interrupt();
        }
    }

    /// Reads a register of the queue; `None` for others, and where other processes share the node.
    pub(super) fn reg_read(&mut self, offset: u64) -> Option<u64> {
        if self.board.state.is_shared() {
            return None;
        }
        if offset == EXTOLL_RF_INFO_TIMER {
            return Some(self.timer.read());
        }
        if !(EXTOLL_RF_SNQ_TRIGGER_ENABLE..EXTOLL_RF_SNQ_PROGRAM + 0x800).contains(&offset) {
            return None;
        }
        self.latch();
        Some(self.snq.reg_read(offset).unwrap_or(0))
    }

    /// Writes a register of the queue, and notices writes to others that trigger it; false unless it was the queue's.
    pub(super) fn reg_write(&mut self, offset: u64, value: u64) -> bool {
        if self.board.state.is_shared() {
            return false;
        }
        match offset {
            EXTOLL_RF_INFO_NETWORK_STATE if self.board.state.read(offset) != Some(value) => {
                self.board.raise(Trigger::NetworkState);
            }
            EXTOLL_RF_INFO_TIMER => {
                self.timer.write(value, self.board.clock.now());
                return true;
            }
            GLOBAL_INTERRUPT if value & 1 != 0 => self.board.raise(Trigger::Global),
            _ => {}
        }
        self.latch();
        let ours = self.snq.reg_write(offset, value);
        // A new watermark may be one that was passed already.
        self.interrupt();
        ours
    }
}
