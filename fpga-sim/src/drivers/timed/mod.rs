//! Whole systems on one thread, in virtual time, at the costs of a parameter file.
//!
//! A [`Timed`] is an event queue, and with it a clock, a network and a driver of cards. What is due first goes on, of two
//! at the same time the one that was asked for first: the same parameters and programs give the same events, bit for
//! bit. Costs come from a [`System`] and nowhere else.
//!
//! Programs are functions ([`Timed::run`]), and blocks of kernels are too ([`Stream::launch`]). There are two kinds of nodes
//! for them, which may be used side by side:
//!
//! * [`Node`]: what a card's units cost, in its order, without the card: lengths for bytes, words that count up
//!   ([`Flag`]) for queues. For any network card, and for thousands of nodes.
//! * real cards ([`Nic`](crate::Nic)): they are joined by the same network and charged the same costs
//!   ([`Timed::join`]), and the library's own calls run on them, with real bytes or with lengths ([`Moves`]).
//!
//! ```
//! use extoll_sim::timed::{Flag, Put, System, Timed};
//!
//! let system = System::named("extoll-fpga")?;
//! let timed = Timed::new(&system, 2, 1)?;
//! let flags: [Flag; 2] = [timed.flag(), timed.flag()];
//! let (rounds, t) = (100, &timed);
//! timed.run((0..2).map(|me: usize| {
//!     let (mine, theirs) = (flags[me].clone(), flags[1 - me].clone());
//!     let program = move || {
//!         for round in 1..=rounds {
//!             if me == 0 {
//!                 t.node(me).put(Put::new(1, 8).notified().arrived(&theirs));
//!             }
//!             t.node(me).wait(&mine, round);
//!             if me == 1 {
//!                 t.node(me).put(Put::new(0, 8).notified().arrived(&theirs));
//!             }
//!         }
//!     };
//!     (me, format!("host {me}"), program)
//! }));
//! let half = timed.now().as_us() / (2 * rounds) as f64;
//! assert!(half > 0.5 && half < 10.0, "{half} us");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a put costs
//!
//! `host.post_ns` of the thread, `bus.write_ns` to the card, `card.requester_ns` and `translate_ns`, `bus.read_ns` and its
//! bytes; for each link `network.switch_ns` (of a star between the links), `link_ns` and its bytes with their headers;
//! `card.completer_ns` and `translate_ns`, the bytes' write and `bus.write_ns`, and `card.notify_ns` if it notifies. Of
//! long ones the parts overlap, packet behind packet. Units, bus and links serve one after the other, in the order in
//! which packets reach them. The end of a link holds `network.credits` packets of each virtual channel, and a card's queue
//! `card.queue` commands: where the network is full, programs wait before they post.

mod cards;
mod cores;
mod costs;
mod credits;
mod flag;
mod flight;
mod gpu;
mod node;
mod parameters;
mod programs;
mod queue;
mod span;
mod state;
mod system;
mod traffic;
mod trigger;
mod wires;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use ggas_clock::Clock;

use self::cards::Cards;
pub use self::cards::Moves;
use self::costs::Costs;
pub use self::flag::Flag;
use self::flight::{Errand, Ground, Station};
use self::gpu::Gpu;
pub use self::gpu::{Block, Kernel, Stream};
pub use self::node::{Node, Put};
pub use self::parameters::Allowed;
pub use self::span::Ps;
pub use self::state::Counts;
use self::state::{Later, Outside, State};
pub use self::system::{
    Bus, Card, Gpu as GpuParameters, Host, Network, Switching, System, SystemError, Topology,
};
pub use self::trigger::Trigger;
use self::wires::Wires;
use super::tasks;
use crate::network::links::torus::{MAX_NODES, Torus, TorusError};
use crate::packet::Class;

/// Whose memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The host's.
    Host = 0,
    /// The GPU's.
    Gpu = 1,
}

