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

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::faults::{Event, Faults};
use crate::link::{CHANNELS, Frame, LinkConfig, LinkCounters, LinkPort, REQUESTS, RESPONSES};
use crate::routing::{Broken, PORT_HOST, Routing, direction_of, port_of};
use crate::torus::{Direction, Torus};

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

enum Happening {
    /// A frame reaches the end of its cable at a node's port.
    Arrive { node: u16, port: Direction, frame: Frame<Ticket>, training: u32 },
    /// A link's timer may have run out.
    Timer { node: u16, port: Direction },
    /// A node may try again to inject.
    Retry { node: u16, channel: usize },
}

struct Timed(Instant, u64, Happening);

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Timed {}
impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Timed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// See the module's description.
pub struct World<P> {
    torus: Torus,
    faults: Faults,
    routing: Arc<Routing>,
    broken: Broken,
    nodes: Vec<Node<P>>,
    agenda: BinaryHeap<Reverse<Timed>>,
    happenings: u64,
    flights: BTreeMap<u64, Flight<P>>,
    /// Packets that ever entered; the next one's number.
    entered: u64,
    /// Planned events still to come, the next one last.
    plan: Vec<(u64, Event)>,
    /// Counts trainings: frames of an earlier one are ignored.
    training: u32,
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
            agenda: BinaryHeap::new(),
            happenings: 0,
            flights: BTreeMap::new(),
            entered: 0,
            plan,
            training: 0,
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
                self.plan_for(now + STARVED_FOR, Happening::Retry { node: from, channel });
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
            match self.agenda.peek() {
                Some(Reverse(next)) if next.0 <= now => {}
                next => return next.map(|Reverse(next)| next.0),
            }
            let Reverse(Timed(_, _, happening)) = self.agenda.pop().expect("looked at");
            self.happened += 1;
            match happening {
                Happening::Arrive { node, port, frame, training } => self.arrive(node, port, frame, training),
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

    fn plan_for(&mut self, at: Instant, happening: Happening) {
        self.happenings += 1;
        self.agenda.push(Reverse(Timed(at, self.happenings, happening)));
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
                let (port, training) = (port.opposite(), self.training);
                let arrival = Happening::Arrive { node: other, port, frame: frame.clone(), training };
                self.plan_for(now + fate.delay, arrival);
            }
        }
        let deadline = self.link(node, port).deadline();
        let timer = &mut self.node(node).timers[port.index()];
        if let Some(at) = deadline.filter(|&at| timer.is_none_or(|timer| at < timer)) {
            *timer = Some(at);
            self.plan_for(at, Happening::Timer { node, port });
        }
    }

    fn arrive(&mut self, node: u16, port: Direction, frame: Frame<Ticket>, training: u32) {
        if training != self.training || self.node(node).stopped || !self.carries(node, port) {
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

    /// Carries out a fault or its repair. Events for nodes or links that the torus lacks do nothing.
    pub fn happen(&mut self, now: Instant, event: Event) {
        match event {
            Event::LinkDown(node, port) => {
                self.broken.set_link(&self.torus, node, port, true);
            }
            Event::LinkUp(node, port) => {
                self.broken.set_link(&self.torus, node, port, false);
                self.hurry(now, node, port);
            }
            Event::Kill(node) if self.torus.index(node).is_some() => self.kill(now, node),
            Event::Stop(node) if self.torus.index(node).is_some() => self.node(node).stopped = true,
            Event::Resume(node) if self.torus.index(node).is_some() => {
                self.node(node).stopped = false;
                Direction::ALL.iter().for_each(|&port| self.hurry(now, node, port));
                self.woken.push(node);
            }
            Event::Starve(node) if self.torus.index(node).is_some() => self.node(node).starved = true,
            Event::Feed(node) if self.torus.index(node).is_some() => {
                self.node(node).starved = false;
                self.woken.push(node);
            }
            Event::Reroute => self.install(now, Arc::new(Routing::avoiding(self.torus, &self.broken))),
            _ => {}
        }
        self.step(now);
    }

    /// Both ends of a cable repeat at once what is unacknowledged.
    fn hurry(&mut self, now: Instant, node: u16, port: Direction) {
        let Some(other) = self.torus.neighbour(node, port) else { return };
        for (node, port) in [(node, port), (other, port.opposite())] {
            if let Some(link) = &mut self.node(node).links[port.index()] {
                link.hurry(now);
                self.dirty.push((node, port));
            }
        }
    }

    fn kill(&mut self, now: Instant, node: u16) {
        self.broken.kill(node);
        let lost = |flight: &Flight<P>| flight.from == node || flight.to == node;
        let numbers: Vec<u64> =
            self.flights.iter().filter(|(_, flight)| lost(flight)).map(|(&number, _)| number).collect();
        numbers.into_iter().for_each(|number| self.discard(node, number));
        self.empty_inbox(node);
        self.woken.push(node);
        self.happen(now, Event::Reroute);
    }

    /// Switches to new route tables (see the module's description).
    pub fn install(&mut self, now: Instant, routing: Arc<Routing>) {
        self.routing = routing;
        self.training += 1;
        self.agenda.retain(|Reverse(timed)| matches!(timed.2, Happening::Retry { .. }));
        for node in &mut self.nodes {
            node.links.iter_mut().flatten().for_each(|link| link.reset());
            node.timers = [None; 6];
        }
        let again: Vec<(u16, Ticket)> = self
            .flights
            .iter()
            .map(|(&number, flight)| {
                (flight.from, Ticket { number, to: flight.to, channel: flight.channel, hops: 0 })
            })
            .collect();
        again.into_iter().for_each(|(from, ticket)| self.forward(from, PORT_HOST, ticket));
        self.step(now);
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
