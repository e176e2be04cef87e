//! Whole cards on a faulty network: every command is carried out exactly once, in order, and its bytes are right,
//! whatever happens to frames and links; what a dead or stopped card takes with it is its own only.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::*;
use extoll_abi::*;
use extoll_sim::faults::{Event, Faults};
use extoll_sim::network::Network;
use extoll_sim::torus::{Direction, Torus};
use extoll_sim::*;
use ggas_clock::{Backoff, Clock, Ladder, Manual};

const VPID: u8 = 3;
const OUT: usize = 32 << 10;
/// What each origin writes to at a target.
const SHARE: usize = 4096;

fn torus() -> Torus {
    Torus::new(3, 2, 2).unwrap()
}

fn nasty(seed: u64) -> Faults {
    let faults = Faults::none().seed(seed).drop(0.02).corrupt(0.02).reorder(0.03).duplicate(0.02);
    faults.delay(0.03, Duration::from_micros(150)).starve(0.02)
}

/// A command whose notification at the target, or at the origin for gets, has to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// Put: address behind its last byte.
    Put(u64),
    /// Notification put: its payload.
    Note(u64),
}

struct Member<'a> {
    port: RefCell<Port<'a>>,
    /// Source of puts and gets: never changes.
    out: Pages,
    out_nla: u64,
    /// Target of puts, a share for each origin, and what it should hold.
    inbox: Pages,
    inbox_nla: u64,
    mirror: RefCell<Vec<u8>>,
    /// Target of gets, filled from the front.
    got: Pages,
    got_nla: u64,
    got_mirror: RefCell<Vec<u8>>,
    /// By origin.
    due: RefCell<Vec<VecDeque<Expected>>>,
    requested: RefCell<u32>,
    gets_due: RefCell<u32>,
    served_due: RefCell<u32>,
    ring: RefCell<Vec<[u64; 3]>>,
    rejections: RefCell<u32>,
}

struct Cluster<'a> {
    network: Arc<Network>,
    members: Vec<Member<'a>>,
    /// Whether this thread runs the cards; otherwise a driver does.
    inline: bool,
    clock: Clock,
    rng: RefCell<fastrand::Rng>,
    notes: RefCell<u64>,
}

/// In virtual time that passes as this thread waits.
fn network(faults: Faults) -> Arc<Network> {
    Network::with_clock(torus(), faults, Manual::new().0).unwrap()
}

fn nodes(network: &Arc<Network>, driver: Option<Arc<dyn Driver>>) -> Vec<Node> {
    let (inline, clock) = (driver.is_none(), network.clock().clone());
    let setup = Setup { driver, inline, clock, ..Setup::over(network.clone()) };
    network.torus().ids().map(|id| setup.node(id)).collect()
}

impl<'a> Cluster<'a> {
    fn new(network: &Arc<Network>, nodes: &'a [Node], inline: bool, seed: u64) -> Cluster<'a> {
        let member = |node: &'a Node| {
            let pages = |len| Pages::new(&node.memory, len, 4096);
            let (out, inbox, got) = (pages(OUT), pages(SHARE * nodes.len()), pages(2 * OUT));
            out.fill_pattern(seed + u64::from(node.nic.node()));
            let nla = |pages: &Pages, access| node.register(VPID, pages, access);
            Member {
                out_nla: nla(&out, Access::READ),
                inbox_nla: nla(&inbox, Access::WRITE),
                got_nla: nla(&got, Access::WRITE),
                port: RefCell::new(node.open(VPID, 4)),
                mirror: vec![0; inbox.len()].into(),
                got_mirror: Vec::new().into(),
                due: vec![VecDeque::new(); nodes.len()].into(),
                requested: 0.into(),
                gets_due: 0.into(),
                served_due: 0.into(),
                ring: vec![[0; 3]; 256].into(),
                rejections: 0.into(),
                out,
                inbox,
                got,
            }
        };
        Cluster {
            network: network.clone(),
            members: nodes.iter().map(member).collect(),
            inline,
            clock: network.clock().clone(),
            rng: fastrand::Rng::with_seed(seed).into(),
            notes: 0.into(),
        }
    }

