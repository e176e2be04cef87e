//! The completer's and responder's way in: from packets to bytes in memory.

use std::sync::Arc;

use extoll_abi::{ErrorUnits, regs};

use super::Nic;
use super::access::{read_registers, write_registers};
use super::core::{Core, context};
use super::ports::Reserved;
use crate::completer::Delivery;
use crate::lock::Locks;
use crate::memory::{Completion, Memory, Ticket, TicketState};
use crate::packet::{ByReference, Class, Hold, HoldState, Kind, Packet, Payload};
use crate::report::Report;
use crate::responder::{self, Answer};
use crate::runs::{Cursor, Runs};

/// Packets taken in one go, of each class.
const PACKETS: usize = 64;
/// Bytes after which no further packet is taken in this go.
const BYTES: u64 = 256 << 10;
/// Responses and waiting writes beyond which no further request is taken: the network holds them back.
const WAITING_MAX: usize = 64;

/// A packet of a VPID whose completer waits for a device.
pub(super) enum Waiting {
    /// Its bytes are being written.
    Writing(Box<Writing>),
    /// It comes after one whose bytes are.
    Packet(Packet),
}

/// A payload on its way into memory.
pub(super) struct Writing {
    packet: Packet,
    target: Cursor,
    /// Where a payload by reference is read.
    source: Option<Cursor>,
    ticket: Option<Ticket>,
    /// Bytes that the ticket moves.
    moving: u32,
    /// Shows to flushes that pages are in use.
    hold: Option<(Hold, Arc<HoldState>)>,
    /// The notification that the device writes behind the bytes.
    reserved: Option<Reserved>,
}

enum Step {
    Done,
    Pending,
    Failed,
}

impl Core {
    /// Takes what the network brought. Responses come first and are never held up.
    pub(super) fn receive(&mut self, nic: &Nic) -> bool {
        let mut moved = false;
        let mut left = false;
        let mut bytes = 0;
        for taken in 0.. {
            if taken == PACKETS || bytes >= BYTES {
                left = true;
                break;
            }
            let Some(packet) = nic.fabric.poll(self.node, Class::Response) else { break };
            bytes += u64::from(packet.len);
            self.accept(nic, packet);
            moved = true;
        }
        for taken in 0.. {
            if taken == PACKETS || bytes >= BYTES {
                left = true;
                break;
            }
            let packet = self.held.take().or_else(|| nic.fabric.poll(self.node, Class::Request));
            let Some(packet) = packet else { break };
            if !self.has_room(nic, &packet) {
                self.held = Some(packet);
                break;
            }
            bytes += u64::from(packet.len);
            self.accept(nic, packet);
            moved = true;
        }
        self.arrivals = left || self.held.is_some();
        moved
    }

    /// Whether the unit that takes this request can: a full queue or a busy device holds the network back, as on
    /// the card, until the queue's timeout (spec 3.2).
    fn has_room(&self, nic: &Nic, packet: &Packet) -> bool {
        if nic.state.is_foreign(packet) {
            return self.responses.len() < WAITING_MAX;
        }
        if packet.kind == Kind::Velo {
            return self.velo.has_room(packet.destination.vpid);
        }
        let port = self.ports[usize::from(packet.destination.vpid)].as_ref();
        let free = port.is_none_or(|p| p.queue.backlog() < WAITING_MAX && p.inbound.len() < WAITING_MAX);
        match packet.kind {
            Kind::Get | Kind::Lock => free && self.responses.len() < WAITING_MAX,
            Kind::SmfuStore => self.smfu.len() < WAITING_MAX,
            Kind::SmfuLoad => self.smfu.len() < WAITING_MAX && self.responses.len() < WAITING_MAX,
            _ => free,
        }
    }

