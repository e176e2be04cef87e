//! Requests: their packets, in order and again (IBTA 9.7.3).

use std::collections::VecDeque;

use super::queue_pair::{Connection, Mtu, QpError, QueuePair, Reliability};
use super::{Nanos, Reach};
use crate::wire::{AtomicRequest, Opcode, Packet, Place, Reth, psn};
use crate::work::{Completion, Operation, SendWork, Status};

/// Every so many packets of a long message one asks for an acknowledge.
const ACK_EVERY: u32 = 16;

/// A request that is posted and not completed.
pub(super) struct Entry {
    pub work: SendWork,
    /// Sequence number of its first packet; a read's answer has the same numbers.
    pub first: u32,
    /// How many numbers it has.
    pub packets: u32,
    /// Number among messages, from 1.
    pub message: u32,
    /// Packets of the answer that have come.
    pub answered: u32,
}

impl Entry {
    /// Sequence number of its last packet.
    pub fn last(&self) -> u32 {
        psn::add(self.first, self.packets - 1)
    }

    fn is_read_or_atomic(&self) -> bool {
        self.work.operation.is_read_or_atomic()
    }
}

#[derive(Default)]
pub(super) struct Requester {
    pub reliability: Reliability,
    /// What is posted and not completed, oldest first.
    pub queue: VecDeque<Entry>,
    /// Which entry is to be sent next, and how many of its packets were.
    pub at: usize,
    pub sent: u32,
    /// First number that no request has.
    next_psn: u32,
    messages: u32,
    /// First number that was never sent.
    pub unsent_psn: u32,
    /// First number that is not acknowledged.
    pub base_psn: u32,
    /// Reads and atomic operations before `at`.
    pub reads: u32,
    /// The last message that may use a receive; `None`: the peer does not count.
    pub limit: Option<u32>,
    /// When patience with the peer ends.
    pub answer_by: Option<Nanos>,
    /// When the peer may have a receive again.
    pub ready_at: Option<Nanos>,
    pub retries: u8,
    pub not_ready: u8,
    /// An answer was found missing and asked for again: once until it has come.
    pub asked_again: bool,
    /// A packet without credit is under way: its message waits for what becomes of it.
    alone: bool,
}

impl Requester {
    pub fn start(&mut self, reliability: Reliability) {
        let psn = reliability.send_psn;
        *self =
            Requester { reliability, next_psn: psn, unsent_psn: psn, base_psn: psn, ..Requester::default() };
    }

    pub fn post(&mut self, work: SendWork, mtu: Mtu, depth: usize) -> Result<(), QpError> {
        if self.queue.len() >= depth {
            return Err(QpError::Full(depth));
        }
        let atomic = work.operation.is_read_or_atomic() && !matches!(work.operation, Operation::Read { .. });
        let packets = if atomic { 1 } else { mtu.packets(work.local.len()) };
        self.messages = psn::add(self.messages, 1);
        let entry = Entry { work, first: self.next_psn, packets, message: self.messages, answered: 0 };
        self.next_psn = psn::add(self.next_psn, packets);
        self.queue.push_back(entry);
        Ok(())
    }

    pub fn deadline(&self) -> Option<Nanos> {
        self.answer_by.into_iter().chain(self.ready_at).min()
    }

    /// Goes back: `from`, which is not acknowledged, is sent next.
    pub fn rewind(&mut self, from: u32) {
        let holds = |entry: &Entry| psn::distance(from, entry.last()) >= 0;
        let at = self.queue.iter().position(holds).unwrap_or(self.queue.len());
        // Never forward.
        if at > self.at {
            return;
        }
        let sent = self.queue.get(at).map_or(0, |entry| psn::distance(entry.first, from).max(0) as u32);
        if at == self.at && sent >= self.sent {
            return;
        }
        self.at = at;
        self.sent = sent;
        self.reads = self.queue.iter().take(at).filter(|entry| entry.is_read_or_atomic()).count() as u32;
        self.answer_by = None;
        self.alone = false;
    }