    fn happen(&self, event: Event) {
        self.network.happen(event).unwrap();
    }

    /// Posts with the card path's flow control: waits for room in the replay ring (spec 2.4), at most [`PATIENCE`].
    fn post(&self, from: usize, to: usize, spec: Spec, request: &Request) {
        let member = &self.members[from];
        let dst = Address::new(to as u16, VPID);
        let words = Descriptor::encode(dst, spec, Modifier::NONE, request).unwrap().word;
        self.wait(&format!("room to post at node {from}"), || {
            let port = member.port.borrow();
            let state = WcbState(port.node.nic.wcb_state(VPID).load(Ordering::Acquire));
            let room = port.wp.get().wrapping_add(1) != state.committed();
            if !room {
                self.replay(member, &port);
            }
            room
        });
        let port = member.port.borrow();
        member.ring.borrow_mut()[usize::from(port.wp.get())] = words;
        port.wp.set(port.wp.get().wrapping_add(1));
        port.post_words(PageOption::TE, words);
    }

    fn replay(&self, member: &Member, port: &Port) {
        let page = port.node.nic.wcb_state(VPID);
        let state = WcbState(page.load(Ordering::Acquire));
        if !state.retry() || state.rejected() == 0 {
            return;
        }
        assert!(state.idle(), "all words were stored");
        assert_eq!(port.wp.get().wrapping_sub(state.committed()), state.rejected());
        *member.rejections.borrow_mut() += 1;
        page.store(state.acknowledged().0, Ordering::Release);
        let mut next = state.committed();
        while next != port.wp.get() {
            port.post_words(PageOption::TE, member.ring.borrow()[usize::from(next)]);
            next = next.wrapping_add(1);
        }
    }

    /// A random command between two nodes.
    fn command(&self, from: usize, to: usize) {
        let mut rng = self.rng.borrow_mut();
        let (origin, target) = (&self.members[from], &self.members[to]);
        let kind = rng.u32(0..10);
        let size = if rng.bool() { rng.usize(1..=64) } else { rng.usize(1..=2500) };
        let at = rng.usize(0..=SHARE - size);
        let read = rng.usize(0..=OUT - size);
        let (write, value) = (target.inbox_nla + (from * SHARE + at) as u64, rng.u64(..));
        drop(rng);
        let expect = |expected| target.due.borrow_mut()[from].push_back(expected);
        let into_mirror = |bytes: &[u8]| {
            let start = from * SHARE + at;
            target.mirror.borrow_mut()[start..start + bytes.len()].copy_from_slice(bytes);
        };
        let both = Spec::REQUESTER | Spec::COMPLETER;
        match kind {
            0..=4 => {
                expect(Expected::Put(write + size as u64));
                into_mirror(&origin.out.bytes(read, size));
                *origin.requested.borrow_mut() += 1;
                let request =
                    Request::Put { qw: false, read: origin.out_nla + read as u64, write, size: size as u32 };
                self.post(from, to, both, &request);
            }
            5 if at + 8 <= SHARE => {
                expect(Expected::Put(write + 8));
                into_mirror(&value.to_le_bytes());
                self.post(from, to, Spec::COMPLETER, &Request::ImmediatePut { count: 8, write, value });
            }
            6 | 7 => {
                let payload = self.notes.replace_with(|notes| *notes + 1);
                expect(Expected::Note(payload));
                self.post(from, to, Spec::COMPLETER, &Request::NotificationPut { class: 1, payload });
            }
            _ if origin.got_mirror.borrow().len() + size <= origin.got.len() => {
                let write = origin.got_nla + origin.got_mirror.borrow().len() as u64;
                origin.got_mirror.borrow_mut().extend(target.out.bytes(read, size));
                *origin.gets_due.borrow_mut() += 1;
                *target.served_due.borrow_mut() += 1;
                let read = target.out_nla + read as u64;
                let request = Request::Get { qw: false, read, write, size: size as u32 };
                self.post(from, to, Spec::RESPONDER | Spec::COMPLETER, &request);
            }
            _ => {}
        }
    }

