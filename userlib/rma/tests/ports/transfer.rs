//! Every command, on both paths, with one slot and with many, with both kinds of progress.

use crate::common::{Pair, SOON, builder, bytes, networks, paths, pattern, region};
use ggas_device::sim::{Faults, SimNetwork};
use ggas_rma::{Command, Kind, Lock, LockOutcome, Match, Modifier, PortConfig, Request, Spec};

/// Runs `test` on every combination.
fn everywhere(test: impl Fn(&SimNetwork, PortConfig)) {
    for network in networks() {
        for config in paths() {
            test(&network, config);
        }
    }
}

#[test]
fn puts_of_every_size_arrive_whole_and_are_notified() {
    everywhere(|network, config| {
        let pair = Pair::new(network, config);
        let (from, to) = (region(&pair.origin, 3 << 20, 1), region(&pair.target, 3 << 20, 2));
        let connection = pair.origin.connect(pair.target.address());
        for (i, len) in [1, 7, 8, 495, 496, 497, 992, 4096, 100_003, (1 << 20) + 3].into_iter().enumerate() {
            let (source, destination) = (i * 3 + 1, 64 + i);
            let spec = Spec::REQUESTER | Spec::COMPLETER;
            connection.put(&from, source, len, to.nla(destination).unwrap(), spec).unwrap();

            let arrived = pair.target.wait(SOON).unwrap();
            assert_eq!(arrived.kind(), Some(Kind::Completer));
            assert_eq!(arrived.command().command(), Some(Command::BtPut));
            assert_eq!(arrived.remote(), pair.origin.address());
            assert!(arrived.error().is_empty());
            assert_eq!(arrived.total_size(to.nla(destination).unwrap()), len as u64);
            assert_eq!(
                bytes(&to, destination, len),
                pattern(3 << 20, 1)[source..source + len],
                "{len} bytes"
            );
            assert_eq!(bytes(&to, destination + len, 9), pattern(3 << 20, 2)[destination + len..][..9]);

            let left = pair.origin.wait(SOON).unwrap();
            assert_eq!((left.kind(), left.remote()), (Some(Kind::Requester), pair.target.address()));
            to.write(0, &pattern(3 << 20, 2)).unwrap();
        }
        assert_eq!((pair.origin.poll(), pair.target.poll()), (None, None));
    });
}

#[test]
fn gets_fetch_and_notify_three_units() {
    everywhere(|network, config| {
        let pair = Pair::new(network, config);
        let (local, remote) = (region(&pair.origin, 1 << 16, 1), region(&pair.target, 1 << 16, 2));
        let connection = pair.origin.connect(pair.target.address());
        for len in [1, 496, 5000, 40_001] {
            connection.get(&local, 5, len, remote.nla(9).unwrap(), Spec::ALL).unwrap();
            let left = pair.origin.wait_match(&Match::any().kind(Kind::Requester), SOON).unwrap();
            assert!(left.error().is_empty());
            let came = pair.origin.wait_match(&Match::any().kind(Kind::Completer).gets(), SOON).unwrap();
            assert_eq!(came.command().command(), Some(Command::GetBtRsp));
            let served = pair.target.wait(SOON).unwrap();
            assert_eq!((served.kind(), served.remote()), (Some(Kind::Responder), pair.origin.address()));
            assert_eq!(bytes(&local, 5, len), pattern(1 << 16, 2)[9..9 + len]);
        }
    });
}

#[test]
fn immediate_puts_write_exactly_their_bytes() {
    everywhere(|network, config| {
        let pair = Pair::new(network, config);
        let to = region(&pair.target, 64, 9);
        let connection = pair.origin.connect(pair.target.address());
        for count in 1..=8 {
            to.write(0, &[0xee; 64]).unwrap();
            let value = 0x8877_6655_4433_2211u64;
            connection.immediate_put(value, count, to.nla(16).unwrap(), Spec::COMPLETER).unwrap();
            pair.target.wait(SOON).unwrap();
            let mut expected = [0xee; 64];
            expected[16..16 + count as usize].copy_from_slice(&value.to_le_bytes()[..count as usize]);
            assert_eq!(bytes(&to, 0, 64), expected);
        }
    });
}

#[test]
fn notification_puts_carry_class_and_payload_in_order() {
    everywhere(|network, config| {
        let pair = Pair::new(network, config);
        let connection = pair.origin.connect(pair.target.address());
        for payload in 0..1000u64 {
            connection.notification_put(payload as u8, payload << 32, Spec::COMPLETER).unwrap();
            if payload % 7 == 0 {
                continue;
            }
            for expected in payload - u64::from(payload % 7 == 1)..=payload {
                let noti = pair.target.wait(SOON).unwrap();
                assert_eq!((noti.class(), noti.word0), (expected as u8, expected << 32));
            }
        }
    });
}

