//! The notification writer: what units owe to software goes into the queues of its VPIDs, in order (spec 3).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use extoll_abi::{BqReadPointer, BqSegment, BqTable, ErrorUnits, Kind as Unit, regs};

use super::arming::Unarmed;
use super::board::Board;
use super::offsets::{self, element, page};
use super::per_vpid::PerVpid;
use crate::memory::Ticket;
use crate::packet::HoldState;
use crate::units::bits::VpidSet;
use crate::units::counters;
use crate::units::notify::{BQ_TIMEOUT_TICK, Fate, Notice, Queue};
use crate::units::report::{Done, Report};
use crate::units::snq::Trigger;

/// Reports of one VPID that may wait for their sources before its next command does.
const AWAITING_MAX: usize = 1024;

/// A queue's slot that a device writes, and what it writes there.
pub(super) struct Reserved {
    slot: u64,
    notice: Notice,
}

/// Of one VPID.
#[derive(Default)]
struct Port {
    queue: Queue,
    /// Reports in the order of their commands; those with a hold wait until nobody reads the source any more.
    awaiting: VecDeque<(Option<Arc<HoldState>>, Report)>,
}

pub(super) struct Notifier {
    board: Arc<Board>,
    ports: PerVpid<Port>,
    /// VPIDs with reports that wait for their sources.
    awaiting: VpidSet,
    /// VPIDs with notifications that wait for room.
    backlog: VpidSet,
    /// VPIDs with an interrupt that was raised, for its microcode.
    interrupts: VpidSet,
    /// VPIDs with an interrupt that follows once software arms it.
    retrigger: Unarmed,
    /// Completion words of triggered operations that are due.
    done: Vec<(u8, Done, ErrorUnits)>,
    /// A notification was written since someone asked.
    written: bool,
    /// Scratch space of [`Notifier::drain`].
    gone: Vec<(Notice, Fate)>,
}

impl Notifier {
    pub(super) fn new(board: Arc<Board>) -> Notifier {
        Notifier {
            board,
            ports: PerVpid::default(),
            awaiting: VpidSet::default(),
            backlog: VpidSet::default(),
            interrupts: VpidSet::default(),
            retrigger: Unarmed::default(),
            done: Vec::new(),
            written: false,
            gone: Vec::new(),
        }
    }

    /// Whether reports of another command of this VPID can be taken: not while its queue is full.
    #[inline]
    pub(super) fn takes_commands(&self, vpid: u8) -> bool {
        self.ports
            .get(vpid)
            .is_none_or(|port| port.queue.backlog() == 0 && port.awaiting.len() < AWAITING_MAX)
    }

    /// Notifications of a VPID that wait for room in its queue.
    #[inline]
    pub(super) fn backlog(&self, vpid: u8) -> usize {
        self.ports.get(vpid).map_or(0, |port| port.queue.backlog())
    }

    /// Whether a VPID has no report that waits for its source.
    pub(super) fn is_idle(&self, vpid: u8) -> bool {
        !self.awaiting.contains(vpid)
    }

    /// Whether notifications wait for room.
    #[inline]
    pub(super) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Whether reports wait for their sources.
    #[inline]
    pub(super) fn has_awaiting(&self) -> bool {
        !self.awaiting.is_empty()
    }

    /// Whether there are interrupts that follow once software arms them.
    #[inline]
    pub(super) fn remembers(&self) -> bool {
        !self.retrigger.is_empty()
    }

    /// Whether a notification was written; asking takes it.
    #[inline]
    pub(super) fn take_written(&mut self) -> bool {
        std::mem::take(&mut self.written)
    }

    /// Reports once `hold` is over, behind everything this VPID has yet to report.
    pub(super) fn report_after(&mut self, hold: Option<Arc<HoldState>>, report: Report) {
        let port = self.ports.at(report.vpid);
        if port.awaiting.is_empty() && hold.as_ref().is_none_or(|hold| hold.is_done()) {
            self.report(&report);
            return;
        }
        port.awaiting.push_back((hold, report));
        self.awaiting.set(report.vpid, true);
    }

    /// Reports whatever need not wait any more.
    pub(super) fn finish_awaited(&mut self) -> bool {
        let mut moved = false;
        for vpid in self.awaiting.iter_from(0) {
            while let Some(report) = self.next_awaited(vpid) {
                self.report(&report);
                moved = true;
            }
        }
        moved
    }

    fn next_awaited(&mut self, vpid: u8) -> Option<Report> {
        let queue = &mut self.ports.at(vpid).awaiting;
        let over = queue.front().is_none_or(|(hold, _)| hold.as_ref().is_none_or(|hold| hold.is_done()));
        let next = if over { queue.pop_front() } else { None };
        let empty = queue.is_empty();
        self.awaiting.set(vpid, !empty);
        next.map(|(_, report)| report)
    }

    /// Writes a report's notifications.
    #[inline]
    pub(super) fn report(&mut self, report: &Report) {
        if self.board.state.entry(report.vpid).is_open() {
            report.notices(|notice| self.notify(notice));
            if let Some(done) = report.done {
                self.done.push((report.vpid, done, report.header.error));
            }
        }
    }

