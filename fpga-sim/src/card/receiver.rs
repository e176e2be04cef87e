//! The completer's way in: from packets to bytes in memory, then to what is owed for them.

use std::collections::HashMap;
use std::sync::Arc;

use extoll_abi::{ErrorUnits, Mode, regs};

use super::ahead::Ahead;
use super::board::Board;
use super::notifier::Notifier;
use super::per_vpid::PerVpid;
use super::queue::{Queue, Waiting};
use super::translation::Translation;
use super::writing::{Step, Writing};
use crate::memory::runs::Runs;
use crate::memory::{Completion, MemoryError};
use crate::packet::{ByReference, Kind, NOBODY, Packet, Payload};
use crate::units::bits::VpidSet;
use crate::units::completer::{Completer, Delivery};
use crate::units::report::{Done, Report};

/// What became of a packet.
pub(super) enum Outcome {
    /// It is done, and reported.
    Done,
    /// A device must be waited for.
    Waits(Box<Writing>),
    /// It is for registers: they are the caller's to write, and then to [report](Receiver::report).
    Registers,
}

/// How far the oldest packet of a VPID that waits is.
pub(super) enum Progress {
    /// None waits any more.
    Nothing,
    /// A device must be waited for.
    Pending,
    /// It is done.
    Moved,
    /// As [`Outcome::Registers`].
    Registers(Packet),
}

/// Whether what a packet does is not known before its turn: where a payload goes may depend on registers that it writes, and a
/// device that copies what lies on this host may write the notification, too.
fn depends(packet: &Packet) -> bool {
    let registers = packet.mode.contains(Mode::RRA) && packet.kind == Kind::Put;
    registers || matches!(packet.payload, Payload::ByReference(_))
}

/// Answers to triggered operations that are waited for at once. Those that never come (their targets are gone) stay
/// until the VPID is closed.
const ANSWERS_MAX: usize = 1 << 16;

pub(super) struct Receiver {
    board: Arc<Board>,
    completer: Completer,
    /// Completion words of triggered gets and locks, by VPID and the requester's number.
    answers: HashMap<(u8, u32), Done>,
    /// Packets that wait for a device's copy, in order.
    waiting: PerVpid<Queue>,
    /// VPIDs with such packets.
    inbound: VpidSet,
    ahead: Ahead,
}

impl Receiver {
    pub(super) fn new(board: Arc<Board>) -> Receiver {
        Receiver {
            board,
            completer: Completer::default(),
            answers: HashMap::new(),
            waiting: PerVpid::default(),
            inbound: VpidSet::default(),
            ahead: Ahead::default(),
        }
    }

    /// Whether a packet of a VPID would wait for nothing, and has no errors of others to report.
    #[inline]
    pub(super) fn is_free(&self, vpid: u8) -> bool {
        !self.inbound.contains(vpid) & !self.completer.has_failed()
    }

    /// Has the answer to command `tag` of a VPID write a completion word. False: too many are waited for.
    pub(super) fn await_answer(&mut self, vpid: u8, tag: u32, done: Done) -> bool {
        let room = self.answers.len() < ANSWERS_MAX;
        if room {
            self.answers.insert((vpid, tag), done);
        }
        room
    }

    /// Forgets answers that a VPID which was closed waits for, and whom to tell of what came for it: who has it next is not told.
    pub(super) fn close(&mut self, vpid: u8) {
        self.answers.retain(|(of, _), _| *of != vpid);
        if let Some(queue) = self.waiting.get_mut(vpid) {
            queue.close();
        }
    }

    /// The bytes of an answer are there: is it one to a triggered operation?
    #[inline]
    fn answered(&mut self, notifier: &mut Notifier, packet: &Packet) {
        let answer = matches!(packet.kind, Kind::GetResponse | Kind::LockResponse);
        if self.answers.is_empty() || !answer || !packet.is_last() {
            return;
        }
        let vpid = packet.destination.vpid;
        if let Some(done) = self.answers.remove(&(vpid, packet.tag)) {
            notifier.complete(vpid, done, self.completer.errors(packet));
        }
    }

    /// Packets of a VPID that wait.
    #[inline]
    pub(super) fn waiting(&self, vpid: u8) -> usize {
        self.waiting.get(vpid).map_or(0, Queue::len)
    }

    /// VPIDs with packets that wait.
    #[inline]
    pub(super) fn inbound(&self) -> &VpidSet {
        &self.inbound
    }

