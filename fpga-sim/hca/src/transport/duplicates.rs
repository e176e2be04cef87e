//! Requests that come again: never executed twice, always answered as the first time (IBTA 9.7.5.1.2, 9.7.5.1.4).

use super::queue_pair::QueuePair;
use super::responder::Kept;
use super::response::{Reading, Response};
use crate::wire::{Opcode, Packet, Reth, psn};

impl QueuePair {
    /// A request that was executed has come again.
    pub(super) fn duplicate(&mut self, packet: &Packet) {
        let opcode = packet.bth.opcode;
        let responder = &mut self.responder;
        // Whoever repeats faster than answers go out gets fewer of them.
        if responder.responses.len() > 2 * responder.keep + 2 {
            return;
        }
        if opcode.is_send() || opcode.is_write() {
            // As the first time, not up to the newest request: an acknowledge that comes before the answers of reads and
            // atomic operations behind this one has the peer ask for these again, and rdma_rxe takes one with an
            // atomic operation's number for its answer (tests/vm/README.md).
            if packet.bth.ack_request {
                responder.acknowledge(packet.bth.psn);
            }
            return;
        }
        let number = packet.bth.psn;
        // What is kept no more is answered by silence. The newest counts: of older ones a round of all numbers ago there may be one
        // with the same.
        let answer = responder.kept.iter().rev().find_map(|kept| match (kept, packet.reth) {
            (Kept::Read { asked, packets }, Some(reth)) if opcode == Opcode::ReadRequest => {
                let mtu = self.connection.map_or(0, |connection| connection.mtu.bytes() as u64);
                part_of(asked, *packets, mtu, number, &reth).map(Response::Read)
            }
            (Kept::Atomic { psn, original, msn }, None) if *psn == number && opcode.is_atomic() => {
                Some(Response::Atomic { psn: *psn, original: *original, msn: *msn, again: true })
            }
            _ => None,
        });
        let Some(answer) = answer else { return };
        // What still waits to be sent of the same request is not sent twice.
        let number = |response: &Response| match response {
            Response::Read(Reading { msn, .. }) | Response::Atomic { msn, .. } => Some(*msn),
            _ => None,
        };
        responder
            .responses
            .retain(|response| number(response) != number(&answer) || number(response).is_none());
        responder.responses.push_back(answer);
    }
}

/// What a repeated read asks for, if that is the rest of what it asked for at first, from a packet's beginning on.
fn part_of(asked: &Reading, packets: u32, mtu: u64, number: u32, reth: &Reth) -> Option<Reading> {
    let skipped =
        u32::try_from(psn::distance(asked.psn, number)).ok().filter(|skipped| *skipped < packets)?;
    let offset = u64::from(skipped) * mtu;
    let rest = Reading {
        psn: number,
        address: asked.address.wrapping_add(offset),
        left: u32::try_from(u64::from(asked.left) - offset).ok()?,
        again: true,
        ..*asked
    };
    (reth.address == rest.address && reth.rkey == rest.rkey && reth.len == rest.left).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regions::{Access, Domain};
    use crate::transport::Attributes;
    use crate::wire::AtomicRequest;

    #[test]
    fn the_newest_operation_of_a_number_is_answered() {
        let domain = Domain(1);
        let attributes =
            Attributes { domain, access: Access::ALL, send_depth: 1, receive_depth: 1, credits: false };
        let mut qp = QueuePair::new(1, attributes);
        let atomic = |original, msn| Kept::Atomic { psn: 5, original, msn };
        qp.responder.kept.extend([atomic(77, 1), atomic(78, 0xf0_0000)]);
        let atomic = AtomicRequest { address: 0, rkey: 0, swap_add: 1, compare: 0 };
        qp.duplicate(&Packet { atomic: Some(atomic), ..Packet::new(Opcode::FetchAdd, 1, 5) });
        assert!(matches!(qp.responder.responses.front(), Some(Response::Atomic { original: 78, .. })));
    }
}
