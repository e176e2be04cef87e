//! What is visible when (spec 2.3, 3.1).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ggas::{HostBuffer, Progress, Spec};
use ggas_tests::{Area, Ended, LIMIT, each, each_of, until};

/// A block in which every word is the round's number.
fn block(round: u64, len: usize) -> Vec<u8> {
    round.to_le_bytes().repeat(len / 8)
}

#[test]
fn the_last_bytes_of_a_put_become_visible_last() {
    each_of(
        |s| !s.troubled() && s.slots == 256,
        |bed| {
            let pair = bed.pair();
            for (len, rounds) in [(64, 400), (496, 400), (4096, 400), (100_000, 60)] {
                let source = pair.origin.register(HostBuffer::zeroed(len).unwrap()).unwrap();
                let destination = pair.target().register(HostBuffer::zeroed(len).unwrap()).unwrap();
                let acknowledged = AtomicU64::new(0);
                std::thread::scope(|scope| {
                    let (destination, acknowledged) = (&destination, &acknowledged);
                    let watcher = scope.spawn(move || {
                        let mut found = vec![0; len];
                        for round in 1..=rounds {
                            // Polls the last word only, as pscom does.
                            let last = || (destination.load_u64(len - 8).unwrap() >= round).then_some(());
                            until(|| format!("the last word of round {round}"), last);
                            destination.read(0, &mut found).unwrap();
                            let words = found.as_chunks::<8>().0;
                            let early = words.iter().position(|word| u64::from_le_bytes(*word) < round);
                            assert_eq!(
                                early, None,
                                "a word of round {round} came after the last, of {len} bytes"
                            );
                            acknowledged.store(round, Ordering::Release);
                        }
                    });
                    for round in 1..=rounds {
                        let seen = || {
                            pair.origin.poll();
                            let ready = acknowledged.load(Ordering::Acquire) + 1 == round;
                            (ready || watcher.is_finished()).then_some(())
                        };
                        until(|| format!("the watcher to see round {}", round - 1), seen);
                        source.write(0, &block(round, len)).unwrap();
                        pair.to.put(&source, 0, len, destination.nla(0).unwrap(), Spec::NONE).unwrap();
                    }
                });
            }
        },
    );
}

#[test]
fn data_is_there_when_its_notification_is() {
    each(|bed| {
        let pair = bed.pair();
        let len = if bed.setting.troubled() { 4096 } else { 20_000 };
        let rounds = if bed.setting.troubled() { 20 } else { 100 };
        let source = pair.origin.register(HostBuffer::zeroed(len).unwrap()).unwrap();
        let destination = pair.target().register(HostBuffer::zeroed(len).unwrap()).unwrap();
        let mut found = vec![0; len];
        for round in 1..=rounds {
            source.write(0, &block(round, len & !7)).unwrap();
            pair.to.put(&source, 0, len, destination.nla(0).unwrap(), Spec::COMPLETER).unwrap();
            pair.target().wait(LIMIT).unwrap();
            destination.read(0, &mut found).unwrap();
            assert_eq!(found, block(round, len), "round {round}");
            // The way back: a get's data with its completer's notification.
            destination.write(0, &block(!round, len)).unwrap();
            pair.to.get(&source, 0, len, destination.nla(0).unwrap(), Spec::COMPLETER).unwrap();
            pair.origin.wait(LIMIT).unwrap();
            source.read(0, &mut found).unwrap();
            assert_eq!(found, block(!round, len), "round {round}");
        }
    });
}

#[test]
fn the_source_may_change_after_the_requester_notification() {
    each(|bed| {
        let pair = bed.pair();
        let len = 5000;
        let source = pair.origin.register(HostBuffer::zeroed(len).unwrap()).unwrap();
        let destination = Area::new(pair.target(), 20 * len, 1);
        for round in 0..20 {
            let data = ggas_tests::bytes(round as u64, len);
            source.write(0, &data).unwrap();
            pair.to.put(&source, 0, len, destination.nla(round * len), Spec::REQUESTER).unwrap();
            destination.expect(round * len, &data);
            pair.origin.wait(LIMIT).unwrap();
            source.write(0, &vec![0xbd; len]).unwrap();
        }
        pair.settle();
        destination.verify("puts whose source changed after the requester's notification");
    });
}

#[test]
fn puts_of_one_connection_arrive_in_order() {
    each(|bed| {
        let pair = bed.pair();
        let rounds = if bed.setting.troubled() { 300 } else { 2000 };
        let destination = pair.target().register(HostBuffer::zeroed(8).unwrap()).unwrap();
        let nla = destination.nla(0).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let ended = Ended(&done);
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Acquire) {
                    let now = destination.load_u64(0).unwrap();
                    assert!(now >= last, "put {now} became visible after put {last}");
                    last = now;
                    std::thread::yield_now();
                }
            });
            for i in 1..=rounds {
                pair.to.immediate_put(i, 8, nla, Spec::NONE).unwrap();
            }
            pair.settle();
            assert_eq!(destination.load_u64(0).unwrap(), rounds);
            drop(ended);
        });
    });
}

#[test]
fn large_and_small_puts_do_not_pass_each_other() {
    each(|bed| {
        let pair = bed.pair();
        let big = if bed.setting.troubled() { 20_000 } else { 500_000 };
        let source = Area::new(&pair.origin, big, 2);
        let destination = Area::new(pair.target(), big, 3);
        for i in 0..10u64 {
            pair.to.put(&source.region, 0, big, destination.nla(0), Spec::COMPLETER).unwrap();
            pair.to.immediate_put(i, 8, destination.nla(0), Spec::COMPLETER).unwrap();
            pair.to.notification_put(7, i, Spec::COMPLETER).unwrap();
        }
        destination.expect(0, &source.expected(0, big));
        destination.expect(0, &9u64.to_le_bytes());
        let seen = pair.settle();
        destination.verify("large and small puts to one place");
        let sizes: Vec<u64> = seen.target.iter().map(|n| n.word0).collect();
        assert_eq!(sizes.len(), 30);
        for (i, three) in sizes.as_chunks::<3>().0.iter().enumerate() {
            assert_eq!(three[1..], [destination.nla(0), i as u64], "round {i}");
        }
    });
}

#[test]
fn a_put_completes_at_a_node_that_computes_and_polls_nothing() {
    // Inline progress is an addition, never a condition.
    each_of(
        |s| s.progress == Progress::Inline,
        |bed| {
            let pair = bed.pair();
            let source = Area::new(&pair.origin, 4096, 4);
            let destination = pair.target().register(HostBuffer::zeroed(4096).unwrap()).unwrap();
            pair.to.put(&source.region, 0, 4096, destination.nla(0).unwrap(), Spec::NONE).unwrap();
            let expected = u64::from_le_bytes(source.expected(4088, 8).try_into().unwrap());
            // Only looks at memory: nobody polls, nobody posts.
            let last = || (destination.load_u64(4088).unwrap() == expected).then_some(());
            until(|| "a put into a node that polls nothing".to_owned(), last);
        },
    );
}
