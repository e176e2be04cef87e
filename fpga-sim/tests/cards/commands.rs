//! Every command on both requester paths: bytes, notifications, counts (spec 3.1, 3.4).

use crate::common::*;
use extoll_abi::*;
use extoll_sim::*;

const TE: PageOption = PageOption::TE;

fn transfer(n: &Notification) -> (Kind, u8, Address, u32, u64) {
    let (header, body) = n.decode().unwrap();
    let Body::Transfer { size, address } = body else { panic!("{body:?}") };
    assert_eq!(header.error, ErrorUnits::NONE);
    (header.kind, header.command.get(), header.remote, size, address)
}

#[test]
fn put_moves_bytes_and_notifies_both_sides() {
    let setup = Setup::inline();
    let (a, b) = (setup.node(0), setup.node(1));
    let (mut p, mut q) = (a.open(3, 1), b.open(7, 1));
    let (from, to) = (Pages::new(&a.memory, 1 << 16, 4096), Pages::new(&b.memory, 1 << 16, 4096));
    from.fill_pattern(1);
    let (src, dst) = (a.register(3, &from, Access::READ), b.register(7, &to, Access::WRITE));
    for (offset, size) in [(0u32, 1u32), (3, 8), (8, 8), (5, 63), (1, 64), (2, 65), (9, 496), (11, 5000)] {
        p.put(q.address(), Spec::REQUESTER | Spec::COMPLETER, src + u64::from(offset), dst + 7, size);
        let last = (size - 1) / 496 * 496;
        let tail = size - last;
        let sent = (Kind::Requester, 2, q.address(), tail, src + u64::from(offset + last));
        assert_eq!(transfer(&p.next()), sent);
        assert_eq!(transfer(&q.next()), (Kind::Completer, 2, p.address(), tail, dst + 7 + u64::from(last)));
        assert_eq!(to.bytes(7, size as usize), from.bytes(offset as usize, size as usize));
    }
    assert_eq!((p.drain().len(), q.drain().len()), (0, 0));
    assert_eq!(a.all_errors(), []);
    assert_eq!(b.all_errors(), []);
}

#[test]
fn get_notifies_three_times() {
    let setup = Setup::inline();
    let (a, b) = (setup.node(0), setup.node(1));
    let (mut p, mut q) = (a.open(0, 1), b.open(255, 1));
    let (local, remote) = (Pages::new(&a.memory, 1 << 14, 4096), Pages::new(&b.memory, 1 << 14, 4096));
    remote.fill_pattern(2);
    let (write, read) = (a.register(0, &local, Access::WRITE), b.register(255, &remote, Access::READ));
    p.get(q.address(), Spec::ALL, read + 1, write + 2, 1000);
    assert_eq!(transfer(&p.next()), (Kind::Requester, 0, q.address(), 1000 - 992, write + 2 + 992));
    assert_eq!(transfer(&p.next()), (Kind::Completer, 10, q.address(), 8, write + 2 + 992));
    assert_eq!(transfer(&q.next()), (Kind::Responder, 0, p.address(), 8, read + 1 + 992));
    assert_eq!(local.bytes(2, 1000), remote.bytes(1, 1000));
    assert_eq!((p.drain().len(), q.drain().len()), (0, 0));
}

#[test]
fn immediate_and_notification_puts() {
    let setup = Setup::inline();
    let a = setup.node(9);
    let (p, mut q) = (a.open(1, 1), a.open(2, 1));
    let to = Pages::new(&a.memory, 4096, 4096);
    let dst = a.register(2, &to, Access::WRITE);
    for count in 1..=8u8 {
        to.store(0, u64::MAX);
        let value = 0x1122_3344_5566_7788;
        let request = Request::ImmediatePut { count, write: dst, value };
        p.post(q.address(), Spec::COMPLETER, Modifier::NONE, &request);
        assert_eq!(transfer(&q.next()), (Kind::Completer, 6, p.address(), u32::from(count), dst));
        let kept = if count == 8 { 0 } else { u64::MAX << (8 * count) };
        assert_eq!(to.load(0), kept | value & !kept);
    }
    let request = Request::NotificationPut { class: 42, payload: 0xfeed };
    p.post(q.address(), Spec::COMPLETER, Modifier::NONE, &request);
    let (header, body) = q.next().decode().unwrap();
    assert_eq!(body, Body::Class { class: 42, payload: 0xfeed });
    assert_eq!((header.remote, header.mode), (p.address(), Mode::TE));
    p.post(q.address(), Spec::NONE, Modifier::NONE, &request);
    assert_eq!(q.drain(), [], "without the completer bit it has no effect");
}

#[test]
fn loopback_counts_are_two_and_three() {
    let setup = Setup::inline();
    let a = setup.node(0);
    let mut p = a.open(5, 1);
    let memory = Pages::new(&a.memory, 8192, 4096);
    let nla = a.register(5, &memory, Access::ALL);
    p.put(p.address(), Spec::ALL, nla, nla + 4096, 100);
    assert_eq!(p.drain().len(), 2);
    p.get(p.address(), Spec::ALL, nla, nla + 4096, 100);
    assert_eq!(p.drain().len(), 3);
    let lock = Request::Lock { to_responder: true, number: 1, compare: 0, add: 1 };
    p.post(p.address(), Spec::ALL, Modifier::NONE, &lock);
    assert_eq!(p.drain().len(), 3);
    p.post(p.address(), Spec::ALL, Modifier::NONE, &Request::NotificationPut { class: 1, payload: 2 });
    assert_eq!(p.drain().len(), 2);
}

