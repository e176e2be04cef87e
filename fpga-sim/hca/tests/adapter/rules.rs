//! What is forbidden is refused as the standard asks, and writes nothing.

use crate::common::{Faults, Pair, flow_from};
use ggas_hca::wire::{Aeth, Nak, Opcode, Packet, Reth, Syndrome};
use ggas_hca::*;

const LEN: usize = 4096;

/// Connected ends, each with a region of its own.
struct Ends {
    pair: Pair,
    qp: [u32; 2],
    send: [CqId; 2],
    receive: [CqId; 2],
    domain: [Domain; 2],
    at: [u64; 2],
    key: [u32; 2],
}

fn ends_with(access: Access, reliability: Reliability, depth: usize) -> Ends {
    let mut pair = Pair::new(7, Faults::default());
    let at = [(); 2].map(|()| pair.buffer(LEN));
    let domain = [0, 1].map(|side| pair.hca[side].domain());
    let key = [0, 1].map(|side| {
        pair.hca[side].register(domain[side], at[side], at[side], LEN as u64 / 2, Access::ALL).unwrap()
    });
    let send = [0, 1].map(|side| pair.hca[side].create_cq(Box::new(Queue::new(depth))));
    let receive = [0, 1].map(|side| pair.hca[side].create_cq(Box::new(Queue::new(depth))));
    let qp = [0, 1].map(|side| {
        let attributes =
            Attributes { domain: domain[side], access, send_depth: 64, receive_depth: 64, credits: true };
        pair.hca[side].create_qp(attributes, send[side], receive[side]).unwrap()
    });
    pair.connect(qp, Mtu::B256, [100, 200], reliability);
    Ends { pair, qp, send, receive, domain, at, key }
}

fn ends() -> Ends {
    ends_with(Access::ALL, Reliability { timeout: 3, ..Reliability::default() }, 64)
}

impl Ends {
    fn post(&mut self, operation: Operation, len: u32) {
        let work = SendWork::new(1, operation, Sges::one(self.at[0], len, self.key[0]));
        self.pair.hca[0].post_send(self.qp[0], work).unwrap();
    }

    fn receives(&mut self, len: u32) {
        let work = ReceiveWork { id: 9, local: Sges::one(self.at[1], len, self.key[1]) };
        self.pair.hca[1].post_receive(self.qp[1], work).unwrap();
    }

    fn outcome(&mut self) -> Status {
        self.pair.settle();
        self.pair.hca[0].poll(self.send[0]).expect("a completion").status
    }

    fn states(&self) -> [State; 2] {
        [0, 1].map(|side| self.pair.hca[side].qp(self.qp[side]).unwrap().state())
    }

    /// Nothing was written at the target.
    fn untouched(&self) -> bool {
        self.pair.bytes(self.at[1], LEN).iter().all(|byte| *byte == 0)
    }
}

/// What one request brings, with 0x55 in the source.
fn one(operation: impl FnOnce(&Ends) -> Operation, len: u32) -> (Status, [State; 2], bool) {
    let mut ends = ends();
    ends.pair.fill(ends.at[0], &[0x55; LEN]);
    let operation = operation(&ends);
    ends.post(operation, len);
    let status = ends.outcome();
    (status, ends.states(), ends.untouched())
}

const BOTH: [State; 2] = [State::Error; 2];

