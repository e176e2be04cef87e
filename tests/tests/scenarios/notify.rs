//! Which notifications a command gives, and what they say (spec 3.1).

use ggas::{Address, Command, Kind, Mode, Modifier, Notification, Request, Spec};
use ggas_tests::{Area, Pair, Seen, each, each_of};

/// Kind and command of notifications, in order.
type Kinds = Vec<(Kind, Command)>;

fn kinds(notifications: &[Notification]) -> Kinds {
    let of = |n: &Notification| (n.kind().unwrap(), n.command().command().unwrap());
    notifications.iter().map(of).collect()
}

/// What spec 3.1 says a command gives: at the origin, at the target.
fn expected(request: &Request, spec: Spec) -> (Kinds, Kinds) {
    use Command::*;
    let (command, response) = match *request {
        Request::Put { qw, .. } => (if qw { QwPut } else { BtPut }, None),
        Request::NotificationPut { .. } => (NotificationPut, None),
        Request::ImmediatePut { .. } => (ImmediatePut, None),
        Request::Get { qw, .. } if qw => (QwGet, Some(GetQwRsp)),
        Request::Get { .. } => (BtGet, Some(GetBtRsp)),
        Request::Lock { .. } => (LockReq, Some(LockRsp)),
    };
    let (mut origin, mut target) = (Vec::new(), Vec::new());
    if spec.contains(Spec::REQUESTER) {
        origin.push((Kind::Requester, command));
    }
    match response {
        // A responder request is ignored: nothing responds to a put.
        None if spec.contains(Spec::COMPLETER) => target.push((Kind::Completer, command)),
        None => {}
        Some(response) => {
            if spec.contains(Spec::RESPONDER) {
                target.push((Kind::Responder, command));
            }
            if spec.contains(Spec::COMPLETER) {
                origin.push((Kind::Completer, response));
            }
        }
    }
    (origin, target)
}

#[test]
fn every_command_gives_exactly_the_notifications_asked_for() {
    each(|bed| {
        let pair = bed.pair();
        let here = Area::new(&pair.origin, 4096, 1);
        let there = Area::new(pair.target(), 4096, 2);
        let (a, b) = (here.nla(64), there.nla(128));
        let requests = [
            Request::Put { qw: false, read: a, write: b, size: 9 },
            Request::Put { qw: true, read: a, write: b, size: 24 },
            Request::Get { qw: false, read: b, write: a, size: 9 },
            Request::Get { qw: true, read: b, write: a, size: 24 },
            Request::NotificationPut { class: 3, payload: 4 },
            Request::ImmediatePut { count: 3, write: b, value: 5 },
            Request::Lock { to_responder: false, number: 1, compare: i32::MAX, add: 0 },
        ];
        for request in &requests {
            for bits in 0..8 {
                let spec = Spec::from_bits_truncate(bits);
                pair.post(request, spec);
                let Seen { origin, target } = pair.settle();
                let found = (kinds(&origin), kinds(&target));
                assert_eq!(found, expected(request, spec), "{request:x?} asking for {spec:?}");
                let (here, there) = (pair.origin.address(), pair.target().address());
                let remotes = |all: &[Notification], other: Address| all.iter().all(|n| n.remote() == other);
                assert!(remotes(&origin, there), "the origin's name the target: {origin:x?}");
                assert!(remotes(&target, here), "the target's name the origin: {target:x?}");
            }
        }
    });
}

#[test]
fn notification_puts_carry_class_and_payload_in_order() {
    each(|bed| {
        let pair = bed.pair();
        for i in 0..200u64 {
            let class = (42 + i) as u8;
            if class != ggas_tests::FENCE_CLASS {
                let spec = Spec::REQUESTER | Spec::COMPLETER;
                pair.to.notification_put(class, !i << 32 | i, spec).unwrap();
            }
        }
        let seen = pair.settle();
        let skipped = |i: &u64| (42 + i) as u8 != ggas_tests::FENCE_CLASS;
        let sent: Vec<_> = (0..200).filter(skipped).map(|i| ((42 + i) as u8, !i << 32 | i)).collect();
        for (side, remote) in [(&seen.target, pair.origin.address()), (&seen.origin, pair.target().address())]
        {
            let found: Vec<_> = side.iter().map(|n| (n.class(), n.word0)).collect();
            assert_eq!(found, sent);
            assert!(side.iter().all(|n| n.remote() == remote && n.error().is_empty()));
        }
    });
}

