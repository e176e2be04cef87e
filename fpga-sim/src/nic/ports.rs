//! What the card keeps for each VPID in use, and its notification queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use extoll_abi::{BqReadPointer, ErrorUnits, Kind as Unit, regs};

use super::Nic;
use super::core::Core;
use super::receive::Waiting;
use super::send::Sending;
use super::slots::Slots;
use super::snq::take_armed;
use crate::counters;
use crate::memory::Ticket;
use crate::notify::{BQ_TIMEOUT_TICK, Fate, Notice, Queue};
use crate::packet::HoldState;
use crate::report::Report;
use crate::snq::Trigger;

/// A queue's slot that a device writes, and what it writes there.
pub(super) struct Reserved {
    slot: u64,
    notice: Notice,
}

/// One VPID.
#[derive(Default)]
pub(super) struct Port {
    pub(super) queue: Queue,
    pub(super) slots: Option<Slots>,
    /// The requester's command that the fabric has not taken in whole.
    pub(super) sending: Option<Box<Sending>>,
    /// Reports in the order of their commands; those with a hold wait until nobody reads the source any more.
    pub(super) awaiting: VecDeque<(Option<Arc<HoldState>>, Report)>,
    /// The completer's packets that wait for a device's copy, in order.
    pub(super) inbound: VecDeque<Waiting>,
}

fn rp(nic: &Nic, vpid: u8) -> BqReadPointer {
    BqReadPointer(nic.pages.rp(vpid).load(Ordering::Acquire))
}

/// bq_timeout register (spec 3.2): [31:0] value, [32] enable \[inferred; any enable bit above the value\].
fn bq_timeout(nic: &Nic) -> Option<Duration> {
    let register = nic.state.bq_timeout();
    (register >> 32 != 0).then(|| BQ_TIMEOUT_TICK.saturating_mul(register as u32))
}

impl Core {
    /// State of a VPID, made on first use.
    #[inline]
    pub(super) fn port(&mut self, vpid: u8) -> &mut Port {
        self.ports[usize::from(vpid)].get_or_insert_default()
    }

    /// Reports once `hold` is over, behind everything this VPID has yet to report.
    pub(super) fn report_after(&mut self, nic: &Nic, hold: Option<Arc<HoldState>>, report: Report) {
        let port = self.port(report.vpid);
        if port.awaiting.is_empty() && hold.as_ref().is_none_or(|hold| hold.is_done()) {
            self.report(nic, &report);
            return;
        }
        port.awaiting.push_back((hold, report));
        self.awaiting.set(report.vpid, true);
    }

    /// Reports whatever need not wait any more.
    pub(super) fn finish_awaited(&mut self, nic: &Nic) -> bool {
        let mut moved = false;
        for vpid in self.awaiting.iter_from(0) {
            loop {
                let queue = &mut self.port(vpid).awaiting;
                match queue.front() {
                    None => self.awaiting.set(vpid, false),
                    Some((Some(hold), _)) if !hold.is_done() => {}
                    Some(_) => {
                        if let Some((_, report)) = queue.pop_front() {
                            self.report(nic, &report);
                            moved = true;
                        }
                        continue;
                    }
                }
                break;
            }
        }
        moved
    }

    /// Writes a report's notifications.
    pub(super) fn report(&mut self, nic: &Nic, report: &Report) {
        if nic.state.entry(report.vpid).is_open() {
            report.notices(|notice| self.notify(nic, notice));
        }
    }

    #[inline]
    fn notify(&mut self, nic: &Nic, notice: Notice) {
        let fate = if regs::BQ_ENABLE.is_set(nic.state.bq_general()) {
            let at = rp(nic, notice.vpid);
            self.port(notice.vpid).queue.push(&*nic.memory, at, notice)
        } else {
            Fate::Dropped
        };
        match fate {
            Fate::Waits => self.backlog.set(notice.vpid, true),
            Fate::Written | Fate::Dropped => self.account(nic, notice, fate),
        }
    }

