//! Every order of registering and triggering that is short enough, and random ones beyond.

use proptest::prelude::*;

use super::*;

const ALL: [Lookup; 3] = [Lookup::Associative, Lookup::Hash, Lookup::List];

fn registration(tag: u64, threshold: u32) -> Registration<u64> {
    Registration { tag, threshold, takes_fields: false, operation: 1000 + tag }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Register(u64, u32),
    Trigger(u64),
}

/// Calls `visit` with every distinct order of `steps`.
fn orders(steps: &mut Vec<Step>, visit: &mut impl FnMut(&[Step])) {
    fn extend(rest: &mut Vec<Step>, done: &mut Vec<Step>, visit: &mut impl FnMut(&[Step])) {
        if rest.is_empty() {
            return visit(done);
        }
        for i in 0..rest.len() {
            // Sorted, so that equal steps lie side by side: the first of them stands for all.
            if i > 0 && rest[i] == rest[i - 1] {
                continue;
            }
            let step = rest.remove(i);
            done.push(step);
            extend(rest, done, visit);
            done.pop();
            rest.insert(i, step);
        }
    }
    steps.sort();
    extend(steps, &mut Vec::new(), visit);
}

/// Plays an order; an operation starts where its registration and as many triggers as it wants are there for the first
/// time, and never again.
fn play(lookup: Lookup, order: &[Step]) -> u32 {
    let mut table = Triggers::new(lookup, 8).unwrap();
    let mut seen = [(0u32, None, 0u32); 4];
    for (i, step) in order.iter().enumerate() {
        let (tag, started) = match *step {
            Step::Register(tag, threshold) => {
                seen[tag as usize].1 = Some(threshold);
                (tag, table.register(&registration(tag, threshold)).unwrap())
            }
            Step::Trigger(tag) => {
                seen[tag as usize].0 += 1;
                (tag, table.trigger(tag, None).unwrap())
            }
        };
        let (count, threshold, times) = &mut seen[tag as usize];
        let due = *times == 0 && threshold.is_some_and(|threshold| *count >= threshold);
        *times += u32::from(due);
        let expected = due.then_some(Started { tag, operation: 1000 + tag, fields: None, times: 1 });
        assert_eq!(started, expected, "{lookup:?}, step {i} of {order:?}");
    }
    seen.iter().map(|(_, _, times)| times).sum()
}

#[test]
fn every_order_of_registering_and_triggering_starts_exactly_once() {
    let mut played = 0u32;
    for lookup in ALL {
        for first in 1..=4u32 {
            for second in 1..=3u32 {
                for extra in 0..=1u32 {
                    let mut steps = vec![Step::Register(0, first), Step::Register(1, second)];
                    steps.extend((0..first + extra).map(|_| Step::Trigger(0)));
                    steps.extend((0..second).map(|_| Step::Trigger(1)));
                    orders(&mut steps, &mut |order| {
                        assert_eq!(play(lookup, order), 2);
                        played += 1;
                    });
                }
            }
        }
        // One short of the threshold: never.
        orders(&mut vec![Step::Register(0, 3), Step::Trigger(0), Step::Trigger(0)], &mut |order| {
            assert_eq!(play(lookup, order), 0);
        });
    }
    assert!(played > 10_000, "{played}");
}

proptest! {
    #[test]
    fn random_orders_agree_with_counting(
        seed: u64,
        thresholds in proptest::collection::vec(1u32..40, 4),
        extra in 0u32..3,
    ) {
        let mut steps: Vec<Step> = Vec::new();
        for (tag, threshold) in (0..).zip(&thresholds) {
            steps.push(Step::Register(tag, *threshold));
            steps.extend((0..threshold + extra).map(|_| Step::Trigger(tag)));
        }
        let mut random = fastrand::Rng::with_seed(seed);
        random.shuffle(&mut steps);
        for lookup in ALL {
            prop_assert_eq!(play(lookup, &steps), 4);
        }
    }

    /// Re-arming: as many starts as whole thresholds were counted, wherever it happens.
    #[test]
    fn rearmed_operations_start_once_for_each_threshold(
        threshold in 1u32..5,
        rearm_first in proptest::collection::vec(any::<bool>(), 1..60),
    ) {
        let mut table = Triggers::new(Lookup::Hash, 4).unwrap();
        let (mut triggers, mut starts, mut armed) = (0u32, 0u32, true);
        prop_assert_eq!(table.register(&registration(7, threshold)), Ok(None));
        for rearm in rearm_first {
            let started = if rearm && !armed {
                armed = true;
                table.rearm(7)
            } else {
                triggers += 1;
                table.trigger(7, None)
            };
            if started.unwrap().is_some() {
                starts += 1;
                armed = false;
            }
            prop_assert_eq!(table.count(7), Some(triggers - threshold * (starts - u32::from(!armed))));
            prop_assert!(starts * threshold <= triggers);
        }
        while armed || table.count(7).unwrap() >= threshold {
            let started = if armed { triggers += 1; table.trigger(7, None) } else { table.rearm(7) };
            armed = started.unwrap().is_none();
            starts += u32::from(!armed);
            if !armed && table.count(7).unwrap() < 2 * threshold {
                break;
            }
        }
        prop_assert_eq!(starts, triggers / threshold);
    }
}

