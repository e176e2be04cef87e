//! How two processes meet: whoever asks, whatever comes in between.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use extoll_abi::Address;
use extoll_sim::packet::{ByReference, Class, Hold, Kind, Payload};
use extoll_sim::runs::Run;
use extoll_sim::shared::ProcessFabric;
use extoll_sim::{Fabric, Wake};
use ggas_members::memory::Arena;
use ggas_members::{Member, Members, NetworkShape, PeerState};

use crate::common::PATIENCE;
use crate::rings::{ANSWER, ASK, Bell, packet, pends, reference, until};

/// A network of two nodes that nobody else knows, and its first member, which stays.
fn network() -> Arc<Member> {
    Member::join_private(&NetworkShape::torus(2, 1, 1).unwrap(), 0).unwrap()
}

fn join(first: &Member, node: u16) -> Arc<Member> {
    Member::join_network(first.network(), first.shape(), node).unwrap()
}

fn open(member: Arc<Member>) -> (Arc<ProcessFabric>, Address) {
    let fabric = ProcessFabric::join(member).unwrap();
    let vpid = fabric.nodes().take_vpid(256).unwrap();
    let node = fabric.member().node();
    (fabric, Address::new(node, vpid))
}

/// Sends a packet as soon as the way is open.
fn send(from: &ProcessFabric, to: Address, number: u64, payload: Payload) {
    let node = from.member().node();
    let mut waiting = Some(packet(node, to, Kind::Put, number, payload));
    until("the packet goes", || {
        waiting = waiting.take().and_then(|packet| from.send(node, packet).err());
        waiting.is_none()
    });
}

fn take(fabric: &ProcessFabric) -> u64 {
    let mut came = None;
    until("a packet comes", || {
        came = fabric.poll(fabric.member().node(), Class::Request);
        came.is_some()
    });
    came.unwrap().address
}

/// A member's thread of messages, held up from when it comes to it until this is dropped.
struct HeldUp([Arc<Barrier>; 2]);

impl HeldUp {
    fn soon(member: &Member) -> HeldUp {
        let barriers = [(); 2].map(|()| Arc::new(Barrier::new(2)));
        let there = barriers.clone();
        member.soon(Duration::ZERO, move || {
            for barrier in &there {
                barrier.wait();
            }
        });
        HeldUp(barriers)
    }

    fn reached(self) -> HeldUp {
        self.0[0].wait();
        self
    }
}

impl Drop for HeldUp {
    fn drop(&mut self) {
        self.0[1].wait();
    }
}

/// Has one ask another, which answers; the answer lies there unread as long as the value lives.
fn ask(asks: &ProcessFabric, asked: &ProcessFabric) -> HeldUp {
    let before = HeldUp::soon(asks.member()).reached();
    assert!(!asks.has_met(asked.rank()));
    // Both are done in one go.
    let held = HeldUp::soon(asks.member());
    drop(before);
    let held = held.reached();
    until("the asked one has met", || asked.has_met(asks.rank()));
    held
}

#[test]
fn a_process_need_not_meet_itself() {
    let (fabric, here) = open(network());
    assert!(fabric.has_met(fabric.rank()));
    send(&fabric, here, 3, Payload::None);
    assert_eq!((take(&fabric), fabric.holders()), (3, vec![]));
}

#[test]
fn both_may_begin_at_the_same_instant() {
    let first = network();
    for round in 0..1000u64 {
        let pair = [0, 1].map(|node| open(join(&first, node)));
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            for (me, peer) in [(0, 1), (1, 0)] {
                let (start, (fabric, _), to) = (&start, &pair[me], pair[peer].1);
                scope.spawn(move || {
                    // By reference every other time: the arena has to be there, too.
                    let (payload, _, _block) = reference(fabric, 8192);
                    let payload = if round % 2 == 0 { payload } else { Payload::None };
                    start.wait();
                    send(fabric, to, 2 * round, payload);
                    send(fabric, to, 2 * round + 1, Payload::None);
                    assert_eq!([take(fabric), take(fabric)], [2 * round, 2 * round + 1]);
                });
            }
        });
        for (fabric, _) in &pair {
            let node = fabric.member().node();
            assert!(fabric.poll(node, Class::Request).is_none(), "once");
            assert_eq!((fabric.counters().malformed, fabric.counters().discarded), (0, 0));
        }
        let states = pair.each_ref().map(|(fabric, _)| first.state(fabric.member().me()));
        assert_eq!(states, [PeerState::Joined; 2]);
    }
}

