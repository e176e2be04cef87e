//! Fetch-compare-and-add locks (spec 5).

use extoll_abi::regs;
use ggas::{Command, Kind, Lock, LockError, LockOutcome, Spec};
use ggas_tests::{Errors, LIMIT, each};

#[test]
fn simple_lock_gives_the_trace_of_the_specification() {
    each(|bed| {
        let pair = bed.pair();
        let lock = |compare, add| {
            pair.to.lock(Lock { number: 5, compare, add }, Spec::ALL).unwrap();
            let seen = pair.settle();
            let ([requester, completer], [responder]) = (&seen.origin[..], &seen.target[..]) else {
                panic!("a lock with all notifications gave {seen:x?}");
            };
            // The requester's comes first and repeats the operand.
            assert_eq!(requester.kind(), Some(Kind::Requester));
            assert_eq!((requester.lock_result(), requester.lock_value()), (0, compare));
            let command = |n: &ggas::Notification| n.command().command();
            assert_eq!(
                (responder.kind(), command(responder)),
                (Some(Kind::Responder), Some(Command::LockReq))
            );
            assert_eq!(
                (completer.kind(), command(completer)),
                (Some(Kind::Completer), Some(Command::LockRsp))
            );
            for n in [requester, responder, completer] {
                assert_eq!(n.lock_number(), 5);
                assert!(n.error().is_empty());
            }
            let outcome = LockOutcome::of(completer).unwrap();
            assert_eq!(Some(outcome), LockOutcome::of(responder), "both sides see one outcome");
            (outcome.taken, outcome.value)
        };
        // Compare 28, add 7 from 0 succeeds for the old values 0, 7, .. 28.
        for value in [7, 14, 21, 28, 35] {
            assert_eq!(lock(28, 7), (true, value));
        }
        assert_eq!(lock(28, 7), (false, 35));
        assert_eq!(lock(35, -7), (true, 28));
        // The comparison is signed [inferred].
        assert_eq!(lock(-1, 1), (false, 28));
        assert_eq!(lock(28, -100), (true, -72));
        assert_eq!(lock(-72, 1), (true, -71));
    });
}

#[test]
fn loop_back_locks_notify_the_requester_first() {
    ggas_tests::each_of(
        |s| s.shape == ggas_tests::Shape::OnePort,
        |bed| {
            let port = bed.origin().open_port(bed.setting.port()).unwrap();
            let to = port.connect(port.address());
            for round in 0..500 {
                to.lock(Lock { number: 0, compare: i32::MAX, add: 1 }, Spec::ALL).unwrap();
                let first = port.wait(LIMIT).unwrap();
                assert_eq!(first.kind(), Some(Kind::Requester), "round {round}: {first:x?}");
                for _ in 0..2 {
                    let later = port.wait(LIMIT).unwrap();
                    assert_eq!(LockOutcome::of(&later).unwrap().value, round + 1);
                }
            }
        },
    );
}

#[test]
fn locks_are_separate_by_number_and_by_port() {
    each(|bed| {
        let pair = bed.pair();
        let other = bed.target().open_port(bed.setting.port()).unwrap();
        let to_other = pair.origin.connect(other.address());
        for number in 0..16 {
            let lock = Lock { number, compare: i32::MAX, add: 100 + number as i32 };
            let taken = pair.origin.lock(&pair.to, lock, LIMIT).unwrap();
            assert_eq!(taken, LockOutcome { taken: true, value: 100 + number as i32 });
            let taken = pair.origin.lock(&to_other, Lock { add: 1, ..lock }, LIMIT).unwrap();
            assert_eq!(taken, LockOutcome { taken: true, value: 1 });
        }
    });
}

#[test]
fn a_lock_beyond_the_sixteen_is_refused_and_counted() {
    each(|bed| {
        let pair = bed.pair();
        for number in [16, 1000, 0xff_ffff] {
            let before = Errors::of(bed.target());
            let refused = pair.origin.lock(&pair.to, Lock { number, compare: 0, add: 1 }, LIMIT);
            assert!(matches!(refused, Err(LockError::Refused { .. })), "{refused:?}");
            pair.settle();
            let counted = Errors::of(bed.target()).since(&before);
            assert!(counted.contains(&(regs::RESP_LOCK.name, 1)), "{counted:?}");
        }
        // The sixteen are untouched.
        for number in 0..16 {
            let value = pair.origin.lock(&pair.to, Lock { number, compare: 0, add: 0 }, LIMIT).unwrap().value;
            assert_eq!(value, 0);
        }
    });
}

#[test]
fn a_lock_counts_right_under_contention() {
    each(|bed| {
        const ROUNDS: i32 = 40;
        let pair = bed.pair();
        let others: Vec<_> = (0..3).map(|_| bed.origin().open_port(bed.setting.port()).unwrap()).collect();
        std::thread::scope(|scope| {
            for port in &others {
                let to = port.connect(pair.target().address());
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        let lock = Lock { number: 2, compare: i32::MAX, add: 1 };
                        assert!(port.lock(&to, lock, LIMIT).unwrap().taken);
                    }
                });
            }
        });
        let read = Lock { number: 2, compare: i32::MIN, add: 0 };
        assert_eq!(pair.origin.lock(&pair.to, read, LIMIT).unwrap().value, 3 * ROUNDS);
    });
}
