//! Requests of the peer: checked, executed once, answered (IBTA 9.7.4, table 56 for what is refused how).

use std::collections::VecDeque;

use super::Reach;
use super::queue_pair::{Connection, MESSAGE_MAX, QueuePair};
use super::response::{Reading, Response};
use crate::regions::{self, Access};
use crate::wire::{Nak, Opcode, Packet, Syndrome, psn};
use crate::work::{Kind, ReceiveWork, Status};

/// A message of which not all packets have come.
pub(super) enum Message {
    /// A send: its receive, and how far that is filled.
    Send { work: ReceiveWork, filled: u64 },
    /// A write: where the next byte goes, how many are left.
    Write { address: u64, rkey: u32, left: u32, len: u32 },
}

/// A request whose answer may be asked for again.
pub(super) enum Kept {
    /// A read: what was asked, with its numbers from the first on, and how many.
    Read { asked: Reading, packets: u32 },
    /// An atomic operation's result.
    Atomic { psn: u32, original: u64, msn: u32 },
}

#[derive(Default)]
pub(super) struct Responder {
    /// The number that comes next.
    pub expected: u32,
    /// Messages executed.
    pub msn: u32,
    pub message: Option<Message>,
    /// That a number is missing, or that no receive was there, was said.
    pub refused: bool,
    pub responses: VecDeque<Response>,
    /// The newest reads and atomic operations.
    pub kept: VecDeque<Kept>,
    pub keep: usize,
    /// When no receive is posted.
    pub not_ready: u8,
}

/// Why a request is not executed.
pub(super) enum Refusal {
    /// Come again later.
    NotReady,
    /// Never; the queue pair fails.
    Nak(Nak),
}

impl From<Nak> for Refusal {
    fn from(nak: Nak) -> Refusal {
        Refusal::Nak(nak)
    }
}

impl Responder {
    pub fn start(&mut self, connection: &Connection) {
        *self = Responder {
            expected: connection.receive_psn,
            keep: usize::from(connection.responses),
            not_ready: connection.not_ready,
            ..Responder::default()
        };
    }

    pub fn forget_answers(&mut self) {
        self.responses.clear();
    }

    /// The receive of a send that is under way.
    pub fn take_message(&mut self) -> Option<ReceiveWork> {
        match self.message.take() {
            Some(Message::Send { work, .. }) => Some(work),
            _ => None,
        }
    }

    pub fn holds_receive(&self) -> bool {
        matches!(self.message, Some(Message::Send { .. }))
    }

    /// Acknowledges all up to `psn`: one packet for what comes in a row.
    pub fn acknowledge(&mut self, psn: u32) {
        match self.responses.back_mut() {
            Some(Response::Ack { psn: last }) if psn::distance(*last, psn) < 0 => {}
            Some(Response::Ack { psn: last }) => *last = psn,
            _ => self.responses.push_back(Response::Ack { psn }),
        }
    }

    pub fn keep(&mut self, kept: Kept) {
        if self.kept.len() >= self.keep {
            self.kept.pop_front();
        }
        self.kept.push_back(kept);
    }

    /// Reads and atomic operations whose answers were never sent. Repetitions may be of what the peer has by now.
    fn waiting(&self) -> usize {
        let first = |response: &&Response| {
            matches!(
                response,
                Response::Read(Reading { again: false, .. }) | Response::Atomic { again: false, .. }
            )
        };
        self.responses.iter().filter(first).count()
    }
}