    /// Where the next notification of a VPID goes, if it can go there at once; who writes it there says [so](Notifier::filled).
    #[inline]
    pub(super) fn slot(&mut self, vpid: u8) -> Option<u64> {
        let enabled = regs::BQ_ENABLE.is_set(self.board.state.bq_general());
        let at = self.rp(vpid);
        let port = self.ports.get_mut(vpid).filter(|_| enabled)?;
        port.queue.slot(&*self.board.memory, at)
    }

    /// A notification of the completer, without an interrupt, was written to that slot.
    #[inline]
    pub(super) fn filled(&mut self, vpid: u8) {
        if let Some(port) = self.ports.get_mut(vpid) {
            port.queue.pass(&*self.board.memory);
        }
        self.written = true;
        self.board.counters.add(counters::COMPL_NOTIFICATIONS, 1);
    }

    /// A completion word is due.
    pub(super) fn complete(&mut self, vpid: u8, done: Done, error: ErrorUnits) {
        self.done.push((vpid, done, error));
    }

    /// Whether completion words are due.
    #[inline]
    pub(super) fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Completion words that are due, in order; whoever takes them writes them, which sleepers are told of.
    pub(super) fn take_done(&mut self) -> Vec<(u8, Done, ErrorUnits)> {
        self.written |= !self.done.is_empty();
        std::mem::take(&mut self.done)
    }

    #[inline]
    fn rp(&self, vpid: u8) -> BqReadPointer {
        BqReadPointer(self.board.pages.rp(vpid).load(Ordering::Acquire))
    }

    #[inline]
    fn notify(&mut self, notice: Notice) {
        span!("notification", node = self.board.node, vpid = notice.vpid, unit = ?notice.unit);
        let fate = if regs::BQ_ENABLE.is_set(self.board.state.bq_general()) {
            let at = self.rp(notice.vpid);
            self.ports.at(notice.vpid).queue.push(&*self.board.memory, at, notice)
        } else {
            Fate::Dropped
        };
        match fate {
            Fate::Waits => self.backlog.set(notice.vpid, true),
            Fate::Written | Fate::Dropped => self.account(notice, fate),
        }
    }

    /// Has a device copy and then write the one notification that follows, where that is possible. The notification
    /// is accounted for once the ticket is done.
    pub(super) fn copy_then_notify(
        &mut self,
        report: &Report,
        (destination, source, len): (u64, u64, usize),
    ) -> Option<(Ticket, Reserved)> {
        let (mut notices, mut notice) = (0, None);
        report.notices(|n| {
            notices += 1;
            notice = Some(n);
        });
        let notice = notice.filter(|n| notices == 1 && !n.interrupt)?;
        if !regs::BQ_ENABLE.is_set(self.board.state.bq_general()) {
            return None;
        }
        let at = self.rp(notice.vpid);
        let memory = &*self.board.memory;
        let queue = &mut self.ports.at(notice.vpid).queue;
        let slot = queue.slot(memory, at)?;
        let word = [notice.entry.word0, notice.entry.word1];
        let ticket = memory.copy_then_entry(destination, source, len, slot, word)?;
        queue.pass(memory);
        Some((ticket, Reserved { slot, notice }))
    }

    /// The device is done with a reserved slot, or has failed: then the notification, with its error, is ours to
    /// write.
    pub(super) fn settle(&mut self, reserved: Reserved, error: ErrorUnits) {
        let Reserved { slot, notice } = reserved;
        if !error.is_empty() {
            let entry = notice.entry.with_error(error);
            // A queue that is gone has no reader.
            let _ = self.board.memory.store_entry(slot, [entry.word0, entry.word1]);
        }
        self.account(notice, Fate::Written);
    }

    /// Writes waiting notifications that now fit, and drops those whose time is over.
    pub(super) fn drain(&mut self, now: Instant) -> bool {
        let timeout = timeout(self.board.state.bq_timeout());
        let mut gone = std::mem::take(&mut self.gone);
        for vpid in self.backlog.iter_from(0) {
            let board = &*self.board;
            let queue = &mut self.ports.at(vpid).queue;
            queue.drain(
                &*board.memory,
                now,
                timeout,
                || BqReadPointer(board.pages.rp(vpid).load(Ordering::Acquire)),
                |notice, fate| gone.push((notice, fate)),
            );
            let empty = queue.backlog() == 0;
            self.backlog.set(vpid, !empty);
        }
        let moved = !gone.is_empty();
        gone.drain(..).for_each(|(notice, fate)| self.account(notice, fate));
        self.gone = gone;
        moved
    }

