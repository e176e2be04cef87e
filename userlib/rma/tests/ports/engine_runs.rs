//! Engines that begin, end, and take notice of changes while they run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::engines::{engines, errors, is_full, patient, port, small_port};
use crate::common::{SOON, Stops, bytes, pattern, region, until};
use ggas_device::engine::{EngineErrors, EngineNetwork};
use ggas_rma::Spec;

#[test]
fn engines_run_until_the_last_holder_lets_go() {
    let network = engines(2);
    let (origin, target) = (port(&network, 0), port(&network, 1));
    let connection = origin.connect(target.address());
    let holders = [network.run().unwrap(), network.run().unwrap()];
    for (i, holder) in (0..).zip(holders) {
        connection.notification_put(1, i, Spec::COMPLETER).unwrap();
        assert_eq!(target.wait(SOON).unwrap().word0, i);
        drop(holder);
    }
    // Nobody takes it, and so the port waits.
    connection.notification_put(1, 2, Spec::COMPLETER).unwrap();
    assert!(target.poll().is_none());
    let _running = network.run().unwrap();
    assert_eq!(target.wait(SOON).unwrap().word0, 2);
}

/// Nothing would make it end, but that it is told to end at once.
#[test]
fn engines_end_though_a_full_queue_is_waited_for_and_lose_nothing() {
    const POSTS: u64 = 300;
    let network = patient(Duration::from_secs(1));
    let (origin, target) = (small_port(&network, 0), small_port(&network, 1));
    let running = network.run().unwrap();
    let connection = origin.connect(target.address());
    (0..POSTS).for_each(|i| connection.notification_put(1, i, Spec::COMPLETER).unwrap());
    until("the queue does not fill", || is_full(&target));
    let begun = Instant::now();
    drop(running);
    assert!(begun.elapsed() < SOON / 2, "{:?}", begun.elapsed());
    let _running = network.run().unwrap();
    for i in 0..POSTS {
        assert_eq!(target.wait(SOON).unwrap().word0, i);
    }
    assert_eq!(errors(&network, 1), EngineErrors::default());
}

/// Nor is any of it there twice: engines take notice of that at any time.
#[test]
fn what_arrives_while_processes_are_lost_is_not_lost() {
    let network = engines(3);
    let losses = network.losses();
    arrives_meanwhile(&network, 200, |taken| {
        losses.lost(2);
        // Engines that hear something at every look do nothing else: something is taken before the next, or time passes.
        let (before, begun) = (taken.load(Ordering::Relaxed), Instant::now());
        while taken.load(Ordering::Relaxed) == before && begun.elapsed() < Duration::from_millis(20) {
            thread::sleep(Duration::from_millis(1));
        }
        true
    });
}

/// Nor is any of their data left out, or what was done for one of them taken for done for the next.
#[test]
fn puts_and_gets_that_meet_changes_of_other_ports_bring_their_data() {
    const BYTES: usize = 64;
    const PUTS: usize = 48;
    let network = engines(2);
    let (origin, target) = (port(&network, 0), port(&network, 1));
    let (from, to) = (region(&origin, PUTS * BYTES, 0), region(&target, PUTS * BYTES, 0));
    let (back, there) = (region(&origin, BYTES, 0), region(&target, BYTES, 0));
    let _running = network.run().unwrap();
    let connection = origin.connect(target.address());
    for round in 1..40 {
        from.write(0, &pattern(PUTS * BYTES, round)).unwrap();
        there.write(0, &pattern(BYTES, round)).unwrap();
        for at in (0..PUTS).map(|i| i * BYTES) {
            connection.put(&from, at, BYTES, to.nla(at).unwrap(), Spec::COMPLETER).unwrap();
        }
        connection.get(&back, 0, BYTES, there.nla(0).unwrap(), Spec::COMPLETER).unwrap();
        port(&network, 1).close().unwrap();
        for i in 0..PUTS {
            assert!(target.wait(SOON).unwrap().error().is_empty(), "put {i} of round {round}");
        }
        assert!(origin.wait(SOON).unwrap().error().is_empty(), "the get of round {round}");
        assert_eq!(bytes(&to, 0, PUTS * BYTES), pattern(PUTS * BYTES, round), "round {round}");
        assert_eq!(bytes(&back, 0, BYTES), pattern(BYTES, round), "the get of round {round}");
    }
    assert_eq!((target.poll(), origin.poll()), (None, None));
    assert_eq!(errors(&network, 1), EngineErrors::default());
}

/// So many are under way at most; `meanwhile` is called over and over as long as it says so, with how many were taken.
fn arrives_meanwhile(network: &EngineNetwork, ahead: u64, meanwhile: impl Fn(&AtomicU64) -> bool + Sync) {
    let (origin, target) = (port(network, 0), port(network, 1));
    let _running = network.run().unwrap();
    let connection = origin.connect(target.address());
    let (stop, taken) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let (stop, taken, connection, meanwhile) = (&stop, &taken, &connection, &meanwhile);
        let poster = scope.spawn(move || {
            let mut posts = 0;
            while !stop.load(Ordering::Relaxed) {
                // The queue never fills up.
                if posts - taken.load(Ordering::Relaxed) > ahead {
                    thread::yield_now();
                    continue;
                }
                connection.notification_put(1, posts, Spec::COMPLETER).unwrap();
                posts += 1;
            }
            posts
        });
        scope.spawn(move || while !stop.load(Ordering::Relaxed) && meanwhile(taken) {});
        let stops = Stops(stop);
        let mut next = 0;
        // More comes all the time.
        for _ in 0..6 * (ahead / 4) {
            assert_eq!(target.wait(SOON).unwrap().word0, next);
            next += 1;
            taken.store(next, Ordering::Relaxed);
        }
        drop(stops);
        for i in next..poster.join().unwrap() {
            assert_eq!(target.wait(SOON).unwrap().word0, i);
        }
    });
    assert!(target.poll().is_none());
    assert_eq!(errors(network, 1), EngineErrors::default());
}
