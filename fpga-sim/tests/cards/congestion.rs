//! Back-pressure: write-combining buffers that reject, software that replays (spec 2.4), rings that fill, queues
//! that overflow (spec 3.2).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::*;
use extoll_abi::regs::*;
use extoll_abi::*;
use extoll_sim::fabric::{Carriage, FabricError, Loopback};
use extoll_sim::packet::{Class, Packet};
use extoll_sim::runs::Runs;
use extoll_sim::*;
use ggas_clock::Manual;
use proptest::prelude::*;

/// A fabric that takes requests only while it is open.
struct Valve {
    inner: Arc<Loopback>,
    open: AtomicBool,
}

impl Valve {
    fn new(direct: bool) -> Arc<Valve> {
        Arc::new(Valve { inner: Loopback::new(4096, direct), open: AtomicBool::new(true) })
    }

    fn set(&self, open: bool) {
        self.open.store(open, Ordering::SeqCst);
    }
}

impl Fabric for Valve {
    #[allow(clippy::result_large_err, reason = "as the trait")]
    fn send(&self, from: u16, packet: Packet) -> Result<(), Packet> {
        if packet.class() == Class::Request && !self.open.load(Ordering::SeqCst) {
            return Err(packet);
        }
        self.inner.send(from, packet)
    }
    fn poll(&self, node: u16, class: Class) -> Option<Packet> {
        self.inner.poll(node, class)
    }
    fn carriage(&self, to: Address, runs: &Runs) -> Carriage {
        self.inner.carriage(to, runs)
    }
    fn attach(&self, node: u16, wake: Arc<dyn Wake>) -> Result<(), FabricError> {
        self.inner.attach(node, wake)
    }
    fn detach(&self, node: u16) {
        self.inner.detach(node);
    }
}

/// Software's side of the replay protocol, as spec 2.4 has it: a ring of 256 entries and a write index.
struct Replay<'a> {
    port: &'a Port<'a>,
    ring: Vec<[u64; 3]>,
    wp: u8,
    /// Times that a rejection was seen.
    retries: u32,
}

impl<'a> Replay<'a> {
    fn new(port: &'a Port<'a>) -> Replay<'a> {
        Replay { port, ring: vec![[0; 3]; 256], wp: 0, retries: 0 }
    }

    fn page(&self) -> &std::sync::atomic::AtomicU64 {
        self.port.node.nic.wcb_state(self.port.vpid)
    }

    fn state(&self) -> WcbState {
        WcbState(self.page().load(Ordering::Acquire))
    }

    /// Words of a line in an order of its own.
    fn store(&self, words: [u64; 3], order: [usize; 3]) {
        let page = PageOption::TE.page_offset(self.port.vpid);
        for i in order {
            self.port.node.nic.requester_store(page + 8 * i as u64, words[i]);
        }
    }

    /// Posts; false where the ring is full (mode POST would spin).
    fn post(&mut self, words: [u64; 3], order: [usize; 3]) -> bool {
        self.check();
        if self.wp.wrapping_add(1) == self.state().committed() {
            return false;
        }
        self.ring[usize::from(self.wp)] = words;
        self.wp = self.wp.wrapping_add(1);
        self.store(words, order);
        true
    }

    /// Reissues what was rejected.
    fn check(&mut self) {
        let mut state = self.state();
        if !state.retry() || state.rejected() == 0 {
            return;
        }
        self.retries += 1;
        while !state.idle() {
            state = self.state();
        }
        while self.wp.wrapping_sub(state.committed()) != state.rejected() {
            state = self.state();
        }
        while state.rejected() != 0 {
            self.page().store(state.acknowledged().0, Ordering::Release);
            state = self.state();
        }
        let mut index = state.committed();
        while index != self.wp {
            self.store(self.ring[usize::from(index)], [0, 1, 2]);
            index = index.wrapping_add(1);
        }
    }

    fn is_drained(&self) -> bool {
        self.state().committed() == self.wp
    }
}

