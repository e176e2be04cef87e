//! What the programs of a network share.

use std::cell::{Cell, Ref, RefCell};
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use extoll_abi::regs::{COMPL_BQT, EXTOLL_RF_RMA_BQ_TIMEOUT, EXTOLL_RF_RMA_WCB_TIMEOUT, REQ_BQT, RESP_BQT};
use extoll_abi::regs::{EXTOLL_RF_VELO_COUNT, EXTOLL_RF_VELO_TIMEOUT, EXTOLL_RF_VELO_WCB_TIMEOUT};
use extoll_sim::Simulation;
use extoll_sim::faults::Event;
use extoll_sim::network::Network;
use ggas::{Cluster, Node};

use super::Plan;
use super::area::Area;
use super::member::{Member, Pair};
use super::messages::Mail;
use super::stores::{self, Share};
use crate::Errors;

/// Longest wait of a program for anything, in virtual time: several times what a whole network takes, half an hour. Links
/// that repeat the same frames until then, in vain, take a minute of real time.
pub const LIMIT: Duration = Duration::from_secs(4 * 3600);

/// See the module's description.
pub struct World<'a> {
    pub plan: &'a Plan,
    pub simulation: Arc<Simulation>,
    cluster: RefCell<Cluster>,
    members: RefCell<Vec<Option<Rc<Member>>>>,
    /// All that ever were.
    all: RefCell<Vec<Rc<Member>>>,
    /// Nodes that are dead now.
    pub dead: RefCell<Vec<bool>>,
    /// How often a node has died.
    pub deaths: Cell<u64>,
    /// Programs that have not posted all of their commands.
    pub posting: Cell<usize>,
    /// What breaks and mends has mended everything, for good.
    pub mended: Cell<bool>,
    /// Programs that have not seen all that is to come.
    pub waiting: Cell<usize>,
    /// Commands that programs posted, and messages that they sent.
    pub commands: Cell<u64>,
    pub messages: Cell<u64>,
    pub accesses: Cell<u64>,
}

impl<'a> World<'a> {
    pub fn new(plan: &'a Plan, simulation: &Arc<Simulation>) -> World<'a> {
        let (x, y, z) = plan.torus;
        let builder = Cluster::builder().nodes(plan.nodes).torus(x, y, z).faults(plan.faults.clone());
        let cluster = builder.progress(plan.progress()).simulation(simulation).build().expect("a cluster");
        cluster.nodes().iter().for_each(|node| set_up(plan, node));
        World {
            plan,
            simulation: simulation.clone(),
            cluster: RefCell::new(cluster),
            members: RefCell::new(vec![None; plan.nodes]),
            all: RefCell::default(),
            dead: RefCell::new(vec![false; plan.nodes]),
            deaths: Cell::new(0),
            posting: Cell::new(plan.nodes),
            mended: Cell::new(false),
            waiting: Cell::new(plan.nodes),
            commands: Cell::new(0),
            messages: Cell::new(0),
            accesses: Cell::new(0),
        }
    }

    pub fn network(&self) -> Arc<Network> {
        self.cluster.borrow().network().torus().expect("a torus").clone()
    }

    pub fn sleep(&self, time: Duration) {
        self.simulation.clock().sleep(time);
    }

    /// Looks until there is something to see; panics after [`LIMIT`], naming `what`.
    pub fn until<T>(&self, what: impl Fn() -> String, mut look: impl FnMut() -> Option<T>) -> T {
        let (clock, mut nap) = (self.simulation.clock(), Duration::from_micros(1));
        let began = clock.now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(clock.since(began) < LIMIT, "waited {:?} for {}", clock.since(began), what());
            clock.sleep(nap);
            nap = (nap * 2).min(Duration::from_secs(1));
        }
    }