    #[inline]
    fn accept(&mut self, nic: &Nic, packet: Packet) {
        if nic.state.is_foreign(&packet) {
            return self.act_for_target(nic, packet);
        }
        match packet.kind {
            Kind::Get | Kind::Lock => self.answer(nic, &packet),
            Kind::Put | Kind::Notification | Kind::GetResponse | Kind::LockResponse => {
                let vpid = packet.destination.vpid;
                if self.inbound.contains(vpid) {
                    self.port(vpid).inbound.push_back(Waiting::Packet(packet));
                } else if let Some(writing) = self.complete(nic, packet) {
                    self.port(vpid).inbound.push_back(Waiting::Writing(writing));
                    self.inbound.set(vpid, true);
                }
            }
            Kind::Velo => self.velo_accept(nic, &packet),
            Kind::SmfuStore | Kind::SmfuLoad | Kind::SmfuReply => self.smfu_accept(nic, packet),
        }
    }

    fn answer(&mut self, nic: &Nic, packet: &Packet) {
        let locks = Locks { base: self.lock_base, config: nic.state.lock_config() };
        let mut cx = context!(self, nic, packet.destination.vpid);
        match responder::receive(&mut cx, &locks, packet) {
            Answer::Dropped => {}
            Answer::Send(job) => self.respond(nic, job),
            Answer::Registers(mut job, offset) => {
                job.packet.payload = read_registers(offset, job.packet.total, |at| self.reg_read(nic, at));
                self.respond(nic, job);
            }
        }
    }

    /// Completes a packet, or says what has to be waited for first.
    #[inline]
    fn complete(&mut self, nic: &Nic, mut packet: Packet) -> Option<Box<Writing>> {
        let mut cx = context!(self, nic, packet.destination.vpid);
        match self.completer.receive(&mut cx, &mut packet) {
            Delivery::Dropped => return None,
            Delivery::Report => {}
            Delivery::Registers => {
                let write = |at, word| self.reg_write(nic, at, word);
                if write_registers(&*nic.memory, &mut packet, write).is_err() {
                    self.fail_write(&mut packet);
                }
            }
            Delivery::Write(runs) => return self.write(nic, packet, runs),
        }
        self.report_packet(nic, &packet);
        None
    }

    #[inline]
    fn write(&mut self, nic: &Nic, mut packet: Packet, runs: Runs) -> Option<Box<Writing>> {
        // Nearly all packets: bytes to one place in host memory.
        if runs.more.is_empty() {
            let done = match &packet.payload {
                Payload::ByReference(ByReference { first, more, .. }) if more.is_empty() => {
                    let (to, from, len) = (runs.first.address, first.address, packet.len as usize);
                    if nic.memory.is_device(to, len)
                        && let Some(report) = self.completer_report(nic, &packet)
                        && let Some((ticket, reserved)) = self.copy_then_notify(nic, &report, (to, from, len))
                    {
                        let mut writing = Writing::new(packet, runs);
                        writing.wait_for(ticket, writing.packet.len);
                        writing.reserved = Some(reserved);
                        return Some(self.guard(nic, writing));
                    }
                    nic.memory.copy(runs.first.address, first.address, packet.len as usize)
                }
                Payload::Foreign(source) => {
                    nic.memory.copy_foreign(runs.first.address, source, 0, packet.len as usize)
                }
                payload => match payload.bytes() {
                    Some(bytes) => nic.memory.write(runs.first.address, bytes),
                    None => return self.write_on(nic, Writing::new(packet, runs)),
                },
            };
            match done {
                Ok(Completion::Done) => {}
                Ok(Completion::Ticket(ticket)) => {
                    let mut writing = Writing::new(packet, runs);
                    writing.wait_for(ticket, writing.packet.len);
                    return Some(self.guard(nic, writing));
                }
                Err(_) => self.fail_write(&mut packet),
            }
            packet.payload = Payload::None;
            self.report_packet(nic, &packet);
            return None;
        }
        self.write_on(nic, Writing::new(packet, runs))
    }

    /// Writes as far as no device must be waited for.
    fn write_on(&mut self, nic: &Nic, mut writing: Writing) -> Option<Box<Writing>> {
        match writing.advance(&*nic.memory) {
            Step::Pending => return Some(self.guard(nic, writing)),
            Step::Done => {}
            Step::Failed => self.fail_write(&mut writing.packet),
        }
        self.finish_write(nic, writing);
        None
    }

    fn guard(&mut self, nic: &Nic, mut writing: Writing) -> Box<Writing> {
        writing.hold = Some(self.hold(nic));
        Box::new(writing)
    }

