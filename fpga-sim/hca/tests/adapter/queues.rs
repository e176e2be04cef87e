//! Queues in memory: what the adapter makes of what it finds there, and where it writes.

use std::sync::Arc;

use extoll_sim::memory::{HostMemory, Memory, RangeKind};
use ggas_clock::Clock;
use ggas_hca::formats::{Format, completion_len, mlx4, mlx5};
use ggas_hca::*;

const FORMATS: [Format; 2] = [Format::Mlx4, Format::Mlx5];
const REQUESTS: u32 = 32;
const COMPLETIONS: u32 = 4;
/// Bytes of a target, and of a completion queue's record behind its entries.
const PART: u64 = 64;
/// What lies around everything: no access may change it.
const GUARD: u8 = 0xa5;

/// An adapter with one queue pair, its queues and its data.
struct End {
    number: usize,
    qp: u32,
    cq: CqId,
    send: Ring,
    receive: Ring,
    completions: Ring,
    data: u64,
    key: u32,
    posted: u32,
    consumed: u32,
}

struct World {
    format: Format,
    memory: Arc<HostMemory>,
    network: Arc<Network>,
    ends: Vec<End>,
    /// Memory that rings lie in.
    kept: Vec<Box<[u64]>>,
}

impl World {
    fn new(format: Format) -> World {
        let world = World::apart(format);
        (0..2).for_each(|side| world.connect(side));
        world
    }

    /// Two sides that are not connected.
    fn apart(format: Format) -> World {
        let memory = HostMemory::new();
        let network = Network::new(memory.clone(), Clock::real(), Wire::Datagrams);
        let mut world = World { format, memory, network, ends: Vec::new(), kept: Vec::new() };
        (0..2).for_each(|_| world.open());
        world
    }

    fn connect(&self, side: usize) {
        let (End { number, qp, .. }, End { number: other, qp: peer, .. }) =
            (&self.ends[side], &self.ends[1 - side]);
        let connection = Connection {
            flow: self.network.flow(*number, *other),
            peer: *peer,
            mtu: Mtu::B256,
            receive_psn: 0,
            responses: 4,
            not_ready: 1,
        };
        let connected = self.network.with(*number, |front| {
            front.hca.init(*qp)?;
            front.hca.ready_to_receive(*qp, connection)?;
            front.hca.ready_to_send(*qp, Reliability::default())
        });
        connected.unwrap().unwrap();
    }

    /// Declared memory of `len` bytes between guards.
    fn buffer(&mut self, len: u64) -> u64 {
        let mut words = vec![u64::from_ne_bytes([GUARD; 8]); (len + 192) as usize / 8].into_boxed_slice();
        let at = words.as_mut_ptr() as u64;
        // SAFETY: the buffer is kept until the world is gone, adapters with it.
        unsafe { self.memory.add_range(RangeKind::Host, at, words.len() * 8).unwrap() };
        self.kept.push(words);
        (at + 64).next_multiple_of(64)
    }

    fn open(&mut self) {
        let number = self.network.add(self.format).unwrap();
        let stride = completion_len(self.format) as u32;
        let at = self.buffer(u64::from(COMPLETIONS * stride) + PART);
        let record = at + u64::from(COMPLETIONS * stride);
        let completions = Ring { buffer: at, entries: COMPLETIONS, stride, record };
        let at = self.buffer(u64::from(REQUESTS) * 64 + PART);
        let record = at + u64::from(REQUESTS) * 64;
        let send = Ring { buffer: at, entries: REQUESTS, stride: 64, record };
        let at = self.buffer(u64::from(REQUESTS) * 16 + PART);
        let receive =
            Ring { buffer: at, entries: REQUESTS, stride: 16, record: at + u64::from(REQUESTS) * 16 };
        let data = self.buffer(2 * PART);
        for record in [completions.record, send.record, receive.record] {
            self.memory.write(record, &[0; 4]).unwrap();
        }
        let made = self.network.with(number, |front| {
            let domain = front.hca.domain();
            let key = front.hca.register(domain, data, data, 2 * PART, Access::ALL).unwrap();
            let cq = front.create_cq(completions).unwrap();
            let attributes = Attributes {
                domain,
                access: Access::ALL,
                send_depth: REQUESTS as usize,
                receive_depth: REQUESTS as usize,
                credits: true,
            };
            let qp = front.hca.create_qp(attributes, cq, cq).unwrap();
            front.attach(qp, send, receive).unwrap();
            (qp, cq, key)
        });
        let (qp, cq, key) = made.unwrap();
        self.ends.push(End { number, qp, cq, send, receive, completions, data, key, posted: 0, consumed: 0 });
    }