    /// `count` random commands of every node of `from` to nodes of `to`.
    fn commands(&self, count: usize, from: &[usize], to: &[usize]) {
        for _ in 0..count {
            for &origin in from {
                let target = to[self.rng.borrow_mut().usize(..to.len())];
                self.command(origin, target);
                self.consume();
            }
        }
    }

    /// Lets cards run and checks every notification that came against what is due.
    fn consume(&self) {
        for (index, member) in self.members.iter().enumerate() {
            let mut port = member.port.borrow_mut();
            if self.inline {
                port.node.nic.progress();
            }
            while let Some(notification) = port.try_next() {
                let (header, body) = notification.decode().unwrap();
                assert_eq!(header.error, ErrorUnits::NONE, "node {index}: {header:?} {body:?}");
                let less = |due: &RefCell<u32>| {
                    let left = due.borrow().checked_sub(1);
                    due.replace(left.unwrap_or_else(|| panic!("node {index}: one too many: {header:?}")));
                };
                match (header.kind, header.command.get()) {
                    (Kind::Requester, _) => less(&member.requested),
                    (Kind::Responder, _) => less(&member.served_due),
                    (Kind::Completer, 10 | 11) => less(&member.gets_due),
                    (Kind::Completer, _) => {
                        let seen = match body {
                            Body::Transfer { size, address } => Expected::Put(address + u64::from(size)),
                            Body::Class { payload, .. } => Expected::Note(payload),
                            body => panic!("node {index}: {body:?}"),
                        };
                        let due = member.due.borrow_mut()[usize::from(header.remote.node)].pop_front();
                        assert_eq!(due, Some(seen), "node {index}, from {:?}", header.remote);
                    }
                }
            }
        }
    }

    fn wait(&self, what: &str, mut ready: impl FnMut() -> bool) {
        let mut backoff = Backoff::on(Ladder::NEIGHBOUR, &self.clock, PATIENCE);
        while !ready() {
            self.consume();
            assert!(backoff.pause().is_ok(), "waited {PATIENCE:?} for {what}");
        }
    }

    /// Lets time pass in which something could come that must not.
    fn pass(&self, time: Duration) {
        let until = self.clock.now() + time;
        self.wait("time to pass", || self.clock.now() > until);
    }

    fn is_quiet(&self, member: &Member) -> bool {
        let counts = [&member.requested, &member.gets_due, &member.served_due];
        counts.iter().all(|due| *due.borrow() == 0) && member.due.borrow().iter().all(VecDeque::is_empty)
    }

    /// Waits until everything due came, then a little for what must not, and compares all memory.
    fn finish(&self) {
        for (index, member) in self.members.iter().enumerate() {
            let what = format!("the notifications of node {index}");
            self.wait(&what, || {
                self.replay(member, &member.port.borrow());
                self.is_quiet(member)
            });
        }
        self.pass(Duration::from_millis(20));
        for (index, member) in self.members.iter().enumerate() {
            let same = |pages: &Pages, mirror: &[u8]| pages.bytes(0, mirror.len()) == mirror;
            assert!(same(&member.inbox, &member.mirror.borrow()), "bytes put to node {index}");
            assert!(same(&member.got, &member.got_mirror.borrow()), "bytes got by node {index}");
            let port = member.port.borrow();
            assert_eq!(port.node.all_errors(), [], "node {index}");
        }
    }
}