    /// Has a device copy and then write the one notification that follows, where that is possible. The notification
    /// is accounted for once the ticket is done.
    pub(super) fn copy_then_notify(
        &mut self,
        nic: &Nic,
        report: &Report,
        (destination, source, len): (u64, u64, usize),
    ) -> Option<(Ticket, Reserved)> {
        let (mut notices, mut notice) = (0, None);
        report.notices(|n| {
            notices += 1;
            notice = Some(n);
        });
        let notice = notice.filter(|n| notices == 1 && !n.interrupt)?;
        if !regs::BQ_ENABLE.is_set(nic.state.bq_general()) {
            return None;
        }
        let (memory, at) = (&*nic.memory, rp(nic, notice.vpid));
        let queue = &mut self.port(notice.vpid).queue;
        let slot = queue.slot(memory, at)?;
        let word = [notice.entry.word0, notice.entry.word1];
        let ticket = memory.copy_then_entry(destination, source, len, slot, word)?;
        queue.pass(memory);
        Some((ticket, Reserved { slot, notice }))
    }

    /// The device is done with a reserved slot, or has failed: then the notification, with its error, is ours to
    /// write.
    pub(super) fn settle(&mut self, nic: &Nic, reserved: Reserved, error: ErrorUnits) {
        let Reserved { slot, notice } = reserved;
        if !error.is_empty() {
            let entry = notice.entry.with_error(error);
            // A queue that is gone has no reader.
            let _ = nic.memory.store_entry(slot, [entry.word0, entry.word1]);
        }
        self.account(nic, notice, Fate::Written);
    }

    /// Writes waiting notifications that now fit, and drops those whose time is over.
    pub(super) fn drain_queues(&mut self, nic: &Nic, now: Instant) -> bool {
        let timeout = bq_timeout(nic);
        let mut gone = std::mem::take(&mut self.gone);
        for vpid in self.backlog.iter_from(0) {
            let queue = &mut self.port(vpid).queue;
            queue.drain(
                &*nic.memory,
                now,
                timeout,
                || rp(nic, vpid),
                |notice, fate| gone.push((notice, fate)),
            );
            let empty = queue.backlog() == 0;
            self.backlog.set(vpid, !empty);
        }
        let moved = !gone.is_empty();
        gone.drain(..).for_each(|(notice, fate)| self.account(nic, notice, fate));
        self.gone = gone;
        moved
    }

    /// Counts what became of a notification, and raises its interrupt.
    fn account(&mut self, nic: &Nic, notice: Notice, fate: Fate) {
        if fate != Fate::Written {
            self.counters.error(match notice.unit {
                Unit::Requester => regs::REQ_BQT,
                Unit::Responder => regs::RESP_BQT,
                Unit::Completer => regs::COMPL_BQT,
            });
            nic.state.count_queue_error(notice.vpid);
            self.snq.raise(Trigger::BqError);
            return;
        }
        self.notified = true;
        let (written, interrupts) = match notice.unit {
            Unit::Requester => (counters::REQ_NOTIFICATIONS, counters::REQ_INTERRUPTS),
            Unit::Responder => (counters::RESP_NOTIFICATIONS, counters::RESP_INTERRUPTS),
            Unit::Completer => (counters::COMPL_NOTIFICATIONS, counters::COMPL_INTERRUPTS),
        };
        self.counters.add(written, 1);
        if notice.interrupt && self.interrupt(nic, notice.vpid) {
            self.counters.add(interrupts, 1);
        }
    }

    /// Raises a VPID's interrupt if software armed it; else remembers to (spec 3.2, 3.3).
    fn interrupt(&mut self, nic: &Nic, vpid: u8) -> bool {
        if !take_armed(nic.pages.rp(vpid)) {
            self.retrigger.set(vpid, true);
            return false;
        }
        self.interrupts.set(vpid, true);
        self.snq.raise(Trigger::RmaNotification);
        true
    }
}