#[test]
fn keys_rights_and_ranges_of_the_peer_are_checked() {
    let refused = (Status::RemoteAccess, BOTH, true);
    let write = |address: u64, rkey: u32| Operation::Write { address, rkey, immediate: None };
    assert_eq!(one(|e| write(e.at[1], e.key[1] ^ 1), 64), refused, "another key");
    assert_eq!(one(|e| write(e.at[1], e.key[1] ^ 0x100), 64), refused, "another index");
    assert_eq!(one(|e| write(e.at[1] + 2048 - 63, e.key[1]), 64), refused, "a byte beyond");
    assert_eq!(one(|e| write(e.at[1] - 1, e.key[1]), 64), refused, "a byte before");
    assert_eq!(one(|e| write(u64::MAX - 3, e.key[1]), 64), refused, "wraps");
    // Of several packets the first would fit.
    assert_eq!(one(|e| write(e.at[1] + 1024, e.key[1]), 1025), refused, "the end beyond");
    assert_eq!(one(|e| Operation::Read { address: e.at[1] + 1024, rkey: e.key[1] }, 1025), refused);
    let add = |address, rkey| Operation::FetchAdd { address, rkey, add: 1 };
    assert_eq!(one(|e| add(e.at[1] + 2048, e.key[1]), 8), refused);
    assert_eq!(
        one(|e| add(e.at[1] + 4, e.key[1]), 8),
        (Status::RemoteInvalidRequest, BOTH, true),
        "misaligned"
    );
    let (status, states, untouched) = one(|e| write(e.at[1] + 2048 - 64, e.key[1]), 64);
    assert_eq!((status, states, untouched), (Status::Success, [State::ReadyToSend; 2], false));
    // Nothing needs no key.
    assert_eq!(one(|_| write(0, 0), 0), (Status::Success, [State::ReadyToSend; 2], true));
}

#[test]
fn regions_have_rights_domains_and_ends_of_their_own() {
    for (access, status) in [
        (Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC, Status::RemoteAccess),
        (Access::LOCAL_WRITE | Access::REMOTE_WRITE, Status::Success),
    ] {
        let mut ends = ends();
        let (domain, at) = (ends.domain[1], ends.at[1] + 2048);
        let rkey = ends.pair.hca[1].register(domain, 0x1000, at, 64, access).unwrap();
        ends.post(Operation::Write { address: 0x1000, rkey, immediate: None }, 64);
        assert_eq!(ends.outcome(), status);
    }
    let mut other = ends();
    let domain = other.pair.hca[1].domain();
    let rkey = other.pair.hca[1].register(domain, other.at[1], other.at[1], 64, Access::ALL).unwrap();
    other.post(Operation::Write { address: other.at[1], rkey, immediate: None }, 8);
    assert_eq!(other.outcome(), Status::RemoteAccess, "another domain");

    let mut gone = ends();
    let rkey = gone.key[1];
    gone.pair.hca[1].deregister(rkey).unwrap();
    assert_eq!(gone.pair.hca[1].deregister(rkey), Err(RegionError::Unknown(rkey)));
    let (domain, at) = (gone.domain[1], gone.at[1]);
    let new = gone.pair.hca[1].register(domain, at, at, 64, Access::ALL).unwrap();
    assert_ne!(new, rkey);
    gone.post(Operation::Write { address: at, rkey, immediate: None }, 8);
    assert_eq!(gone.outcome(), Status::RemoteAccess, "a stale key");

    let hca = &mut gone.pair.hca[1];
    hca.deregister(new).unwrap();
    // More than an index has keys.
    for _ in 0..1000 {
        let key = hca.register(domain, at, at, 64, Access::ALL).unwrap();
        assert_ne!(key, rkey, "a stale key is valid again");
        hca.deregister(key).unwrap();
    }
    assert_eq!(hca.register(domain, at, at, 64, Access::REMOTE_WRITE), Err(RegionError::Rights));
    let beyond = RegionError::Range { address: at, len: 1 << 40 };
    assert_eq!(hca.register(domain, at, at, 1 << 40, Access::ALL), Err(beyond));
}

#[test]
fn what_the_queue_pair_forbids_is_invalid() {
    for operation in [0, 1, 2] {
        let mut ends = ends_with(Access::NONE, Reliability::default(), 64);
        let (address, rkey) = (ends.at[1], ends.key[1]);
        ends.post(
            match operation {
                0 => Operation::Write { address, rkey, immediate: None },
                1 => Operation::Read { address, rkey },
                _ => Operation::CompareSwap { address, rkey, compare: 0, swap: 1 },
            },
            8,
        );
        assert_eq!((ends.outcome(), ends.untouched()), (Status::RemoteInvalidRequest, true));
    }
}

