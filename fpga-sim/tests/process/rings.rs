//! The fabric alone: order, classes, credits, and what hostile bytes do.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use extoll_abi::*;
use extoll_sim::fabric::Pending;
use extoll_sim::memory::Memory;
use extoll_sim::packet::{ByReference, Class, Hold, HoldState, Kind, Payload};
use extoll_sim::runs::Run;
use extoll_sim::shared::ProcessFabric;
use extoll_sim::{Fabric, HostMemory, RangeKind, Wake};
use ggas_members::memory::ArenaBlock;
use ggas_members::{Member, Members, PeerState, Shape};
use proptest::prelude::*;

use crate::common::PATIENCE;
pub use crate::common::members::packet;
use crate::members::{fabrics, meet};

/// A card that does nothing but count.
#[derive(Default)]
pub struct Bell(pub AtomicU32);

impl Wake for Bell {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Fabrics that each have a VPID, and no card: nobody takes packets unless the test does. All have met.
pub fn open(processes: u32) -> (Vec<Arc<ProcessFabric>>, Vec<Address>) {
    let fabrics = fabrics(processes, 1);
    meet(&fabrics);
    let vpid = |f: &Arc<ProcessFabric>| f.nodes().take_vpid(256).unwrap();
    let addresses = fabrics.iter().map(|f| Address::new(f.rank() as u16, vpid(f))).collect();
    (fabrics, addresses)
}

/// A reference to memory of the fabric's arena, with the state that shows when it is released.
pub fn reference(fabric: &ProcessFabric, len: usize) -> (Payload, Arc<HoldState>, ArenaBlock) {
    let block = fabric.arena().alloc(len, 4096).unwrap();
    let bell: Arc<dyn Wake> = Arc::new(Bell::default());
    let (hold, state) = Hold::new(Arc::downgrade(&bell));
    let first = Run { address: block.ptr() as u64, len: len as u32 };
    (Payload::ByReference(ByReference { first, more: Vec::new(), tail: None, hold }), state, block)
}

/// Whether the card has to look.
pub fn pends(fabric: &ProcessFabric, node: u16) -> bool {
    fabric.pending(node, &mut None::<extoll_sim::packet::Packet>) != Pending::Nothing
}

pub fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !ready() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn packets_of_a_class_arrive_in_order_and_whole() {
    let (fabrics, to) = open(2);
    let mut rng = fastrand::Rng::with_seed(5);
    let (mut sent, mut seen) = ([0u64; 2], [0u64; 2]);
    let (total, deadline) = (20_000, Instant::now() + PATIENCE);
    while seen != [total; 2] {
        assert!(Instant::now() < deadline, "sent {sent:?}, seen {seen:?}");
        for (class, kind) in [(0, Kind::Put), (1, Kind::GetResponse)] {
            for _ in 0..rng.usize(0..40) {
                let n = sent[class];
                let bytes: Vec<u8> = (0..n * 37 % 4096).map(|i| (i + n) as u8).collect();
                let payload = if bytes.is_empty() { Payload::None } else { Payload::copy_of(&bytes) };
                if n == total || fabrics[0].send(0, packet(0, to[1], kind, n, payload)).is_err() {
                    break;
                }
                sent[class] += 1;
            }
            let of = [Class::Request, Class::Response][class];
            for _ in 0..rng.usize(0..40) {
                let Some(packet) = fabrics[1].poll(1, of) else { break };
                let n = seen[class];
                assert_eq!((packet.address, packet.kind), (n, kind));
                assert_eq!(packet.payload.len() as u64, n * 37 % 4096);
                let bytes = packet.payload.bytes().unwrap();
                assert!(bytes.iter().zip(0..).all(|(b, i)| *b == (i as u64 + n) as u8));
                seen[class] += 1;
            }
        }
    }
}

#[test]
fn responses_pass_requests_that_fill_their_ring_and_room_is_told() {
    let (fabrics, to) = open(2);
    let bell = Arc::new(Bell::default());
    fabrics[0].attach(0, bell.clone()).unwrap();
    for len in [0, 4000] {
        let put = |n| packet(0, to[1], Kind::Put, n, Payload::copy_of(&vec![1; len]));
        let mut sent = 0;
        while fabrics[0].send(0, put(sent)).is_ok() {
            sent += 1;
            assert!(sent < 10_000, "credits end somewhere");
        }
        assert!(fabrics[0].send(0, put(sent)).is_err());
        let response = packet(0, to[1], Kind::GetResponse, 99, Payload::None);
        assert!(fabrics[0].send(0, response).is_ok(), "a response waits for requests");
        assert_eq!(fabrics[1].poll(1, Class::Response).unwrap().address, 99);
        assert!(!pends(&fabrics[0], 0), "nothing was said yet");
        for n in 0..sent {
            assert_eq!(fabrics[1].poll(1, Class::Request).unwrap().address, n);
        }
        assert!(pends(&fabrics[0], 0), "the sender does not hear of the room");
        assert!(fabrics[0].poll(0, Class::Request).is_none() && !pends(&fabrics[0], 0));
        assert!(fabrics[0].send(0, put(0)).is_ok());
        assert!(fabrics[1].poll(1, Class::Request).is_some());
    }
}

#[test]
fn many_senders_are_all_heard() {
    let (fabrics, to) = open(9);
    // More senders than are watched at a time, each with more packets than a turn has.
    for n in 0..50 {
        for fabric in &fabrics[1..] {
            let rank = fabric.rank() as u16;
            fabric.send(rank, packet(rank, to[0], Kind::Put, n, Payload::None)).unwrap();
        }
    }
    let mut seen = [0u64; 9];
    for taken in 0..400 {
        let packet = fabrics[0].poll(0, Class::Request).unwrap();
        let from = usize::from(packet.source.node);
        assert_eq!(packet.address, seen[from]);
        seen[from] += 1;
        if taken == 8 * 16 {
            assert!(seen[1..].iter().filter(|n| **n > 0).count() >= 4, "{seen:?}: nobody has all turns");
        }
    }
    assert_eq!(seen[1..], [50; 8]);
    assert!(fabrics[0].poll(0, Class::Request).is_none() && !pends(&fabrics[0], 0));
}

#[test]
fn a_reference_is_held_until_its_reader_is_done() {
    let (fabrics, to) = open(2);
    let (payload, state, block) = reference(&fabrics[0], 100_000);
    // SAFETY: the block is ours, and long enough.
    unsafe { block.ptr().write_bytes(7, 100_000) };
    fabrics[0].send(0, packet(0, to[1], Kind::Put, 0, payload)).unwrap();
    assert_eq!(fabrics[0].holders(), [1]);
    let packet = fabrics[1].poll(1, Class::Request).unwrap();
    let Payload::Foreign(foreign) = &packet.payload else { panic!("{:?}", packet.payload) };
    let memory = HostMemory::new();
    let mut target = vec![0u8; 100_000];
    let at = target.as_mut_ptr() as u64;
    // SAFETY: removed before the vector goes.
    unsafe { memory.add_range(RangeKind::Host, at, 100_000).unwrap() };
    memory.copy_foreign(at, foreign, 0, 100_000).unwrap();
    assert!(memory.copy_foreign(at, foreign, 1, 100_000).is_err(), "beyond the reference");
    assert!(memory.copy(at, block.ptr() as u64, 8).is_err(), "not declared here");
    memory.remove_range(at, 100_000).unwrap();
    assert!(target.iter().all(|b| *b == 7));
    assert!(fabrics[0].poll(0, Class::Response).is_none() && !state.is_done(), "still read");
    // Another one, in the same place later, is not taken for the first.
    let (payload, second, _block) = reference(&fabrics[0], 8192);
    fabrics[0].send(0, self::packet(0, to[1], Kind::Put, 1, payload)).unwrap();
    drop(packet);
    assert!(pends(&fabrics[0], 0));
    assert!(fabrics[0].poll(0, Class::Response).is_none() && state.is_done() && !second.is_done());
    let (payload, third, _block) = reference(&fabrics[0], 8192);
    fabrics[0].send(0, self::packet(0, to[1], Kind::Put, 2, payload)).unwrap();
    drop(fabrics[1].poll(1, Class::Request));
    assert!(fabrics[0].poll(0, Class::Response).is_none() && second.is_done() && !third.is_done());
    assert_eq!(fabrics[0].holders(), [1]);
    drop(fabrics[1].poll(1, Class::Request));
    assert!(fabrics[0].poll(0, Class::Response).is_none() && third.is_done());
    assert!(fabrics[0].holders().is_empty());
}

/// Kinds of messages that processes meet with.
pub const ASK: u16 = 1;
pub const ANSWER: u16 = 2;

/// What a member that does as it likes gets when it is met: the victim's inbox. It gives the victim's own memory for
/// its own.
fn met_by_hostile(victim: &ProcessFabric, hostile: &Arc<Member>) -> memmap2::MmapRaw {
    let (give, given) = std::sync::mpsc::channel();
    hostile.handle(ASK, Arc::new(move |_, _, fds| give.send(fds).unwrap_or_default()));
    assert!(!victim.has_met(hostile.me().slot));
    let fds: Vec<OwnedFd> = given.recv_timeout(PATIENCE).expect("the victim asks");
    let both: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    let sent = hostile.send(victim.member().me(), ANSWER, &[], &both, Instant::now() + PATIENCE);
    assert!(sent.unwrap());
    until("the victim has met it", || victim.has_met(hostile.me().slot));
    memmap2::MmapOptions::new().map_raw(&fds[0]).unwrap()
}

/// Members of a job, each on a node of its own.
fn job(processes: u32) -> Vec<Arc<Member>> {
    Member::all_of_job(Shape::new(processes, 1).unwrap()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever lies in its inbox, a process takes no harm; at worst it takes the sender for lost.
    #[test]
    fn hostile_bytes_in_an_inbox_do_no_harm(
        seed: u64, first in 0u8..12, dense in 0usize..3, kinds in proptest::collection::vec(any::<[u64; 8]>(), 1..9)
    ) {
        let members = job(2);
        let victim = ProcessFabric::join(members[1].clone()).unwrap();
        let map = met_by_hostile(&victim, &members[0]);
        let mut rng = fastrand::Rng::with_seed(seed);
        let words = map.len() / 8;
        let word = |i: usize| {
            // SAFETY: inside the mapping, aligned.
            unsafe { std::sync::atomic::AtomicU64::from_ptr(map.as_mut_ptr().cast::<u64>().add(i)) }
        };
        for _ in 0..[0, 1000, 20_000][dense] {
            word(rng.usize(8..words)).store(rng.u64(..), Ordering::Relaxed);
        }
        // Entries that look valid: every 64-byte line that may be one gets the first lap.
        for line in 512 / 8 * 8..words / 8 {
            let entry = kinds[rng.usize(..kinds.len())];
            let plausible = u64::from(first) << 32 | entry[0] & !0xff_ffff_ffff | u64::from(rng.u8(..)) << 32;
            if dense != 1 || rng.bool() {
                for (i, value) in entry.iter().enumerate().skip(1) {
                    word(line * 8 + i).store(*value, Ordering::Relaxed);
                }
                word(line * 8).store(plausible & !0xffff_ffff | 1, Ordering::Release);
            }
        }
        word(8 + 1).store(u64::MAX, Ordering::SeqCst);
        let mut taken = Vec::new();
        for _ in 0..600 {
            let _ = pends(&victim, 1);
            for class in [Class::Request, Class::Response] {
                taken.extend(victim.poll(1, class));
            }
        }
        for packet in &taken {
            prop_assert_eq!((packet.source.node, packet.destination.node), (0, 1));
            prop_assert!(packet.tc <= 3 && packet.total <= 8 << 20 && packet.payload.len() <= 8 << 20);
        }
        drop(taken);
        let malformed = victim.counters().malformed;
        prop_assert!(malformed <= u64::from(members[0].shape().members()), "an abandoned ring is not read again");
        prop_assert!(malformed > 0 || members[0].state(members[0].me()) == PeerState::Joined);
    }

    /// Entries that were fine until a few bits of them changed.
    #[test]
    fn damaged_entries_do_no_harm(seed: u64, flips in 1usize..12) {
        let mut members = job(3);
        let hostile = members.pop().unwrap();
        let fabrics: Vec<_> = members.into_iter().map(|m| ProcessFabric::join(m).unwrap()).collect();
        meet(&fabrics);
        let (sender, victim) = (&fabrics[0], &fabrics[1]);
        let map = met_by_hostile(victim, &hostile);
        let to = Address::new(1, victim.nodes().take_vpid(256).unwrap());
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut blocks = Vec::new();
        for n in 0..40 {
            let payload = match n % 4 {
                0 => Payload::None,
                1 => Payload::copy_of(&[7; 8]),
                2 => Payload::copy_of(&[7; 300]),
                _ => {
                    let (payload, _, block) = reference(sender, 8192);
                    blocks.push(block);
                    payload
                }
            };
            sender.send(0, packet(0, to, Kind::Put, n, payload)).unwrap();
        }
        let word = |i: usize| {
            // SAFETY: inside the mapping, aligned.
            unsafe { std::sync::atomic::AtomicU64::from_ptr(map.as_mut_ptr().cast::<u64>().add(i)) }
        };
        let used: Vec<usize> = (512..map.len() / 8).filter(|i| word(*i).load(Ordering::SeqCst) != 0).collect();
        for _ in 0..flips {
            word(used[rng.usize(..used.len())]).fetch_xor(1 << rng.u32(..64), Ordering::SeqCst);
        }
        let memory = HostMemory::new();
        let mut target = vec![0u8; 8 << 20];
        // SAFETY: the vector outlives the memory's use.
        unsafe { memory.add_range(RangeKind::Host, target.as_mut_ptr() as u64, target.len()).unwrap() };
        for _ in 0..100 {
            let Some(packet) = victim.poll(1, Class::Request) else { continue };
            prop_assert_eq!((packet.source.node, packet.destination.node), (0, 1));
            if let Payload::Foreign(foreign) = &packet.payload {
                memory.copy_foreign(target.as_mut_ptr() as u64, foreign, 0, foreign.len()).unwrap();
            }
        }
        prop_assert!(victim.counters().malformed <= 1);
    }
}
