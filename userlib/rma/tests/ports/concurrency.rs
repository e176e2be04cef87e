//! Threads that post while others consume; regions and ports that go while traffic is in flight.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Pair, SOON, bytes, networks, paths, pattern, region};
use ggas_rma::{HostBuffer, Match, Node, PostError, Spec};

#[test]
fn threads_post_while_another_consumes() {
    const THREADS: u64 = 3;
    const EACH: u64 = 3000;
    for network in networks() {
        for config in paths() {
            let pair = Pair::new(&network, config);
            let to = region(&pair.target, 8 * THREADS as usize, 0);
            let mut next = [0u64; THREADS as usize];
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let connection = pair.origin.connect(pair.target.address());
                    let cell = to.nla(8 * thread as usize).unwrap();
                    scope.spawn(move || {
                        for i in 0..EACH {
                            // The value lies there when the notification behind it arrives.
                            connection.immediate_put(i + 1, 8, cell, Spec::NONE).unwrap();
                            connection.notification_put(thread as u8, i, Spec::COMPLETER).unwrap();
                        }
                    });
                }
                for _ in 0..THREADS * EACH {
                    let noti = pair.target.wait(SOON).unwrap();
                    let thread = noti.class() as usize;
                    assert_eq!(noti.word0, next[thread], "in order per thread");
                    assert!(to.load_u64(8 * thread).unwrap() > next[thread], "data before notification");
                    next[thread] += 1;
                }
            });
            assert_eq!(next, [EACH; THREADS as usize]);
        }
    }
}

#[test]
fn a_sleeping_wait_uses_no_cpu_and_wakes() {
    for network in networks() {
        let pair = Pair::new(&network, paths()[0]);
        let connection = pair.origin.connect(pair.target.address());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let before = thread_time();
                let noti = pair.target.wait(SOON).unwrap();
                (noti.class(), thread_time() - before)
            });
            // A waiter that spins would use as much as this thread, however many others share the cores.
            let (before, spinning) = (thread_time(), Duration::from_millis(300));
            while thread_time() - before < spinning {
                std::hint::spin_loop();
            }
            connection.notification_put(9, 0, Spec::COMPLETER).unwrap();
            let (class, used) = waiter.join().unwrap();
            assert_eq!(class, 9);
            assert!(used < spinning / 4, "a sleeping wait used {used:?} of CPU, a spinning one {spinning:?}");
        });
    }
}

/// CPU time of the calling thread.
fn thread_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    Duration::new(time.tv_sec() as u64, time.tv_nsec() as u32)
}

#[test]
fn two_waiters_with_patterns_share_a_queue() {
    let network = &networks()[1];
    let pair = Pair::new(network, paths()[0]);
    let connection = pair.origin.connect(pair.target.address());
    std::thread::scope(|scope| {
        for class in 0..2 {
            let port = &pair.target;
            scope.spawn(move || {
                for i in 0..500 {
                    let begun = Instant::now();
                    let noti = port.wait_match(&Match::any().class(class), SOON).unwrap();
                    assert_eq!(noti.word0, i);
                    assert!(begun.elapsed() < SOON, "it slept to the end, though {i} was there");
                }
            });
        }
        for i in 0..500 {
            for class in [1, 0] {
                connection.notification_put(class, i, Spec::COMPLETER).unwrap();
            }
        }
    });
    assert_eq!(pair.target.poll(), None);
}