#[test]
fn a_full_table_refuses_and_nothing_that_was_counted_is_lost() {
    for lookup in ALL {
        let mut table = Triggers::new(lookup, 16).unwrap();
        for tag in 0..15 {
            assert_eq!(table.register(&registration(tag, 2)), Ok(None));
        }
        assert_eq!(table.trigger(99, None), Ok(None), "the last place is for a tag that nobody registered");
        assert_eq!(table.trigger(100, None), Err(Refusal::Full(16)));
        assert_eq!(table.register(&registration(100, 1)), Err(Refusal::Full(16)));
        let counts = table.counts();
        assert_eq!((counts.used, counts.unregistered, counts.waiting, counts.refused), (16, 1, 15, 1));
        for tag in 0..15 {
            assert_eq!(table.trigger(tag, None), Ok(None));
            assert!(table.trigger(tag, None).unwrap().is_some(), "{lookup:?}");
        }
        assert!(table.register(&registration(99, 1)).unwrap().is_some(), "it joins what was counted");
        assert_eq!(table.cancel(3), Ok(2));
        assert_eq!(table.register(&registration(100, 1)), Ok(None), "a place is free again");
        assert!(table.trigger(100, None).unwrap().is_some());
    }
}

#[test]
fn what_is_asked_in_vain_is_said_and_counted() {
    let mut table = Triggers::new(Lookup::Hash, 8).unwrap();
    assert_eq!(table.register(&registration(1, 0)), Err(Refusal::Threshold));
    assert_eq!((table.rearm(1), table.cancel(1)), (Err(Refusal::Unknown), Err(Refusal::Unknown)));
    table.register(&registration(1, 1)).unwrap();
    assert_eq!(table.register(&registration(1, 5)), Err(Refusal::Taken));
    assert_eq!(table.rearm(1), Err(Refusal::Waits));
    assert!(table.trigger(1, None).unwrap().is_some());
    for _ in 0..3 {
        assert_eq!(table.trigger(1, None), Ok(None), "fired too often");
    }
    let counts = table.counts();
    assert_eq!((counts.started, counts.late, counts.failed), (1, 3, 2));
    // What came too soon counts for the next time.
    assert_eq!(table.rearm(1).unwrap().map(|started| started.times), Some(2));
    assert_eq!(table.register(&registration(1, 2)).unwrap().map(|started| started.times), Some(3));
    assert!(Triggers::<u64>::new(Lookup::Associative, 17).is_none());
    assert!(Triggers::<u64>::new(Lookup::Hash, 0).is_none());
    assert!(Triggers::<u64>::new(Lookup::List, Lookup::List.most() + 1).is_none());
}

#[test]
fn fields_are_those_that_came_last() {
    let fields = |at| Some(Fields { at, what: 9 });
    let mut table = Triggers::new(Lookup::List, 8).unwrap();
    let takes = |tag, threshold| Registration { takes_fields: true, ..registration(tag, threshold) };
    table.register(&takes(1, 2)).unwrap();
    assert_eq!(table.trigger(1, fields(5)), Ok(None));
    assert_eq!(table.trigger(1, fields(6)).unwrap().unwrap().fields, fields(6));
    // Before it is registered, too; and each time anew.
    table.trigger(2, fields(7)).unwrap();
    assert_eq!(table.register(&takes(2, 1)).unwrap().unwrap().fields, fields(7));
    assert_eq!(table.trigger(2, None), Ok(None));
    assert_eq!(table.rearm(2).unwrap().unwrap().fields, None);
    table.register(&registration(3, 1)).unwrap();
    assert_eq!(table.trigger(3, fields(8)), Err(Refusal::NoFields));
    assert_eq!(table.count(3), Some(0), "a trigger that is refused does not count");
}

#[test]
fn a_million_operations_take_bounded_memory() {
    const TAGS: u64 = 1_000_000;
    let mut table = Triggers::<[u64; 5]>::new(Lookup::Hash, TAGS as u32).unwrap();
    for tag in 0..TAGS {
        let operation = [tag; 5];
        let new = Registration { tag: tag * 0x1_0000_0001, threshold: 2, takes_fields: false, operation };
        assert_eq!(table.register(&new), Ok(None));
    }
    assert_eq!(table.trigger(u64::MAX, None), Err(Refusal::Full(TAGS as u32)));
    let full = table.bytes();
    assert!(full < 200 << 20, "{} MB", full >> 20);
    let mut started = 0;
    for round in 0..2 {
        for tag in 0..TAGS {
            let one = table.trigger(tag * 0x1_0000_0001, None).unwrap();
            assert_eq!(one.is_some(), round == 1);
            started += u64::from(one.is_some_and(|one| one.operation[0] == tag));
        }
    }
    assert_eq!((started, table.counts().compared), (TAGS, 3 * TAGS + 1));
    // Tags that come and go take no more.
    for tag in 0..TAGS {
        table.cancel(tag * 0x1_0000_0001).unwrap();
        table.trigger(!tag, None).unwrap();
    }
    assert!(table.bytes() <= full + (64 << 20), "{} MB", table.bytes() >> 20);
}