fn note(port: &Port, spec: Spec, payload: u64) -> [u64; 3] {
    let request = Request::NotificationPut { class: 3, payload };
    Descriptor::encode(port.address(), spec, Modifier::NONE, &request).unwrap().word
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// However the network opens and closes, every command is carried out once and in order.
    #[test]
    fn replay_loses_and_doubles_nothing(
        steps in proptest::collection::vec((any::<bool>(), 1usize..200, 0usize..6), 1..16),
    ) {
        let valve = Valve::new(true);
        let setup = Setup::over(valve.clone());
        let (a, b) = (setup.node(0), setup.node(1));
        let (p, mut q) = (a.open(1, 1), b.open(2, 16));
        let mut replay = Replay::new(&p);
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let (mut posted, mut seen) = (0u64, 0u64);
        for (open, count, order) in steps {
            valve.set(open);
            for _ in 0..count {
                let words = note(&q, Spec::COMPLETER, posted);
                posted += u64::from(replay.post(words, orders[order]));
            }
            a.nic.progress();
            for n in q.drain() {
                prop_assert_eq!(n.word0, seen);
                seen += 1;
            }
        }
        valve.set(true);
        let deadline = Instant::now() + PATIENCE;
        while !replay.is_drained() || seen < posted {
            replay.check();
            a.nic.progress();
            for n in q.drain() {
                prop_assert_eq!(n.word0, seen);
                seen += 1;
            }
            prop_assert!(Instant::now() < deadline, "posted {}, seen {}", posted, seen);
        }
        prop_assert_eq!(posted, seen);
        prop_assert_eq!(a.all_errors(), vec![]);
    }
}

#[test]
fn a_closed_network_rejects_and_keeps_rejecting_until_acknowledged() {
    let valve = Valve::new(true);
    let setup = Setup::over(valve.clone());
    let (a, b) = (setup.node(0), setup.node(1));
    let (p, mut q) = (a.open(1, 1), b.open(2, 2));
    let state = || WcbState(a.nic.reg_read(wcb_state(1)));
    valve.set(false);
    let mut accepted = 0;
    while !state().retry() {
        p.post_words(PageOption::TE, note(&q, Spec::COMPLETER, accepted));
        accepted += 1;
        assert!(accepted < 200, "the card takes any number of commands");
    }
    assert_eq!(u64::from(state().committed()), accepted - 1);
    assert_eq!(state().rejected(), 1);
    valve.set(true);
    while a.nic.progress() {}
    p.post_words(PageOption::TE, note(&q, Spec::COMPLETER, 999));
    assert_eq!(state().rejected(), 2, "rejected although there is room: nothing may overtake");
    assert_eq!(q.drain().len() as u64, accepted - 1);
    a.nic.wcb_state(1).store(state().acknowledged().0, Ordering::Release);
    p.post_words(PageOption::TE, note(&q, Spec::COMPLETER, 1000));
    assert_eq!(q.next().word0, 1000);
    assert!(!state().retry());
}

#[test]
fn a_closed_network_leaves_slots_unconsumed() {
    let valve = Valve::new(true);
    let setup = Setup::over(valve.clone());
    let (a, b) = (setup.node(0), setup.node(1));
    let (_p, mut q) = (a.open(1, 1), b.open(2, 1));
    let slots = Pages::new(&a.memory, 32 * 64 + 8, 4096);
    let ring =
        SlotRing { base: slots.address() as *mut _, count: 64, consumed: slots.word(4 * 64), option: 16 };
    // SAFETY: detached below, before `slots` goes.
    unsafe { a.nic.attach_slots(1, ring) }.unwrap();
    valve.set(false);
    for i in 0..64 {
        let words = note(&q, Spec::COMPLETER, i as u64);
        (0..3).for_each(|w| slots.store(4 * i + w, words[w]));
        slots.store(4 * i + 3, i as u64 + 1);
    }
    while a.nic.progress() {}
    assert_eq!(slots.load(4 * 64), 1, "one command is on its way out, the others stay in their slots");
    valve.set(true);
    let seen: Vec<u64> = (0..64)
        .map(|_| {
            a.nic.progress();
            q.next().word0
        })
        .collect();
    assert_eq!(seen, (0..64).collect::<Vec<u64>>());
    assert_eq!(slots.load(4 * 64), 64);
    a.nic.detach_slots(1);
}