    /// Takes a packet for the completer, or what it has; whether it is for registers, and the caller's.
    #[inline]
    pub(super) fn accept(
        &mut self,
        translation: &mut Translation,
        notifier: &mut Notifier,
        packet: &mut Packet,
    ) -> bool {
        let vpid = packet.destination.vpid;
        if self.inbound.contains(vpid) {
            self.begin_ahead(translation, packet.take());
            return false;
        }
        match self.complete(translation, notifier, packet) {
            Outcome::Done => false,
            Outcome::Registers => true,
            Outcome::Waits(writing) => {
                self.waiting.at(vpid).push(Waiting::Writing(writing));
                self.inbound.set(vpid, true);
                false
            }
        }
    }

    /// Deals with a put or a notification that waits for nothing, whose payload is `bytes` where it has none itself; false, and nothing is done:
    /// others are before it. Its payload may have to wait for a device: then it is kept with a copy of that.
    #[inline]
    pub(super) fn settle(
        &mut self,
        translation: &mut Translation,
        notifier: &mut Notifier,
        packet: &mut Packet,
        bytes: &[u8],
    ) -> bool {
        let vpid = packet.destination.vpid;
        if self.inbound.contains(vpid) {
            return false;
        }
        if !bytes.is_empty() {
            packet.payload = Payload::Placed(bytes.len() as u32);
        }
        match self.completer.receive(&mut translation.context(vpid), packet) {
            Delivery::Dropped | Delivery::Registers => return true,
            Delivery::Report => {}
            Delivery::Write(runs) => {
                let bytes = if bytes.is_empty() { packet.payload.bytes().unwrap_or_default() } else { bytes };
                let written = match runs.more.is_empty() {
                    true => self.board.memory.write_host(runs.first.address, bytes),
                    false => Err(MemoryError::Device { address: runs.first.address }),
                };
                match written {
                    Ok(()) => {}
                    Err(MemoryError::Device { .. }) => {
                        packet.payload = Payload::copy_of(bytes);
                        let writing = Writing::new(packet.take(), runs).guard(translation.hold());
                        self.waiting.at(vpid).push(Waiting::Writing(writing));
                        self.inbound.set(vpid, true);
                        return true;
                    }
                    Err(_) => self.fail(packet),
                }
            }
        }
        self.report(translation, notifier, packet);
        true
    }

    /// A packet behind others that wait. Where its bytes come from another host, they are read while those before it are.
    fn begin_ahead(&mut self, translation: &mut Translation, mut packet: Packet) {
        let vpid = packet.destination.vpid;
        let queue = self.waiting.at(vpid);
        if !queue.is_known() || depends(&packet) {
            return queue.push(Waiting::Packet(packet));
        }
        match self.completer.receive(&mut translation.context(vpid), &mut packet) {
            Delivery::Dropped | Delivery::Registers => {}
            Delivery::Report => queue.push(Waiting::Report(packet)),
            Delivery::Write(runs) => {
                let writing = Writing::new(packet, runs).guard(translation.hold());
                queue.begin(writing, &*self.board.memory, &mut self.ahead);
            }
        }
    }

    /// Goes on with the oldest packet of `vpid` that waits for a device.
    pub(super) fn go_on(
        &mut self,
        translation: &mut Translation,
        notifier: &mut Notifier,
        vpid: u8,
    ) -> Progress {
        let Some(waiting) = self.waiting.at(vpid).pop() else {
            self.inbound.set(vpid, false);
            return Progress::Nothing;
        };
        let still = match waiting {
            Waiting::Packet(mut packet) => match self.complete(translation, notifier, &mut packet) {
                Outcome::Done => return Progress::Moved,
                Outcome::Registers => return Progress::Registers(packet),
                Outcome::Waits(writing) => writing,
            },
            Waiting::Report(packet) => {
                self.report(translation, notifier, &packet);
                return Progress::Moved;
            }
            Waiting::Writing(mut writing) => match writing.advance(&*self.board.memory, &mut self.ahead) {
                Step::Pending => writing,
                step => {
                    match step {
                        Step::Lost => drop(writing),
                        step => self.end(translation, notifier, *writing, matches!(step, Step::Failed)),
                    }
                    self.waiting.at(vpid).begin_more(&*self.board.memory, &mut self.ahead);
                    return Progress::Moved;
                }
            },
        };
        self.waiting.at(vpid).put_back(still);
        Progress::Pending
    }

