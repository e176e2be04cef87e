//! The network between the cards of one process: a torus, as a [`Fabric`].
//!
//! Without faults a packet goes directly to its receiver and payloads may be references to the sender's memory.
//! With faults every packet crosses the links of its route as a frame, see [`crate::network::in_process::world`]. Both route by the
//! same tables, keep the same counters and offer the same registers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use extoll_abi::regs::EXTOLL_VELO_BROADCAST_GROUP;
use extoll_abi::{Address, Modifier};
use ggas_clock::Clock;
use thiserror::Error;

use crate::memory::runs::Runs;
use crate::network::fabric::{Carriage, Fabric, FabricError, LinkWork};
use crate::network::in_process::direct::Direct;
use crate::network::in_process::world::World;
use crate::network::links::faults::{Event, FaultError, Faults};
use crate::network::links::link::LinkCounters;
use crate::network::links::routing::{Broken, Routing};
use crate::network::links::torus::{Direction, Torus, TorusError};
use crate::network::links::xbar::{self, Managed};
use crate::network::wakes::Wakes;
use crate::packet::{Class, Packet};
use crate::wake::Wake;

/// A network that cannot be built.
#[derive(Clone, PartialEq, Error)]
pub enum NetworkError {
    /// See [`TorusError`].
    #[error(transparent)]
    Torus(#[from] TorusError),
    /// See [`FaultError`].
    #[error(transparent)]
    Faults(#[from] FaultError),
}

ggas_errors::debug_as_display!(NetworkError);

enum Core {
    Direct(Direct),
    Links(Mutex<World<Packet>>),
}

/// Who looks on.
type Watch = Box<dyn Fn(u16, &Packet) + Send + Sync>;

/// A 3-d torus of cards in this process.
///
/// ```
/// use extoll_sim::{faults::Faults, network::Network, torus::Torus};
/// let network = Network::new(Torus::new(3, 2, 2)?, Faults::none().seed(1).drop(0.01))?;
/// assert_eq!(network.torus().len(), 12);
/// # Ok::<(), extoll_sim::network::NetworkError>(())
/// ```
pub struct Network {
    torus: Torus,
    wakes: Wakes,
    core: Core,
    watch: OnceLock<Watch>,
    clock: Clock,
    /// Multicast groups that management has set.
    groups: RwLock<HashMap<u16, Vec<u16>>>,
}

impl Network {
    /// A network at rest, all links up. Errors: rates out of range, events for nodes or links that are not there.
    pub fn new(torus: Torus, faults: Faults) -> Result<Arc<Network>, NetworkError> {
        Network::with_clock(torus, faults, Clock::real())
    }

    /// As [`Network::new`]; delays and retransmissions follow `clock`.
    ///
    /// # Errors
    /// As there.
    pub fn with_clock(torus: Torus, faults: Faults, clock: Clock) -> Result<Arc<Network>, NetworkError> {
        faults.validate()?;
        faults.plan().iter().try_for_each(|(_, event)| event.check(&torus))?;
        let wakes = Wakes::new(&torus);
        let routing = Routing::new(torus);
        let core = match faults.is_none() {
            true => Core::Direct(Direct::new(routing)),
            false => Core::Links(Mutex::new(World::new(Arc::new(routing), faults))),
        };
        Ok(Arc::new(Network { torus, wakes, core, watch: OnceLock::new(), clock, groups: RwLock::default() }))
    }

    /// The clock of its links.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The torus.
    pub fn torus(&self) -> &Torus {
        &self.torus
    }

    /// Whether payloads travel as references to the sender's memory: where there are no faults.
    pub fn direct(&self) -> bool {
        matches!(self.core, Core::Direct(_))
    }

    /// Shows every packet to `watch` before it enters the network, with the node that sends it, and again each time that it
    /// finds no credit and is tried anew. Called under the sending card's lock. The first watcher stays the only one.
    pub fn watch(&self, watch: impl Fn(u16, &Packet) + Send + Sync + 'static) {
        let _ = self.watch.set(Box::new(watch));
    }

    /// Sets the members of a multicast group (below 64), in place of the tables that management writes on the card,
    /// whose format is not known. Unless set, group 63 is everybody but the sender, as the network driver uses it
    /// (spec 11), and the others are empty.
    pub fn set_group(&self, group: u16, nodes: &[u16]) {
        self.groups.write().unwrap_or_else(PoisonError::into_inner).insert(group, nodes.to_vec());
    }

    /// Lets something happen to a link or a card, now.
    pub fn happen(&self, event: Event) -> Result<(), FaultError> {
        event.check(&self.torus)?;
        match &self.core {
            Core::Direct(direct) => direct.happen(&self.wakes, event),
            Core::Links(world) => self.with(world, |world| world.happen(self.clock.now(), event)),
        }
        Ok(())
    }

    /// The route tables in use.
    pub fn routing(&self) -> Arc<Routing> {
        match &self.core {
            Core::Direct(direct) => direct.routing(),
            Core::Links(world) => lock(world).routing().clone(),
        }
    }

    /// Changes route tables. In a network with faults this trains the links anew, as [`Event::Reroute`] does.
    pub fn set_routing(&self, change: impl Fn(&Routing) -> Routing) {
        match &self.core {
            Core::Direct(direct) => direct.install(change),
            Core::Links(world) => self.with(world, |world| {
                let routing = Arc::new(change(world.routing()));
                world.install(self.clock.now(), routing);
            }),
        }
    }

    /// Links that are down and nodes that are dead.
    pub fn broken(&self) -> Broken {
        match &self.core {
            Core::Direct(direct) => direct.broken(),
            Core::Links(world) => lock(world).broken().clone(),
        }
    }

    /// Counters of a node's link.
    pub fn link_counters(&self, node: u16, direction: Direction) -> LinkCounters {
        match &self.core {
            Core::Direct(direct) => direct.counters(node, direction),
            Core::Links(world) => lock(world).counters(node, direction),
        }
    }

    /// Packets that a node threw away: for or from a dead node, to nobody, or misrouted.
    pub fn discarded(&self, node: u16) -> u64 {
        match &self.core {
            Core::Direct(direct) => direct.discarded(node),
            Core::Links(world) => lock(world).discarded(node),
        }
    }

    fn count_discarded(&self, node: u16) {
        match &self.core {
            Core::Direct(direct) => direct.count_discarded(node),
            Core::Links(world) => lock(world).count_discarded(node),
        }
    }

    /// Works on the world, then wakes whom that concerns.
    fn with<T>(&self, world: &Mutex<World<Packet>>, work: impl FnOnce(&mut World<Packet>) -> T) -> T {
        let mut world = lock(world);
        let result = work(&mut world);
        let woken = world.take_woken();
        drop(world);
        self.wakes.wake_all(&self.torus, woken);
        result
    }
}

fn lock(world: &Mutex<World<Packet>>) -> MutexGuard<'_, World<Packet>> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Managed for Network {
    fn torus(&self) -> &Torus {
        self.torus()
    }

    fn routing(&self) -> Arc<Routing> {
        self.routing()
    }

    fn broken(&self) -> Broken {
        self.broken()
    }

    fn link_counters(&self, node: u16, direction: Direction) -> LinkCounters {
        self.link_counters(node, direction)
    }

    fn discarded(&self, node: u16) -> u64 {
        self.discarded(node)
    }

    fn happen(&self, event: Event) -> Result<(), FaultError> {
        self.happen(event)
    }

    fn change_routing(&self, change: &dyn Fn(&Routing) -> Routing) {
        self.set_routing(change);
    }
}

impl Fabric for Network {
    fn send(&self, from: u16, packet: Packet) -> Result<(), Packet> {
        if let Some(watch) = self.watch.get() {
            watch(from, &packet);
        }
        if packet.modifier.contains(Modifier::MC) {
            // An RMA command: the specification does not say how one reaches a group (see README.md).
            self.count_discarded(from);
            return Ok(());
        }
        let world = match &self.core {
            Core::Direct(direct) => return direct.send(&self.wakes, from, packet),
            Core::Links(world) => world,
        };
        let mut bytes = Vec::with_capacity(64 + packet.len as usize);
        packet.wire_bytes(&mut bytes);
        let (to, channel) = (packet.destination.node, packet.class().channel());
        let (Some(_), Some(_)) = (self.torus.index(from), self.torus.index(to)) else {
            self.count_discarded(from);
            return Ok(());
        };
        let mut refused = None;
        self.with(world, |world| {
            refused = world.inject(self.clock.now(), from, to, channel, packet, bytes.into()).err();
        });
        refused.map_or(Ok(()), Err)
    }