#[test]
fn responses_pass_a_closed_network_for_requests() {
    let valve = Valve::new(true);
    let setup = Setup::over(valve.clone());
    let (a, b) = (setup.node(0), setup.node(1));
    let (mut p, q) = (a.open(1, 1), b.open(2, 1));
    let memory = Pages::new(&a.memory, 8192, 4096);
    let (local, remote) = (a.register(1, &memory, Access::ALL), b.register(2, &memory, Access::ALL));
    // Requests of the target wait; its response must not.
    valve.set(false);
    q.post_words(PageOption::TE, note(&p, Spec::COMPLETER, 1));
    valve.set(true);
    p.get(q.address(), Spec::COMPLETER, remote, local + 4096, 100);
    valve.set(false);
    let kinds: Vec<_> = p.drain().iter().map(|n| n.command().get()).collect();
    assert!(kinds.contains(&10), "{kinds:?}");
}

#[test]
fn a_full_queue_waits_and_then_drops() {
    let (clock, time) = Manual::new();
    let setup = Setup { clock, ..Setup::inline() };
    let (a, b) = (setup.node(0), setup.node(1));
    let (p, mut q) = (a.open(1, 1), b.open(2, 1));
    for i in 0..300 {
        p.post_words(PageOption::TE, note(&q, Spec::COMPLETER, i));
    }
    // 255 lie in the queue; a slot freed lets one more in, in order.
    for i in 0..10 {
        assert_eq!(q.next().word0, i);
    }
    b.nic.reg_write(EXTOLL_RF_RMA_BQ_TIMEOUT, 1 << 32 | 1); // one tick of 100 ms
    b.nic.progress(); // from here on the queue does not move
    time.advance(Duration::from_millis(100) - Duration::from_nanos(1));
    b.nic.progress();
    assert_eq!(b.errors(COMPL_BQT), 0, "its time is not over");
    time.advance(Duration::from_nanos(1));
    b.nic.progress();
    assert_eq!(b.errors(COMPL_BQT), 300 - 265);
    assert_eq!(BQ_FAILED_QUEUE.get(b.nic.reg_read(EXTOLL_RF_BQ_RMA_GENERAL)), 2);
    let seen: Vec<u64> = q.drain().iter().map(|n| n.word0).collect();
    assert_eq!(seen, (10..265).collect::<Vec<u64>>());
    p.post_words(PageOption::TE, note(&q, Spec::COMPLETER, 1000));
    assert_eq!(q.next().word0, 1000, "after the reader moved, notifications come again");
}

#[test]
fn a_full_queue_of_one_port_leaves_others_alone_and_holds_its_own_requester() {
    let setup = Setup::inline();
    let a = setup.node(0);
    let (full, mut free) = (a.open(1, 1), a.open(2, 1));
    a.nic.reg_write(EXTOLL_RF_RMA_BQ_TIMEOUT, 0); // no timeout: waits for ever
    for i in 0..400 {
        full.post_words(PageOption::TE, note(&full, Spec::COMPLETER, i));
    }
    assert!(WcbState(a.nic.reg_read(wcb_state(1))).retry(), "its commands were rejected in the end");
    free.post_words(PageOption::TE, note(&free, Spec::COMPLETER, 7));
    assert_eq!(free.next().word0, 7);
    drop(full); // closing it drops what waits
    assert_eq!(a.all_errors(), []);
}

#[test]
fn a_full_queue_is_felt_at_the_origin() {
    let setup = Setup::over(Loopback::new(16, true));
    let (a, b) = (setup.node(0), setup.node(1));
    let (p, mut q) = (a.open(1, 1), b.open(2, 1));
    b.nic.reg_write(EXTOLL_RF_RMA_BQ_TIMEOUT, 0); // no timeout: waits for ever
    // The queue (255), waiting notifications (64), the network (16), the commands (64), and a few in between.
    let most = 255 + 64 + 16 + 64 + 4;
    let mut posted = 0;
    while !WcbState(a.nic.reg_read(wcb_state(1))).retry() {
        p.post_words(PageOption::TE, note(&q, Spec::COMPLETER, posted));
        posted += 1;
        assert!(posted <= most, "{posted} commands for a queue of 255 that nobody reads");
    }
    assert!(posted > 255 + 64);
    // A response to another port of the same card passes all of that.
    let mut other = b.open(3, 1);
    let memory = Pages::new(&b.memory, 8192, 4096);
    let (near, far) = (b.register(3, &memory, Access::ALL), a.register(1, &memory, Access::ALL));
    other.get(p.address(), Spec::COMPLETER, far, near + 4096, 100);
    assert_eq!(other.next().error(), ErrorUnits::NONE);
    let seen: Vec<u64> = (1..posted).map(|_| q.next().word0).collect();
    assert_eq!(seen, (0..posted - 1).collect::<Vec<u64>>(), "nothing was lost but what was rejected");
    assert_eq!(b.all_errors(), []);
}