    /// Completes a packet, or says what has to be done first.
    #[inline]
    fn complete(
        &mut self,
        translation: &mut Translation,
        notifier: &mut Notifier,
        packet: &mut Packet,
    ) -> Outcome {
        span!("completer", to = %packet.destination, from = %packet.source, kind = ?packet.kind, len = packet.len);
        let mut cx = translation.context(packet.destination.vpid);
        match self.completer.receive(&mut cx, packet) {
            Delivery::Dropped => return Outcome::Done,
            Delivery::Report => self.report(translation, notifier, packet),
            Delivery::Registers => return Outcome::Registers,
            Delivery::Write(runs) => return self.write(translation, notifier, packet, runs),
        }
        Outcome::Done
    }

    #[inline]
    fn write(
        &mut self,
        translation: &mut Translation,
        notifier: &mut Notifier,
        packet: &mut Packet,
        runs: Runs,
    ) -> Outcome {
        let memory = &*self.board.memory;
        let (to, len) = (runs.first.address, packet.len as usize);
        // Nearly all packets: bytes to one place in host memory.
        let done = match &packet.payload {
            _ if !runs.more.is_empty() => None,
            Payload::ByReference(ByReference { first, more, .. }) if more.is_empty() => {
                let from = first.address;
                if memory.is_device(to, len)
                    && let Some(report) =
                        self.completer.report(translation.reports(packet.destination.vpid), packet)
                    && let Some((ticket, reserved)) = notifier.copy_then_notify(&report, (to, from, len))
                {
                    let writing = Writing::by_device(packet.take(), runs, ticket, Some(reserved));
                    return Outcome::Waits(writing.guard(translation.hold()));
                }
                Some(memory.copy(to, from, len))
            }
            Payload::Foreign(source) => Some(memory.copy_foreign(to, source, 0, len)),
            payload => payload.bytes().map(|bytes| memory.write(to, bytes)),
        };
        match done {
            Some(Ok(Completion::Done)) => {}
            Some(Ok(Completion::Ticket(ticket))) => {
                let writing = Writing::by_device(packet.take(), runs, ticket, None);
                return Outcome::Waits(writing.guard(translation.hold()));
            }
            Some(Err(_)) => self.fail(packet),
            None => return self.write_on(translation, notifier, Writing::new(packet.take(), runs)),
        }
        packet.payload = Payload::None;
        self.report(translation, notifier, packet);
        Outcome::Done
    }

    /// Writes as far as no device must be waited for.
    fn write_on(
        &mut self,
        translation: &mut Translation,
        notifier: &mut Notifier,
        mut writing: Writing,
    ) -> Outcome {
        match writing.advance(&*self.board.memory, &mut self.ahead) {
            Step::Pending => return Outcome::Waits(writing.guard(translation.hold())),
            Step::Done => self.end(translation, notifier, writing, false),
            Step::Failed => self.end(translation, notifier, writing, true),
            Step::Lost => {}
        }
        Outcome::Done
    }

    fn end(
        &mut self,
        translation: &mut Translation,
        notifier: &mut Notifier,
        writing: Writing,
        failed: bool,
    ) {
        let failed = if failed { self.count_failure() } else { ErrorUnits::NONE };
        let (packet, reserved) = writing.end(failed);
        match reserved {
            Some(reserved) => {
                self.answered(notifier, &packet);
                notifier.settle(reserved, packet.error);
            }
            None => self.report(translation, notifier, &packet),
        }
    }

    /// A packet's bytes could not be written.
    #[cold]
    pub(super) fn fail(&mut self, packet: &mut Packet) {
        packet.error |= self.count_failure();
    }

    #[cold]
    fn count_failure(&mut self) -> ErrorUnits {
        self.board.counters.error(regs::COMPL_TRANS);
        ErrorUnits::COMPLETER
    }

    /// Reports a packet whose bytes are where they belong.
    #[inline]
    pub(super) fn report(&mut self, translation: &mut Translation, notifier: &mut Notifier, packet: &Packet) {
        let closed = packet.process == NOBODY; // see `close`
        if !closed {
            self.answered(notifier, packet);
        }
        let reports = translation.reports(packet.destination.vpid);
        let report: Option<Report> = self.completer.report(reports, packet);
        if let Some(report) = report.filter(|_| !closed) {
            notifier.report(&report);
        }
    }
}

/// As of the [sender](super::sender::Sender): what a device still copies lives as long as the memory, unless nobody asks for it.
impl Drop for Receiver {
    fn drop(&mut self) {
        for queue in self.inbound.iter_from(0).filter_map(|vpid| self.waiting.get(vpid)) {
            queue.tickets().for_each(|ticket| self.board.memory.forget(ticket));
        }
    }
}
