//! The fabric alone: what is left of a process that leaves or is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use extoll_sim::memory::Memory;
use extoll_sim::packet::{ANYONE, Class, Kind, NOBODY, Packet, Payload};
use extoll_sim::{Fabric, HostMemory, RangeKind};
use ggas_members::PeerState;

use crate::rings::{Bell, open, packet, reference, until};

#[test]
fn a_lost_process_holds_nothing_and_gets_nothing() {
    for taken in [false, true] {
        let (fabrics, to) = open(3);
        let (bell, before) = (Arc::new(Bell::default()), fabrics[0].departures().load(Ordering::SeqCst));
        fabrics[0].attach(0, bell.clone()).unwrap();
        let sent: Vec<_> = (0..5).map(|_| reference(&fabrics[0], 8192)).collect();
        let (mut states, mut blocks) = (Vec::new(), Vec::new());
        for (number, (payload, state, block)) in (0..).zip(sent) {
            fabrics[0].send(0, packet(0, to[1], Kind::Put, number, payload)).unwrap();
            states.push(state);
            blocks.push(block);
        }
        fabrics[1].send(1, packet(1, to[0], Kind::Put, 77, Payload::None)).unwrap();
        let kept = taken.then(|| fabrics[1].poll(1, Class::Request).unwrap());
        fabrics[0].lose(1);
        let first = usize::from(taken);
        assert!(states[..first].iter().all(|state| state.is_done()), "it reads nothing any more");
        assert_eq!(fabrics[0].state_of(to[1]), PeerState::Lost);
        assert_eq!(fabrics[2].state_of(to[1]), PeerState::Lost, "all processes see it");
        assert_eq!(fabrics[0].departures().load(Ordering::SeqCst), before + 1);
        assert!(bell.0.load(Ordering::SeqCst) > 0);
        let (payload, state, _block) = reference(&fabrics[0], 8192);
        fabrics[0].send(0, packet(0, to[1], Kind::Put, 78, payload)).unwrap();
        // What it had sent arrives all the same, once. What it had not taken, and what is sent to it, comes to the
        // sender's own card.
        assert!(!fabrics[0].drained() && !state.is_done());
        let mut came: Vec<_> = std::iter::from_fn(|| fabrics[0].poll(0, Class::Request)).collect();
        came.sort_by_key(|packet| packet.address);
        let seen: Vec<_> = came.iter().map(|packet| (packet.address, packet.destination)).collect();
        let untaken = (first as u64..5).map(|number| (number, to[1]));
        assert!(seen.iter().copied().eq(untaken.chain([(77, to[0]), (78, to[1])])), "{seen:?}");
        let by_reference = |packet: &Packet| matches!(packet.payload, Payload::ByReference(_));
        assert!(came.iter().all(|packet| packet.address == 77 || by_reference(packet)));
        drop(came);
        assert!(fabrics[0].drained() && state.is_done() && states.iter().all(|state| state.is_done()));
        // A late return releases nothing twice.
        drop(kept);
        fabrics[0].lose(1);
        assert_eq!(fabrics[0].departures().load(Ordering::SeqCst), before + 1);
        let (payload, state, _block) = reference(&fabrics[0], 8192);
        fabrics[0].send(0, packet(0, to[2], Kind::Put, 0, payload)).unwrap();
        assert!(!state.is_done(), "another peer's hold");
    }
}

/// A command was posted for one that had the address before.
#[test]
fn what_is_for_one_process_comes_to_no_other() {
    let (fabrics, to) = open(3);
    let now = fabrics[0].process_at(to[1]);
    assert_ne!(now, fabrics[0].process_at(to[2]));
    for (address, process) in [(1, now + 1000), (2, now), (3, NOBODY), (4, ANYONE)] {
        let packet = packet(0, to[1], Kind::Put, address, Payload::None);
        fabrics[0].send(0, Packet { process, ..packet }).unwrap();
    }
    let take = |fabric: usize| {
        std::iter::from_fn(|| fabrics[fabric].poll(fabric as u16, Class::Request)).collect::<Vec<_>>()
    };
    let came = take(1);
    assert!(came.iter().map(|packet| packet.address).eq([2, 4]));
    assert!(came.iter().all(|packet| packet.process == fabrics[1].process_at(to[0])), "its sender");
    // The sender's card acts for the target's, also where it has the address itself by then.
    let came: Vec<_> = take(0).iter().map(|packet| (packet.address, packet.process)).collect();
    assert_eq!(came, [(1, NOBODY), (3, NOBODY)]);
}

