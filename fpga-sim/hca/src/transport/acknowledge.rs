//! Answers, as the requester takes them (IBTA 9.7.5).

use super::queue_pair::QueuePair;
use super::requester::Entry;
use super::{Nanos, Reach};
use crate::wire::{Nak, Opcode, Packet, RNR_NANOS, Syndrome, credits_of_code, psn};
use crate::work::{Operation, Status};

/// Repeating for ever, as a count of retries where no receive is posted.
const FOR_EVER: u8 = 7;

impl QueuePair {
    /// An answer has come.
    pub(super) fn response(&mut self, packet: &Packet, reach: &mut Reach<'_>, now: Nanos) {
        let number = packet.bth.psn;
        let requester = &self.requester;
        // Of what was sent and is not acknowledged; all else is old, or nobody's.
        let span = psn::distance(requester.base_psn, requester.unsent_psn);
        let at = psn::distance(requester.base_psn, number);
        if at < 0 || at >= span {
            return;
        }
        let opcode = packet.bth.opcode;
        match packet.aeth.map(|aeth| aeth.syndrome) {
            Some(Syndrome::Ack(code)) => {
                if let (Some(credits), Some(aeth)) = (credits_of_code(code), packet.aeth) {
                    self.requester.limit = Some(psn::add(aeth.msn, credits));
                } else {
                    self.requester.limit = None;
                }
            }
            Some(refusal) if opcode == Opcode::Acknowledge => {
                return self.refused(refusal, number, reach, now);
            }
            Some(_) => return,
            None => {}
        }
        match opcode {
            Opcode::Acknowledge => {
                self.acknowledged(psn::add(number, 1), reach, now);
            }
            Opcode::AtomicAcknowledge => self.atomic_answer(packet, reach, now),
            _ => self.read_answer(packet, reach, now),
        }
    }

    /// All packets before `end` were executed. Returns whether requests and their answers are complete up to there: an
    /// answer that is missing is asked for again.
    fn acknowledged(&mut self, end: u32, reach: &mut Reach<'_>, now: Nanos) -> bool {
        let requester = &mut self.requester;
        let before = requester.base_psn;
        let mut missing = None;
        while let Some(entry) = requester.queue.front() {
            let reached = psn::distance(entry.first, end);
            if reached <= 0 {
                break;
            }
            if entry.work.operation.is_read_or_atomic() {
                let next = psn::add(entry.first, entry.answered);
                missing = (psn::distance(next, end) > 0).then_some(next);
                break;
            }
            if reached < entry.packets as i32 {
                if requester.at == 0 {
                    requester.sent = requester.sent.max(reached as u32);
                }
                requester.base_psn = end;
                break;
            }
            if let Some(entry) = requester.pop()
                && entry.work.signaled
            {
                reach.done.push(entry.work.completion(self.number, Status::Success));
            }
        }
        if requester.base_psn != before {
            requester.progress(now);
        }
        if let Some(next) = missing
            && !requester.asked_again
        {
            requester.asked_again = true;
            requester.rewind(next);
        }
        missing.is_none()
    }

    /// A request was not executed.
    fn refused(&mut self, refusal: Syndrome, number: u32, reach: &mut Reach<'_>, now: Nanos) {
        let complete = self.acknowledged(number, reach, now);
        let requester = &mut self.requester;
        match refusal {
            Syndrome::Nak(Nak::Sequence) if complete => {
                if requester.retries >= requester.reliability.retries && requester.base_psn == number {
                    return self.requester_failed(Status::RetryExceeded, reach);
                }
                requester.retries += 1;
                requester.rewind(number);
            }
            Syndrome::NotReady(code) if complete => {
                let most = requester.reliability.not_ready_retries;
                if most != FOR_EVER && requester.not_ready >= most {
                    return self.requester_failed(Status::NotReadyExceeded, reach);
                }
                requester.not_ready = requester.not_ready.saturating_add(1);
                requester.rewind(number);
                requester.answer_by = None;
                requester.ready_at = Some(now + RNR_NANOS[usize::from(code & 31)]);
            }
            Syndrome::Nak(nak) if complete => {
                let status = match nak {
                    Nak::InvalidRequest => Status::RemoteInvalidRequest,
                    Nak::RemoteAccess => Status::RemoteAccess,
                    _ => Status::RemoteOperation,
                };
                self.requester_failed(status, reach);
            }
            // An answer before it is missing, and was asked for again; then the refusal is repeated.
            _ => {}
        }
    }

    fn atomic_answer(&mut self, packet: &Packet, reach: &mut Reach<'_>, now: Nanos) {
        let number = packet.bth.psn;
        if !self.acknowledged(number, reach, now) {
            return;
        }
        let Some(entry) = self.requester.queue.front() else { return };
        let atomic = entry.work.operation.is_read_or_atomic()
            && !matches!(entry.work.operation, Operation::Read { .. })
            && entry.first == number;
        let (true, Some(original)) = (atomic, packet.original) else { return };
        if let Err(status) = reach.scatter(&entry.work.local, 0, &original.to_ne_bytes()) {
            return self.requester_failed(status, reach);
        }
        self.answered(reach, now);
    }

    fn read_answer(&mut self, packet: &Packet, reach: &mut Reach<'_>, now: Nanos) {
        let number = packet.bth.psn;
        if !self.acknowledged(number, reach, now) {
            return;
        }
        let (Some(connection), Some(entry)) = (&self.connection, self.requester.queue.front()) else {
            return;
        };
        if !is_next_of_read(entry, number) {
            return;
        }
        let mtu = connection.mtu.bytes() as u64;
        let offset = u64::from(entry.answered) * mtu;
        let left = entry.work.local.len() - offset;
        let ends = packet.bth.opcode.place().ends();
        let fits =
            packet.payload.len() as u64 == left.min(mtu) && ends == (entry.answered + 1 == entry.packets);
        if !fits {
            return self.requester_failed(Status::BadResponse, reach);
        }
        if let Err(status) = reach.scatter(&entry.work.local, offset, &packet.payload) {
            return self.requester_failed(status, reach);
        }
        if ends {
            return self.answered(reach, now);
        }
        if let Some(entry) = self.requester.queue.front_mut() {
            entry.answered += 1;
        }
        self.requester.base_psn = psn::add(number, 1);
        self.requester.progress(now);
    }

    /// The oldest request, a read or atomic operation, has all of its answer.
    fn answered(&mut self, reach: &mut Reach<'_>, now: Nanos) {
        if let Some(entry) = self.requester.pop()
            && entry.work.signaled
        {
            reach.done.push(entry.work.completion(self.number, Status::Success));
        }
        self.requester.progress(now);
    }
}

/// Whether `number` is the next packet of a read's answer.
fn is_next_of_read(entry: &Entry, number: u32) -> bool {
    matches!(entry.work.operation, Operation::Read { .. }) && psn::add(entry.first, entry.answered) == number
}
