//! Fragments, order and fairness: what a network sees of a command, and what its users rely on (spec 2.3, 3.1).

use crate::common::*;
use extoll_abi::regs::*;
use extoll_abi::*;
use extoll_sim::units::fragment;
use extoll_sim::*;
use proptest::prelude::*;

type Seen = Vec<(Kind, u8, u64, u32)>;

fn seen(notifications: Vec<Notification>, base: u64) -> Seen {
    let one = |n: &Notification| {
        let (header, body) = n.decode().unwrap();
        assert_eq!(header.error, ErrorUnits::NONE);
        let Body::Transfer { size, address } = body else { panic!("{body:?}") };
        (header.kind, header.command.get(), address - base, size)
    };
    notifications.iter().map(one).collect()
}

/// Notifications of one command at both sides, over a fabric with or without direct memory.
fn run(direct: bool, mtu: u64, get: bool, ntr: bool, offset: u64, size: u32) -> (Seen, Seen) {
    let setup = Setup::over(fabric::Loopback::new(4096, direct));
    let (a, b) = (setup.node(0), setup.node(1));
    for node in [&a, &b] {
        node.nic.reg_write(EXTOLL_RF_RMA_CONFIG, mtu);
    }
    let (mut p, mut q) = (a.open(3, 4), b.open(5, 4));
    let (local, remote) = (Pages::new(&a.memory, 1 << 17, 4096), Pages::new(&b.memory, 1 << 17, 4096));
    let (at_p, at_q) = (a.register(3, &local, Access::ALL), b.register(5, &remote, Access::ALL));
    let modifier = if ntr { Modifier::NTR } else { Modifier::NONE };
    let (from, to) = if get { (&remote, &local) } else { (&local, &remote) };
    from.fill_pattern(7);
    let request = if get {
        Request::Get { qw: false, read: at_q + offset, write: at_p + 1, size }
    } else {
        Request::Put { qw: false, read: at_p + offset, write: at_q + 1, size }
    };
    p.post(q.address(), Spec::ALL, modifier, &request);
    let at = (seen(p.drain(), at_p), seen(q.drain(), at_q));
    assert_eq!(to.bytes(1, size as usize), from.bytes(offset as usize, size as usize));
    assert_eq!(to.bytes(0, 1), [0]);
    assert!(to.bytes(1 + size as usize, 64).iter().all(|b| *b == 0));
    at
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Arithmetic over direct memory and real fragments tell the same story.
    #[test]
    fn fragments_are_accounted_exactly(
        mtu in prop_oneof![Just(512u64), Just(256), 0u64..1024],
        get: bool,
        ntr: bool,
        offset in 0u64..70,
        size in prop_oneof![1u32..100, 480u32..520, 900u32..20_000],
    ) {
        let payload = u32::from(fragment::payload_of_mtu(mtu as u16));
        // Queues of this test hold 1,023 notifications.
        prop_assume!(!ntr || size / payload < 500);
        let (origin, target) = run(true, mtu, get, ntr, offset, size);
        let cut = run(false, mtu, get, ntr, offset, size);
        prop_assert_eq!((&origin, &target), (&cut.0, &cut.1));
        let at = |kind, code, start: u64| {
            let all: Vec<_> = fragment::all(size, payload as u16).collect();
            let from = if ntr && !(get && kind == Kind::Requester) { 0 } else { all.len() - 1 };
            all[from..].iter().map(|(o, len)| (kind, code, start + u64::from(*o), *len)).collect::<Seen>()
        };
        if get {
            let mut expected = at(Kind::Requester, 0, 1);
            expected.extend(at(Kind::Completer, 10, 1));
            prop_assert_eq!(origin, expected);
            prop_assert_eq!(target, at(Kind::Responder, 0, offset));
        } else {
            prop_assert_eq!(origin, at(Kind::Requester, 2, offset));
            prop_assert_eq!(target, at(Kind::Completer, 2, 1));
        }
    }
}

#[test]
fn counters_count_fragments_on_either_fabric() {
    for direct in [true, false] {
        let setup = Setup::over(fabric::Loopback::new(4096, direct));
        let (a, b) = (setup.node(0), setup.node(1));
        let (mut p, q) = (a.open(3, 1), b.open(5, 1));
        let memory = Pages::new(&a.memory, 1 << 20, 4096);
        let (src, dst) = (a.register(3, &memory, Access::ALL), b.register(5, &memory, Access::ALL));
        p.put(q.address(), Spec::NONE, src, dst, 1 << 19);
        p.get(q.address(), Spec::NONE, dst, src, 1000);
        p.drain();
        let fragments = (1u32 << 19).div_ceil(496);
        assert_eq!(a.perf(counters::REQ_BT_PUT), 1);
        assert_eq!(a.perf(counters::REQ_FRAGMENTS), fragments + 1);
        assert_eq!(a.perf(counters::REQ_QUADWORDS), 1 << 16);
        assert_eq!(b.perf(counters::COMPL_BT_PUT), fragments);
        assert_eq!((b.perf(counters::RESP_BT_GET), b.perf(counters::RESP_FRAGMENTS)), (1, 3));
        assert_eq!(a.perf(counters::COMPL_BT_GET), 3);
    }
}

