//! The network hop by hop: every card's crossbar and links, the cables between them, and their faults.
//!
//! One state machine for all nodes, without threads or clocks: packets go in with [`World::inject`], time with
//! [`World::step`], packets come out with [`World::poll`]. Whoever steps it moves every node's traffic, so that
//! packets pass nodes whose own driver sleeps.
//!
//! Each node may have [`CREDITS`] packets of each virtual channel under way; a credit returns when the target's
//! units fetch the packet. That bounds everything: crossbar queues hold what the credits allow, hence links never
//! wait for each other in a circle, whatever the route tables say, and requests never hold up responses.
//!
//! A packet stays with the network until it is delivered. When management installs new route tables it stops
//! the network, trains the links anew and sends what had not arrived once more from its source: nothing is
//! lost, doubled or overtaken.

mod agenda;
mod trouble;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::network::links::faults::{Event, Faults};
use crate::network::links::link::{CHANNELS, Frame, LinkConfig, LinkCounters, LinkPort, REQUESTS, RESPONSES};
use crate::network::links::routing::{Broken, PORT_HOST, Routing, direction_of, port_of};
use crate::network::links::torus::{Direction, Torus};
use agenda::{Agenda, Happening};

/// Packets of one virtual channel that a node may have under way.
pub const CREDITS: u32 = 64;
/// How long a node that found no credit by a fault's decision waits before it may try again.
const STARVED_FOR: Duration = Duration::from_micros(20);

/// A packet's ticket: links carry it beside the bytes.
#[derive(Debug, Clone, Copy)]
struct Ticket {
    number: u64,
    to: u16,
    channel: usize,
    hops: u32,
}

/// A packet under way.
struct Flight<P> {
    packet: P,
    bytes: Arc<[u8]>,
    from: u16,
    to: u16,
    channel: usize,
}

struct Node<P> {
    /// Links by direction, made when first used.
    links: [Option<Box<LinkPort<Ticket>>>; 6],
    /// Time of the pending timer event of each link.
    timers: [Option<Instant>; 6],
    /// Packets for this node with their source, by channel.
    inbox: [VecDeque<(u16, P)>; CHANNELS],
    under_way: [u32; CHANNELS],
    attempts: u64,
    stopped: bool,
    starved: bool,
    /// Found no credit for a channel; wants to be woken when there is one.
    denied: [bool; CHANNELS],
    attached: bool,
    discarded: u64,
}

/// See the module's description.
pub struct World<P> {
    torus: Torus,
    faults: Faults,
    routing: Arc<Routing>,
    broken: Broken,
    nodes: Vec<Node<P>>,
    agenda: Agenda<Ticket>,
    flights: BTreeMap<u64, Flight<P>>,
    /// Packets that ever entered; the next one's number.
    entered: u64,
    /// Planned events still to come, the next one last.
    plan: Vec<(u64, Event)>,
    /// Links with something to send.
    dirty: Vec<(u16, Direction)>,
    woken: Vec<u16>,
    /// Happenings so far.
    happened: u64,
}

impl<P> World<P> {
    /// A network at rest.
    pub fn new(routing: Arc<Routing>, faults: Faults) -> World<P> {
        let torus = *routing.torus();
        let mut plan = faults.plan().to_vec();
        // Popped from the end: earliest last, simultaneous ones in their given order.
        plan.sort_by_key(|&(packets, _)| packets);
        plan.reverse();
        let node = |_| Node {
            links: Default::default(),
            timers: [None; 6],
            inbox: Default::default(),
            under_way: [0; CHANNELS],
            attempts: 0,
            stopped: false,
            starved: false,
            denied: [false; CHANNELS],
            attached: false,
            discarded: 0,
        };
        World {
            torus,
            faults,
            routing,
            broken: Broken::default(),
            nodes: (0..torus.len()).map(node).collect(),
            agenda: Agenda::new(),
            flights: BTreeMap::new(),
            entered: 0,
            plan,
            dirty: Vec::new(),
            woken: Vec::new(),
            happened: 0,
        }
    }

    fn index(&self, node: u16) -> usize {
        self.torus.index(node).expect("only nodes of the torus get this far")
    }

    fn node(&mut self, node: u16) -> &mut Node<P> {
        let index = self.index(node);
        &mut self.nodes[index]
    }