impl QueuePair {
    /// A request has come.
    pub(super) fn request(&mut self, packet: &Packet, reach: &mut Reach<'_>) {
        let number = packet.bth.psn;
        match psn::distance(self.responder.expected, number) {
            0 => {}
            1.. => {
                if !self.responder.refused {
                    self.responder.refused = true;
                    let (psn, syndrome) = (self.responder.expected, Syndrome::Nak(Nak::Sequence));
                    self.responder.responses.push_back(Response::Refuse { psn, syndrome });
                }
                return;
            }
            _ => return self.duplicate(packet),
        }
        self.responder.refused = false;
        match self.execute(packet, reach) {
            Ok(()) => {}
            Err(Refusal::NotReady) => {
                self.responder.refused = true;
                let syndrome = Syndrome::NotReady(self.responder.not_ready);
                self.responder.responses.push_back(Response::Refuse { psn: number, syndrome });
            }
            Err(Refusal::Nak(nak)) => {
                let syndrome = Syndrome::Nak(nak);
                self.responder.responses.push_back(Response::Refuse { psn: number, syndrome });
                self.fail(reach);
            }
        }
    }

    fn execute(&mut self, packet: &Packet, reach: &mut Reach<'_>) -> Result<(), Refusal> {
        let opcode = packet.bth.opcode;
        let place = opcode.place();
        let fits = match &self.responder.message {
            None => place.begins(),
            Some(Message::Send { .. }) => opcode.is_send() && !place.begins(),
            Some(Message::Write { .. }) => opcode.is_write() && !place.begins(),
        };
        let mtu = self.connection.map_or(0, |connection| connection.mtu.bytes());
        let len = packet.payload.len();
        let sized = match place.ends() {
            false => len == mtu,
            true if place.begins() => len <= mtu,
            true => (1..=mtu).contains(&len),
        };
        // Keys that a send invalidates are memory windows'; there are none here.
        if !fits || !sized || opcode.has_invalidate() {
            return Err(Nak::InvalidRequest.into());
        }
        match opcode {
            _ if opcode.is_send() => self.send(packet, reach)?,
            _ if opcode.is_write() => self.write(packet, reach)?,
            Opcode::ReadRequest => return self.read(packet, reach),
            _ => return self.atomic(packet, reach),
        }
        self.responder.expected = psn::add(packet.bth.psn, 1);
        if place.ends() {
            self.responder.msn = psn::add(self.responder.msn, 1);
        }
        if packet.bth.ack_request {
            self.responder.acknowledge(packet.bth.psn);
        }
        Ok(())
    }

    fn send(&mut self, packet: &Packet, reach: &mut Reach<'_>) -> Result<(), Refusal> {
        let (work, filled) = match self.responder.message.take() {
            Some(Message::Send { work, filled }) => (work, filled),
            _ => (self.receives.pop_front().ok_or(Refusal::NotReady)?, 0),
        };
        let written = reach.scatter(&work.local, filled, &packet.payload);
        if let Err(status) = written {
            reach.done.push(self.received(&work, Kind::Receive, status));
            let nak = if status == Status::LocalLength { Nak::InvalidRequest } else { Nak::RemoteOperation };
            return Err(nak.into());
        }
        let filled = filled + packet.payload.len() as u64;
        if packet.bth.opcode.place().ends() {
            let mut done = self.received(&work, Kind::Receive, Status::Success);
            (done.len, done.immediate, done.solicited) =
                (filled as u32, packet.immediate, packet.bth.solicited);
            reach.done.push(done);
        } else {
            self.responder.message = Some(Message::Send { work, filled });
        }
        Ok(())
    }

