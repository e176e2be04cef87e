//! Hostile packets: nothing panics, nothing is written that no key allows, nothing grows without bound.

use crate::common::{Faults, Pair, flow_from};
use ggas_hca::wire::{Aeth, AtomicRequest, Opcode, Packet, Reth, Syndrome, encode, icrc};
use ggas_hca::*;

const PART: usize = 8192;
/// The victim's memory: parts that peers may write, may read, of another domain, and of no region.
const PARTS: usize = 5;
const WRITABLE: usize = 0;
const READABLE: usize = 1;
const FOREIGN: usize = 2;
/// Target of the victim's own reads and receives.
const LOCAL: usize = 3;

struct Victim {
    pair: Pair,
    qp: u32,
    cq: CqId,
    at: u64,
    keys: [u32; PARTS],
    /// What was in memory that nobody may change.
    before: Vec<u8>,
}

impl Victim {
    fn new(seed: u64) -> Victim {
        let mut pair = Pair::new(seed, Faults::default());
        let at = pair.buffer(PARTS * PART);
        let noise: Vec<u8> = std::iter::repeat_with(|| pair.random.u8(..)).take(PARTS * PART).collect();
        pair.fill(at, &noise);
        let hca = &mut pair.hca[1];
        let (domain, other) = (hca.domain(), hca.domain());
        let mut keys = [0; PARTS];
        let local = Access::LOCAL_WRITE;
        for (part, domain, access) in [
            (WRITABLE, domain, local | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC | Access::REMOTE_READ),
            (READABLE, domain, local | Access::REMOTE_READ),
            (FOREIGN, other, Access::ALL),
            (LOCAL, domain, local),
        ] {
            // Not all of the part, so that its end is one.
            let start = at + (part * PART) as u64;
            keys[part] = hca.register(domain, start, start, PART as u64 - 64, access).unwrap();
        }
        let cq = hca.create_cq(Box::new(Queue::new(1024)));
        let attributes =
            Attributes { domain, access: Access::ALL, send_depth: 16, receive_depth: 16, credits: true };
        let qp = hca.create_qp(attributes, cq, cq).unwrap();
        let mut victim = Victim { pair, qp, cq, at, keys, before: noise };
        victim.connect();
        victim
    }

    fn connect(&mut self) {
        let hca = &mut self.pair.hca[1];
        hca.reset(self.qp).unwrap();
        hca.init(self.qp).unwrap();
        let connection = Connection {
            flow: flow_from(1),
            peer: 0x99,
            mtu: Mtu::B256,
            receive_psn: 0,
            responses: 4,
            not_ready: 1,
        };
        hca.ready_to_receive(self.qp, connection).unwrap();
        hca.ready_to_send(self.qp, Reliability { retries: 7, ..Reliability::default() }).unwrap();
    }

    fn part(&self, part: usize, offset: u64) -> u64 {
        self.at + (part * PART) as u64 + offset
    }

    /// Work of its own, so that answers find something.
    fn work(&mut self) {
        let (at, lkey) = (self.part(LOCAL, 0), self.keys[LOCAL]);
        let random = &mut self.pair.random;
        let len = random.u32(0..2000);
        let operation = match random.u8(0..4) {
            0 => Operation::Send { immediate: None },
            1 => Operation::Write { address: 0, rkey: 0, immediate: None },
            2 => Operation::Read { address: 0, rkey: 0 },
            _ => Operation::FetchAdd { address: 0, rkey: 0, add: 1 },
        };
        let len = if matches!(operation, Operation::FetchAdd { .. }) { 8 } else { len };
        let hca = &mut self.pair.hca[1];
        let _ = hca.post_send(self.qp, SendWork::new(0, operation, Sges::one(at, len, lkey)));
        let receive = ReceiveWork { id: 0, local: Sges::one(at + 4096, len, lkey) };
        let _ = hca.post_receive(self.qp, receive);
    }