/// The answer and the packets behind it go different ways.
#[test]
fn packets_that_overtake_the_answer_wait_for_it() {
    let first = network();
    let [(a, here), (b, _)] = [0, 1].map(|node| open(join(&first, node)));
    let held = ask(&a, &b);
    let (payload, state, block) = reference(&b, 8192);
    // SAFETY: the block is ours, and long enough.
    unsafe { block.ptr().write_bytes(7, 8192) };
    send(&b, here, 1, Payload::copy_of(&[1; 8]));
    send(&b, here, 2, payload);
    assert_eq!(take(&a), 1);
    for _ in 0..100 {
        assert!(a.poll(0, Class::Request).is_none(), "its bytes cannot be reached yet");
    }
    assert_eq!((a.counters().malformed, first.state(b.member().me())), (0, PeerState::Joined));
    drop(held);
    let mut came = None;
    until("it comes", || {
        came = a.poll(0, Class::Request);
        came.is_some()
    });
    let Some(Payload::Foreign(foreign)) = came.as_ref().map(|packet| &packet.payload) else {
        panic!("{came:?}")
    };
    assert_eq!((foreign.len(), state.is_done()), (8192, false));
    drop(came);
    until("it is returned", || b.poll(1, Class::Response).is_none() && state.is_done());
}

/// A sender that fills its rings before its answer is read hears of the room there is then.
#[test]
fn room_is_told_to_a_sender_whose_answer_is_not_read() {
    let first = network();
    let [(a, here), (b, _)] = [0, 1].map(|node| open(join(&first, node)));
    let held = ask(&a, &b);
    let mut sent = 0;
    while b.send(1, packet(1, here, Kind::Put, sent, Payload::None)).is_ok() {
        sent += 1;
    }
    (0..sent).for_each(|n| assert_eq!(take(&a), n));
    assert!(b.poll(1, Class::Request).is_none() && !pends(&b, 1));
    drop(held);
    until("the sender hears of it", || pends(&b, 1));
}

/// What waits for a process that will never answer goes to the sender's own card, which acts for the target.
#[test]
fn a_member_without_its_fabric_is_met_by_nobody() {
    let first = network();
    for met in [true, false] {
        let (a, _) = open(join(&first, 0));
        let (b, to) = open(join(&first, 1));
        let member = b.member().clone();
        let before = a.departures().load(Ordering::SeqCst);
        if met {
            until("they meet", || a.has_met(b.rank()));
            send(&a, to, 0, Payload::None);
            drop(b);
            until("it says goodbye", || a.departures().load(Ordering::SeqCst) != before);
        } else {
            drop(b);
        }
        send(&a, to, 1, Payload::None);
        // What it had not taken comes back as well.
        (u64::from(!met)..2).for_each(|number| assert_eq!(take(&a), number));
        assert_eq!(first.state(member.me()), PeerState::Joined, "its member stays");
        // Whoever waits for the member's end looks again when that comes, and may be told of other news before.
        let id = member.me();
        let mut before = a.departures().load(Ordering::SeqCst);
        drop(member);
        while first.state(id) != PeerState::Left {
            until("its end is told", || a.departures().load(Ordering::SeqCst) != before);
            before = a.departures().load(Ordering::SeqCst);
        }
    }
}

/// Those that are taken for dead see the others hang up: they take nobody for dead in turn, and send nothing more.
#[test]
fn who_is_taken_for_dead_takes_nobody_for_dead() {
    let first = network();
    for _ in 0..20 {
        let [(a, here), (b, _), (c, there)] = [0, 1, 1].map(|node| open(join(&first, node)));
        for peer in [&a, &c] {
            until("they meet", || b.has_met(peer.rank()) && peer.has_met(b.rank()));
        }
        a.lose(b.rank());
        assert_eq!(first.state(b.member().me()), PeerState::Lost);
        until("it notices", || b.departures().load(Ordering::SeqCst) != 0);
        for member in [a.member(), c.member()] {
            assert_eq!(first.state(member.me()), PeerState::Joined);
        }
        for to in [here, there] {
            send(&b, to, 5, Payload::None);
            assert_eq!(take(&b), 5, "its own card has it");
        }
        assert!(c.poll(1, Class::Request).is_none());
    }
}

#[test]
fn nothing_is_sent_by_one_that_has_left() {
    let first = network();
    let [(a, here), (b, _)] = [0, 1].map(|node| open(join(&first, node)));
    until("they meet", || a.has_met(b.rank()) && b.has_met(a.rank()));
    send(&b, here, 1, Payload::None);
    b.leave();
    send(&b, here, 2, Payload::None);
    assert_eq!((take(&b), take(&a)), (2, 1));
    assert!(a.poll(0, Class::Request).is_none());
    // Its slot is another's now.
    let (next, _) = open(join(&first, 1));
    assert_eq!(next.rank(), b.rank());
    until("they meet", || {
        assert!(a.poll(0, Class::Request).is_none());
        next.has_met(a.rank())
    });
    send(&b, here, 3, Payload::None);
    send(&next, here, 4, Payload::None);
    assert_eq!((take(&b), take(&a)), (3, 4));
}

