//! Processes of a network of hosts in virtual time: their cores and what is between them; no sockets, no threads.

mod check;
mod connections;
mod hub;
mod long;
mod packets;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ggas_clock::{Clock, Manual};
use ggas_wire::{MESSAGE_MAX, MESSAGE_MOST};

use super::net::{Cuts, Item, Messages, SimWire, Tcp};
use crate::network::fabric::First;
use crate::network::hosts::core::Core;
use crate::network::hosts::events::{Bounds, Connection};
use crate::network::hosts::meeting::Meetings;
use crate::network::hosts::message::payload_of;
use crate::network::hosts::places::Places;
use crate::network::hosts::seen::Seen;
use crate::packet::{Class, Packet, Payload};

pub const SILENCE: Duration = Duration::from_secs(5);
/// After so long, at most, all is there again that a cut had held up.
const AFTER_CUT: Duration = Duration::from_millis(200);
pub const EVER: Duration = Duration::from_secs(1 << 30);

#[derive(Debug)]
pub enum Event {
    /// The head of a connection's way to an end.
    Item {
        tcp: usize,
        end: usize,
    },
    Message {
        from: usize,
        to: usize,
    },
    /// A read comes to who has the bytes; they come to who reads.
    Read {
        number: u64,
        bytes: Option<Vec<u8>>,
        from: usize,
        to: usize,
    },
    /// What one writes to another, which it removed, is not read later.
    LastRead {
        from: usize,
        to: usize,
    },
    Syn {
        from: usize,
        on: Connection,
        node: u16,
    },
    Connected {
        to: usize,
        on: Connection,
        through: Option<usize>,
    },
    /// The card runs, or something is due.
    Step(usize),
    /// By now a process has to know that another is gone, which was so since then.
    Knows {
        who: usize,
        gone: usize,
        since: Duration,
    },
    /// Rank 0 tells a process of a job something.
    Hub {
        to: usize,
        says: hub::Says,
    },
    Plan(super::Act),
}

pub struct Process {
    pub node: u16,
    pub core: Core<SimWire>,
    pub seen: Arc<Seen>,
    pub alive: bool,
    pub leaves: Option<Duration>,
    pub still_until: Duration,
    /// Its card takes no requests.
    pub answers_only: bool,
    open: HashMap<Connection, (usize, usize)>,
    waiting: VecDeque<Packet>,
    /// Packets whose payloads are read, and the numbers of the reads.
    reading: Vec<(Packet, u64)>,
    /// Those whose payloads lie in a landing.
    landed: Vec<Packet>,
    departures: u32,
    looks_at: Duration,
}

/// A card that has its next requests at once.
struct Card {
    /// With the payload, where it was written while the wire had it.
    packets: Vec<(Packet, Option<Vec<u8>>)>,
    /// So many more it can have, and whether it deals with them at once.
    left: u8,
    settles: bool,
}

impl First for Card {
    fn is_free(&self) -> bool {
        self.left > 0
    }

    fn take(&mut self, packet: &mut Packet) {
        self.packets.push((packet.take(), None));
        self.left = 0;
    }

    fn settle(&mut self, packet: &mut Packet, bytes: &[u8]) -> bool {
        let settled = self.settles && packet.payload.bytes().is_some();
        if settled {
            let written = (!bytes.is_empty()).then(|| bytes.to_vec());
            if written.is_some() {
                packet.payload = Payload::Placed(bytes.len() as u32);
            }
            self.packets.push((packet.take(), written));
            self.left -= 1;
        }
        settled
    }
}

/// Packets of one class from one process to another, and when they went.
type Ways = BTreeMap<(usize, usize, usize), Vec<(u32, Duration)>>;

pub struct World {
    pub time: Arc<Manual>,
    pub clock: Clock,
    pub random: fastrand::Rng,
    pub processes: Vec<Process>,
    /// By node.
    pub at: Vec<Option<usize>>,
    pub crashed: HashMap<usize, Duration>,
    pub cuts: Cuts,
    /// Who took whom for lost, and when.
    pub lost: HashMap<(usize, usize), Duration>,
    pub left: HashSet<(usize, usize)>,
    /// Nodes at which somebody found that nothing comes over the wire to another one.
    pub unheard: Vec<(u16, u16)>,
    pub taken: u64,
    events: BinaryHeap<Reverse<(Duration, u64)>>,
    what: HashMap<u64, Event>,
    number: u64,
    pub messages: Rc<RefCell<Messages>>,
    tcps: Vec<Tcp>,
    went: Ways,
    came: BTreeMap<(usize, usize, usize), usize>,
    /// Packets that cores took, and that did not go yet, by sender, node and class.
    accepted: BTreeMap<(usize, u16, usize), VecDeque<u32>>,
    /// What a packet was meant for: a process, or whoever comes.
    meant: HashMap<u32, Option<usize>>,
    packet: u32,
    /// By packet: who sent it, its long payload, and whether that may still be read.
    sources: BTreeMap<u32, long::Source>,
    /// Those that may still be read.
    in_use: Vec<u32>,
    /// Long payloads that came, and those that did not: to whom and of whom.
    pub read: u64,
    pub landed: u64,
    /// Those that cards took while the wire had them.
    pub placed: u64,
    pub unread: HashSet<(usize, usize)>,
    slow: Duration,
    /// Bytes of a message.
    message_max: usize,
    /// A job: its processes know each other, and process 0 tells who is gone.
    pub job: bool,
    /// When each process hears how the others are reached, at most; `None`: never.
    pub papers: Option<Duration>,
    /// Every event is told.
    pub told: bool,
}