    /// A packet that is nearly right.
    fn hostile(&mut self, expected: u32) -> Packet {
        let (at, keys, qp) = (self.at, self.keys, self.qp);
        let random = &mut self.pair.random;
        let opcode = Opcode::ALL[random.usize(0..Opcode::ALL.len())];
        let psn = match random.u8(0..8) {
            0 => random.u32(0..1 << 24),
            1 => expected.wrapping_add(random.u32(0..8)) & 0xff_ffff,
            2 => expected.wrapping_sub(random.u32(0..8)) & 0xff_ffff,
            _ => expected,
        };
        let mut packet = Packet::new(opcode, if random.u8(0..50) == 0 { random.u32(0..64) } else { qp }, psn);
        let payload = [0, 1, 4, 255, 256, 256, 256, 257, 1024, 4096][random.usize(0..10)];
        let len =
            if random.bool() { payload as u32 } else { [0, 8, 300, 512, 4000, u32::MAX][random.usize(0..6)] };
        let part = random.usize(0..PARTS);
        let end = at + (part * PART + PART) as u64 - 64;
        let address = match random.u8(0..7) {
            0 => random.u64(..),
            1 => at + (part * PART + PART) as u64 - random.u64(0..600),
            2 => at + (part * PART) as u64 + random.u64(0..64) * 8,
            3 => (at + (part * PART) as u64).wrapping_sub(random.u64(0..16)),
            4 => end.wrapping_sub(len.max(8).into()) + [0, 1, 8][random.usize(0..3)],
            _ => at + random.u64(0..(PARTS * PART) as u64),
        };
        let rkey = match random.u8(0..8) {
            0 => random.u32(..),
            1 => keys[random.usize(0..PARTS)] ^ 1 << random.u32(0..32),
            2 => keys[random.usize(0..PARTS)],
            _ => keys[part],
        };
        packet.reth = opcode.has_reth().then_some(Reth { address, rkey, len });
        let (swap_add, compare) = (random.u64(..), 0);
        packet.atomic = opcode.is_atomic().then_some(AtomicRequest { address, rkey, swap_add, compare });
        let syndrome = Syndrome::of(random.u8(..)).unwrap_or(Syndrome::Ack(3));
        packet.aeth = opcode.has_aeth().then(|| Aeth { syndrome, msn: random.u32(0..1 << 24) });
        packet.original = (opcode == Opcode::AtomicAcknowledge).then(|| random.u64(..));
        let value = opcode.has_immediate() || opcode.has_invalidate();
        packet.immediate = value.then(|| random.u32(..));
        if opcode.has_payload() {
            packet.payload = vec![random.u8(..); payload];
        }
        packet.bth.ack_request = random.bool();
        packet.bth.pkey = if random.u8(0..50) == 0 { random.u16(..) } else { packet.bth.pkey };
        packet
    }

    /// The packet as a datagram, sometimes damaged, with an ICRC that fits the damage or not.
    fn datagram(&mut self, packet: &Packet) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(&flow_from(0), packet, &mut bytes).unwrap();
        let random = &mut self.pair.random;
        if random.u8(0..3) == 0 {
            for _ in 0..random.usize(1..4) {
                let at = random.usize(0..bytes.len().min(80));
                bytes[at] = random.u8(..);
            }
            if random.bool() {
                bytes.truncate(random.usize(0..=bytes.len()));
            }
            if random.bool()
                && let Some((covered, crc)) = bytes.split_last_chunk_mut::<4>()
                && let Some(right) = icrc(covered, 20)
            {
                *crc = right.to_le_bytes();
            }
        }
        bytes
    }

    /// Memory that no key lets a peer change is as it was.
    fn check(&self) {
        let now = self.pair.bytes(self.at, PARTS * PART);
        for part in [READABLE, FOREIGN, PARTS - 1] {
            let range = part * PART..(part + 1) * PART;
            assert!(now[range.clone()] == self.before[range], "part {part} was written");
        }
        for part in [WRITABLE, LOCAL] {
            let range = (part + 1) * PART - 64..(part + 1) * PART;
            assert!(now[range.clone()] == self.before[range], "behind the end of part {part}");
        }
    }

    fn run(&mut self, packets: u64) -> u64 {
        let (mut expected, mut written) = (0, 0);
        for count in 0..packets {
            self.pair.now += 100;
            let now = self.pair.now;
            if self.pair.random.u8(0..4) == 0 {
                self.work();
            }
            let packet = self.hostile(expected);
            let bytes = self.datagram(&packet);
            let _ = self.pair.hca[1].receive_datagram(&bytes, now);
            self.pair.hca[1].timers(now);
            let mut answers = 0;
            while let Some((_, answer)) = self.pair.hca[1].transmit(now) {
                answers += 1;
                assert!(answers < 100_000, "no end of answers");
                if let Some(Aeth { syndrome: Syndrome::Ack(_), .. }) = answer.aeth
                    && answer.bth.opcode == Opcode::Acknowledge
                {
                    expected = answer.bth.psn.wrapping_add(1) & 0xff_ffff;
                    written += 1;
                }
            }
            while self.pair.hca[1].poll(self.cq).is_some() {}
            while self.pair.hca[1].event().is_some() {}
            if self.pair.hca[1].qp(self.qp).unwrap().state() == State::Error {
                self.connect();
                expected = 0;
            }
            if count % 1024 == 0 {
                self.check();
            }
        }
        self.check();
        written
    }
}

#[test]
fn hostile_packets_change_nothing_that_no_key_allows() {
    let acknowledged = Victim::new(1).run(50_000);
    assert!(acknowledged > 1_000, "too few were good enough to be executed: {acknowledged}");
}

/// The measure.
#[test]
#[ignore = "long: a part of cargo xtask long"]
fn a_million_hostile_packets() {
    for seed in 0..4 {
        let acknowledged = Victim::new(100 + seed).run(250_000);
        eprintln!("seed {seed}: {acknowledged} acknowledges");
    }
}