    /// Takes the oldest request out.
    pub fn pop(&mut self) -> Option<Entry> {
        let entry = self.queue.pop_front()?;
        if self.at == 0 {
            self.sent = 0;
        } else {
            self.at -= 1;
            self.reads -= u32::from(entry.is_read_or_atomic());
        }
        self.base_psn = psn::add(entry.last(), 1);
        Some(entry)
    }

    /// Whether something was sent that is not acknowledged.
    pub fn outstanding(&self) -> bool {
        self.base_psn != self.unsent_psn
    }

    /// The peer has moved on.
    pub fn progress(&mut self, now: Nanos) {
        self.retries = 0;
        self.not_ready = 0;
        self.asked_again = false;
        self.alone = false;
        let patience = self.reliability.patience().filter(|_| self.outstanding());
        self.answer_by = patience.map(|patience| now + patience);
    }

    /// Ends all requests as flushed.
    pub fn flush(&mut self, qp: u32, done: &mut Vec<Completion>) {
        done.extend(self.queue.drain(..).map(|entry| entry.work.completion(qp, Status::Flushed)));
        *self = Requester { reliability: self.reliability, ..Requester::default() };
    }

    /// Whether the next packet of the entry at `at` may go, and whether the peer may lack a receive for it.
    fn may_send(&self, entry: &Entry, psn: u32) -> Option<bool> {
        let first = self.sent == 0;
        if psn::distance(self.base_psn, psn) >= self.reliability.window as i32 {
            return None;
        }
        let too_many = entry.is_read_or_atomic() && self.reads >= u32::from(self.reliability.reads);
        if too_many || (entry.work.fence && first && self.reads > 0) {
            return None;
        }
        if !first {
            return (!self.alone).then_some(false);
        }
        let over = self.limit.is_some_and(|limit| psn::distance(limit, entry.message) > 0);
        if !over || !entry.work.operation.takes_a_receive() {
            return Some(false);
        }
        // Without credit a message's first packet goes, alone, and asks (IBTA 9.7.7.2.5). Where that is taken the others follow: a
        // write takes its receive with the last one only, for which it may be asked to come again.
        (self.at == 0).then_some(true)
    }
}

impl QueuePair {
    /// The next packet of the requests.
    pub(super) fn next_request(&mut self, reach: &mut Reach<'_>, now: Nanos) -> Option<Packet> {
        let connection = self.connection?;
        let requester = &mut self.requester;
        if requester.ready_at.is_some_and(|at| at > now) {
            return None;
        }
        let entry = requester.queue.get(requester.at)?;
        let sent = requester.sent.max(entry.answered);
        let number = psn::add(entry.first, sent);
        let probing = requester.may_send(entry, number)?;
        let packet = match packet(entry, &connection, sent, reach) {
            Ok(packet) => packet,
            // Those before it end first, each as it does (IBTA 10.8.6, completions in order).
            Err(_) if requester.at > 0 => return None,
            Err(status) => {
                self.requester_failed(status, reach);
                return None;
            }
        };
        let whole = entry.is_read_or_atomic() || sent + 1 == entry.packets;
        let after = if whole { psn::add(entry.last(), 1) } else { psn::add(number, 1) };
        let reads = u32::from(entry.is_read_or_atomic());
        let full = psn::distance(requester.base_psn, after) >= requester.reliability.window as i32;
        if psn::distance(requester.unsent_psn, after) > 0 {
            requester.unsent_psn = after;
        }
        if whole {
            requester.at += 1;
            requester.sent = 0;
            requester.reads += reads;
        } else {
            requester.sent = sent + 1;
        }
        requester.ready_at = None;
        if requester.answer_by.is_none() {
            requester.answer_by = requester.reliability.patience().map(|patience| now + patience);
        }
        requester.alone |= probing;
        let mut packet = packet;
        packet.bth.ack_request |= probing || full;
        Some(packet)
    }

    /// The oldest request has failed, and with it the queue pair.
    pub(super) fn requester_failed(&mut self, status: Status, reach: &mut Reach<'_>) {
        if let Some(entry) = self.requester.pop() {
            reach.done.push(entry.work.completion(self.number, status));
        }
        self.fail(reach);
    }