#[test]
fn local_keys_are_checked_and_requests_before_end_well() {
    for (operation, lkey, len, status) in [
        (0, 5, 8, Status::LocalProtection),
        (1, 5, 8, Status::LocalProtection),
        (2, 0, 4, Status::LocalLength),
    ] {
        let mut ends = ends();
        let (address, rkey) = (ends.at[1], ends.key[1]);
        ends.post(Operation::Write { address, rkey, immediate: None }, 8);
        let operation = match operation {
            0 => Operation::Write { address: address + 8, rkey, immediate: None },
            1 => Operation::Read { address, rkey },
            _ => Operation::FetchAdd { address, rkey, add: 1 },
        };
        let lkey = if lkey == 0 { ends.key[0] } else { lkey };
        let work = SendWork::new(2, operation, Sges::one(ends.at[0], len, lkey));
        ends.pair.hca[0].post_send(ends.qp[0], work).unwrap();
        ends.post(Operation::Write { address, rkey, immediate: None }, 8);
        let ids = [ends.outcome(), ends.outcome(), ends.outcome()];
        assert_eq!(ids, [Status::Success, status, Status::Flushed]);
        assert_eq!(ends.states()[0], State::Error);
    }
}

#[test]
fn a_message_longer_than_its_receive_is_refused_on_both_sides() {
    for len in [65, 300] {
        let mut ends = ends();
        ends.receives(64);
        ends.post(Operation::Send { immediate: None }, len);
        assert_eq!(ends.outcome(), Status::RemoteInvalidRequest);
        let done = ends.pair.hca[1].poll(ends.receive[1]).unwrap();
        assert_eq!((done.id, done.status), (9, Status::LocalLength));
        assert_eq!(ends.states(), BOTH);
    }
    let mut ends = ends();
    let local = Sges::one(ends.at[1] + 2048, 64, ends.key[1]);
    ends.pair.hca[1].post_receive(ends.qp[1], ReceiveWork { id: 9, local }).unwrap();
    ends.post(Operation::Send { immediate: None }, 8);
    assert_eq!(ends.outcome(), Status::RemoteOperation);
    assert_eq!(ends.pair.hca[1].poll(ends.receive[1]).unwrap().status, Status::LocalProtection);
    assert!(ends.untouched());
}

/// Numbers of packets wrap around: a read as long as the standard's messages would have as many small ones as lie on one side.
#[test]
fn what_has_too_many_packets_is_refused() {
    let work = |ends: &Ends, len| {
        let read = Operation::Read { address: ends.at[1], rkey: ends.key[1] };
        SendWork::new(1, read, Sges::one(ends.at[0], len, ends.key[0]))
    };
    let mut ends = ends();
    let (qp, most) = (ends.qp[0], 1 << 30);
    let long = work(&ends, most + 1);
    let refused = Err(HcaError::Qp(QpError::Length(u64::from(most) + 1, u64::from(most))));
    assert_eq!(ends.pair.hca[0].post_send(qp, long), refused);
    let longest = work(&ends, most);
    ends.pair.hca[0].post_send(qp, longest).unwrap();
    assert_eq!(ends.outcome(), Status::RemoteAccess);
}

#[test]
fn a_peer_without_receives_is_asked_again() {
    let mut never =
        ends_with(Access::ALL, Reliability { not_ready_retries: 2, ..Reliability::default() }, 64);
    never.post(Operation::Send { immediate: None }, 8);
    assert_eq!(never.outcome(), Status::NotReadyExceeded);
    assert_eq!(never.pair.sent, 6, "three times, each refused");

    let mut late = ends();
    late.pair.fill(late.at[0], b"late but whole");
    late.post(Operation::Send { immediate: Some(5) }, 14);
    (0..4).for_each(|_| assert!(late.pair.step()));
    late.receives(64);
    assert_eq!(late.outcome(), Status::Success);
    let done = late.pair.hca[1].poll(late.receive[1]).unwrap();
    assert_eq!((done.status, done.len, done.immediate), (Status::Success, 14, Some(5)));
    assert_eq!(late.pair.bytes(late.at[1], 14), b"late but whole");
}

