//! The network without faults on its links: a packet goes straight into its receiver's inbox, and the links of its
//! route only count it. Dead and stopped nodes and dead links still have their effect.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use crossbeam_queue::ArrayQueue;

use crate::network::links::faults::Event;
use crate::network::links::link::{CHANNELS, LinkCounters};
use crate::network::links::routing::{Broken, Routing, Verdict};
use crate::network::links::torus::{Direction, Torus};
use crate::network::wakes::Wakes;
use crate::packet::{Class, Packet};

/// Packets of one virtual channel that wait for a node's units before senders are refused.
const INBOX: usize = 128;

#[derive(Default)]
struct Counters {
    packets: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Default)]
struct Inbox {
    /// Made with the first packet, so that idle nodes cost nothing.
    queue: OnceLock<ArrayQueue<Packet>>,
    /// Senders that found it full. `has_refused` says whether it is worth locking.
    refused: Mutex<Vec<u16>>,
    has_refused: AtomicBool,
}

#[derive(Default)]
struct Node {
    inbox: [Inbox; CHANNELS],
    links: OnceLock<Box<[Counters; 6]>>,
    /// See [`Neighbour`].
    neighbour: AtomicU32,
    discarded: AtomicU64,
    silent: AtomicBool,
    dead: AtomicBool,
}

impl Node {
    #[inline]
    fn count(&self, direction: Direction, fragments: u64, bytes: u64) {
        let counters = &self.links.get_or_init(Box::default)[direction.index()];
        counters.packets.fetch_add(fragments, Relaxed);
        counters.bytes.fetch_add(bytes, Relaxed);
    }
}

/// The neighbour in the torus that a node last sent to, which saves finding the way to it: \[15:0\] its id,
/// \[18:16\] the link, \[19\] valid.
#[derive(Clone, Copy)]
struct Neighbour(u32);

impl Neighbour {
    fn new(to: u16, direction: Direction) -> Neighbour {
        Neighbour(1 << 19 | (direction.index() as u32) << 16 | u32::from(to))
    }

    /// The link to `to`, if that is the neighbour.
    #[inline]
    fn towards(self, to: u16) -> Option<Direction> {
        let known = self.0 >> 19 == 1 && self.0 as u16 == to;
        if known { Direction::ALL.get((self.0 >> 16 & 7) as usize).copied() } else { None }
    }
}

impl Inbox {
    #[allow(clippy::result_large_err, reason = "the packet itself comes back, without an allocation")]
    fn push(&self, from: u16, packet: Packet) -> Result<(), Packet> {
        let queue = self.queue.get_or_init(|| ArrayQueue::new(INBOX));
        let Err(packet) = queue.push(packet) else { return Ok(()) };
        // Ask for a wake first and try again afterwards: room made in between is not missed.
        let mut refused = lock(&self.refused);
        if !refused.contains(&from) {
            refused.push(from);
        }
        self.has_refused.store(true, SeqCst);
        drop(refused);
        fence(SeqCst);
        queue.push(packet)
    }

    #[inline]
    fn pop(&self) -> Option<Packet> {
        self.queue.get()?.pop()
    }

    /// Costs less than a pop that finds nothing, which has a fence.
    #[inline]
    fn is_empty(&self) -> bool {
        self.queue.get().is_none_or(|queue| queue.is_empty())
    }

    /// After room was made: whom to tell.
    fn take_refused(&self) -> Vec<u16> {
        // The pop before and this load are sequentially consistent, as are the store and the fence in `push`:
        // either the sender sees the room, or its request is seen here.
        if !self.has_refused.load(SeqCst) {
            return Vec::new();
        }
        let mut refused = lock(&self.refused);
        self.has_refused.store(false, SeqCst);
        std::mem::take(&mut *refused)
    }
}

/// What does not work, and who waits for it.
#[derive(Default)]
struct Trouble {
    broken: Broken,
    stopped: Vec<u16>,
    starved: Vec<u16>,
    waiting: Vec<u16>,
}