    /// Time has come to `now`: looks whether patience has ended.
    pub(crate) fn timer(&mut self, reach: &mut Reach<'_>, now: Nanos) {
        let requester = &mut self.requester;
        if requester.ready_at.is_some_and(|at| at <= now) {
            requester.ready_at = None;
        }
        if requester.answer_by.is_none_or(|by| by > now) {
            return;
        }
        requester.answer_by = None;
        if !requester.outstanding() || requester.queue.is_empty() {
            return;
        }
        if requester.retries >= requester.reliability.retries {
            return self.requester_failed(Status::RetryExceeded, reach);
        }
        requester.retries += 1;
        requester.asked_again = false;
        let base = requester.base_psn;
        requester.rewind(base);
    }
}

/// The packet number `sent` of a request.
fn packet(
    entry: &Entry,
    connection: &Connection,
    sent: u32,
    reach: &mut Reach<'_>,
) -> Result<Packet, Status> {
    if let Some(status) = entry.work.bad {
        return Err(status);
    }
    let len = entry.work.local.len();
    let mtu = connection.mtu.bytes() as u64;
    let offset = u64::from(sent) * mtu;
    let number = psn::add(entry.first, sent);
    let new = |opcode| Packet::new(opcode, connection.peer, number);
    let reth = |address: u64, rkey, len: u64| Some(Reth { address, rkey, len: len as u32 });
    let place = Place::of(sent == 0, sent + 1 == entry.packets);
    let mut packet = match entry.work.operation {
        Operation::Send { immediate } => Packet { immediate, ..new(send_opcode(place, immediate.is_some())) },
        Operation::Write { address, rkey, immediate } => {
            let reth = reth(address, rkey, len).filter(|_| place.begins());
            Packet { immediate, reth, ..new(write_opcode(place, immediate.is_some())) }
        }
        Operation::Read { address, rkey } => {
            let reth = reth(address.wrapping_add(offset), rkey, len - offset);
            Packet { reth, ..new(Opcode::ReadRequest) }
        }
        Operation::CompareSwap { address, rkey, compare, swap } => {
            let atomic = AtomicRequest { address, rkey, swap_add: swap, compare };
            Packet { atomic: Some(atomic), ..new(Opcode::CompareSwap) }
        }
        Operation::FetchAdd { address, rkey, add } => {
            let atomic = AtomicRequest { address, rkey, swap_add: add, compare: 0 };
            Packet { atomic: Some(atomic), ..new(Opcode::FetchAdd) }
        }
    };
    match entry.work.operation {
        Operation::Read { .. } => {}
        Operation::CompareSwap { .. } | Operation::FetchAdd { .. } if len != 8 => {
            return Err(Status::LocalLength);
        }
        Operation::CompareSwap { .. } | Operation::FetchAdd { .. } => {}
        _ => {
            packet.payload = reach.payload((len - offset).min(mtu) as usize);
            reach.gather(&entry.work.local, offset, &mut packet.payload)?;
        }
    }
    if !place.ends() {
        packet.immediate = None;
    }
    packet.bth.solicited = entry.work.solicited && place.ends() && entry.work.operation.takes_a_receive();
    packet.bth.ack_request = entry.is_read_or_atomic() || place.ends() || (sent % ACK_EVERY == ACK_EVERY - 1);
    Ok(packet)
}

fn send_opcode(place: Place, immediate: bool) -> Opcode {
    match (place, immediate) {
        (Place::First, _) => Opcode::SendFirst,
        (Place::Middle, _) => Opcode::SendMiddle,
        (Place::Last, false) => Opcode::SendLast,
        (Place::Last, true) => Opcode::SendLastImmediate,
        (Place::Only, false) => Opcode::SendOnly,
        (Place::Only, true) => Opcode::SendOnlyImmediate,
    }
}

fn write_opcode(place: Place, immediate: bool) -> Opcode {
    match (place, immediate) {
        (Place::First, _) => Opcode::WriteFirst,
        (Place::Middle, _) => Opcode::WriteMiddle,
        (Place::Last, false) => Opcode::WriteLast,
        (Place::Last, true) => Opcode::WriteLastImmediate,
        (Place::Only, false) => Opcode::WriteOnly,
        (Place::Only, true) => Opcode::WriteOnlyImmediate,
    }
}
