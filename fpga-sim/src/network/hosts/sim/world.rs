//! Processes of a network of hosts in virtual time: their cores and what is between them; no sockets, no threads.

mod check;
mod connections;
mod hub;
mod long;
mod packets;
mod process;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ggas_clock::{Clock, Manual};
use ggas_wire::{MESSAGE_MAX, MESSAGE_MOST};

use super::cards::Ledger;
use super::net::{Cuts, Messages, Post, Tcp};
use crate::network::hosts::events::Connection;
use crate::network::hosts::message::payload_of;
pub use process::Process;

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
    /// A call, which began then.
    Syn {
        from: usize,
        on: Connection,
        node: u16,
        since: Duration,
    },
    Connected {
        to: usize,
        on: Connection,
        through: Option<usize>,
    },
    /// The card runs, or something is due.
    Step(usize),
    /// The program of a process goes on.
    Program(usize),
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
    /// Who does not hear that another one leaves, of a job.
    pub unsaid: HashSet<(usize, usize)>,
    /// Nodes at which somebody found that nothing comes over the wire to another one.
    pub unheard: Vec<(u16, u16)>,
    pub taken: u64,
    events: BinaryHeap<Reverse<(Duration, u64)>>,
    what: HashMap<u64, Event>,
    number: u64,
    pub messages: Post,
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
    pub slow: Duration,
    /// Processes have cards, and what these were asked to do.
    pub cards: bool,
    /// Nothing worse happens than that things are late.
    pub calm: bool,
    /// The node of a VPID that is for most commands.
    pub hot: Option<u16>,
    /// Drivers look at no card that its network is to tell.
    pub trusts: bool,
    pub ledger: Ledger,
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
            unsaid: HashSet::new(),
            unheard: Vec::new(),
            taken: 0,
            events: BinaryHeap::new(),
            what: HashMap::new(),
            number: 0,
            messages: Post::new(messages),
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
            cards: false,
            calm: false,
            hot: None,
            trusts: false,
            ledger: Ledger::default(),
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
            Event::Syn { from, on, node, since } => self.syn(from, on, node, since),
            Event::Connected { to, on, through } => {
                if self.processes[to].still_until > self.now() {
                    let still = self.processes[to].still_until;
                    self.plan(still, Event::Connected { to, on, through });
                } else if self.processes[to].alive {
                    match through {
                        Some(tcp) => {
                            self.tcps[tcp].names[0] = Some(on);
                            self.processes[to].open.insert(on, (tcp, 0));
                            self.processes[to].core().connected(on);
                        }
                        None => self.processes[to].core().broke(on),
                    }
                    self.step(to);
                }
            }
            Event::Step(who) => self.wake(who),
            Event::Hub { to, says } => self.hear_hub(to, says),
            Event::Knows { who, gone, since } => self.check_knows(who, gone, since),
            Event::Program(who) => self.run_program(who),
            Event::Plan(act) => self.act(act),
        }
    }
}