/// A network that takes nothing for another node, and the threads that run cards: what each was asked.
struct Asked {
    inner: Arc<Loopback>,
    threads: Arc<NicThreads>,
    refused: AtomicU64,
    submitted: AtomicU64,
}

impl Fabric for Asked {
    fn send(&self, from: u16, packet: Packet) -> Result<(), Packet> {
        if packet.destination.node != from {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(packet);
        }
        self.inner.send(from, packet)
    }
    fn poll(&self, node: u16, class: Class) -> Option<Packet> {
        self.inner.poll(node, class)
    }
    fn carriage(&self, to: Address, runs: &Runs) -> Carriage {
        self.inner.carriage(to, runs)
    }
    fn attach(&self, node: u16, wake: Arc<dyn Wake>) -> Result<(), FabricError> {
        self.inner.attach(node, wake)
    }
    fn detach(&self, node: u16) {
        self.inner.detach(node);
    }
}

impl Driver for Asked {
    fn submit(&self, nic: &Arc<Nic>) {
        self.submitted.fetch_add(1, Ordering::SeqCst);
        self.threads.submit(nic);
    }
}

/// Its thread looks ever more seldom at a card that the network will wake, and does not know of what others leave undone there.
#[test]
fn the_driver_hears_of_a_full_queue_behind_a_command_that_the_network_refused() {
    let asked = Arc::new(Asked {
        inner: Loopback::new(4096, true),
        threads: NicThreads::new(1),
        refused: AtomicU64::new(0),
        submitted: AtomicU64::new(0),
    });
    let setup = Setup { driver: Some(asked.clone()), ..Setup::over(asked.clone()) };
    let a = setup.node(0);
    let (p, mut q) = (a.open(1, 1), a.open(2, 1));
    let far = Descriptor::encode(
        Address::new(1, 1),
        Spec::COMPLETER,
        Modifier::NONE,
        &Request::NotificationPut { class: 1, payload: 2 },
    );
    p.post_words(PageOption::TE, far.unwrap().word);
    let looks = |more: u64| {
        let (seen, deadline) =
            (asked.refused.load(Ordering::SeqCst), Instant::now() + Duration::from_secs(60));
        while asked.refused.load(Ordering::SeqCst) < seen + more {
            assert!(Instant::now() < deadline, "nobody looks at the card");
            std::thread::yield_now();
        }
    };
    let mut is_told = || {
        let full = note(&q, Spec::COMPLETER, 7);
        (0..255).for_each(|_| q.post_words(PageOption::TE, full));
        looks(3); // the thread, and it has done so
        let before = asked.submitted.load(Ordering::SeqCst);
        q.post_words(PageOption::TE, full);
        let told = asked.submitted.load(Ordering::SeqCst) > before;
        looks(1);
        assert_eq!((0..256).map(|_| q.next()).count(), 256);
        told
    };
    // Mostly at once, unless the thread runs the card just then.
    assert!((0..8).any(|_| is_told()));
}

#[test]
fn a_port_without_a_queue_drops_and_counts() {
    let setup = Setup::inline();
    let a = setup.node(0);
    let mut p = a.open(1, 1);
    a.nic.reg_write(vpid_table(9), vpid_entry(0));
    let d = Descriptor::encode(
        Address::new(0, 9),
        Spec::COMPLETER,
        Modifier::NONE,
        &Request::NotificationPut { class: 1, payload: 2 },
    );
    p.post_words(PageOption::TE, d.unwrap().word);
    assert_eq!(p.drain(), []);
    assert_eq!(a.errors(COMPL_BQT), 1);
}