const ALL: [usize; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
/// All but node 5.
const REST: [usize; 11] = [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11];

#[test]
fn everything_arrives_once_in_order_and_right() {
    for seed in 0..4 {
        let network = network(nasty(seed));
        let nodes = nodes(&network, None);
        let cluster = Cluster::new(&network, &nodes, true, seed);
        cluster.commands(60, &ALL, &ALL);
        cluster.finish();
        let ports = torus().ids().flat_map(|id| Direction::ALL.map(|port| network.link_counters(id, port)));
        assert!(ports.map(|counters| counters.retransmitted).sum::<u64>() > 0, "faults happened");
    }
}

/// The same on the direct network: what the faulty one is compared with.
#[test]
fn without_faults_as_well() {
    let network = network(Faults::none());
    let nodes = nodes(&network, None);
    let cluster = Cluster::new(&network, &nodes, true, 9);
    cluster.commands(200, &ALL, &ALL);
    cluster.finish();
}

/// Nobody calls the cards: timers of the link layer run in the driver.
#[test]
fn an_engine_drives_the_links() {
    let network = Network::new(torus(), nasty(21)).unwrap();
    let nodes = nodes(&network, Some(NicThreads::new(2)));
    let cluster = Cluster::new(&network, &nodes, false, 21);
    cluster.commands(40, &ALL, &ALL);
    cluster.finish();
}

#[test]
fn links_that_die_and_live_again_lose_nothing() {
    let faults = (0..6u16).fold(nasty(31), |faults, i| {
        let (at, link) = (300 + 250 * u64::from(i), (2 * i, Direction::ALL[usize::from(i)]));
        let faults = faults.after(at, Event::LinkDown(link.0, link.1));
        // Half of them are waited for, half routed around.
        let faults = if i % 2 == 0 { faults } else { faults.after(at + 40, Event::Reroute) };
        faults.after(at + 120, Event::LinkUp(link.0, link.1)).after(at + 130, Event::Reroute)
    });
    let network = network(faults);
    let nodes = nodes(&network, None);
    let cluster = Cluster::new(&network, &nodes, true, 31);
    cluster.commands(80, &ALL, &ALL);
    // Repairs that are planned for after more packets than there were.
    (0..6).for_each(|i: u16| cluster.happen(Event::LinkUp(2 * i, Direction::ALL[usize::from(i)])));
    cluster.happen(Event::Reroute);
    cluster.finish();
}

#[test]
fn a_dead_node_takes_nobody_with_it() {
    for faults in [Faults::none(), nasty(41)] {
        let network = network(faults);
        let nodes = nodes(&network, None);
        let cluster = Cluster::new(&network, &nodes, true, 41);
        cluster.commands(20, &ALL, &REST);
        cluster.finish();
        cluster.happen(Event::Kill(5));
        let before: u64 = torus().ids().map(|id| network.discarded(id)).sum();
        // Notification puts to the dead: accepted, thrown away, counted.
        let note = Request::NotificationPut { class: 0, payload: 0 };
        (0..40).for_each(|_| cluster.post(0, 5, Spec::COMPLETER, &note));
        cluster.commands(30, &REST, &REST);
        cluster.finish();
        let after: u64 = torus().ids().map(|id| network.discarded(id)).sum();
        assert_eq!(after - before, 40);
    }
}

#[test]
fn a_stopped_card_keeps_everyone_waiting_but_loses_nothing() {
    for faults in [Faults::none(), nasty(51)] {
        let network = network(faults);
        let nodes = nodes(&network, None);
        let cluster = Cluster::new(&network, &nodes, true, 51);
        cluster.commands(10, &ALL, &ALL);
        cluster.finish();
        cluster.happen(Event::Stop(5));
        cluster.commands(3, &REST, &ALL);
        // Its own commands go nowhere, and a get from it gets no answer.
        (0..4).for_each(|_| cluster.command(5, 0));
        cluster.pass(Duration::from_millis(20));
        let member = &cluster.members[5];
        assert!(!cluster.is_quiet(member), "what is for the stopped card waits");
        cluster.happen(Event::Resume(5));
        cluster.finish();
    }
}

/// Starved of credits, the command queue fills up; the WCB rejects; the replay protocol loses nothing.
#[test]
fn a_starved_requester_rejects_and_replays() {
    for faults in [Faults::none(), nasty(61)] {
        let network = network(faults);
        let nodes = nodes(&network, None);
        let cluster = Cluster::new(&network, &nodes, true, 61);
        for round in 0..5 {
            cluster.happen(Event::Starve(0));
            (0..100).for_each(|_| cluster.command(0, 1 + round));
            let state = WcbState(nodes[0].nic.wcb_state(VPID).load(Ordering::Acquire));
            let full = state.retry() || *cluster.members[0].rejections.borrow() > 0;
            assert!(full, "round {round}: {state:?} after 100 commands without credit");
            cluster.happen(Event::Feed(0));
            cluster.finish();
        }
        assert!(*cluster.members[0].rejections.borrow() > 0);
    }
}