    fn poll(&self, node: u16, class: Class) -> Option<Packet> {
        match &self.core {
            Core::Direct(direct) => direct.poll(&self.wakes, node, class),
            Core::Links(world) => {
                self.torus.index(node)?;
                self.with(world, |world| world.poll(node, class.channel()))
            }
        }
    }

    fn carriage(&self, _to: Address, _runs: &Runs) -> Carriage {
        if self.direct() { Carriage::Reference } else { Carriage::Bytes { most: 0 } }
    }

    fn members(&self, from: u16, group: u16) -> Vec<u16> {
        if let Some(nodes) = self.groups.read().unwrap_or_else(PoisonError::into_inner).get(&group) {
            return nodes.clone();
        }
        if u64::from(group) != EXTOLL_VELO_BROADCAST_GROUP {
            return Vec::new();
        }
        let there = |node: &u16| {
            *node != from && self.torus.index(*node).is_some_and(|index| self.wakes.at(index).is_some())
        };
        self.torus.ids().filter(there).collect()
    }

    fn step(&self, node: u16, now: Instant) -> LinkWork {
        let Core::Links(world) = &self.core else { return LinkWork::default() };
        self.with(world, |world| {
            let before = world.happened();
            let next = world.step(now);
            let again = next.filter(|_| self.torus.index(node).is_some() && world.is_waiting(node));
            LinkWork { worked: world.happened() != before, again }
        })
    }

    fn has_links(&self) -> bool {
        !self.direct()
    }

    fn attach(&self, node: u16, wake: Arc<dyn Wake>) -> Result<(), FabricError> {
        let slot = self.torus.index(node).and_then(|index| self.wakes.slot(index));
        let slot = slot.ok_or(FabricError::NoSuchNode { node, nodes: self.torus.len() })?;
        if !slot.set_if_none(wake) {
            return Err(FabricError::Taken { node });
        }
        if let Core::Links(world) = &self.core {
            lock(world).set_attached(node, true);
        }
        Ok(())
    }

    fn detach(&self, node: u16) {
        let Some(slot) = self.torus.index(node).and_then(|index| self.wakes.slot(index)) else { return };
        slot.set(None);
        match &self.core {
            Core::Direct(direct) => direct.empty(&self.wakes, node),
            Core::Links(world) => self.with(world, |world| world.set_attached(node, false)),
        }
    }

    fn reg_read(&self, node: u16, offset: u64) -> Option<u64> {
        xbar::read(self, node, offset)
    }

    fn reg_write(&self, node: u16, offset: u64, value: u64) -> bool {
        xbar::write(self, node, offset, value)
    }
}