/// Address and size of each fragment of a transfer: 496 bytes each, counted from its start (spec 2.3).
fn fragments(start: u64, len: u32) -> Vec<(u64, u32)> {
    (0..len).step_by(496).map(|at| (start + u64::from(at), (len - at).min(496))).collect()
}

fn told(notifications: &[Notification], kind: Kind) -> Vec<(u64, u32)> {
    let mine = notifications.iter().filter(|n| n.kind() == Some(kind));
    mine.inspect(|n| assert_eq!(n.mode(), Mode::TE | Mode::NTR, "{n:x?}"))
        .map(|n| (n.word0, n.size()))
        .collect()
}

fn count(notifications: &[Notification], kind: Kind) -> usize {
    notifications.iter().filter(|n| n.kind() == Some(kind)).count()
}

#[test]
fn ntr_puts_notify_once_for_each_fragment() {
    each(|bed| {
        let pair = bed.pair();
        let source = Area::new(&pair.origin, 16 << 10, 3);
        let destination = Area::new(pair.target(), 16 << 10, 4);
        for size in [1u32, 495, 496, 497, 992, 993, 5000, 9000] {
            let (read, write) = (source.nla(3), destination.nla(4090));
            ntr(&pair, &Request::Put { qw: false, read, write, size });
            let seen = pair.settle();
            assert_eq!(told(&seen.target, Kind::Completer), fragments(write, size), "{size} bytes");
            assert_eq!(count(&seen.origin, Kind::Requester), size.div_ceil(496) as usize, "{size} bytes");
            assert_eq!(seen.target.len() + seen.origin.len(), 2 * size.div_ceil(496) as usize);
            destination.expect(4090, &source.expected(3, size as usize));
            destination.verify("a put with NTR");
        }
    });
}

#[test]
fn ntr_gets_notify_once_for_each_fragment_of_the_response() {
    each(|bed| {
        let pair = bed.pair();
        let source = Area::new(pair.target(), 16 << 10, 5);
        let destination = Area::new(&pair.origin, 16 << 10, 6);
        for size in [1u32, 496, 497, 992, 5000, 9000] {
            let (read, write) = (source.nla(4090), destination.nla(3));
            ntr(&pair, &Request::Get { qw: false, read, write, size });
            let seen = pair.settle();
            assert_eq!(told(&seen.target, Kind::Responder), fragments(read, size), "{size} bytes");
            assert_eq!(told(&seen.origin, Kind::Completer), fragments(write, size), "{size} bytes");
            // The request itself is one packet [inferred].
            assert_eq!(count(&seen.origin, Kind::Requester), 1);
            destination.expect(3, &source.expected(4090, size as usize));
            destination.verify("a get with NTR");
        }
    });
}

fn ntr(pair: &Pair, request: &Request) {
    pair.to.post(request, Spec::ALL, Modifier::NTR).unwrap();
}

#[test]
fn a_queue_wraps_many_times_without_losing_one() {
    // 64 KiB segments of a 256 KiB queue are 16,384 entries; one of 2 segments of a page holds 512.
    each_of(
        |s| !s.troubled(),
        |bed| {
            let small = ggas::PortConfig { queue_bytes: 8192, segment_bytes: 4096, ..bed.setting.port() };
            let pair = bed.pair_with(small);
            let mut next = 0u64;
            for batch in [1, 100, 251, 250, 7, 255, 254, 180, 255] {
                for i in next..next + batch {
                    pair.to.notification_put(1, i, Spec::COMPLETER).unwrap();
                }
                let seen = pair.settle();
                let payloads: Vec<u64> = seen.target.iter().map(|n| n.word0).collect();
                assert_eq!(payloads, (next..next + batch).collect::<Vec<_>>());
                next += batch;
            }
        },
    );
}
