//! Things that end, stop or break while they are in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use extoll_abi::regs;
use extoll_sim::faults::Event;
use extoll_sim::torus::Direction;
use ggas::{ErrorUnits, HostBuffer, Port, PostError, Spec, WaitError};
use ggas_tests::{Area, Bed, Ended, Errors, LIMIT, Shape, bytes, each, each_of, until};

fn happen(bed: &Bed, event: Event) {
    bed.cluster.network().torus().unwrap().happen(event).unwrap();
}

/// Nothing arrived, however often the card is given a chance to work.
fn stays_quiet(port: &Port, what: &str) {
    for _ in 0..50 {
        assert_eq!(port.poll(), None, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn memory_is_not_touched_once_it_is_unregistered() {
    each(|bed| {
        let pair = bed.pair();
        let len = if bed.setting.troubled() { 3000 } else { 30_000 };
        let source = Area::new(&pair.origin, len, 1);
        let buffer = Arc::new(HostBuffer::zeroed(len).unwrap());
        let region = pair.target().register_shared(buffer.clone()).unwrap();
        let nla = region.nla(0).unwrap();
        let (posted, taken, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        let mut errors = 0;
        // Fewer than the queue has entries: nobody reads it while the region is unregistered, and a queue that stays
        // full drops notifications (spec 3.2).
        let unread = 8000;
        let poison = bytes(99, len);
        std::thread::scope(|scope| {
            let ended = Ended(&stop);
            scope.spawn(|| {
                while !stop.load(Ordering::Acquire) {
                    if posted.load(Ordering::Relaxed) - taken.load(Ordering::Acquire) >= unread {
                        std::thread::yield_now();
                        continue;
                    }
                    posted.fetch_add(1, Ordering::Release);
                    pair.to.put(&source.region, 0, len, nla, Spec::COMPLETER).unwrap();
                }
            });
            let mut take = |wanted: usize, failed: usize| {
                let enough = || {
                    for n in pair.target().notifications() {
                        taken.fetch_add(1, Ordering::Release);
                        errors += usize::from(!n.error().is_empty());
                    }
                    (taken.load(Ordering::Relaxed) >= wanted && errors >= failed).then_some(())
                };
                until(|| format!("{wanted} puts, {failed} of them errors"), enough);
            };
            take(5, 0);
            // Puts are on their way now, and go on coming.
            region.unregister().unwrap();
            buffer.write(0, &poison);
            take(0, 20);
            drop(ended);
        });
        let rest = pair.settle().target;
        let all = taken.into_inner() + rest.len();
        let refused = rest.iter().all(|n| n.error().contains(ErrorUnits::COMPLETER));
        assert!(refused, "a put after the region was unregistered ended without an error: {rest:?}");
        assert_eq!(all, posted.load(Ordering::Acquire), "every put is reported, done or not");

        let mut found = vec![0; len];
        buffer.read(0, &mut found);
        assert!(found == poison, "the card wrote memory after it was unregistered");
    });
}

#[test]
fn a_source_that_is_unregistered_in_use_gives_whole_puts_or_errors() {
    each(|bed| {
        let pair = bed.pair();
        let buffer = Arc::new(HostBuffer::zeroed(4096).unwrap());
        buffer.write(0, &bytes(1, 4096));
        let region = pair.origin.register_shared(buffer.clone()).unwrap();
        let destination = Area::new(pair.target(), 40 * 4096, 2);
        let first = region.nla(0).unwrap();
        for i in 0..20 {
            pair.to.put(&region, 0, 4096, destination.nla(4096 * i), Spec::ALL).unwrap();
        }
        region.unregister().unwrap();
        buffer.write(0, &bytes(3, 4096));
        for i in 20..40 {
            let put =
                ggas::Request::Put { qw: false, read: first, write: destination.nla(4096 * i), size: 4096 };
            pair.post(&put, Spec::ALL);
        }
        let seen = pair.settle();
        assert_eq!((seen.origin.len(), seen.target.len()), (40, 40), "each is reported on both sides");
        let mut found = vec![0; 4096];
        for (i, n) in seen.target.iter().enumerate() {
            assert!(i < 20 || !n.error().is_empty(), "put {i} came after the end of its source: {n:x?}");
            destination.region.read(4096 * i, &mut found).unwrap();
            if n.error().is_empty() {
                assert!(found == bytes(1, 4096), "put {i} reported success");
            } else if i >= 20 {
                assert!(found == destination.expected(4096 * i, 4096), "put {i} failed and wrote");
            }
        }
    });
}

#[test]
fn a_port_closes_under_traffic_and_its_vpid_serves_again() {
    each_of(
        |s| s.shape != Shape::OnePort,
        |bed| {
            let pair = bed.pair();
            let source = Area::new(&pair.origin, 4096, 1);
            let stop = AtomicBool::new(false);
            let bystander_port = bed.target().open_port(bed.setting.port()).unwrap();
            let bystander = Area::new(&bystander_port, 8192, 4);

            let nla = {
                // A region dies with its port at the latest.
                let region = pair.target().register(HostBuffer::zeroed(8192).unwrap()).unwrap();
                region.nla(0).unwrap()
            };
            let (origin, to) = (&pair.origin.handle(), pair.to.clone());
            let (origin_port, target) = pair.into_ports();
            let target = target.unwrap();
            let address = target.address();
            std::thread::scope(|scope| {
                let ended = Ended(&stop);
                scope.spawn(|| {
                    while !stop.load(Ordering::Acquire) {
                        to.put(&source.region, 0, 4096, nla, Spec::COMPLETER).unwrap();
                        to.notification_put(3, 4, Spec::COMPLETER).unwrap();
                        std::thread::yield_now();
                    }
                });
                let mut taken = 0;
                until(
                    || "traffic".to_owned(),
                    || {
                        taken += target.notifications().count();
                        (taken > 10).then_some(())
                    },
                );
                target.close().unwrap();
                drop(ended);
            });
            // What still comes finds no port, and the origin goes on. Packets to a node's open ports keep their order, so
            // behind what the bystander hears of nothing of the old traffic is left there. Between processes the sender
            // refuses by itself what nobody serves, in its own time.
            let refused = || Errors::of(bed.target()).count(regs::COMPL_VPID);
            let before = refused();
            to.notification_put(1, 1, Spec::COMPLETER).unwrap();
            origin.connect(bystander_port.address()).notification_put(1, 2, Spec::COMPLETER).unwrap();
            let heard = || {
                origin_port.poll();
                bystander_port.poll()
            };
            assert_eq!(until(|| "the bystander's notification".to_owned(), heard).word0, 2);
            let counted = || {
                origin_port.poll();
                (refused() > before).then_some(())
            };
            until(|| format!("more than {before} packets counted that found no port"), counted);
            bystander.verify("memory of another port");
            // Between processes it rests for a while, in which others are given out.
            let open = || Some(bed.target().open_port(bed.setting.port()).unwrap());
            let free = || open().filter(|port| port.address() == address);
            let again = until(|| format!("{address} is free"), free);
            assert_eq!(again.poll(), None, "a new port has no old notifications");
            to.notification_put(8, 9, Spec::COMPLETER).unwrap();
            let heard = || {
                origin_port.poll();
                again.poll()
            };
            let n = until(|| "the new port's notification".to_owned(), heard);
            assert_eq!((n.class(), n.word0), (8, 9));
        },
    );
}

#[test]
fn whoever_uses_a_closed_port_is_told() {
    each_of(
        |s| !s.troubled(),
        |bed| {
            let pair = bed.pair();
            let region = pair.origin.register(HostBuffer::zeroed(64).unwrap()).unwrap();
            let (to, handle) = (pair.to.clone(), pair.origin.handle());
            let (origin, _target) = pair.into_ports();
            origin.close().unwrap();
            assert!(matches!(to.put(&region, 0, 8, 0, Spec::NONE), Err(PostError::Closed)));
            assert!(matches!(handle.post_raw(to.option(), [3, 0, 0]), Err(PostError::Closed)));
            assert!(handle.register(HostBuffer::zeroed(64).unwrap()).is_err());
            region.unregister().unwrap();
        },
    );
}

#[test]
fn a_waiting_thread_wakes_when_its_notification_comes() {
    each_of(
        |s| s.shape != Shape::OnePort,
        |bed| {
            let pair = bed.pair();
            std::thread::scope(|scope| {
                let waiter = scope
                    .spawn(|| (0..20).for_each(|i| assert_eq!(pair.target().wait(LIMIT).unwrap().word0, i)));
                for i in 0..20 {
                    // Late enough for it to sleep at times; right whether it does or not.
                    std::thread::sleep(std::time::Duration::from_micros(150 * (i % 4)));
                    pair.to.notification_put(1, i, Spec::COMPLETER).unwrap();
                }
                // Nobody posts or polls any more, except for the waiter.
                waiter.join().unwrap();
            });
        },
    );
}

#[test]
fn a_stopped_card_goes_on_where_it_was() {
    each_of(
        |s| s.has_events() && matches!(s.shape, Shape::TwoNodes | Shape::Torus),
        |bed| {
            let pair = bed.pair();
            let source = Area::new(&pair.origin, 8192, 1);
            let destination = Area::new(pair.target(), 8192, 2);
            let node = bed.target().id();
            for round in 0..3u64 {
                happen(bed, Event::Stop(node));
                pair.to
                    .put(&source.region, 0, 5000, destination.nla(round as usize), Spec::COMPLETER)
                    .unwrap();
                pair.to.notification_put(1, round, Spec::COMPLETER).unwrap();
                stays_quiet(pair.target(), "a notification from a stopped card");
                destination.verify("memory at a stopped card");
                happen(bed, Event::Resume(node));
                destination.expect(round as usize, &source.expected(0, 5000));
                let seen = pair.settle();
                assert_eq!(seen.target.len(), 2, "{seen:x?}");
                assert_eq!(seen.target[1].word0, round);
                destination.verify("memory after the card went on");
            }
        },
    );
}

#[test]
fn packets_wait_for_a_link_that_is_down() {
    each_of(
        |s| s.has_events() && s.shape == Shape::TwoNodes,
        |bed| {
            let pair = bed.pair();
            let source = Area::new(&pair.origin, 8192, 1);
            let destination = Area::new(pair.target(), 8192, 2);
            // Every cable between the two.
            let torus = *bed.cluster.network().torus().unwrap().torus();
            let cables: Vec<Direction> =
                Direction::ALL.into_iter().filter(|d| torus.neighbour(0, *d) == Some(1)).collect();
            assert!(!cables.is_empty());
            for round in 0..3 {
                cables.iter().for_each(|d| happen(bed, Event::LinkDown(0, *d)));
                for i in 0..30 {
                    let at = 200 * i + round;
                    pair.to.try_put(&source.region, at, 190, destination.nla(at), Spec::COMPLETER).ok();
                }
                pair.to.try_notification_put(1, 5, Spec::COMPLETER).ok();
                stays_quiet(pair.target(), "a notification over a link that is down");
                destination.verify("memory behind a link that is down");
                cables.iter().for_each(|d| happen(bed, Event::LinkUp(0, *d)));
                let posted = pair.settle().target;
                assert!(!posted.is_empty() && posted.iter().all(|n| n.error().is_empty()), "{posted:x?}");
                for n in posted.iter().filter(|n| n.word0 != 5) {
                    let at = (n.word0 - destination.nla(0)) as usize;
                    destination.expect(at, &source.expected(at, 190));
                }
                destination.verify("memory after the link came up");
            }
        },
    );
}

#[test]
fn a_dead_node_takes_nobody_along() {
    each_of(
        |s| s.has_events() && s.shape == Shape::Torus,
        |bed| {
            let pair = bed.pair();
            let source = Area::new(&pair.origin, 8192, 1);
            let destination = Area::new(pair.target(), 8192, 2);
            let doomed = bed.node(1).open_port(bed.setting.port()).unwrap();
            let grave = doomed.register(HostBuffer::zeroed(8192).unwrap()).unwrap();
            let to_doomed = pair.origin.connect(doomed.address());
            let fabric = bed.cluster.network().torus().unwrap().clone();
            // A neighbour of the origin, on the way to other nodes.
            for i in 0..20 {
                to_doomed.put(&source.region, 0, 4096, grave.nla(0).unwrap(), Spec::COMPLETER).unwrap();
                if i == 10 {
                    happen(bed, Event::Kill(1));
                }
            }
            // Packets to the dead are thrown away: posting ends, and so does traffic with the living.
            for round in 0..10usize {
                to_doomed.put(&source.region, 0, 4096, grave.nla(0).unwrap(), Spec::REQUESTER).unwrap();
                to_doomed.immediate_put(1, 8, grave.nla(0).unwrap(), Spec::NONE).unwrap();
                let len = 600 * (round + 1);
                pair.to.put(&source.region, 0, len, destination.nla(round), Spec::COMPLETER).unwrap();
                destination.expect(round, &source.expected(0, len));
            }
            let seen = pair.settle();
            assert_eq!(seen.target.len(), 10);
            assert!(seen.target.iter().all(|n| n.error().is_empty()));
            destination.verify("traffic between living nodes");
            let thrown = || fabric.torus().ids().map(|node| fabric.discarded(node)).sum::<u64>();
            assert!(thrown() >= 20, "packets to a dead node are counted: {}", thrown());
            // An answer that cannot come is a timeout that says so.
            to_doomed.get(&source.region, 0, 8, grave.nla(0).unwrap(), Spec::COMPLETER).unwrap();
            let waited = pair.origin.wait_match(
                &ggas::Match::any().kind(ggas::Kind::Completer),
                std::time::Duration::from_millis(20),
            );
            assert!(matches!(waited, Err(WaitError::Timeout { .. })), "{waited:?}");
        },
    );
}

#[test]
fn nodes_and_ports_end_in_any_order() {
    each(|bed| {
        let pair = bed.pair();
        let source = Area::new(&pair.origin, 64 << 10, 1);
        let destination = Area::new(pair.target(), 64 << 10, 2);
        for i in 0..10 {
            pair.to.put(&source.region, 0, 6000, destination.nla(6000 * i), Spec::ALL).unwrap();
        }
        // With commands under way: regions first, the ports by turns, the cluster last.
        drop(destination);
        let (origin, target) = pair.into_ports();
        drop(source);
        drop(origin);
        drop(target);
        let again = bed.pair();
        again.to.notification_put(1, 2, Spec::COMPLETER).unwrap();
        let seen = again.settle();
        assert!(seen.target.iter().any(|n| n.word0 == 2 && n.class() == 1), "{seen:x?}");
    });
}
