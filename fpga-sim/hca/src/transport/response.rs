//! What a responder has to send: acknowledges, refusals, answers with data, in the order of their numbers.

use super::Reach;
use super::queue_pair::{QueuePair, State};
use crate::regions::{self, Access};
use crate::wire::{Aeth, NO_CREDITS, Nak, Opcode, Packet, Place, Syndrome, credit_code, psn};

/// Memory that a read asks for, and how far it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// Number of the next packet of the answer.
    pub psn: u32,
    pub address: u64,
    pub rkey: u32,
    /// Bytes that are left.
    pub left: u32,
    /// Whether nothing of it was sent.
    pub begins: bool,
    /// How many messages were executed when it was.
    pub msn: u32,
    /// Whether it is a repetition.
    pub again: bool,
}

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// All up to this number is executed.
    Ack { psn: u32 },
    /// This number is refused.
    Refuse { psn: u32, syndrome: Syndrome },
    /// Memory.
    Read(Reading),
    /// The value before an atomic operation.
    Atomic { psn: u32, original: u64, msn: u32, again: bool },
}

impl QueuePair {
    /// The next packet of the answers.
    pub(super) fn answer(&mut self, reach: &mut Reach<'_>) -> Option<Packet> {
        let peer = self.connection?.peer;
        let msn = self.responder.msn;
        let acknowledge = |psn, syndrome, msn| Packet {
            aeth: Some(Aeth { syndrome, msn }),
            ..Packet::new(Opcode::Acknowledge, peer, psn)
        };
        Some(match *self.responder.responses.front()? {
            Response::Ack { psn } => {
                self.responder.responses.pop_front();
                acknowledge(psn, self.credit(), msn)
            }
            Response::Refuse { psn, syndrome } => {
                self.responder.responses.pop_front();
                acknowledge(psn, syndrome, msn)
            }
            Response::Atomic { psn, original, msn, .. } => {
                self.responder.responses.pop_front();
                let aeth = Some(Aeth { syndrome: self.credit(), msn });
                Packet { aeth, original: Some(original), ..Packet::new(Opcode::AtomicAcknowledge, peer, psn) }
            }
            Response::Read(reading) => self.read_packet(reading, reach),
        })
    }

    /// The next packet of a read's answer; the region may be gone by now.
    fn read_packet(&mut self, reading: Reading, reach: &mut Reach<'_>) -> Packet {
        let Reading { psn: number, address, rkey, left, begins, msn, .. } = reading;
        let (peer, mtu) = self.connection.map_or((0, 256), |c| (c.peer, c.mtu.bytes() as u32));
        let mut payload = reach.payload(left.min(mtu) as usize);
        let len = payload.len() as u64;
        let found = match len {
            0 => Ok(()),
            _ => reach
                .regions
                .check(reach.domain, rkey, address, len, Access::REMOTE_READ)
                .map_err(|_| Nak::RemoteAccess)
                .and_then(|at| {
                    regions::read(reach.memory, at, &mut payload).map_err(|_| Nak::RemoteOperation)
                }),
        };
        if let Err(nak) = found {
            self.responder.responses.clear();
            if self.state != State::Error {
                self.fail(reach);
            }
            let aeth = Some(Aeth { syndrome: Syndrome::Nak(nak), msn });
            return Packet { aeth, ..Packet::new(Opcode::Acknowledge, peer, number) };
        }
        let place = Place::of(begins, left <= mtu);
        if place.ends() {
            self.responder.responses.pop_front();
        } else if let Some(Response::Read(reading)) = self.responder.responses.front_mut() {
            reading.psn = psn::add(number, 1);
            reading.address = address.wrapping_add(len);
            reading.left -= len as u32;
            reading.begins = false;
        }
        let opcode = match place {
            Place::First => Opcode::ReadResponseFirst,
            Place::Middle => Opcode::ReadResponseMiddle,
            Place::Last => Opcode::ReadResponseLast,
            Place::Only => Opcode::ReadResponseOnly,
        };
        let aeth = opcode.has_aeth().then(|| Aeth { syndrome: self.credit(), msn });
        Packet { aeth, payload, ..Packet::new(opcode, peer, number) }
    }

    /// What an acknowledge says about receives: the one of a message under way counts, as the message does not yet.
    fn credit(&self) -> Syndrome {
        if !self.attributes.credits {
            return Syndrome::Ack(NO_CREDITS);
        }
        let receives = self.receives.len() + usize::from(self.responder.holds_receive());
        Syndrome::Ack(credit_code(receives.try_into().unwrap_or(u32::MAX)))
    }
}