    fn write(&mut self, packet: &Packet, reach: &mut Reach<'_>) -> Result<(), Refusal> {
        let place = packet.bth.opcode.place();
        let (address, rkey, left, total) = match (&self.responder.message, packet.reth) {
            (Some(Message::Write { address, rkey, left, len }), None) => (*address, *rkey, *left, *len),
            (None, Some(reth)) => (reth.address, reth.rkey, reth.len, reth.len),
            _ => return Err(Nak::InvalidRequest.into()),
        };
        let bytes = packet.payload.len() as u32;
        let lengths = if place.ends() { bytes == left } else { bytes < left };
        if !lengths || u64::from(total) > MESSAGE_MAX || !self.attributes.access.allows(Access::REMOTE_WRITE)
        {
            return Err(Nak::InvalidRequest.into());
        }
        if packet.immediate.is_some() && self.receives.is_empty() {
            return Err(Refusal::NotReady);
        }
        // A write of nothing needs no key (IBTA 9.7.4.1.4). The first packet checks all that follows.
        if left > 0 {
            let at = reach
                .regions
                .check(reach.domain, rkey, address, u64::from(left), Access::REMOTE_WRITE)
                .map_err(|_| Nak::RemoteAccess)?;
            regions::write(reach.memory, at, &packet.payload).map_err(|_| Nak::RemoteOperation)?;
        }
        if !place.ends() {
            let address = address.wrapping_add(u64::from(bytes));
            self.responder.message = Some(Message::Write { address, rkey, left: left - bytes, len: total });
            return Ok(());
        }
        self.responder.message = None;
        if packet.immediate.is_some()
            && let Some(work) = self.receives.pop_front()
        {
            let mut done = self.received(&work, Kind::ReceiveWrite, Status::Success);
            (done.len, done.immediate, done.solicited) = (total, packet.immediate, packet.bth.solicited);
            reach.done.push(done);
        }
        Ok(())
    }

    fn read(&mut self, packet: &Packet, reach: &mut Reach<'_>) -> Result<(), Refusal> {
        let (Some(reth), Some(connection)) = (packet.reth, self.connection) else {
            return Err(Nak::InvalidRequest.into());
        };
        let many = self.responder.waiting() >= self.responder.keep;
        if many || u64::from(reth.len) > MESSAGE_MAX || !self.attributes.access.allows(Access::REMOTE_READ) {
            return Err(Nak::InvalidRequest.into());
        }
        if reth.len > 0 {
            reach
                .regions
                .check(reach.domain, reth.rkey, reth.address, u64::from(reth.len), Access::REMOTE_READ)
                .map_err(|_| Nak::RemoteAccess)?;
        }
        let responder = &mut self.responder;
        responder.msn = psn::add(responder.msn, 1);
        let packets = connection.mtu.packets(u64::from(reth.len));
        responder.expected = psn::add(packet.bth.psn, packets);
        let asked = Reading {
            psn: packet.bth.psn,
            address: reth.address,
            rkey: reth.rkey,
            left: reth.len,
            begins: true,
            msn: responder.msn,
            again: false,
        };
        responder.keep(Kept::Read { asked, packets });
        responder.responses.push_back(Response::Read(asked));
        Ok(())
    }

    fn atomic(&mut self, packet: &Packet, reach: &mut Reach<'_>) -> Result<(), Refusal> {
        let Some(atomic) = packet.atomic else { return Err(Nak::InvalidRequest.into()) };
        let many = self.responder.waiting() >= self.responder.keep;
        if many || !atomic.address.is_multiple_of(8) || !self.attributes.access.allows(Access::REMOTE_ATOMIC)
        {
            return Err(Nak::InvalidRequest.into());
        }
        let at = reach
            .regions
            .check(reach.domain, atomic.rkey, atomic.address, 8, Access::REMOTE_ATOMIC)
            .map_err(|_| Nak::RemoteAccess)?;
        let change = |word: u64| match packet.bth.opcode {
            Opcode::FetchAdd => word.wrapping_add(atomic.swap_add),
            _ if word == atomic.compare => atomic.swap_add,
            _ => word,
        };
        let original = regions::modify(reach.memory, at, &change).map_err(|_| Nak::RemoteOperation)?;
        let responder = &mut self.responder;
        responder.msn = psn::add(responder.msn, 1);
        responder.expected = psn::add(packet.bth.psn, 1);
        let (psn, msn) = (packet.bth.psn, responder.msn);
        responder.keep(Kept::Atomic { psn, original, msn });
        responder.responses.push_back(Response::Atomic { psn, original, msn, again: false });
        Ok(())
    }
}