/// IBTA 9.7.7.2.5: a message of several packets that takes a receive goes on as the receiver lets it, whether it is told that there
/// is none before the message begins or while it is under way. No patience ends.
#[test]
fn long_messages_without_credit_wait_for_a_receive() {
    for (write, at_once) in [(false, false), (false, true), (true, false), (true, true)] {
        let what = format!("write {write}, at once {at_once}");
        let mut ends = ends_with(Access::ALL, Reliability { timeout: 20, ..Reliability::default() }, 64);
        let (address, rkey, immediate) = (ends.at[1], ends.key[1], Some(5));
        let operation = match write {
            true => Operation::Write { address, rkey, immediate },
            false => Operation::Send { immediate },
        };
        ends.receives(1024);
        ends.post(operation, 8);
        if !at_once {
            ends.pair.settle();
        }
        ends.post(operation, 2000);
        (0..40).for_each(|_| assert!(ends.pair.step(), "{what}: nobody does anything any more"));
        ends.receives(2048);
        let begin = ends.pair.now;
        let mut statuses = Vec::new();
        while statuses.len() < 2 {
            assert!(ends.pair.step(), "{what}: nobody does anything any more");
            statuses.extend(ends.pair.hca[0].poll(ends.send[0]).map(|done| done.status));
        }
        assert_eq!(statuses, [Status::Success; 2], "{what}");
        assert!(ends.pair.now - begin < 1_000_000_000, "{what}: {} ns", ends.pair.now - begin);
        let done: Vec<_> = std::iter::from_fn(|| ends.pair.hca[1].poll(ends.receive[1])).collect();
        assert_eq!(done.iter().map(|done| done.len).collect::<Vec<_>>(), [8, 2000], "{what}");
    }
}

#[test]
fn a_silent_peer_ends_in_an_error() {
    let mut ends = ends();
    ends.pair.faults = Faults { lose: 1.0, ..Faults::default() };
    ends.post(Operation::Send { immediate: None }, 8);
    assert_eq!(ends.outcome(), Status::RetryExceeded);
    assert_eq!(ends.pair.sent, 8, "once and seven times again");
    // 8 times 4.096 µs · 2^3.
    assert_eq!(ends.pair.now / 1000, 8 * 32 + 6);
    assert_eq!(ends.pair.hca[0].event(), Some(Event::QueuePairFailed(ends.qp[0])));
}

#[test]
fn a_full_completion_queue_breaks_it() {
    let mut ends = ends_with(Access::ALL, Reliability::default(), 2);
    let (address, rkey) = (ends.at[1], ends.key[1]);
    for _ in 0..3 {
        ends.post(Operation::Write { address, rkey, immediate: None }, 8);
    }
    ends.pair.settle();
    let events: Vec<_> = std::iter::from_fn(|| ends.pair.hca[0].event()).collect();
    assert_eq!(events, [Event::Overrun(ends.send[0]), Event::QueuePairFailed(ends.qp[0])]);
    let kept: Vec<_> = std::iter::from_fn(|| ends.pair.hca[0].poll(ends.send[0])).collect();
    assert_eq!(kept.len(), 2);
}

