//! Queues that are full: commands wait, are rejected and replayed, notifications wait and are at last dropped; what
//! is lost is counted, and nothing else is lost (spec 2.4, 3.2).

use std::time::Duration;

use extoll_abi::regs;
use extoll_sim::faults::Event;
use ggas::{PortConfig, PostError, Spec, WaitError};
use ggas_tests::{Area, Bed, Errors, Pair, Shape, each_of, until};

fn happen(bed: &Bed, event: Event) {
    bed.cluster.network().torus().unwrap().happen(event).unwrap();
}

/// A queue of one page: 256 entries, of which one stays free.
const ENTRIES: u64 = 255;

fn small(bed: &Bed) -> PortConfig {
    PortConfig { queue_bytes: 4096, segment_bytes: 4096, ..bed.setting.port() }
}

/// An origin with an ordinary queue and a target with a small one.
fn pair_with_small_target(bed: &Bed) -> Pair {
    let origin = bed.origin().open_port(bed.setting.port()).unwrap();
    let target = bed.target().open_port(small(bed)).unwrap();
    Pair::new(origin, Some(target))
}

/// How long a full queue holds a notification back before it is dropped (spec 3.2), in the register's unit.
fn set_bound(bed: &Bed, bound: u64) {
    bed.target().write_register(regs::EXTOLL_RF_RMA_BQ_TIMEOUT, 1 << 32 | bound).unwrap();
}

/// The target's next notification. The origin's side is looked at too: that is when the library posts again what
/// the card rejected (spec 2.4).
fn take(pair: &Pair) -> ggas::Notification {
    let look = || {
        if let Some(n) = pair.origin.poll() {
            panic!("the origin got {n:x?}");
        }
        pair.target().poll()
    };
    until(|| "a notification of the target".to_owned(), look)
}

#[test]
fn a_full_queue_holds_notifications_back_until_its_reader_comes() {
    each_of(
        |s| s.shape != Shape::OnePort,
        |bed| {
            let pair = pair_with_small_target(bed);
            set_bound(bed, 1000);
            let before = Errors::of(bed.target());
            let sent = ENTRIES + 100;
            for i in 0..sent {
                pair.to.notification_put(1, i, Spec::COMPLETER).unwrap();
            }
            // The reader comes within the bound, and takes all.
            for i in 0..sent {
                assert_eq!(take(&pair).word0, i);
            }
            assert_eq!(pair.settle().target, []);
            assert_eq!(Errors::of(bed.target()).since(&before), []);
        },
    );
}

#[test]
fn a_queue_that_nobody_reads_drops_what_does_not_fit_and_counts_it() {
    each_of(
        |s| s.shape != Shape::OnePort && s.slots == 256,
        |bed| {
            let pair = pair_with_small_target(bed);
            let destination = Area::new(pair.target(), 4096, 1);
            let source = Area::new(&pair.origin, 4096, 2);
            let before = Errors::of(bed.target());
            let dropped = || Errors::of(bed.target()).count(regs::COMPL_BQT) - before.count(regs::COMPL_BQT);
            // The shortest bound that is not none.
            set_bound(bed, 1);
            for i in 0..ENTRIES + 2 {
                pair.to.notification_put(1, i, Spec::COMPLETER).unwrap();
            }
            // A put whose notification is lost is carried out all the same.
            pair.to.put(&source.region, 0, 4096, destination.nla(0), Spec::COMPLETER).unwrap();
            destination.expect(0, &source.expected(0, 4096));
            let all_dropped = || {
                pair.origin.poll();
                (dropped() == 3).then_some(())
            };
            until(|| format!("three notifications to be dropped, not {}", dropped()), all_dropped);
            destination.verify("a put whose notification was dropped");
            // What fitted is there, in order, and then the queue works as before.
            for i in 0..ENTRIES {
                assert_eq!(take(&pair).word0, i);
            }
            pair.to.notification_put(2, 77, Spec::COMPLETER).unwrap();
            let seen = pair.settle();
            assert_eq!(seen.target.iter().map(|n| n.word0).collect::<Vec<_>>(), [77]);
            assert_eq!(Errors::of(bed.target()).since(&before), [(regs::COMPL_BQT.name, 3)]);
        },
    );
}