#[test]
fn a_process_that_leaves_is_noticed() {
    let (mut fabrics, to) = open(2);
    let (payload, state, _block) = reference(&fabrics[0], 8192);
    fabrics[0].send(0, packet(0, to[1], Kind::Put, 0, payload)).unwrap();
    fabrics[1].send(1, packet(1, to[0], Kind::Put, 5, Payload::None)).unwrap();
    // Its own thread may hold it for a moment more: then it leaves when that is done with what it does.
    fabrics.pop();
    until("it has left", || fabrics[0].state_of(to[1]) == PeerState::Left);
    until("its end is told", || fabrics[0].departures().load(Ordering::SeqCst) > 0);
    let mut came = [(); 2].map(|()| fabrics[0].poll(0, Class::Request).unwrap());
    came.sort_by_key(|packet| packet.address);
    let seen = came.each_ref().map(|packet| (packet.address, packet.destination));
    assert_eq!(seen, [(0, to[1]), (5, to[0])], "what it sent arrives, and what it had not taken comes back");
    drop(came);
    assert!(state.is_done() && fabrics[0].poll(0, Class::Request).is_none());
}

#[test]
fn what_a_process_staged_outlives_it_and_goes_with_its_last_reader() {
    let (mut fabrics, to) = open(2);
    let mut staged = fabrics[0].stage(8192).unwrap();
    staged.bytes_mut().fill(9);
    fabrics[0].send(0, packet(0, to[1], Kind::Put, 0, Payload::Lent(staged))).unwrap();
    let (taken, arena) = (fabrics[1].poll(1, Class::Request).unwrap(), Arc::downgrade(fabrics[0].arena()));
    drop(fabrics.remove(0));
    // Not at once: a thread that was looking at the lanes may still hold it for a moment.
    until("the arena goes with its process", || arena.upgrade().is_none());
    let Payload::Foreign(foreign) = &taken.payload else { panic!("{:?}", taken.payload) };
    let (memory, mut target) = (HostMemory::new(), vec![0u8; 8192]);
    let at = target.as_mut_ptr() as u64;
    // SAFETY: removed before the vector goes.
    unsafe { memory.add_range(RangeKind::Host, at, 8192).unwrap() };
    memory.copy_foreign(at, foreign, 0, 8192).unwrap();
    memory.remove_range(at, 8192).unwrap();
    assert!(target.iter().all(|b| *b == 9), "it was emptied");
}

#[test]
fn losing_a_peer_at_any_moment_frees_everything_once() {
    for seed in 0..30 {
        let (fabrics, to) = open(2);
        let (sender, receiver) = (fabrics[0].clone(), fabrics[1].clone());
        let stop = Arc::new(AtomicU32::new(0));
        let reader = std::thread::spawn({
            let stop = stop.clone();
            move || {
                let mut kept = Vec::new();
                while stop.load(Ordering::SeqCst) == 0 {
                    kept.extend(receiver.poll(1, Class::Request));
                    if kept.len() > 20 {
                        kept.clear();
                    }
                }
                kept
            }
        });
        let loser = std::thread::spawn({
            let fabric = sender.clone();
            move || {
                std::thread::sleep(Duration::from_micros(fastrand::Rng::with_seed(seed).u64(0..3000)));
                fabric.lose(1);
            }
        });
        let mut states = Vec::new();
        until("the peer is lost", || {
            let (payload, state, block) = reference(&sender, 4096);
            let refused = sender.send(0, packet(0, to[1], Kind::Put, 0, payload));
            let _ = sender.poll(0, Class::Response);
            states.push((state, block));
            drop(refused);
            states.len() > 200 && sender.state_of(to[1]) == PeerState::Lost
        });
        loser.join().unwrap();
        stop.store(1, Ordering::SeqCst);
        // Who is dead returns nothing: what it had taken is dropped only at the end.
        let _kept = reader.join().unwrap();
        let _ = sender.poll(0, Class::Response);
        // What was sent to it since came to the sender's own card.
        while sender.poll(0, Class::Request).is_some() {}
        assert!(states.iter().all(|(state, _)| state.is_done()));
        assert!(sender.holders().is_empty());
    }
}