    /// Sends a packet on its way. `Err` gives it back: no credit now; the node is woken when it may try again.
    /// Both nodes must be nodes of the torus.
    pub fn inject(
        &mut self,
        now: Instant,
        from: u16,
        to: u16,
        channel: usize,
        packet: P,
        bytes: Arc<[u8]>,
    ) -> Result<(), P> {
        if self.broken.is_dead(from) || self.broken.is_dead(to) || !self.node(to).attached {
            self.node(from).discarded += 1;
            return Ok(());
        }
        let node = self.node(from);
        node.attempts += 1;
        let attempt = node.attempts;
        let full = node.under_way[channel] == CREDITS;
        let refused = node.stopped || node.starved && channel == REQUESTS;
        let unlucky = !full && !refused && self.faults.starves(from, attempt);
        if full || refused || unlucky {
            self.node(from).denied[channel] = true;
            if unlucky {
                self.agenda.add(now + STARVED_FOR, Happening::Retry { node: from, channel });
            }
            return Err(packet);
        }
        self.node(from).under_way[channel] += 1;
        let number = self.entered;
        self.entered += 1;
        self.flights.insert(number, Flight { packet, bytes, from, to, channel });
        self.forward(from, PORT_HOST, Ticket { number, to, channel, hops: 0 });
        while self.plan.last().is_some_and(|&(packets, _)| packets <= self.entered) {
            let event = self.plan.pop().expect("looked at").1;
            self.happen(now, event);
        }
        self.step(now);
        Ok(())
    }

    /// The next packet of a channel for a node.
    pub fn poll(&mut self, node: u16, channel: usize) -> Option<P> {
        let target = self.node(node);
        if target.stopped {
            return None;
        }
        let (from, packet) = target.inbox[channel].pop_front()?;
        self.give_back(from, channel);
        Some(packet)
    }

    fn give_back(&mut self, from: u16, channel: usize) {
        self.node(from).under_way[channel] -= 1;
        self.wake_denied(from, channel);
    }

    fn wake_denied(&mut self, node: u16, channel: usize) {
        if std::mem::take(&mut self.node(node).denied[channel]) {
            self.woken.push(node);
        }
    }

    /// Says that a card listens at a node, or no longer does. Packets for nodes without one are thrown away.
    pub fn set_attached(&mut self, node: u16, attached: bool) {
        self.node(node).attached = attached;
        if !attached {
            self.empty_inbox(node);
        }
    }

    fn empty_inbox(&mut self, node: u16) {
        for channel in 0..CHANNELS {
            let unread = std::mem::take(&mut self.node(node).inbox[channel]);
            self.node(node).discarded += unread.len() as u64;
            unread.into_iter().for_each(|(from, _)| self.give_back(from, channel));
        }
    }

    /// Whether packets of a node are under way or wait for credit, so that it must see to it that time passes.
    pub fn is_waiting(&self, node: u16) -> bool {
        let node = &self.nodes[self.index(node)];
        node.denied.contains(&true) || node.under_way != [0; CHANNELS]
    }

    /// Lets everything happen that is due. Returns when something is due next.
    pub fn step(&mut self, now: Instant) -> Option<Instant> {
        loop {
            while let Some((node, port)) = self.dirty.pop() {
                self.pump(now, node, port);
            }
            let Some(happening) = self.agenda.pop(now) else { return self.agenda.next() };
            self.happened += 1;
            match happening {
                Happening::Arrive { node, port, frame } => self.arrive(node, port, frame),
                Happening::Timer { node, port } => {
                    let state = self.node(node);
                    state.timers[port.index()] = None;
                    if let (Some(link), false) = (&mut state.links[port.index()], state.stopped) {
                        link.timeout(now);
                        self.dirty.push((node, port));
                    }
                }
                Happening::Retry { node, channel } => self.wake_denied(node, channel),
            }
        }
    }

    /// Counts what happened: frames that arrived, timers that ran out.
    pub fn happened(&self) -> u64 {
        self.happened
    }