impl World {
    pub fn new(nodes: usize, seed: u64) -> World {
        let (clock, time) = Manual::new();
        let mut random = fastrand::Rng::with_seed(seed);
        let later = if random.bool() { 0 } else { random.u8(2..20) };
        let messages = Messages { later, random: random.fork(), ..Messages::default() };
        World {
            time,
            clock,
            slow: Duration::from_micros(random.u64(1..5_000)),
            random,
            processes: Vec::new(),
            at: vec![None; nodes],
            crashed: HashMap::new(),
            cuts: Cuts::default(),
            lost: HashMap::new(),
            left: HashSet::new(),
            unheard: Vec::new(),
            taken: 0,
            events: BinaryHeap::new(),
            what: HashMap::new(),
            number: 0,
            messages: Rc::new(RefCell::new(messages)),
            tcps: Vec::new(),
            went: BTreeMap::new(),
            came: BTreeMap::new(),
            accepted: BTreeMap::new(),
            meant: HashMap::new(),
            packet: 0,
            sources: BTreeMap::new(),
            in_use: Vec::new(),
            read: 0,
            landed: 0,
            placed: 0,
            unread: HashSet::new(),
            message_max: if seed.is_multiple_of(4) { MESSAGE_MOST } else { MESSAGE_MAX },
            job: false,
            papers: None,
            told: false,
        }
    }

    /// Payload of a message, at most.
    pub fn most(&self) -> u32 {
        payload_of(self.message_max) as u32
    }

    pub fn now(&self) -> Duration {
        self.clock.since(self.clock.origin())
    }

    pub fn plan(&mut self, at: Duration, event: Event) {
        self.number += 1;
        self.what.insert(self.number, event);
        self.events.push(Reverse((at, self.number)));
    }

    fn delay(&mut self) -> Duration {
        self.now() + Duration::from_micros(10) + self.slow.mul_f64(self.random.f64())
    }

    /// The next event before `end`.
    pub fn next(&mut self, end: Duration) -> Option<Event> {
        let Reverse((at, number)) = *self.events.peek().filter(|Reverse((at, _))| *at <= end)?;
        self.events.pop();
        self.time.advance(at.saturating_sub(self.now()));
        let event = self.what.remove(&number);
        if self.told && !matches!(event, Some(Event::Step(_))) {
            eprintln!("{at:?}: {event:?}");
        }
        event
    }

    /// A process begins at a node where none is.
    pub fn start(&mut self, node: u16) {
        let (me, nodes) = (self.processes.len(), self.at.len());
        let mut random = self.random.fork();
        let name = (me as u64 + 1) << 8; // what the simulation knows it by
        let seen = Seen::new(nodes);
        let address = ("sim".to_owned(), me.to_le_bytes().to_vec());
        let random = Box::new(move || Ok(random.u64(..)));
        let now = self.clock.now();
        let mut meetings = Meetings::new((node, nodes), name, address, Bounds::of(SILENCE), random, now);
        self.know_others(&mut meetings);
        let wire = SimWire { me, messages: self.messages.clone(), room: vec![0; self.message_max] };
        let mut core = Core::new(wire, meetings, Places::alone(nodes), self.clock.clone(), &seen);
        core.hold_back(self.random.bool());
        self.processes.push(Process {
            node,
            core,
            seen,
            alive: true,
            leaves: None,
            still_until: Duration::ZERO,
            answers_only: false,
            open: HashMap::new(),
            waiting: VecDeque::new(),
            reading: Vec::new(),
            landed: Vec::new(),
            departures: 0,
            looks_at: EVER,
        });
        self.at[usize::from(node)] = Some(me);
    }

    /// A process is gone; its system says so where its host lives.
    pub fn end(&mut self, who: usize, host_lives: bool) {
        self.processes[who].alive = false;
        let node = self.processes[who].node;
        self.at[usize::from(node)] = None;
        self.forget_memory(who);
        let mut open: Vec<_> = self.processes[who].open.drain().map(|(_, tcp)| tcp).collect();
        open.sort_unstable();
        if host_lives {
            open.into_iter().for_each(|(tcp, end)| self.put_on(tcp, 1 - end, Item::Fin));
        } else {
            self.crashed.insert(who, self.now());
        }
        self.tell_end(who, host_lives);
    }

