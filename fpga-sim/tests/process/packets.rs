//! Every kind of packet between two members.

use extoll_abi::*;

use crate::common::*;
use crate::members::*;

fn last_fragment(n: &Notification) -> (Kind, u32, u64) {
    let (header, body) = n.decode().unwrap();
    let Body::Transfer { size, address } = body else { panic!("{body:?}") };
    assert_eq!(header.error, ErrorUnits::NONE);
    (header.kind, size, address)
}

/// Sizes for each way a payload goes: in the entry, in the ring, by reference or staged, in several parts.
const SIZES: [u32; 14] =
    [1, 8, 9, 64, 65, 496, 2048, 2049, 4096, 4097, 130_944, 130_945, 300_000, (1 << 20) - 11];

#[test]
fn puts_of_every_size_arrive_and_notify_both_sides() {
    for shared in [false, true] {
        let job = members(2, 1);
        let (a, b) = (&job[0], &job[1]);
        let (mut p, mut q) = (a.open(1), b.open(1));
        let from = if shared { a.shared(1 << 20) } else { a.private(1 << 20) };
        let to = if shared { b.private(1 << 20) } else { b.shared(1 << 20) };
        from.fill_pattern(1);
        let src = a.node.register(p.vpid, &from, Access::READ);
        let dst = b.node.register(q.vpid, &to, Access::WRITE);
        for size in SIZES {
            p.put(q.address(), Spec::REQUESTER | Spec::COMPLETER, src + 3, dst + 7, size);
            let last = u64::from((size - 1) / 496 * 496);
            let tail = size - last as u32;
            assert_eq!(last_fragment(&p.next()), (Kind::Requester, tail, src + 3 + last));
            assert_eq!(last_fragment(&q.next()), (Kind::Completer, tail, dst + 7 + last));
            assert_eq!(to.bytes(7, size as usize), from.bytes(3, size as usize), "{size}");
        }
        let counters = a.fabric.counters();
        assert_eq!(counters.staged == 0, shared, "{counters:?}");
        assert!(counters.referenced > 1 << 20, "{counters:?}");
        assert_eq!((p.drain().len(), q.drain().len()), (0, 0));
        assert_eq!((a.node.all_errors(), b.node.all_errors()), (vec![], vec![]));
    }
}

#[test]
fn gets_of_every_size_bring_the_bytes() {
    for shared in [false, true] {
        let job = members(4, 2);
        let (a, b) = (&job[1], &job[2]);
        let (mut p, mut q) = (a.open(1), b.open(1));
        let remote = if shared { b.shared(1 << 20) } else { b.private(1 << 20) };
        let local = a.private(1 << 20);
        remote.fill_pattern(2);
        let read = b.node.register(q.vpid, &remote, Access::READ);
        let write = a.node.register(p.vpid, &local, Access::WRITE);
        for size in SIZES {
            p.get(q.address(), Spec::COMPLETER | Spec::RESPONDER, read + 1, write + 2, size);
            let last = u64::from((size - 1) / 496 * 496);
            assert_eq!(last_fragment(&p.next()), (Kind::Completer, size - last as u32, write + 2 + last));
            assert_eq!(last_fragment(&q.next()), (Kind::Responder, size - last as u32, read + 1 + last));
            assert_eq!(local.bytes(2, size as usize), remote.bytes(1, size as usize), "{size}");
        }
        assert_eq!((a.node.all_errors(), b.node.all_errors()), (vec![], vec![]));
    }
}