#[test]
fn loop_back_is_as_remote() {
    everywhere(|network, config| {
        let pair = Pair::new(network, config);
        let here = region(&pair.origin, 8192, 3);
        let connection = pair.origin.connect(pair.origin.address());
        // A put with all notifications gives two, a get three (spec 3.1).
        connection.put(&here, 0, 600, here.nla(4096).unwrap(), Spec::ALL).unwrap();
        let kinds: Vec<_> = (0..2).map(|_| pair.origin.wait(SOON).unwrap().kind().unwrap()).collect();
        assert!(kinds.contains(&Kind::Requester) && kinds.contains(&Kind::Completer), "{kinds:?}");
        connection.get(&here, 0, 600, here.nla(4096).unwrap(), Spec::ALL).unwrap();
        for _ in 0..3 {
            assert!(pair.origin.wait(SOON).unwrap().error().is_empty());
        }
        assert_eq!(pair.origin.poll(), None);
    });
}

#[test]
fn notifications_per_fragment_are_exact() {
    everywhere(|network, config| {
        let pair = Pair::new(network, config);
        let (from, to) = (region(&pair.origin, 8192, 1), region(&pair.target, 8192, 2));
        let connection = pair.origin.connect(pair.target.address());
        let (read, write) = (from.nla(0).unwrap(), to.nla(0).unwrap());
        for (size, fragments) in [(1u32, 1), (496, 1), (497, 2), (4960, 10), (4961, 11)] {
            let request = Request::Put { qw: false, read, write, size };
            connection.post(&request, Spec::COMPLETER, Modifier::NTR).unwrap();
            for i in 0..fragments {
                let noti = pair.target.wait(SOON).unwrap();
                assert_eq!(noti.word0, write + 496 * i);
                assert_eq!(u64::from(noti.size()), 496.min(u64::from(size) - 496 * i));
            }
        }
        assert_eq!(pair.target.poll(), None);
    });
}

#[test]
fn locks_follow_the_trace_of_the_specification() {
    everywhere(|network, config| {
        let pair = Pair::new(network, config);
        let connection = pair.origin.connect(pair.target.address());
        let take = Lock { number: 3, compare: 28, add: 7 };
        for step in 1..=5 {
            let outcome = pair.origin.lock(&connection, take, SOON).unwrap();
            assert_eq!(outcome, LockOutcome { taken: true, value: 7 * step });
        }
        let refused = pair.origin.lock(&connection, take, SOON).unwrap();
        assert_eq!(refused, LockOutcome { taken: false, value: 35 });
        let back = pair.origin.lock(&connection, Lock { compare: 35, add: -7, ..take }, SOON).unwrap();
        assert_eq!(back, LockOutcome { taken: true, value: 28 });
        // Another number is another lock.
        let other = pair.origin.lock(&connection, Lock { number: 0, compare: 0, add: 1 }, SOON).unwrap();
        assert_eq!(other, LockOutcome { taken: true, value: 1 });
        let beyond =
            pair.origin.lock(&connection, Lock { number: 16, compare: 0, add: 1 }, SOON).unwrap_err();
        assert!(beyond.to_string().contains("refused"), "{beyond}");
    });
}

#[test]
fn the_iterator_matches_and_leaves_the_rest() {
    everywhere(|network, config| {
        let pair = Pair::new(network, config);
        let connection = pair.origin.connect(pair.target.address());
        for class in 0..10 {
            connection.notification_put(class, 0, Spec::COMPLETER).unwrap();
        }
        pair.target.wait_match(&Match::any().class(9), SOON).unwrap();
        let fours = pair.target.notifications().matching(Match::any().class(4)).count();
        assert_eq!(fours, 1);
        let rest: Vec<u8> = pair.target.notifications().map(|noti| noti.class()).collect();
        assert_eq!(rest, [0, 1, 2, 3, 5, 6, 7, 8]);
    });
}

#[test]
fn faulty_links_lose_and_reorder_nothing() {
    let faults = Faults::none().seed(7).drop(0.05).corrupt(0.05).duplicate(0.05).reorder(0.05);
    for config in paths() {
        let network = builder().faults(faults.clone()).build().unwrap();
        let pair = Pair::new(&network, config);
        let (from, to) = (region(&pair.origin, 1 << 16, 1), region(&pair.target, 1 << 16, 2));
        let connection = pair.origin.connect(pair.target.address());
        for i in 0..40usize {
            let (offset, len) = (i * 100, 700 * i + 1);
            connection.put(&from, offset, len, to.nla(offset).unwrap(), Spec::COMPLETER).unwrap();
            connection.notification_put(i as u8, 0, Spec::COMPLETER).unwrap();
        }
        for i in 0..40usize {
            let (put, after) = (pair.target.wait(SOON).unwrap(), pair.target.wait(SOON).unwrap());
            assert_eq!(put.total_size(to.nla(i * 100).unwrap()), 700 * i as u64 + 1);
            assert_eq!(after.class(), i as u8);
        }
        for (offset, len) in (0..40).map(|i| (i * 100, 700 * i + 1)) {
            assert_eq!(bytes(&to, offset, len), bytes(&from, offset, len));
        }
    }
}