    /// Writes a request of side 0 into its queue, changed by `spoil`.
    fn post(&mut self, spoil: impl FnOnce(&mut [u8])) {
        self.post_with(1, spoil);
    }

    /// As `post`, with so many pieces of local memory.
    fn post_with(&mut self, pieces: usize, spoil: impl FnOnce(&mut [u8])) {
        let [mine, peer] = &mut self.ends[..] else { unreachable!() };
        let write = Operation::Write { address: peer.data, rkey: peer.key, immediate: None };
        let piece = Sge { address: mine.data, len: PART as u32, lkey: mine.key };
        let work = SendWork::new(0, write, std::iter::repeat_n(piece, pieces).collect());
        let mut bytes = [0; 64];
        let index = mine.posted;
        let len = match self.format {
            Format::Mlx4 => mlx4::write(&work, index & REQUESTS != 0, &mut bytes),
            Format::Mlx5 => mlx5::write(&work, mine.qp, index as u16, &mut bytes),
        };
        let len = len.unwrap();
        spoil(&mut bytes[..len]);
        let at = mine.send.buffer + u64::from(index % REQUESTS) * 64;
        self.memory.write(at + 8, &bytes[8..]).unwrap();
        self.memory.write(at, &bytes[..8]).unwrap();
        mine.posted += 1;
        if self.format == Format::Mlx5 {
            self.memory.write(mine.send.record, &(mine.posted & 0xffff).to_be_bytes()).unwrap();
        }
        self.network.ring(mine.number, mine.qp);
    }

    /// Says that side 0 has posted so many receives in all, each without memory.
    fn receives(&self, count: u32) {
        let receive = self.ends[0].receive;
        for index in 0..count {
            let none = u64::from(mlx4::INVALID_LKEY).to_be_bytes();
            self.memory.write(receive.buffer + u64::from(index) * 16, &none).unwrap();
        }
        self.memory.write(receive.record, &count.to_be_bytes()).unwrap();
    }

    /// Runs the adapters until nothing moves.
    fn settle(&self) {
        while self.network.step() {}
    }

    fn bytes(&self, at: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        self.memory.read(at, &mut bytes).unwrap();
        bytes
    }

    /// The next completion of side 0, which stays where it is until `consume`.
    fn completion(&mut self) -> Option<Completion> {
        let mine = &self.ends[0];
        let stride = u64::from(mine.completions.stride);
        let at = mine.completions.buffer + u64::from(mine.consumed % COMPLETIONS) * stride;
        let bytes = self.bytes(at, stride);
        let (done, owner) = match self.format {
            Format::Mlx4 => mlx4::read_completion(&bytes),
            Format::Mlx5 => mlx5::read_completion(&bytes),
        }?;
        let round = mine.consumed & COMPLETIONS != 0;
        (owner == round).then(|| {
            self.ends[0].consumed += 1;
            done
        })
    }

    fn consume(&self) {
        let mine = &self.ends[0];
        self.memory.write(mine.completions.record, &mine.consumed.to_be_bytes()).unwrap();
    }

    fn statuses(&mut self) -> Vec<Status> {
        std::iter::from_fn(|| self.completion()).map(|done| done.status).collect()
    }

    fn events(&self) -> Vec<Event> {
        let next = || self.network.with(self.ends[0].number, |front| front.hca.event()).flatten();
        std::iter::from_fn(next).collect()
    }

    fn state(&self) -> State {
        let End { number, qp, .. } = self.ends[0];
        self.network.with(number, |front| front.hca.qp(qp).unwrap().state()).unwrap()
    }

    /// Nothing was written around rings, records and data.
    fn check_guards(&self) {
        for words in &self.kept {
            let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
            let bytes: Vec<u8> = bytes.collect();
            let start = (words.as_ptr() as u64 + 64).next_multiple_of(64) - words.as_ptr() as u64;
            assert!(bytes[..start as usize].iter().all(|byte| *byte == GUARD), "before a buffer");
            let end = start as usize + bytes.len() - 192;
            assert!(bytes[end..].iter().all(|byte| *byte == GUARD), "behind a buffer");
        }
    }
}