/// What a former owner of a slot returns late releases nothing of the next one's.
#[test]
fn late_returns_are_of_whoever_borrowed() {
    let first = network();
    let (a, _) = open(join(&first, 0));
    let mut kept = Vec::new();
    for _ in 0..20 {
        let (b, to) = open(join(&first, 1));
        until("they meet", || {
            let _ = a.poll(0, Class::Response);
            a.has_met(b.rank())
        });
        let (payload, state, _block) = reference(&a, 8192);
        send(&a, to, 1, payload);
        kept.push(b.poll(1, Class::Request).unwrap());
        // All that borrowed before, and its slot had, return it now.
        let last = kept.pop();
        kept.clear();
        kept.extend(last);
        for _ in 0..10 {
            let _ = a.poll(0, Class::Response);
        }
        assert!(!state.is_done(), "it is still read");
        drop(b);
        until("its end is noticed", || state.is_done());
    }
}

/// A put that was begun while nobody served the address is treated so, also when somebody does before it goes.
#[test]
fn what_cannot_travel_comes_to_the_senders_own_card() {
    let first = network();
    let [(a, _), (b, to)] = [0, 1].map(|node| open(join(&first, node)));
    until("they meet", || a.has_met(b.rank()));
    let private = vec![1u8; 8192];
    let bell: Arc<dyn Wake> = Arc::new(Bell::default());
    let (hold, state) = Hold::new(Arc::downgrade(&bell));
    let run = Run { address: private.as_ptr() as u64, len: 8192 };
    send(&a, to, 9, Payload::ByReference(ByReference { first: run, more: Vec::new(), tail: None, hold }));
    assert_eq!((take(&a), state.is_done()), (9, true));
    assert!(b.poll(1, Class::Request).is_none());
    assert_eq!(a.counters().discarded, 0);
}

/// A member that answers with `given` for its inbox and its arena.
fn answers(given: &[BorrowedFd<'_>]) -> PeerState {
    let first = network();
    let (victim, _) = open(join(&first, 0));
    let hostile = join(&first, 1);
    let (ask, asked) = std::sync::mpsc::channel();
    hostile.handle(ASK, Arc::new(move |_, _, _| ask.send(()).unwrap_or_default()));
    assert!(!victim.has_met(hostile.me().slot));
    asked.recv_timeout(PATIENCE).expect("it asks");
    let sent = hostile.send(victim.member().me(), ANSWER, &[], given, Instant::now() + PATIENCE);
    assert!(sent.unwrap());
    until("it is judged", || {
        victim.has_met(hostile.me().slot) || first.state(hostile.me()) != PeerState::Joined
    });
    let judged = first.state(hostile.me());
    drop(hostile);
    // The next one that comes is met.
    let (next, _) = open(join(&first, 1));
    until("they meet", || {
        assert!(victim.poll(0, Class::Request).is_none());
        victim.has_met(next.rank())
    });
    judged
}

/// What a member gives for its memory is checked: its size is fixed, and that of an inbox of this network.
#[test]
fn memory_that_is_none_is_refused() {
    use ggas_members::memory::create;
    let null = std::fs::File::open("/dev/null").unwrap();
    let arena = Arena::create(1 << 20).unwrap();
    let small = create(c"test", 4096).unwrap();
    let unsealed =
        nix::sys::memfd::memfd_create(c"test", nix::sys::memfd::MFdFlags::MFD_ALLOW_SEALING).unwrap();
    let inbox = std::fs::File::from(inbox());
    let bytes = inbox.metadata().unwrap().len();
    nix::unistd::ftruncate(&unsealed, bytes as i64).unwrap();
    let empty = create(c"test", bytes).unwrap();
    // It begins as one that could be.
    let short = std::fs::File::from(create(c"test", bytes / 2).unwrap());
    let mut head = [0; 4096];
    inbox.read_exact_at(&mut head, 0).unwrap();
    short.write_all_at(&head, 0).unwrap();
    let [null, small, unsealed, empty] = [null.as_fd(), small.as_fd(), unsealed.as_fd(), empty.as_fd()];
    for given in [
        &[][..],
        &[arena.fd()],
        &[null, arena.fd()],
        &[small, arena.fd()],
        &[unsealed, arena.fd()],
        &[empty, arena.fd()],
        &[short.as_fd(), arena.fd()],
        &[inbox.as_fd(), null],
        &[inbox.as_fd(), arena.fd(), arena.fd()],
    ] {
        assert_eq!(answers(given), PeerState::Lost, "{given:?}");
    }
}

/// An inbox of such networks, whose owner is gone.
fn inbox() -> OwnedFd {
    let first = network();
    let (fabric, _) = open(join(&first, 0));
    let spy = join(&first, 1);
    let (give, given) = std::sync::mpsc::channel();
    spy.handle(ASK, Arc::new(move |_, _, fds| give.send(fds).unwrap_or_default()));
    assert!(!fabric.has_met(spy.me().slot));
    given.recv_timeout(PATIENCE).expect("it asks").swap_remove(0)
}