#[test]
fn states_allow_what_the_standard_allows() {
    let mut ends = ends();
    let hca = &mut ends.pair.hca[0];
    let attributes = *hca.qp(ends.qp[0]).unwrap().attributes();
    let qp = hca.create_qp(attributes, ends.send[0], ends.receive[0]).unwrap();
    let send = SendWork::new(1, Operation::Send { immediate: None }, Sges::default());
    let receive = ReceiveWork { id: 2, local: Sges::default() };
    let state = |state| Err(HcaError::Qp(QpError::State(state)));
    assert_eq!(hca.post_receive(qp, receive.clone()), state(State::Reset));
    assert_eq!(hca.ready_to_send(qp, Reliability::default()), state(State::Reset));
    hca.init(qp).unwrap();
    assert_eq!(hca.post_receive(qp, receive.clone()), Ok(()));
    assert_eq!(hca.post_send(qp, send.clone()), state(State::Init));
    hca.stop(qp).unwrap();
    assert_eq!(hca.poll(ends.receive[0]).unwrap().status, Status::Flushed);
    assert_eq!((hca.post_send(qp, send), hca.post_receive(qp, receive)), (Ok(()), Ok(())));
    assert_eq!(hca.poll(ends.send[0]).unwrap().status, Status::Flushed);
    assert_eq!(hca.poll(ends.receive[0]).unwrap().status, Status::Flushed);
    hca.reset(qp).unwrap();
    assert_eq!(hca.qp(qp).unwrap().state(), State::Reset);
    assert_eq!(hca.destroy_cq(ends.send[0]), Err(HcaError::InUse(ends.send[0].0)));
    hca.destroy_qp(qp).unwrap();
    assert_eq!(hca.init(qp), Err(HcaError::QueuePair(qp)));
}

/// A packet of side 0's queue pair to side 1's, which expects number 100.
fn packet(ends: &Ends, opcode: Opcode, psn: u32, len: usize) -> Packet {
    let reth = Reth { address: ends.at[1], rkey: ends.key[1], len: len as u32 };
    let mut packet = Packet { payload: vec![0x55; len], ..Packet::new(opcode, ends.qp[1], psn) };
    packet.reth = opcode.has_reth().then_some(reth);
    packet.bth.ack_request = true;
    packet
}

fn answer(ends: &mut Ends, packet: &Packet) -> Option<(u32, Aeth)> {
    ends.pair.hca[1].receive(&flow_from(0), packet, 5);
    let (_, answer) = ends.pair.hca[1].transmit(5)?;
    answer.aeth.map(|aeth| (answer.bth.psn, aeth))
}

fn syndrome(change: impl FnOnce(&mut Packet), opcode: Opcode, psn: u32, len: usize) -> Option<Syndrome> {
    let mut ends = ends();
    let mut packet = packet(&ends, opcode, psn, len);
    change(&mut packet);
    let answer = answer(&mut ends, &packet);
    assert!(ends.untouched() || matches!(answer, Some((_, Aeth { syndrome: Syndrome::Ack(_), .. }))));
    answer.map(|(_, aeth)| aeth.syndrome)
}

#[test]
fn packets_out_of_place_are_refused_or_ignored() {
    let nak = |nak| Some(Syndrome::Nak(nak));
    let only = Opcode::WriteOnly;
    assert!(matches!(syndrome(|_| (), only, 100, 8), Some(Syndrome::Ack(_))));
    assert_eq!(syndrome(|_| (), only, 101, 8), nak(Nak::Sequence));
    assert_eq!(syndrome(|_| (), only, 100 + 0x7f_ffff, 8), nak(Nak::Sequence), "the window's end");
    // Behind the window it counts as executed: acknowledged with the last number, never written.
    let mut old = ends();
    let again = packet(&old, only, 99, 8);
    assert_eq!(answer(&mut old, &again).map(|(psn, _)| psn), Some(99));
    assert!(old.untouched());
    assert_eq!(syndrome(|_| (), Opcode::WriteMiddle, 100, 256), nak(Nak::InvalidRequest), "a middle first");
    assert_eq!(syndrome(|_| (), Opcode::SendLast, 100, 8), nak(Nak::InvalidRequest));
    assert_eq!(syndrome(|_| (), only, 100, 257), nak(Nak::InvalidRequest), "longer than the MTU");
    assert_eq!(syndrome(|_| (), Opcode::WriteFirst, 100, 255), nak(Nak::InvalidRequest), "shorter");
    let len = |packet: &mut Packet| packet.reth = packet.reth.map(|reth| Reth { len: 9, ..reth });
    assert_eq!(syndrome(len, only, 100, 8), nak(Nak::InvalidRequest), "two lengths");
    let huge = |packet: &mut Packet| packet.reth = packet.reth.map(|reth| Reth { len: u32::MAX, ..reth });
    assert_eq!(syndrome(huge, Opcode::ReadRequest, 100, 0), nak(Nak::InvalidRequest));
    assert_eq!(syndrome(|packet| packet.bth.pkey = 0x8001, only, 100, 8), None, "another partition");
    assert_eq!(syndrome(|packet| packet.bth.destination += 1, only, 100, 8), None, "nobody");
    let mut stranger = ends();
    let packet = packet(&stranger, only, 100, 8);
    stranger.pair.hca[1].receive(&flow_from(1), &packet, 5);
    assert!(stranger.pair.hca[1].transmit(5).is_none() && stranger.untouched(), "not from the peer");
}