#[test]
fn each_fragment_of_a_large_put_is_notified_with_ntr() {
    for shared in [false, true] {
        let job = members(2, 1);
        let (a, b) = (&job[0], &job[1]);
        let (mut p, mut q) = (a.open(8), b.open(8));
        let from = if shared { a.shared(1 << 19) } else { a.private(1 << 19) };
        let to = b.private(1 << 19);
        from.fill_pattern(3);
        let src = a.node.register(p.vpid, &from, Access::READ);
        let dst = b.node.register(q.vpid, &to, Access::WRITE);
        let size = 300_001u32;
        let put = Request::Put { qw: false, read: src, write: dst + 5, size };
        p.post(q.address(), Spec::REQUESTER | Spec::COMPLETER, Modifier::NTR, &put);
        for i in 0..size.div_ceil(496) {
            let offset = u64::from(i) * 496;
            let len = 496.min(size - i * 496);
            assert_eq!(last_fragment(&q.next()), (Kind::Completer, len, dst + 5 + offset));
            assert_eq!(last_fragment(&p.next()), (Kind::Requester, len, src + offset));
        }
        assert_eq!((p.drain().len(), q.drain().len()), (0, 0));
        assert_eq!(to.bytes(5, size as usize), from.bytes(0, size as usize));
    }
}

#[test]
fn immediate_puts_notifications_and_locks() {
    let job = members(3, 2);
    let (a, b) = (&job[1], &job[2]);
    let (mut p, mut q) = (a.open(1), b.open(1));
    let to = b.private(4096);
    let dst = b.node.register(q.vpid, &to, Access::WRITE);
    for count in 1..=8u8 {
        let request = Request::ImmediatePut { count, write: dst, value: 0x1122_3344_5566_7788 };
        p.post(q.address(), Spec::COMPLETER, Modifier::NONE, &request);
        assert_eq!(last_fragment(&q.next()), (Kind::Completer, u32::from(count), dst));
    }
    assert_eq!(to.load(0), 0x1122_3344_5566_7788);
    let request = Request::NotificationPut { class: 42, payload: 0xfeed };
    p.post(q.address(), Spec::COMPLETER, Modifier::NONE, &request);
    assert_eq!(q.next().decode().unwrap().1, Body::Class { class: 42, payload: 0xfeed });
    for expected in [7, 14] {
        let lock = Request::Lock { number: 5, compare: 28, add: 7, to_responder: true };
        p.post(q.address(), Spec::COMPLETER, Modifier::NONE, &lock);
        let (_, body) = p.next().decode().unwrap();
        assert_eq!(body, Body::Lock { number: 5, result: 1, value: expected });
    }
    assert_eq!((a.node.all_errors(), b.node.all_errors()), (vec![], vec![]));
}

#[test]
fn processes_of_one_node_reach_each_other_and_themselves() {
    let job = members(2, 2);
    let mut ports: Vec<Port<'_>> = job.iter().map(|member| member.open(1)).collect();
    let memory: Vec<Pages> = job.iter().map(|member| member.shared(1 << 16)).collect();
    let nlas: Vec<u64> =
        (0..2).map(|i| job[i].node.register(ports[i].vpid, &memory[i], Access::ALL)).collect();
    for (from, to) in [(0, 1), (1, 0), (0, 0), (1, 1)] {
        memory[from].fill_pattern(from as u64);
        let address = ports[to].address();
        ports[from].put(address, Spec::COMPLETER, nlas[from], nlas[to] + 32768, 20_000);
        assert_eq!(ports[to].next().error(), ErrorUnits::NONE);
        assert_eq!(memory[to].bytes(32768, 20_000), memory[from].bytes(0, 20_000));
    }
}

#[test]
fn flags_follow_their_data() {
    let job = members(2, 1);
    let (a, b) = (&job[0], &job[1]);
    let (p, q) = (a.open(1), b.open(1));
    let (from, to) = (a.private(1 << 20), b.private(1 << 20));
    let src = a.node.register(p.vpid, &from, Access::READ);
    let dst = b.node.register(q.vpid, &to, Access::WRITE);
    let words = (1 << 20) / 8;
    for round in 1..=20u64 {
        (0..words).for_each(|i| from.store(i, round));
        p.put(q.address(), Spec::NONE, src, dst, 1 << 20);
        // The last word comes last, and what was put before it is there then.
        let deadline = std::time::Instant::now() + PATIENCE;
        while to.load(words - 1) != round {
            b.node.nic.progress();
            assert!(std::time::Instant::now() < deadline);
        }
        assert!((0..words).all(|i| to.load(i) == round));
        // Nothing reads the source any more once the card says so.
        while a.node.nic.progress() {}
    }
}