    /// Counts what became of a notification, and raises its interrupt.
    #[inline]
    fn account(&mut self, notice: Notice, fate: Fate) {
        let counters = &self.board.counters;
        if fate != Fate::Written {
            counters.error(match notice.unit {
                Unit::Requester => regs::REQ_BQT,
                Unit::Responder => regs::RESP_BQT,
                Unit::Completer => regs::COMPL_BQT,
            });
            self.board.state.count_queue_error(notice.vpid);
            self.board.raise(Trigger::BqError);
            return;
        }
        self.written = true;
        let (written, interrupts) = match notice.unit {
            Unit::Requester => (counters::REQ_NOTIFICATIONS, counters::REQ_INTERRUPTS),
            Unit::Responder => (counters::RESP_NOTIFICATIONS, counters::RESP_INTERRUPTS),
            Unit::Completer => (counters::COMPL_NOTIFICATIONS, counters::COMPL_INTERRUPTS),
        };
        counters.add(written, 1);
        if notice.interrupt && self.interrupt(notice.vpid) {
            self.board.counters.add(interrupts, 1);
        }
    }

    /// Raises a VPID's interrupt if software armed it; else remembers to (spec 3.2, 3.3).
    fn interrupt(&mut self, vpid: u8) -> bool {
        if !self.retrigger.take_or_remember(vpid, self.board.pages.rp(vpid)) {
            return false;
        }
        self.interrupts.set(vpid, true);
        self.board.raise(Trigger::RmaNotification);
        true
    }

    /// Raises interrupts that were remembered until software arms them.
    pub(super) fn retrigger_armed(&mut self) -> bool {
        let Notifier { board, ports, interrupts, retrigger, .. } = self;
        retrigger.retrigger(
            |vpid| board.pages.rp(vpid),
            |vpid, rp| ports.at(vpid).queue.is_empty(rp),
            |vpid| {
                interrupts.set(vpid, true);
                board.raise(Trigger::RmaNotification);
            },
        )
    }

    /// Forgets everything of a VPID that was closed.
    pub(super) fn close(&mut self, vpid: u8) {
        if let Some(port) = self.ports.get_mut(vpid) {
            port.awaiting.clear();
            port.queue.clear(|_| ());
        }
        self.awaiting.set(vpid, false);
        self.backlog.set(vpid, false);
        self.retrigger.forget(vpid);
        self.done.retain(|(of, ..)| *of != vpid);
    }

    /// Reads a register of the queues; `None` for offsets of others.
    pub(super) fn reg_read(&mut self, offset: u64) -> Option<u64> {
        use regs::*;
        if let Some(v) = page(offset, EXTOLL_RF_BQ_RMA_RP) {
            return Some(self.rp(v).0);
        }
        if let Some((array, v)) = offsets::queue(offset, EXTOLL_RF_BQ_RMA_UB, EXTOLL_RF_BQ_RMA_WP) {
            let Some(port) = self.ports.get(v) else { return Some(0) };
            return Some(match array {
                EXTOLL_RF_BQ_RMA_UB => port.queue.ub,
                EXTOLL_RF_BQ_RMA_DCQ => port.queue.table.0,
                EXTOLL_RF_BQ_RMA_CURRENT => port.queue.current.0,
                EXTOLL_RF_BQ_RMA_NEXT => port.queue.next.0,
                _ => port.queue.write_pointer(),
            });
        }
        if let Some((i, 0)) = element(offset, EXTOLL_RF_RMA_INT_VEC, 8, 4) {
            return Some(self.interrupts.take_word(i)); // read by the interrupt's microcode: taken [inferred]
        }
        match element(offset, EXTOLL_RF_RMA_INT_RETRIG_VEC, 8, 4) {
            Some((i, 0)) => Some(self.retrigger.word(i)),
            _ => None,
        }
    }

    /// Writes a register of the queues; false for offsets of others. What belongs to a VPID that another process of
    /// the node serves stays as it is.
    pub(super) fn reg_write(&mut self, offset: u64, value: u64) -> bool {
        use regs::*;
        let state = &self.board.state;
        if let Some(v) = page(offset, EXTOLL_RF_BQ_RMA_RP) {
            if state.serves(v) {
                self.board.pages.rp(v).store(value, Ordering::Release);
            }
            return true;
        }
        let Some((array, v)) = offsets::queue(offset, EXTOLL_RF_BQ_RMA_UB, EXTOLL_RF_BQ_RMA_WP) else {
            return false;
        };
        if state.serves(v) {
            let queue = &mut self.ports.at(v).queue;
            match array {
                EXTOLL_RF_BQ_RMA_UB => queue.ub = value,
                EXTOLL_RF_BQ_RMA_DCQ => queue.table = BqTable(value),
                EXTOLL_RF_BQ_RMA_CURRENT => queue.current = BqSegment(value),
                EXTOLL_RF_BQ_RMA_NEXT => queue.next = BqSegment(value),
                _ => queue.set_write_pointer(value),
            }
        }
        true
    }
}

/// bq_timeout register (spec 3.2): [31:0] value, [32] enable \[inferred; any enable bit above the value\].
fn timeout(register: u64) -> Option<Duration> {
    (register >> 32 != 0).then(|| BQ_TIMEOUT_TICK.saturating_mul(register as u32))
}