#[test]
fn posting_without_credit_blocks_and_loses_nothing() {
    // Nodes that get no credit: their requesters stall, command queues and rings fill up.
    each_of(
        |s| s.has_events() && matches!(s.shape, Shape::TwoNodes | Shape::Torus),
        |bed| {
            let config = PortConfig { post_timeout: Duration::from_millis(30), ..bed.setting.port() };
            let pair = bed.pair_with(config);
            let source = Area::new(&pair.origin, 32 << 10, 3);
            let destination = Area::new(pair.target(), 128 << 10, 4);
            for round in 0..2 {
                happen(bed, Event::Starve(0));
                let mut posted = 0;
                // A post that finds no room waits for it, gives up, and says what is stuck.
                let full = loop {
                    let (from, to) = (7 * posted % 8192, 90 * posted + round);
                    if let Err(error) = pair.to.put(&source.region, from, 80, destination.nla(to), Spec::ALL)
                    {
                        // Who makes room may lose its processor for as long; then there is some soon.
                        match pair.to.try_put(&source.region, from, 80, destination.nla(to), Spec::ALL) {
                            Err(PostError::WouldBlock) => break error,
                            tried => tried.unwrap(),
                        }
                    }
                    destination.expect(to, &source.expected(from, 80));
                    posted += 1;
                    assert!(posted < 1400, "a requester without credit takes commands without end");
                };
                assert!(posted >= 1);
                let PostError::Timeout { path, .. } = full else { panic!("{full}") };
                assert_eq!(path, bed.setting.path);
                let none = pair.target().wait(Duration::from_millis(1));
                assert!(matches!(none, Err(WaitError::Timeout { .. })), "{none:?}");

                happen(bed, Event::Feed(0));
                let completed = until(|| format!("{posted} puts to complete"), {
                    let mut count = 0;
                    let mut requested = 0;
                    let pair = &pair;
                    move || {
                        count += pair.target().notifications().count();
                        requested += pair.origin.notifications().count();
                        (count >= posted && requested >= posted).then_some((requested, count))
                    }
                });
                assert_eq!(completed, (posted, posted));
                let rest = pair.settle();
                assert_eq!((rest.origin.len(), rest.target.len()), (0, 0));
                destination.verify("puts that were posted without credit");
            }
        },
    );
}

#[test]
fn two_ports_that_are_rejected_at_once_both_get_through() {
    each_of(
        |s| s.has_events() && s.shape == Shape::TwoNodes,
        |bed| {
            let pairs = [bed.pair(), bed.pair()];
            let mut sent = [0u64; 2];
            for round in 0..3 {
                happen(bed, Event::Starve(0));
                // Turn by turn until both are full.
                let mut open = [true; 2];
                while open != [false; 2] {
                    for (k, pair) in pairs.iter().enumerate() {
                        match pair.to.try_notification_put(1, sent[k], Spec::COMPLETER) {
                            Ok(()) => sent[k] += 1,
                            Err(PostError::WouldBlock) => open[k] = false,
                            Err(error) => panic!("round {round}: {error}"),
                        }
                        assert!(sent[k] < 5000, "a requester without credit takes commands without end");
                    }
                }
                happen(bed, Event::Feed(0));
                for (k, pair) in pairs.iter().enumerate() {
                    let mut got = Vec::new();
                    let all = || {
                        pair.origin.poll();
                        got.extend(pair.target().notifications().map(|n| n.word0));
                        (got.last() == Some(&(sent[k] - 1))).then_some(())
                    };
                    until(|| format!("notification put {} of pair {k}", sent[k] - 1), all);
                    assert!(got.windows(2).all(|two| two[0] + 1 == two[1]), "in order, once each: {got:?}");
                }
            }
        },
    );
}

#[test]
fn closing_a_port_first_carries_out_what_was_posted() {
    each_of(
        |s| s.has_events() && matches!(s.shape, Shape::TwoNodes | Shape::Torus),
        |bed| {
            let pair = bed.pair();
            let source = Area::new(&pair.origin, 4096, 5);
            let destination = Area::new(pair.target(), 64 << 10, 6);
            let mut posted = 0;
            happen(bed, Event::Starve(0));
            while let Ok(()) =
                pair.to.try_put(&source.region, 0, 200, destination.nla(200 * posted), Spec::COMPLETER)
            {
                destination.expect(200 * posted, &source.expected(0, 200));
                posted += 1;
                if posted == 300 {
                    break;
                }
            }
            happen(bed, Event::Feed(0));
            let (origin, target) = pair.into_ports();
            let target = target.unwrap();
            // It drains the write-combining buffer, replays included (spec 10.5: close always drains).
            origin.close().unwrap();
            let mut count = 0;
            let all = || {
                count += target.notifications().inspect(|n| assert!(n.error().is_empty(), "{n:x?}")).count();
                (count == posted).then_some(())
            };
            until(|| format!("{posted} puts of a port that was closed"), all);
            destination.verify("puts of a port that was closed");
        },
    );
}