/// IBTA 10.8.6: it completes with an error at its turn, those behind it are flushed, and nobody's memory was written for it.
#[test]
fn requests_that_make_no_sense_fail_at_their_turn() {
    let spoilt: [(Format, &[(usize, u8)]); 2] = [
        // Reserved bits, a code that does not exist, a length beyond the entry, inline data.
        (Format::Mlx4, &[(1, 1), (2, 0x80), (3, 0x04), (4, 1), (7, 0x80), (7, 0x3f), (28, 1), (32, 0x80)]),
        // The same; another number, another queue pair.
        (
            Format::Mlx5,
            &[(0, 1), (2, 9), (3, 0x04), (5, 9), (7, 0x40), (7, 0x3f), (8, 1), (28, 1), (32, 0x80)],
        ),
    ];
    for (format, all) in spoilt {
        for &(at, bits) in all {
            let mut world = World::new(format);
            let (source, target) = (world.ends[0].data, world.ends[1].data);
            world.memory.write(source, &[1; PART as usize]).unwrap();
            world.post(|_| ());
            world.settle();
            world.memory.write(source, &[2; PART as usize]).unwrap();
            world.post(|bytes| bytes[at] ^= bits);
            world.post(|_| ());
            world.settle();
            let statuses = world.statuses();
            let expected = [Status::Success, Status::LocalOperation, Status::Flushed];
            assert_eq!(statuses, expected, "{format:?}: byte {at}, bits {bits:#x}");
            assert_eq!(world.state(), State::Error);
            assert_eq!(world.bytes(target, PART), [1; PART as usize], "{format:?}: byte {at}");
            world.check_guards();
        }
    }
}

/// IBTA 10.3.1: receives end as requests do, those that no packet has wanted too, and those that are posted afterwards.
#[test]
fn receives_of_a_queue_pair_that_fails_are_flushed() {
    for format in FORMATS {
        let mut world = World::new(format);
        world.receives(2);
        world.post(|bytes| bytes[3] ^= 4);
        world.settle();
        let kinds = |world: &mut World| -> Vec<_> {
            std::iter::from_fn(|| world.completion()).map(|done| (done.kind, done.id, done.status)).collect()
        };
        let flushed = |id| (Kind::Receive, id, Status::Flushed);
        let found = kinds(&mut world);
        assert_eq!(found, [(Kind::Send, 0, Status::LocalOperation), flushed(0), flushed(1)], "{format:?}");
        world.consume();
        world.receives(4);
        world.settle();
        assert_eq!(kinds(&mut world), [flushed(2), flushed(3)], "{format:?}");
        assert!(!world.network.step(), "{format:?}: nothing is left to do");
        world.check_guards();
    }
}

/// Two pieces of local memory, each as long as a piece may be. What came before ends well.
#[test]
fn a_message_that_is_too_long_fails_at_its_turn() {
    for format in FORMATS {
        let mut world = World::new(format);
        world.post(|_| ());
        world.post_with(2, |bytes| {
            [32, 48].iter().for_each(|at| bytes[*at..at + 4].copy_from_slice(&(u32::MAX >> 1).to_be_bytes()));
        });
        world.post(|_| ());
        world.settle();
        let expected = [Status::Success, Status::LocalLength, Status::Flushed];
        assert_eq!(world.statuses(), expected, "{format:?}");
        world.check_guards();
    }
}

#[test]
fn requests_that_come_too_early_are_flushed() {
    for format in FORMATS {
        let mut world = World::apart(format);
        (0..2).for_each(|_| world.post(|_| ()));
        world.settle();
        assert_eq!(world.statuses(), [Status::Flushed; 2], "{format:?}");
        assert_eq!(world.state(), State::Error, "{format:?}");
    }
}