    /// Nodes that have something to do since the last call.
    pub fn take_woken(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.woken)
    }

    /// The crossbar of a node: a packet from an inport goes to the units, to a link, or away.
    fn forward(&mut self, at: u16, inport: u8, ticket: Ticket) {
        if ticket.to == at {
            if !self.node(at).attached {
                return self.discard(at, ticket.number);
            }
            let Some(flight) = self.flights.remove(&ticket.number) else { return };
            self.node(at).inbox[ticket.channel].push_back((flight.from, flight.packet));
            self.woken.push(at);
            return;
        }
        let out = direction_of(self.routing.outport(at, inport, ticket.to))
            .filter(|&direction| self.torus.neighbour(at, direction).is_some());
        let (Some(direction), true) = (out, ticket.hops < self.routing.hop_limit()) else {
            return self.discard(at, ticket.number);
        };
        let Some(bytes) = self.flights.get(&ticket.number).map(|flight| flight.bytes.clone()) else { return };
        let link = self.link(at, direction);
        link.push(ticket.channel, Ticket { hops: ticket.hops + 1, ..ticket }, bytes);
        self.dirty.push((at, direction));
    }

    fn link(&mut self, node: u16, direction: Direction) -> &mut LinkPort<Ticket> {
        let slot = &mut self.node(node).links[direction.index()];
        slot.get_or_insert_with(|| Box::new(LinkPort::new(LinkConfig::default())))
    }

    fn discard(&mut self, at: u16, number: u64) {
        if let Some(flight) = self.flights.remove(&number) {
            self.node(at).discarded += 1;
            self.give_back(flight.from, flight.channel);
        }
    }

    /// Whether frames cross the cable at this port.
    fn carries(&self, node: u16, port: Direction) -> bool {
        self.broken.neighbour(&self.torus, node, port).is_some()
    }

    /// Puts what a link has to send on its cable.
    fn pump(&mut self, now: Instant, node: u16, port: Direction) {
        let Some(other) = self.torus.neighbour(node, port).filter(|_| !self.node(node).stopped) else {
            return;
        };
        let number = (self.index(node) * 8 + port.index()) as u64;
        while let Some((mut frame, id)) = self.link(node, port).transmit(now) {
            if !self.carries(node, port) {
                continue;
            }
            let fate = self.faults.fate(number, id);
            if let Some(bit) = fate.flipped {
                let bit = bit as usize % (frame.bytes.len() * 8);
                frame.bytes[bit / 8] ^= 1 << (bit % 8);
            }
            let copies = usize::from(!fate.dropped) * (1 + usize::from(fate.twice));
            for _ in 0..copies {
                let arrival = Happening::Arrive { node: other, port: port.opposite(), frame: frame.clone() };
                self.agenda.add(now + fate.delay, arrival);
            }
        }
        let deadline = self.link(node, port).deadline();
        let timer = &mut self.node(node).timers[port.index()];
        if let Some(at) = deadline.filter(|&at| timer.is_none_or(|timer| at < timer)) {
            *timer = Some(at);
            self.agenda.add(at, Happening::Timer { node, port });
        }
    }

    fn arrive(&mut self, node: u16, port: Direction, frame: Frame<Ticket>) {
        if self.node(node).stopped || !self.carries(node, port) {
            return;
        }
        self.link(node, port).receive(frame);
        for channel in [RESPONSES, REQUESTS] {
            while let Some(ticket) = self.link(node, port).take(channel) {
                self.forward(node, port_of(port), ticket);
            }
        }
        self.dirty.push((node, port));
    }

    /// The tables in use.
    pub fn routing(&self) -> &Arc<Routing> {
        &self.routing
    }

    /// What is down or dead.
    pub fn broken(&self) -> &Broken {
        &self.broken
    }

    /// Counters of one end of a link; zeros if it was never used or is not there.
    pub fn counters(&self, node: u16, port: Direction) -> LinkCounters {
        let link = self.torus.index(node).and_then(|index| self.nodes[index].links[port.index()].as_ref());
        link.map_or_else(LinkCounters::default, |link| link.counters())
    }

    /// Counts a packet for a node that the torus lacks.
    pub fn count_discarded(&mut self, node: u16) {
        if let Some(index) = self.torus.index(node) {
            self.nodes[index].discarded += 1;
        }
    }

    /// Packets that a node threw away: for dead, unknown or unreachable nodes, or going in circles.
    pub fn discarded(&self, node: u16) -> u64 {
        self.torus.index(node).map_or(0, |index| self.nodes[index].discarded)
    }
}