/// Tells another thread to end, also on the way of a panic: a scope waits for its threads.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_region_may_go_while_others_write_to_it() {
    // Nobody reads while a region is unregistered, and a queue that stays full drops notifications (spec 3.2): fewer
    // than it has entries.
    const UNREAD: u64 = 8000;
    for config in paths() {
        // Anew for each: what is under way to a port that closes comes to the next one with its VPID.
        for network in networks() {
            let pair = Pair::new(&network, config);
            let from = region(&pair.origin, 1 << 16, 1);
            let (nla, stop) = (AtomicU64::new(0), AtomicBool::new(false));
            let (posted, taken) = (AtomicU64::new(0), AtomicU64::new(0));
            std::thread::scope(|scope| {
                let connection = pair.origin.connect(pair.target.address());
                let (from, nla, stop, posted, taken) = (&from, &nla, &stop, &posted, &taken);
                let _stop = Stop(stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let (taken, posted_so_far) =
                            (taken.load(Ordering::Relaxed), posted.load(Ordering::Relaxed));
                        assert!(taken <= posted_so_far, "{taken} notifications of {posted_so_far} puts");
                        if posted_so_far - taken >= UNREAD {
                            std::thread::yield_now();
                            continue;
                        }
                        posted.fetch_add(1, Ordering::Relaxed);
                        let remote = nla.load(Ordering::Relaxed);
                        connection.put(from, 0, 1 << 16, remote, Spec::COMPLETER).unwrap();
                    }
                });
                // The next notification with errors or without; everything before it is taken.
                let wait = |failed: bool, round: u32| {
                    let start = Instant::now();
                    loop {
                        let left = SOON.saturating_sub(start.elapsed());
                        let noti = pair.target.wait(left).unwrap_or_else(|e| panic!("round {round}: {e}"));
                        taken.fetch_add(1, Ordering::Relaxed);
                        if noti.error().is_empty() != failed {
                            return;
                        }
                    }
                };
                let drain = || {
                    while pair.target.poll().is_some() {
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                };
                for round in 0..30 {
                    let to = pair.target.register(HostBuffer::zeroed(1 << 16).unwrap()).unwrap();
                    nla.store(to.nla(0).unwrap(), Ordering::Relaxed);
                    wait(false, round);
                    to.unregister().unwrap();
                    // Nothing is there now: what arrives is an error.
                    drain();
                    wait(true, round);
                    drain();
                }
            });
        }
    }
}

#[test]
fn unregistered_memory_is_never_written_again() {
    for network in networks() {
        let pair = Pair::new(&network, paths()[0]);
        let from = region(&pair.origin, 1 << 20, 1);
        let connection = pair.origin.connect(pair.target.address());
        let buffer = std::sync::Arc::new(HostBuffer::zeroed(1 << 20).unwrap());
        for _ in 0..10 {
            let to = pair.target.register_shared(buffer.clone()).unwrap();
            let remote = to.nla(0).unwrap();
            for _ in 0..20 {
                connection.put(&from, 0, 1 << 20, remote, Spec::NONE).unwrap();
            }
            drop(to);
            let zeros = vec![0u8; 1 << 20];
            buffer.write(0, &zeros);
            // Everything posted before has passed when this arrives.
            connection.notification_put(0, 0, Spec::COMPLETER).unwrap();
            pair.target.wait_match(&Match::any().class(0), SOON).unwrap();
            while pair.target.poll().is_some() {}
            let mut now = vec![1u8; 1 << 20];
            buffer.read(0, &mut now);
            assert!(now == zeros, "written after it was unregistered");
        }
    }
}

#[test]
fn ports_close_with_traffic_in_flight() {
    for network in networks() {
        for config in paths() {
            for _ in 0..10 {
                let pair = Pair::new(&network, config);
                let (from, to) = (region(&pair.origin, 1 << 16, 1), region(&pair.target, 1 << 16, 2));
                let connection = pair.origin.connect(pair.target.address());
                let remote = to.nla(0).unwrap();
                for _ in 0..50 {
                    connection.put(&from, 0, 1 << 16, remote, Spec::ALL).unwrap();
                }
                let Pair { origin, target } = pair;
                target.close().unwrap();
                origin.close().unwrap();
                assert!(matches!(connection.notification_put(0, 0, Spec::NONE), Err(PostError::Closed)));
                assert_eq!(bytes(&from, 0, 1 << 16), pattern(1 << 16, 1));
            }
            // The VPIDs come back, between processes after a rest.
            let deadline = Instant::now() + SOON;
            while Node::new(network.device(1).unwrap()).open_port(config).unwrap().address().vpid != 0 {
                assert!(Instant::now() < deadline, "VPID 0 does not come back");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

#[test]
fn a_wait_on_a_port_that_closes_ends() {
    let network = &networks()[0];
    let pair = Pair::new(network, paths()[0]);
    let handle = pair.target.handle();
    drop(pair.origin);
    // Another owner of the port's core keeps it; closing is what ends the wait.
    pair.target.wait(Duration::from_millis(20)).unwrap_err();
    pair.target.close().unwrap();
    assert!(matches!(handle.post_raw(ggas_rma::PageOption::TE, [0; 3]), Err(PostError::Closed)));
}