    /// The payload is dropped first: its sender may go on, and its report must not come later than ours.
    fn finish_write(&mut self, nic: &Nic, mut writing: Writing) {
        writing.packet.payload = Payload::None;
        writing.hold = None;
        match writing.reserved.take() {
            Some(reserved) => self.settle(nic, reserved, writing.packet.error),
            None => self.report_packet(nic, &writing.packet),
        }
    }

    /// Goes on with writes that waited for a device.
    pub(super) fn continue_writes(&mut self, nic: &Nic) -> bool {
        let mut moved = false;
        for vpid in self.inbound.iter_from(self.turn) {
            while let Some(waiting) = self.port(vpid).inbound.pop_front() {
                let still = match waiting {
                    Waiting::Packet(packet) => self.complete(nic, packet),
                    Waiting::Writing(mut writing) => match writing.advance(&*nic.memory) {
                        Step::Pending => Some(writing),
                        Step::Done => {
                            self.finish_write(nic, *writing);
                            None
                        }
                        Step::Failed => {
                            self.fail_write(&mut writing.packet);
                            self.finish_write(nic, *writing);
                            None
                        }
                    },
                };
                if let Some(writing) = still {
                    self.port(vpid).inbound.push_front(Waiting::Writing(writing));
                    break;
                }
                moved = true;
            }
            let empty = self.port(vpid).inbound.is_empty();
            self.inbound.set(vpid, !empty);
        }
        moved
    }

    #[cold]
    fn fail_write(&mut self, packet: &mut Packet) {
        self.counters.error(regs::COMPL_TRANS);
        packet.error |= ErrorUnits::COMPLETER;
    }

    #[inline]
    fn report_packet(&mut self, nic: &Nic, packet: &Packet) {
        if let Some(report) = self.completer_report(nic, packet) {
            self.report(nic, &report);
        }
    }

    fn completer_report(&mut self, nic: &Nic, packet: &Packet) -> Option<Report> {
        let cx = context!(self, nic, packet.destination.vpid);
        self.completer.report(&cx, packet)
    }
}

impl Writing {
    fn new(mut packet: Packet, target: Runs) -> Writing {
        let source = match &mut packet.payload {
            Payload::ByReference(direct) => {
                Some(Cursor::new(Runs { first: direct.first, more: std::mem::take(&mut direct.more) }))
            }
            _ => None,
        };
        Writing {
            packet,
            target: Cursor::new(target),
            source,
            ticket: None,
            moving: 0,
            hold: None,
            reserved: None,
        }
    }

    fn wait_for(&mut self, ticket: Ticket, moving: u32) {
        (self.ticket, self.moving) = (Some(ticket), moving);
    }

    /// Moves piece after piece, in order, so that the last bytes come last.
    fn advance(&mut self, memory: &dyn Memory) -> Step {
        loop {
            if let Some(ticket) = self.ticket {
                match memory.poll(ticket) {
                    TicketState::Pending => return Step::Pending,
                    TicketState::Failed => return Step::Failed,
                    TicketState::Done => self.passed(self.moving),
                }
                self.ticket = None;
            }
            let Some(to) = self.target.piece(u32::MAX) else { return Step::Done };
            let (moved, len) = match &self.source {
                Some(source) => {
                    let Some(from) = source.piece(to.len) else { return Step::Failed };
                    (memory.copy(to.address, from.address, from.len as usize), from.len)
                }
                None if let Payload::Foreign(source) = &self.packet.payload => {
                    let at = self.target.position() as usize;
                    (memory.copy_foreign(to.address, source, at, to.len as usize), to.len)
                }
                None => {
                    let at = self.target.position() as usize;
                    let bytes = self.packet.payload.bytes().and_then(|b| b.get(at..at + to.len as usize));
                    let Some(bytes) = bytes else { return Step::Failed };
                    (memory.write(to.address, bytes), to.len)
                }
            };
            match moved {
                Ok(Completion::Done) => self.passed(len),
                Ok(Completion::Ticket(ticket)) => self.wait_for(ticket, len),
                Err(_) => return Step::Failed,
            }
        }
    }

    fn passed(&mut self, len: u32) {
        self.target.advance(len);
        if let Some(source) = &mut self.source {
            source.advance(len);
        }
    }
}