/// Requests and receives as a kernel that has lost its way may write them. The adapter goes on, and what is behind a failure ends.
#[test]
fn whatever_lies_in_queues_changes_nothing_else() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut world = World::new(FORMATS[seed as usize % 2]);
        for side in 0..2 {
            let receive = world.ends[side].receive;
            let bytes: Vec<u8> =
                std::iter::repeat_with(|| random.u8(..)).take(REQUESTS as usize * 16).collect();
            world.memory.write(receive.buffer, &bytes).unwrap();
            world.memory.write(receive.record, &[0, 0, random.u8(..), random.u8(..)]).unwrap();
        }
        for _ in 0..random.u32(1..COMPLETIONS) {
            let pieces = random.usize(1..=2);
            let spoils: Vec<_> = (0..random.u32(0..4)).map(|_| (random.usize(..48), random.u8(..))).collect();
            let code = [0x08, 0x09, 0x0a, 0x0b, 0x10, 0x11, 0x12][random.usize(..7)];
            world.post_with(pieces, |bytes| {
                bytes[3] = code;
                spoils.iter().for_each(|(at, byte)| bytes[*at] = *byte);
            });
            world.settle();
        }
        world.check_guards();
        if world.state() == State::Error {
            assert!(!world.events().is_empty(), "seed {seed}");
        }
    }
}

#[test]
fn a_callers_panic_stops_nobody_else() {
    let mut world = World::new(Format::Mlx4);
    let network = world.network.clone();
    let panicked = std::thread::spawn(move || network.with(0, |_| panic!("the caller's"))).join();
    assert!(panicked.is_err());
    world.post(|_| ());
    world.settle();
    assert_eq!(world.statuses(), [Status::Success]);
}

/// IBTA 11.6.3: who does not make room in time has a queue that is broken, whose queue pairs fail. What is in it stays.
#[test]
fn a_full_completion_queue_breaks_and_keeps_what_it_has() {
    for format in FORMATS {
        let mut world = World::new(format);
        let End { cq, qp, completions, .. } = world.ends[0];
        let len = u64::from(COMPLETIONS * completions.stride);
        for _ in 0..COMPLETIONS {
            world.post(|_| ());
        }
        world.settle();
        assert_eq!(
            (world.events(), world.state()),
            (Vec::new(), State::ReadyToSend),
            "{format:?}: full is well"
        );
        let full = world.bytes(completions.buffer, len);
        (0..3).for_each(|_| world.post(|_| ()));
        world.settle();
        assert_eq!(world.events(), [Event::Overrun(cq), Event::QueuePairFailed(qp)], "{format:?}");
        assert_eq!(world.state(), State::Error);
        assert!(
            world.bytes(completions.buffer, len) == full,
            "{format:?}: what nobody has read was overwritten"
        );
        assert_eq!(world.statuses(), [Status::Success; COMPLETIONS as usize]);
        // Room comes too late.
        world.consume();
        (0..3).for_each(|_| world.post(|_| ()));
        world.settle();
        assert_eq!((world.statuses(), world.events()), (Vec::new(), Vec::new()), "{format:?}");
        assert!(world.bytes(completions.buffer, len) == full, "{format:?}");
        world.check_guards();
    }
}

#[test]
fn who_makes_room_in_time_loses_nothing() {
    for format in FORMATS {
        let mut world = World::new(format);
        for round in 0..50 {
            (0..COMPLETIONS).for_each(|_| world.post(|_| ()));
            world.settle();
            assert_eq!(
                world.statuses(),
                [Status::Success; COMPLETIONS as usize],
                "{format:?}, round {round}"
            );
            world.consume();
        }
        assert_eq!((world.events(), world.state()), (Vec::new(), State::ReadyToSend));
        world.check_guards();
    }
}

/// The record tells how far the reader is. Whatever it tells, nothing but entries is written.
#[test]
fn a_reader_that_lies_about_its_record_harms_itself_alone() {
    for format in FORMATS {
        let mut world = World::new(format);
        let record = world.ends[0].completions.record;
        // More than was ever written, and numbers that wrap around: full, or not, but never written elsewhere.
        for lie in [u32::MAX, 0x00ff_ffff, 7, 1 << 23] {
            world.memory.write(record, &lie.to_be_bytes()).unwrap();
            (0..3 * COMPLETIONS).for_each(|_| world.post(|_| ()));
            world.settle();
            world.check_guards();
        }
        assert_eq!(world.state(), State::Error, "{format:?}");
    }
}