#[test]
fn locks_follow_the_trace_of_the_specification() {
    let setup = Setup::inline();
    let a = setup.node(0);
    let mut p = a.open(5, 1);
    let mut lock = |compare, add| {
        let request = Request::Lock { to_responder: false, number: 3, compare, add };
        p.post(p.address(), Spec::ALL, Modifier::NONE, &request);
        let seen: Vec<_> = p
            .drain()
            .iter()
            .map(|n| {
                let (header, body) = n.decode().unwrap();
                let Body::Lock { number, result, value } = body else { panic!("{body:?}") };
                assert_eq!(number, 3);
                (header.kind, header.command.get(), result, value)
            })
            .collect();
        assert_eq!(seen[0], (Kind::Requester, 12, 0, compare), "first, and with the operand");
        let (_, _, result, value) = seen[1];
        assert!(seen.contains(&(Kind::Responder, 12, result, value)));
        assert!(seen.contains(&(Kind::Completer, 13, result, value)));
        (result, value)
    };
    for step in 1..=5 {
        assert_eq!(lock(28, 7), (1, 7 * step));
    }
    assert_eq!(lock(28, 7), (0, 35));
    assert_eq!(lock(35, -7), (1, 28));
    assert_eq!(a.locks.load((5 + 256 * 3) / 2) >> 32, 28, "lock i of VPID v is word v + 256·i");
}

#[test]
fn words_may_come_in_any_order() {
    let setup = Setup::inline();
    let a = setup.node(0);
    let mut p = a.open(5, 1);
    let request = Request::NotificationPut { class: 7, payload: 99 };
    let d = Descriptor::encode(p.address(), Spec::COMPLETER, Modifier::NONE, &request).unwrap();
    let page = TE.page_offset(5);
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for i in order {
            assert_eq!(p.drain(), []);
            a.nic.requester_store(page + 8 * i as u64, d.word[i]);
        }
        assert_eq!(p.next().word0, 99);
    }
    assert_eq!(WcbState(a.nic.reg_read(regs::wcb_state(5))).committed(), 6);
}

/// A slot ring of `count` slots, filled as a kernel does.
struct Ring {
    pages: Pages,
    count: u32,
    tail: u64,
}

impl Ring {
    fn attach(port: &Port, count: u32) -> Ring {
        let bytes = 32 * count as usize + 8;
        let pages = Pages::new(&port.node.memory, bytes, 4096);
        let consumed: *const _ = pages.word(4 * count as usize);
        let ring = SlotRing { base: pages.address() as *mut _, count, consumed, option: 16 };
        // SAFETY: `pages` outlives the attachment in every test (detached, or the card dropped, first).
        unsafe { port.node.nic.attach_slots(port.vpid, ring) }.unwrap();
        Ring { pages, count, tail: 0 }
    }

    fn consumed(&self) -> u64 {
        self.pages.load(4 * self.count as usize)
    }

    fn push(&mut self, words: [u64; 3]) -> bool {
        if self.tail - self.consumed() >= u64::from(self.count) {
            return false;
        }
        let slot = 4 * (self.tail % u64::from(self.count)) as usize;
        words.iter().enumerate().for_each(|(i, w)| self.pages.store(slot + i, *w));
        self.tail += 1;
        self.pages.store(slot + 3, self.tail);
        true
    }
}

#[test]
fn slots_carry_the_same_commands() {
    for count in [1, 2, 8] {
        let setup = Setup::inline();
        let (a, b) = (setup.node(0), setup.node(1));
        let (p, mut q) = (a.open(1, 1), b.open(1, 2));
        let mut ring = Ring::attach(&p, count);
        let mut seen = 0;
        for i in 0..100u64 {
            let request = Request::NotificationPut { class: 0, payload: i };
            let d = Descriptor::encode(q.address(), Spec::COMPLETER, Modifier::NONE, &request).unwrap();
            while !ring.push(d.word) {
                assert!(a.nic.progress(), "a full ring makes progress");
                q.drain().iter().for_each(|n| {
                    assert_eq!(n.word0, seen);
                    seen += 1;
                });
            }
        }
        a.nic.progress();
        q.drain().iter().for_each(|n| {
            assert_eq!(n.word0, seen);
            seen += 1;
        });
        assert_eq!((seen, ring.consumed()), (100, 100));
        a.nic.detach_slots(1);
    }
}

#[test]
fn a_bad_slot_ring_is_refused() {
    let setup = Setup::inline();
    let a = setup.node(0);
    let p = a.open(1, 1);
    let ring = Ring::attach(&p, 4);
    let good = SlotRing {
        base: ring.pages.address() as *mut _,
        count: 4,
        consumed: ring.pages.word(16),
        option: 16,
    };
    let bad = [
        good, // has one already
        SlotRing { count: 3, ..good },
        SlotRing { count: 0, ..good },
        SlotRing { base: std::ptr::null_mut(), ..good },
        SlotRing { base: (ring.pages.address() + 4) as *mut _, ..good },
        SlotRing { consumed: std::ptr::null(), ..good },
        SlotRing { option: 32, ..good },
    ];
    for ring in bad {
        // SAFETY: refused, and valid anyway where it could be used.
        assert!(unsafe { a.nic.attach_slots(1, ring) }.is_err(), "{ring:?}");
    }
    a.nic.detach_slots(1);
}