/// A send whose acknowledge was lost comes again: acknowledged again by its own number, whatever came behind it, and placed once.
#[test]
fn a_repeated_send_is_acknowledged_again_and_placed_once() {
    for (write, read) in [(false, false), (true, false), (false, true)] {
        let mut ends = ends();
        (0..2).for_each(|_| ends.receives(64));
        let send = packet(&ends, Opcode::SendOnly, 100, 8);
        let first = answer(&mut ends, &send).unwrap();
        assert_eq!((first.0, first.1.msn), (100, 1));
        let (behind, len) = if write { (Opcode::WriteOnly, 8) } else { (Opcode::ReadRequest, 0) };
        if write || read {
            let mut next = packet(&ends, behind, 101, len);
            // Not where the send went.
            next.reth = next.reth.map(|reth| Reth { address: reth.address + 1024, len: 8, ..reth });
            assert_eq!(answer(&mut ends, &next).unwrap().0, 101);
        }
        let executed = 1 + u32::from(write || read);
        // What was placed is the receiver's by now.
        ends.pair.fill(ends.at[1], b"is read!");
        for _ in 0..3 {
            let again = answer(&mut ends, &send).expect("an acknowledge");
            assert!(matches!(again.1.syndrome, Syndrome::Ack(_)), "{again:?}");
            assert_eq!((again.0, again.1.msn), (100, executed));
        }
        assert_eq!(ends.pair.bytes(ends.at[1], 8), b"is read!");
        let done: Vec<_> = std::iter::from_fn(|| ends.pair.hca[1].poll(ends.receive[1])).collect();
        assert_eq!(done.len(), 1, "one receive is used: {done:?}");
        assert_eq!(ends.pair.hca[1].receives(ends.qp[1]), 1);
    }
}

/// Who does not ask for an acknowledge gets none, also for what comes again.
#[test]
fn a_repeated_send_that_asks_for_nothing_gets_nothing() {
    let mut ends = ends();
    ends.receives(64);
    let mut send = packet(&ends, Opcode::SendOnly, 100, 8);
    send.bth.ack_request = false;
    assert_eq!((answer(&mut ends, &send), answer(&mut ends, &send)), (None, None));
}

#[test]
fn more_reads_than_agreed_are_invalid() {
    let mut ends = ends_with(Access::ALL, Reliability { reads: 2, ..Reliability::default() }, 64);
    for psn in 100..103 {
        let mut read = packet(&ends, Opcode::ReadRequest, psn, 0);
        read.reth = read.reth.map(|reth| Reth { len: 8, ..reth });
        ends.pair.hca[1].receive(&flow_from(0), &read, 5);
    }
    let mut answers = Vec::new();
    while let Some((_, packet)) = ends.pair.hca[1].transmit(5) {
        answers.push((packet.bth.opcode, packet.aeth.unwrap().syndrome.byte()));
    }
    // What was asked before the failure is answered.
    let read = Opcode::ReadResponseOnly;
    assert_eq!(answers[..2].iter().map(|a| a.0).collect::<Vec<_>>(), [read, read]);
    assert_eq!(answers[2..], [(Opcode::Acknowledge, 0x61)]);
}