/// Why there is no such system to run.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TimedError {
    /// Parameters make no sense.
    #[error(transparent)]
    System(#[from] SystemError),
    /// No torus has so many nodes.
    #[error(transparent)]
    Torus(#[from] TorusError),
    /// There must be nodes, and ids for them.
    #[error("a system of {nodes} nodes: there must be 1 to {MAX_NODES}")]
    Nodes {
        /// Nodes asked for.
        nodes: usize,
    },
}

ggas_errors::debug_as_display!(TimedError);

/// See the module's description.
pub struct Timed {
    this: Weak<Timed>,
    began: Instant,
    seed: u64,
    system: System,
    costs: Costs,
    torus: Option<Torus>,
    nodes: usize,
    state: Mutex<State>,
}

impl Timed {
    /// `nodes` nodes of a system, joined as it says; a torus is as cubic as it can be.
    ///
    /// # Errors
    /// [`TimedError`].
    pub fn new(system: &System, nodes: usize, seed: u64) -> Result<Arc<Timed>, TimedError> {
        if system.network.topology == Topology::Torus {
            let torus = Torus::with_nodes(u32::try_from(nodes).unwrap_or(u32::MAX))?;
            return Timed::on_torus(system, torus, seed);
        }
        system.check()?;
        if nodes == 0 || nodes > MAX_NODES as usize {
            return Err(TimedError::Nodes { nodes });
        }
        Ok(Timed::start(system.clone(), None, nodes, seed))
    }

    /// A node of a system at each place of a torus, whatever the system's own topology is.
    ///
    /// # Errors
    /// [`TimedError::System`].
    pub fn on_torus(system: &System, torus: Torus, seed: u64) -> Result<Arc<Timed>, TimedError> {
        system.check()?;
        let mut system = system.clone();
        system.network.topology = Topology::Torus;
        Ok(Timed::start(system, Some(torus), torus.len(), seed))
    }

    fn start(system: System, torus: Option<Torus>, nodes: usize, seed: u64) -> Arc<Timed> {
        let costs = Costs::of(&system);
        let credits = costs.credits;
        let wires = torus.map_or_else(|| Wires::ports(nodes, credits), |torus| Wires::torus(torus, credits));
        let ground = Ground { costs: costs.clone(), wires, stations: vec![Station::default(); nodes] };
        let gpus = (0..nodes).map(|_| Gpu::default()).collect();
        let state = Mutex::new(State::new(ground, Cards::new(nodes), gpus));
        let began = Clock::REAL.now();
        let this = |this: &Weak<Timed>| Timed {
            this: this.clone(),
            began,
            seed,
            system,
            costs,
            torus,
            nodes,
            state,
        };
        Arc::new_cyclic(this)
    }

    /// Its parameters.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The torus that joins them, if one does.
    pub fn torus(&self) -> Option<&Torus> {
        self.torus.as_ref()
    }

    /// Random numbers from the seed, for programs; `stream` tells those of one from another's.
    pub fn random(&self, stream: u64) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Its time, to be handed to the cards that it drives.
    pub fn clock(&self) -> Clock {
        match self.this.upgrade() {
            Some(this) => Clock::of(this),
            None => Clock::real(), // unreachable: `self` is in the Arc
        }
    }

    /// Virtual time since the beginning, for the program that asks.
    pub fn now(&self) -> Ps {
        let own = self.is_running_here();
        let state = self.state();
        if own { state.here() } else { state.now }
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        self.state().counts()
    }

    /// A node.
    ///
    /// # Panics
    /// Where there is none of this number.
    pub fn node(&self, index: usize) -> Node<'_> {
        assert!(index < self.nodes, "no node {index}: there are nodes 0 to {}", self.nodes - 1);
        Node { timed: self, index: index as u32 }
    }

    /// A word, 0 at first.
    pub fn flag(&self) -> Flag {
        Flag::new(self.this.clone())
    }

    /// Id of a node for cards: nodes of a torus above 1,024 have ids that are not their numbers.
    pub fn id(&self, index: usize) -> u16 {
        self.torus.map_or(index as u16, |torus| torus.id_of_index(index))
    }

    /// Number of the node with this id.
    fn index(&self, id: u16) -> Option<u32> {
        let index = self.torus.map_or(Some(usize::from(id)), |torus| torus.index(id));
        index.filter(|index| *index < self.nodes).map(|index| index as u32)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owner(&self) -> *const () {
        (&raw const *self).cast()
    }

    /// Whether a program of this driver runs here.
    fn is_running_here(&self) -> bool {
        tasks::runs(self.owner())
    }

    /// What an event needs besides the state.
    fn finish(&self, outside: Outside) {
        match outside {
            Outside::Nothing | Outside::Resume(..) => {}
            Outside::Card(card) => self.run_card(card),
            Outside::Wake(card) => self.wake(card),
            Outside::Then(then) => then(),
            Outside::Free(hold) => drop(hold),
            Outside::Gone(packet) => drop(packet),
        }
    }

    /// Does all that is due until then, or until something happened; for who waits outside of all programs.
    fn run_events(&self, until: Ps, news: bool) {
        let seen = self.state().cards.news;
        loop {
            let mut state = self.state();
            if state.now >= until || news && state.cards.news != seen {
                return;
            }
            let due = if state.cards.running { None } else { state.next().filter(|at| *at <= until) };
            if due.is_none() || state.is_program_next() {
                assert!(
                    until < Ps::NEVER,
                    "a wait without a time limit, and nothing is on its way: it would never end"
                );
                state.now = until;
                return;
            }
            let outside = state.advance();
            drop(state);
            self.finish(outside);
        }
    }

    fn pass_until(&self, until: Instant, news: bool) {
        let until = Ps::of(until.saturating_duration_since(self.began));
        if self.is_running_here() {
            self.suspend(until, news);
        } else {
            self.run_events(until, news);
        }
    }

    fn later(&self, delay: Ps, later: Later) {
        let mut state = self.state();
        let at = state.here() + delay;
        state.schedule_later(at, later);
    }

    fn check(&self, put: &Put) {
        assert!(put.to < self.nodes, "no node {}: there are nodes 0 to {}", put.to, self.nodes - 1);
    }

    /// Hands a command to a card, which costs the program so much.
    fn post(&self, cost: Ps, node: u32, errand: Errand, put: Put) {
        self.check(&put);
        self.charge(cost);
        self.await_place(node);
        let mut state = self.state();
        let at = state.here() + Ps(self.costs.bus_write);
        state.post(at, at, node, errand, put, true);
    }

    /// Takes a place in a card's queue; waits while it is full.
    fn await_place(&self, node: u32) {
        loop {
            let mut state = self.state();
            let station = &mut state.ground.stations[node as usize];
            if station.queued[Class::Request as usize] < self.costs.queue {
                station.queued[Class::Request as usize] += 1;
                return;
            }
            // A program may be ahead of what frees places.
            if state.debt > Ps::ZERO {
                drop(state);
                self.settle();
                continue;
            }
            let own = self.is_running_here();
            let Some(id) = state.running.filter(|_| own) else {
                let next = state.next().unwrap_or(Ps::NEVER);
                drop(state);
                self.run_events(next, true);
                continue;
            };
            let turn = state.tasks[id as usize].turn;
            state.ground.stations[node as usize].waiting.push_back((id, turn));
            drop(state);
            // Whoever leaves the queue hands its place on.
            return self.suspend(Ps::NEVER, false);
        }
    }

    /// Stores of a block to a window: train behind train, as the block gives them away.
    fn store(&self, node: u32, put: Put) {
        self.check(&put);
        let gpu = &self.costs.gpu;
        let mut began = self.now() + gpu.store;
        let (mut at, all) = (0, put.bytes);
        let mut put = Some(put);
        while let Some(whole) = put.take() {
            let end = all.min(at + self.costs.train);
            self.await_place(node);
            let mut state = self.state();
            // It may have waited.
            began = began.max(state.here().saturating_sub(gpu.stores(at)));
            let part = if end < all {
                let (to, from, into) = (whole.to, whole.from, whole.into);
                put = Some(whole);
                Put { from, into, ..Put::new(to, end - at) }
            } else {
                Put { bytes: end - at, ..whole }
            };
            let [head, tail] = [at, end].map(|bytes| began + gpu.stores(bytes) + Ps(self.costs.bus_write));
            state.post(head, tail, node, Errand::Store, part, true);
            at = end;
        }
        let mut state = self.state();
        let busy = (began + gpu.stores(all)).saturating_sub(state.here());
        state.charge(busy);
    }
}

impl std::fmt::Debug for Timed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timed")
            .field("system", &self.system.name)
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}