/// See the module's description.
pub(crate) struct Direct {
    torus: Torus,
    routing: ArcSwap<Routing>,
    nodes: Box<[Node]>,
    /// Whether `trouble` has anything to say, or the tables say other than the torus.
    troubled: AtomicBool,
    trouble: Mutex<Trouble>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Direct {
    pub fn new(routing: Routing) -> Direct {
        let torus = *routing.torus();
        Direct {
            torus,
            routing: ArcSwap::from_pointee(routing),
            nodes: (0..torus.len()).map(|_| Node::default()).collect(),
            troubled: AtomicBool::new(false),
            trouble: Mutex::default(),
        }
    }

    fn node(&self, id: u16) -> Option<&Node> {
        self.nodes.get(self.torus.index(id)?)
    }

    #[allow(clippy::result_large_err, reason = "the packet itself comes back, without an allocation")]
    pub fn send(&self, wakes: &Wakes, from: u16, packet: Packet) -> Result<(), Packet> {
        let to = packet.destination.node;
        let (Some(source), Some(at)) = (self.node(from), self.torus.index(to)) else {
            return self.discard(from);
        };
        let (Some(target), Some(card)) = (self.nodes.get(at), wakes.at(at)) else {
            return self.discard(from);
        };
        let troubled = self.troubled.load(Acquire);
        if troubled {
            match self.judge(from, to, packet.class()) {
                Verdict::Go(_) => {}
                Verdict::Wait => return Err(packet),
                Verdict::Discard => return self.discard(from),
            }
        }
        let (fragments, bytes) = (packet.fragments(), u64::from(packet.len));
        target.inbox[packet.class().channel()].push(from, packet)?;
        if from != to {
            self.count(source, troubled, from, to, fragments, bytes);
        }
        card.wake();
        Ok(())
    }

    #[allow(clippy::result_large_err, reason = "as above")]
    fn discard(&self, from: u16) -> Result<(), Packet> {
        self.count_discarded(from);
        Ok(())
    }

    pub fn count_discarded(&self, node: u16) {
        if let Some(node) = self.node(node) {
            node.discarded.fetch_add(1, Relaxed);
        }
    }

    /// Counts a packet on the links of its route.
    #[inline]
    fn count(&self, source: &Node, troubled: bool, from: u16, to: u16, fragments: u64, bytes: u64) {
        let (mut hops, mut last) = (0, Direction::XPlus);
        let count = |index: usize, direction: Direction| {
            (hops, last) = (hops + 1, direction);
            if let Some(node) = self.nodes.get(index) {
                node.count(direction, fragments, bytes);
            }
        };
        if troubled {
            let mut count = count;
            self.routing.load().walk(from, to, |node, direction| {
                count(self.torus.index(node).unwrap_or(usize::MAX), direction);
            });
            return;
        }
        match Neighbour(source.neighbour.load(Relaxed)).towards(to) {
            Some(direction) => source.count(direction, fragments, bytes),
            None => {
                self.torus.walk(from, to, count);
                if hops == 1 {
                    source.neighbour.store(Neighbour::new(to, last).0, Relaxed);
                }
            }
        }
    }

    /// Whether a packet may go now. A sender that must wait is woken when something changes.
    fn judge(&self, from: u16, to: u16, class: Class) -> Verdict {
        let mut trouble = lock(&self.trouble);
        let stopped = |node: u16| trouble.stopped.contains(&node);
        let verdict = match self.routing.load().judge(&trouble.broken, from, to, stopped) {
            Verdict::Go(_) if class == Class::Request && trouble.starved.contains(&from) => Verdict::Wait,
            verdict => verdict,
        };
        if verdict == Verdict::Wait && !trouble.waiting.contains(&from) {
            trouble.waiting.push(from);
        }
        verdict
    }

    pub fn poll(&self, wakes: &Wakes, id: u16, class: Class) -> Option<Packet> {
        let node = self.node(id)?;
        let inbox = &node.inbox[class.channel()];
        if inbox.is_empty() {
            return None;
        }
        if node.silent.load(Relaxed) {
            if node.dead.load(Relaxed) {
                self.empty(wakes, id);
            }
            return None;
        }
        let packet = inbox.pop()?;
        wakes.wake_all(&self.torus, inbox.take_refused());
        Some(packet)
    }

    /// Drops whatever waits for a node.
    pub fn empty(&self, wakes: &Wakes, id: u16) {
        let Some(node) = self.node(id) else { return };
        for inbox in &node.inbox {
            while inbox.pop().is_some() {
                node.discarded.fetch_add(1, Relaxed);
            }
            wakes.wake_all(&self.torus, inbox.take_refused());
        }
    }

    pub fn happen(&self, wakes: &Wakes, event: Event) {
        let mut trouble = lock(&self.trouble);
        let Trouble { broken, stopped, starved, waiting } = &mut *trouble;
        let mark = |list: &mut Vec<u16>, node: u16, on: bool| {
            list.retain(|&other| other != node);
            list.extend(on.then_some(node));
        };
        match event {
            Event::LinkDown(node, port) | Event::LinkUp(node, port) => {
                broken.set_link(&self.torus, node, port, matches!(event, Event::LinkDown(..)));
            }
            Event::Stop(node) | Event::Resume(node) => {
                mark(stopped, node, matches!(event, Event::Stop(_)));
                waiting.push(node);
            }
            Event::Starve(node) | Event::Feed(node) => mark(starved, node, matches!(event, Event::Starve(_))),
            Event::Kill(node) => {
                broken.kill(node);
                waiting.push(node);
            }
            Event::Return(node) => {
                broken.revive(node);
                mark(stopped, node, false);
            }
            Event::Reroute => {}
        }
        if matches!(event, Event::Kill(_) | Event::Return(_) | Event::Reroute) {
            self.routing.store(Arc::new(Routing::avoiding(self.torus, broken)));
        }
        if let (Event::Stop(id) | Event::Resume(id) | Event::Kill(id) | Event::Return(id), Some(node)) =
            (event, event.node().and_then(|id| self.node(id)))
        {
            node.dead.store(broken.is_dead(id), Relaxed);
            node.silent.store(broken.is_dead(id) || stopped.contains(&id), Relaxed);
        }
        let fine = broken.is_empty() && stopped.is_empty() && starved.is_empty();
        self.troubled.store(!fine || !self.routing.load().is_computed(), Release);
        let waiting = std::mem::take(waiting);
        drop(trouble);
        if let Event::Kill(node) = event {
            self.empty(wakes, node);
        }
        wakes.wake_all(&self.torus, waiting);
    }

    pub fn install(&self, change: impl Fn(&Routing) -> Routing) {
        // Under the lock, so that two changes never undo each other.
        let trouble = lock(&self.trouble);
        self.routing.store(Arc::new(change(&self.routing.load())));
        self.troubled.store(true, Release);
        drop(trouble);
    }

    pub fn routing(&self) -> Arc<Routing> {
        self.routing.load_full()
    }

    pub fn broken(&self) -> Broken {
        lock(&self.trouble).broken.clone()
    }

    pub fn counters(&self, node: u16, port: Direction) -> LinkCounters {
        let read = |node: u16, port: Direction| {
            let counters =
                self.node(node).and_then(|node| node.links.get()).map(|links| &links[port.index()]);
            counters.map_or((0, 0), |counters| (counters.packets.load(Relaxed), counters.bytes.load(Relaxed)))
        };
        let (sent, sent_bytes) = read(node, port);
        // Nothing is lost on these links: what the other end sent arrived here.
        let other = self.torus.neighbour(node, port).map(|other| read(other, port.opposite()));
        let (received, received_bytes) = other.unwrap_or((0, 0));
        LinkCounters { sent, sent_bytes, received, received_bytes, ..LinkCounters::default() }
    }

    pub fn discarded(&self, node: u16) -> u64 {
        self.node(node).map_or(0, |node| node.discarded.load(Relaxed))
    }
}