/// The largest command, page by page through scattered memory, on both fabrics.
#[test]
fn eight_mebibytes_through_scattered_pages() {
    const LEN: usize = 8 << 20;
    for direct in [true, false] {
        let setup = Setup::over(fabric::Loopback::new(64, direct));
        let (a, b) = (setup.node(0), setup.node(1));
        let (p, mut q) = (a.open(3, 1), b.open(5, 1));
        let (from, to) = (Pages::new(&a.memory, LEN, 4096), Pages::new(&b.memory, LEN, 4096));
        from.fill_pattern(5);
        let (src, dst) = (a.register(3, &from, Access::ALL), b.register(5, &to, Access::ALL));
        // Pages of the target in reverse.
        let pages = (LEN / 4096) as u64;
        for page in 0..pages {
            let address = to.address() + 4096 * (pages - 1 - page);
            let gate = Gate::new(5, Access::ALL, address, PageSize::K4).unwrap();
            b.set_gate((dst >> 12) as u32 + page as u32, gate);
        }
        p.put(q.address(), Spec::COMPLETER, src, dst, LEN as u32);
        q.next();
        for page in 0..LEN / 4096 {
            let there = LEN - 4096 * (page + 1);
            assert!(to.bytes(there, 4096) == from.bytes(4096 * page, 4096), "page {page}, direct {direct}");
        }
    }
}

/// Commands of one port to one target arrive in the order of their posts, whatever their kind and size.
#[test]
fn order_is_kept_between_kinds_and_sizes() {
    for direct in [true, false] {
        let setup = Setup::over(fabric::Loopback::new(16, direct));
        let (a, b) = (setup.node(0), setup.node(1));
        let (p, mut q) = (a.open(3, 1), b.open(5, 2));
        let (from, to) = (Pages::new(&a.memory, 1 << 16, 4096), Pages::new(&b.memory, 1 << 16, 4096));
        let (src, dst) = (a.register(3, &from, Access::ALL), b.register(5, &to, Access::ALL));
        let mut rng = fastrand::Rng::with_seed(1);
        let mut expected = Vec::new();
        for i in 0..400u64 {
            let request = match rng.u8(0..3) {
                0 => Request::NotificationPut { class: 1, payload: i },
                1 => Request::ImmediatePut { count: 8, write: dst + 8 * i, value: i },
                _ => Request::Put { qw: false, read: src, write: dst + 8 * i, size: rng.u32(1..5000) },
            };
            expected.push(match request {
                Request::NotificationPut { payload, .. } => payload,
                Request::ImmediatePut { write, .. } => write,
                Request::Put { write, size, .. } => write + u64::from((size - 1) / 496 * 496),
                _ => 0,
            });
            p.post(q.address(), Spec::COMPLETER, Modifier::NONE, &request);
            if i % 50 == 49 {
                while a.nic.progress() {}
                q.drain().iter().for_each(|n| assert_eq!(n.word0, expected.remove(0)));
            }
        }
        assert!(expected.is_empty());
    }
}

/// A port that floods does not keep another from its turn.
#[test]
fn vpids_share_the_requester() {
    let mut setup = Setup::over(fabric::Loopback::new(4096, true));
    setup.inline = false; // nothing runs until `progress`
    let (a, b) = (setup.node(0), setup.node(1));
    let (flood, lone, mut q) = (a.open(3, 1), a.open(200, 1), b.open(5, 1));
    let note = |payload| Request::NotificationPut { class: 0, payload };
    for i in 0..60 {
        flood.post(q.address(), Spec::COMPLETER, Modifier::NONE, &note(i));
    }
    lone.post(q.address(), Spec::COMPLETER, Modifier::NONE, &note(1000));
    while a.nic.progress() {}
    let order: Vec<u64> = q.drain().iter().map(|n| n.word0).collect();
    assert_eq!(order.len(), 61);
    let place = order.iter().position(|p| *p == 1000).unwrap();
    assert!(place <= 16, "the other port's command came {place}th");
}

/// The last word of a put becomes visible last: a reader that sees it sees everything.
#[test]
fn a_reader_of_the_last_word_sees_all() {
    const WORDS: usize = 1 << 13;
    let setup = Setup::over(fabric::Loopback::new(4096, true));
    let (a, b) = (setup.node(0), setup.node(1));
    let (p, q) = (a.open(3, 1), b.open(5, 1));
    let (from, to) = (Pages::new(&a.memory, 8 * WORDS, 4096), Pages::new(&b.memory, 8 * WORDS, 4096));
    let (src, dst) = (a.register(3, &from, Access::ALL), b.register(5, &to, Access::ALL));
    let rounds = 300u64;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while round < rounds {
                let last = to.load(WORDS - 1);
                if last > round {
                    round = last;
                    let low = (0..WORDS).map(|i| to.word(i).load(std::sync::atomic::Ordering::Relaxed)).min();
                    assert!(low >= Some(round), "the last word said {round}, another {low:?}");
                }
                std::thread::yield_now();
            }
        });
        for round in 1..=rounds {
            (0..WORDS).for_each(|i| from.store(i, round));
            p.put(q.address(), Spec::NONE, src, dst, 8 * WORDS as u32);
            if round % 16 == 0 {
                std::thread::yield_now();
            }
        }
    });
}