    /// Something comes for a process at last: `None`, and again later, where its way is cut or it stands still.
    fn reach(&mut self, from: usize, to: usize, event: Event) -> Option<Event> {
        let now = self.now();
        let (a, b) = (self.processes[from].node, self.processes[to].node);
        let heals = self.cuts.heals(a, b, now);
        let jitter = AFTER_CUT.mul_f64(self.random.f64());
        let still = self.processes[to].still_until;
        let is_old = self.crashed.get(&from).is_some_and(|since| now > *since + Duration::from_millis(10));
        match heals {
            _ if is_old => {} // nobody sends it again
            // All cuts may heal at once.
            Some(until) => self.plan(until.min(now + Duration::from_secs(1)) + jitter, event),
            None if still > now => self.plan(still, event),
            None => return Some(event),
        }
        None
    }

    pub fn handle(&mut self, event: Event) {
        match event {
            Event::Item { tcp, end } => {
                let ends = self.tcps[tcp].ends;
                if self.reach(ends[1 - end], ends[end], event).is_some() {
                    self.item(tcp, end, ends[end]);
                }
            }
            Event::Message { from, to } => {
                if self.reach(from, to, event).is_some() {
                    self.arrive(from, to);
                }
            }
            Event::Read { number, bytes, from, to } => {
                if let Some(Event::Read { bytes, .. }) =
                    self.reach(from, to, Event::Read { number, bytes, from, to })
                {
                    self.answer_read(number, bytes);
                }
            }
            Event::LastRead { from, to } => {
                self.messages.borrow_mut().read_sources(|a, b| (a, b) == (from, to));
            }
            Event::Syn { from, on, node } => self.syn(from, on, node),
            Event::Connected { to, on, through } => {
                if self.processes[to].still_until > self.now() {
                    let still = self.processes[to].still_until;
                    self.plan(still, Event::Connected { to, on, through });
                } else if self.processes[to].alive {
                    match through {
                        Some(tcp) => {
                            self.tcps[tcp].names[0] = Some(on);
                            self.processes[to].open.insert(on, (tcp, 0));
                            self.processes[to].core.connected(on);
                        }
                        None => self.processes[to].core.broke(on),
                    }
                    self.step(to);
                }
            }
            Event::Step(who) => {
                let still = self.processes[who].still_until;
                if still > self.now() {
                    self.plan(still, Event::Step(who));
                } else {
                    self.step(who);
                }
            }
            Event::Hub { to, says } => self.hear_hub(to, says),
            Event::Knows { who, gone, since } => self.check_knows(who, gone, since),
            Event::Plan(act) => self.act(act),
        }
    }

    /// Runs a process: its lobby and its card.
    pub fn step(&mut self, who: usize) {
        if !self.processes[who].alive {
            return;
        }
        // Else the card is the first to see what came.
        if self.random.bool() {
            self.processes[who].core.pump();
        }
        let next = self.processes[who].core.look();
        for _ in 0..3 {
            if self.processes[who].core.take_retry() {
                for packet in std::mem::take(&mut self.processes[who].waiting) {
                    self.send(who, packet);
                }
            }
            for class in [Class::Response, Class::Request] {
                while (class == Class::Response || !self.processes[who].answers_only)
                    && self.random.u8(..8) > 0
                    && let Some(packet) = self.processes[who].core.take(class)
                {
                    self.take(who, packet);
                }
            }
            self.look_at_reads(who);
            let (left, settles) = (self.random.u8(1..8), self.random.bool());
            let mut card = Card { packets: Vec::new(), left, settles };
            let hands_over = !self.processes[who].answers_only && self.random.bool();
            let first = hands_over.then_some(&mut card as &mut dyn First);
            let pumped = self.processes[who].core.pump_to(first);
            for (packet, bytes) in card.packets {
                if let Some(bytes) = bytes {
                    self.placed(&packet, &bytes);
                }
                self.take(who, packet);
            }
            drop(self.processes[who].core.take_let_go());
            for out in self.processes[who].core.take_out() {
                self.obey(who, out);
            }
            if !pumped {
                break;
            }
        }
        if self.random.bool() {
            self.processes[who].core.let_all_go();
        }
        self.flush();
        self.watch(who);
        self.reuse_sources();
        let (now, process) = (self.now(), &mut self.processes[who]);
        let soon =
            !process.seen.has_arrivals() && !process.core.has_out() && !process.core.desk().is_called();
        let soon = soon && !process.core.holds() && process.landed.is_empty();
        let again = !soon || std::mem::take(&mut self.messages.borrow_mut().refused);
        let next = next.map_or(EVER, |next| next.duration_since(self.clock.origin()));
        let next =
            if again { now + Duration::from_micros(100) } else { next.max(now + Duration::from_micros(1)) };
        if next < process.looks_at || process.looks_at <= now {
            process.looks_at = next;
            if next < EVER {
                self.plan(next, Event::Step(who));
            }
        }
        if let Some(until) = self.processes[who].leaves {
            if self.processes[who].core.has_left() {
                self.left.insert((who, who));
                self.end(who, true);
            } else if until <= now {
                self.end(who, true);
            }
        }
    }
}