    pub fn node(&self, node: usize) -> Ref<'_, Node> {
        Ref::map(self.cluster.borrow(), |cluster| cluster.node(node).expect("a node of the plan"))
    }

    /// The start of a node that runs now.
    pub fn member(&self, node: usize) -> Option<Rc<Member>> {
        self.members.borrow()[node].clone()
    }

    pub fn count_command(&self) {
        self.commands.set(self.commands.get() + 1);
    }

    pub fn count_access(&self) {
        self.accesses.set(self.accesses.get() + 1);
    }

    pub fn count_message(&self) {
        self.messages.set(self.messages.get() + 1);
    }

    /// Opens a port: the node's next start.
    pub fn open(&self, node: usize, start: u64) -> Rc<Member> {
        let port = self.node(node).open_port(self.plan.port()).expect("a port");
        let outbox = Area::new(&port, self.plan.bytes(), self.seed_of(&[node as u64, start]));
        let mail = self.plan.mailboxes.map(|shape| Mail::open(&self.node(node), shape, self.plan.nodes));
        let seed = |other: usize| self.seed_of(&[node as u64, start, other as u64, 3]);
        let share =
            self.plan.windows.map(|shape| Share::open(&self.node(node), &port, shape, self.plan.nodes, seed));
        let member = Rc::new(Member {
            node,
            start,
            port,
            mail,
            share,
            outbox,
            pairs: RefCell::default(),
            streams: RefCell::new((0..self.plan.nodes).map(|_| Default::default()).collect()),
            gaps: Cell::new(0),
            acknowledged: Cell::new(0),
            over: Cell::new(false),
        });
        self.all.borrow_mut().push(member.clone());
        self.members.borrow_mut()[node] = Some(member.clone());
        member
    }

    /// What `me` needs to meet `other`, if it is not there yet.
    pub fn meet(&self, me: &Member, other: &Member) {
        if me.pair(other).is_some() {
            return;
        }
        let area = |which: u64| {
            let of = [me.node as u64, me.start, other.node as u64, other.start, which];
            Area::new(&me.port, self.plan.bytes(), self.seed_of(&of))
        };
        let pair = Pair {
            inbox: area(1),
            fetched: area(2),
            connection: me.port.connect(other.port.address()),
            lock: Cell::new(0),
        };
        me.pairs.borrow_mut().insert((other.node, other.start), Rc::new(pair));
    }

    fn seed_of(&self, of: &[u64]) -> u64 {
        of.iter().fold(self.plan.seed, |seed, part| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ part)
    }

    /// The node dies, with its program; what it had begun with others may be done or not.
    pub fn kill(&self, node: usize) {
        let dead = self.member(node);
        self.deaths.set(self.deaths.get() + 1);
        self.dead.borrow_mut()[node] = true;
        self.happen(Event::Kill(self.node(node).id()));
        self.members.borrow_mut()[node] = None;
        for member in self.all.borrow().iter() {
            let own = member.node == node;
            for ((other, _), pair) in
                member.pairs.borrow().iter().filter(|((other, _), _)| own || *other == node)
            {
                pair.inbox.doubt();
                pair.fetched.doubt();
                member.doubt(*other);
            }
            // Commands to a node that died as they were posted come to stand here as well.
            member.doubt(node);
        }
        if let Some(dead) = dead {
            dead.over.set(true);
        }
    }

    /// Whether all programs that run know of all deaths.
    pub fn all_know(&self) -> bool {
        self.members.borrow().iter().flatten().all(|member| member.acknowledged.get() == self.deaths.get())
    }

    /// A cold start of a dead node.
    pub fn restart(&self, node: usize) {
        set_up(self.plan, self.cluster.borrow_mut().restart(node).expect("a cold start"));
        self.dead.borrow_mut()[node] = false;
    }

    pub fn happen(&self, event: Event) {
        self.network().happen(event).expect("an event of this torus");
    }

    /// Notifications that the card of a node dropped and counted.
    pub fn dropped(&self, node: usize) -> usize {
        let errors = Errors::of(&self.node(node));
        [REQ_BQT, RESP_BQT, COMPL_BQT].map(|counter| usize::from(errors.count(counter))).iter().sum()
    }

    /// Every byte, once all programs have ended.
    pub fn verify(&self) {
        if !self.plan.deaths {
            stores::verify_counts(self.cluster.borrow().nodes());
        }
        for member in self.all.borrow().iter() {
            let (node, start) = (member.node, member.start);
            for ((other, other_start), pair) in member.pairs.borrow().iter() {
                let of = || format!("start {other_start} of node {other}");
                pair.inbox.verify(|| format!("what {} put to start {start} of node {node}", of()));
                pair.fetched.verify(|| format!("what start {start} of node {node} got from {}", of()));
            }
            let of = |other| format!("what node {other} stored at start {start} of node {node}");
            member.share.iter().for_each(|share| share.verify(of));
            member.outbox.verify(|| format!("what start {start} of node {node} puts"));
        }
    }

    /// Counters of all nodes and links.
    pub fn hash(&self, into: &mut impl Hasher) {
        let network = self.network();
        for node in self.cluster.borrow().nodes() {
            format!("{:?}", Errors::of(node)).hash(into);
            for direction in ggas::device::sim::Direction::ALL {
                format!("{:?}", network.link_counters(node.id(), direction)).hash(into);
            }
            network.discarded(node.id()).hash(into);
            node.read_register(EXTOLL_RF_VELO_COUNT).expect("a register").hash(into);
            stores::counts(node).hash(into);
        }
    }
}

/// What a driver sets for all VPIDs.
fn set_up(plan: &Plan, node: &Node) {
    // Half written lines are not what is tried here, and nobody is held up between two stores.
    node.write_register(EXTOLL_RF_RMA_WCB_TIMEOUT, 0).expect("a register");
    let timeout = if plan.drops { 2 | 1 << 32 } else { 0 };
    node.write_register(EXTOLL_RF_RMA_BQ_TIMEOUT, timeout).expect("a register");
    node.write_register(EXTOLL_RF_VELO_WCB_TIMEOUT, 0).expect("a register");
    node.write_register(EXTOLL_RF_VELO_TIMEOUT, timeout).expect("a register");
}
