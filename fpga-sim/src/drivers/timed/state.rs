//! What changes while virtual time passes: the event queue, flights, programs, cards, GPUs.

use std::collections::BinaryHeap;

use super::cards::Cards;
use super::flag::Flag;
use super::flight::{Cargo, Errand, Flight, Ground, Stage, Step, Told, sent_at};
use super::gpu::{Body, Gpu};
use super::node::Put;
use super::queue::{Event, Slab};
use super::trigger::Trigger;
use super::{Place, Ps};
use crate::packet::{Hold, Packet};

/// What is due.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// A program's wait is over, if it is still that one.
    Task(u32, u32),
    /// A card runs, if nothing had it run since.
    Card(u32, u32),
    Flight(u32),
    Later(u32),
}

/// What else may be due.
pub(super) enum Later {
    /// A word counts up.
    Raise(Flag),
    /// Nobody reads a source any more.
    Free(Hold),
    /// A trigger reaches its card.
    Fire(Trigger),
    /// What is first in a stream begins.
    Begin { node: u32, stream: u32 },
    /// What was first in a stream is over.
    End { node: u32, stream: u32 },
}

/// What is to be done without the state.
pub(super) enum Outside {
    Nothing,
    /// A program goes on, or begins.
    Resume(u32, Option<Box<Body>>),
    Card(u32),
    /// A packet is in a card's inbox, or there is room again for what a card sends.
    Wake(u32),
    Then(Box<dyn FnOnce() + Send>),
    Free(Hold),
    /// A packet for nobody.
    Gone(Box<Packet>),
}

/// A program.
pub(super) struct Task {
    /// Counts its turns: waits of earlier ones are no more.
    pub turn: u32,
    pub node: u32,
    /// What it does, until it has begun; those of hosts come with their call.
    pub body: Option<Box<Body>>,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events: turns of programs and cards, steps of packets.
    pub events: u64,
    /// Trains of packets that were on their way: one for each command that is no longer than one.
    pub flights: u64,
    /// Network packets among them.
    pub packets: u64,
    /// Links that trains crossed.
    pub hops: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Programs and blocks that began.
    pub tasks: u64,
    /// Of all events and their times: two runs that have the same did the same.
    pub digest: u64,
}

pub(super) struct State {
    pub now: Ps,
    sequence: u64,
    queue: BinaryHeap<Event>,
    pub ground: Ground,
    flights: Slab<Flight>,
    later: Slab<Later>,
    pub tasks: Vec<Task>,
    idle_tasks: Vec<u32>,
    /// Programs that have not ended.
    pub live: usize,
    /// The one that runs, and how far it is ahead: calls that take time are paid for when it waits.
    pub running: Option<u32>,
    pub debt: Ps,
    pub cards: Cards,
    pub gpus: Vec<Gpu>,
    counts: Counts,
}

impl State {
    pub fn new(ground: Ground, cards: Cards, gpus: Vec<Gpu>) -> State {
        State {
            now: Ps::ZERO,
            sequence: 0,
            queue: BinaryHeap::new(),
            ground,
            flights: Slab::new(),
            later: Slab::new(),
            tasks: Vec::new(),
            idle_tasks: Vec::new(),
            live: 0,
            running: None,
            debt: Ps::ZERO,
            cards,
            gpus,
            counts: Counts::default(),
        }
    }

    pub fn counts(&self) -> Counts {
        Counts { hops: self.ground.wires.hops, ..self.counts }
    }

    /// The time of the program that runs, or of the event.
    #[inline]
    pub fn here(&self) -> Ps {
        self.now + self.debt
    }

    #[inline]
    pub fn schedule(&mut self, at: Ps, what: What) {
        self.sequence += 1;
        self.queue.push(Event { at: at.0, sequence: self.sequence, what });
    }

    pub fn schedule_later(&mut self, at: Ps, later: Later) {
        let later = self.later.insert(later);
        self.schedule(at, What::Later(later));
    }

    /// When something is due next; `None`: nothing ever is.
    pub fn next(&mut self) -> Option<Ps> {
        while let Some(event) = self.queue.peek() {
            if self.is_due(event.what) {
                return Some(Ps(event.at));
            }
            self.queue.pop();
        }
        None
    }

    /// Whether that is a program's turn.
    pub fn is_program_next(&self) -> bool {
        self.queue.peek().is_some_and(|event| matches!(event.what, What::Task(..)))
    }

    /// Counts whatever may end a wait.
    pub fn activity(&self) -> u64 {
        self.counts.events - self.cards.runs + self.cards.news
    }

    /// Whether something that was due is still to be done.
    fn is_due(&self, what: What) -> bool {
        match what {
            What::Task(task, turn) => self.tasks[task as usize].turn == turn,
            What::Card(card, turn) => self.cards.is_due(card, turn),
            What::Flight(_) | What::Later(_) => true,
        }
    }

    /// Does what is due next, as far as it needs nothing but the state. [`State::next`] said that there is something.
    #[inline]
    pub fn advance(&mut self) -> Outside {
        let Some(event) = self.queue.pop() else { return Outside::Nothing };
        self.now = self.now.max(Ps(event.at));
        self.counts.events += 1;
        let (kind, id) = match event.what {
            What::Task(task, _) => (1, task),
            What::Card(card, _) => (2, card),
            What::Flight(flight) => (3, flight),
            What::Later(later) => (4, later),
        };
        let word = event.at ^ kind << 60 ^ u64::from(id) << 28;
        self.counts.digest = (self.counts.digest.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
        match event.what {
            What::Task(task, _) => self.begin_turn(task),
            What::Card(card, _) => Outside::Card(card),
            What::Flight(flight) => self.step(flight),
            What::Later(later) => self.do_later(later),
        }
    }

    fn begin_turn(&mut self, id: u32) -> Outside {
        let task = &mut self.tasks[id as usize];
        task.turn = task.turn.wrapping_add(1);
        self.running = Some(id);
        self.debt = Ps::ZERO;
        Outside::Resume(id, task.body.take())
    }

    /// A program that begins at `at`.
    pub fn begin_task(&mut self, at: Ps, node: u32, body: Option<Box<Body>>) -> u32 {
        self.live += 1;
        self.counts.tasks += 1;
        let id = match self.idle_tasks.pop() {
            Some(id) => {
                let task = &mut self.tasks[id as usize];
                (task.node, task.body) = (node, body);
                id
            }
            None => {
                self.tasks.push(Task { turn: 0, node, body });
                (self.tasks.len() - 1) as u32
            }
        };
        let turn = self.tasks[id as usize].turn;
        self.schedule(at, What::Task(id, turn));
        id
    }

    pub fn end_task(&mut self, id: u32) {
        self.live -= 1;
        let task = &mut self.tasks[id as usize];
        task.turn = task.turn.wrapping_add(1);
        self.idle_tasks.push(id);
    }

    /// Sends a flight on its way at `at`.
    pub fn launch(&mut self, at: Ps, flight: Flight) {
        self.counts.flights += 1;
        self.counts.packets += self.ground.costs.packets(flight.bytes);
        self.counts.bytes += flight.bytes;
        let flight = self.flights.insert(flight);
        self.schedule(at, What::Flight(flight));
    }

    /// Hands a put to a unit of its node's card at `at`, train by train; its bytes are there at `tail`.
    pub fn post(&mut self, at: Ps, tail: Ps, node: u32, errand: Errand, put: Put) {
        let Put { to, bytes, from, into, notify, told } = put;
        let train = self.ground.costs.train;
        let whole = matches!(errand, Errand::Get | Errand::Load);
        let mut left = bytes;
        let mut told = Some(told);
        loop {
            let now = if whole { left } else { left.min(train) };
            left -= now;
            let last = left == 0;
            let cargo = told.take_if(|_| last).map_or(Cargo::Nothing, Cargo::Told);
            self.launch(
                at,
                Flight {
                    errand,
                    stage: Stage::Unit,
                    from: node,
                    to: to as u32,
                    at: node,
                    bytes: now,
                    tail: tail.0,
                    source: from,
                    target: into,
                    notify: notify && last,
                    cargo,
                },
            );
            if last {
                return;
            }
        }
    }

    fn step(&mut self, id: u32) -> Outside {
        let Some(flight) = self.flights.get_mut(id) else { return Outside::Nothing };
        match self.ground.step(self.now.0, flight) {
            Step::On(at) => self.schedule(Ps(at), What::Flight(id)),
            Step::Left(at, read) => {
                self.schedule(Ps(at), What::Flight(id));
                return self.left(id, read);
            }
            Step::There => return self.arrive(id),
        }
        Outside::Nothing
    }

    /// A flight begins its way in the network; its source is read until `read`.
    fn left(&mut self, id: u32, read: u64) -> Outside {
        let Some(flight) = self.flights.get_mut(id) else { return Outside::Nothing };
        let sent = sent_at(&self.ground.costs, read);
        match &mut flight.cargo {
            Cargo::Told(told) if !matches!(flight.errand, Errand::Get | Errand::Load) => {
                if let Some(flag) = told.sent.take() {
                    self.schedule_later(sent, Later::Raise(flag));
                }
                Outside::Nothing
            }
            Cargo::Packet(packet) => {
                let from = flight.from;
                if let Some(hold) = self.cards.take_source(packet) {
                    self.schedule_later(sent, Later::Free(hold));
                }
                let station = &mut self.ground.stations[from as usize];
                station.queued = station.queued.saturating_sub(1);
                let wake = std::mem::take(&mut station.refused);
                if wake { Outside::Wake(from) } else { Outside::Nothing }
            }
            _ => Outside::Nothing,
        }
    }

    fn arrive(&mut self, id: u32) -> Outside {
        let Some(flight) = self.flights.take(id) else { return Outside::Nothing };
        let to = flight.to;
        match flight.cargo {
            Cargo::Nothing => Outside::Nothing,
            Cargo::Packet(packet) => match self.cards.deliver(to, packet) {
                Ok(()) => Outside::Wake(to),
                Err(packet) => Outside::Gone(packet),
            },
            Cargo::Told(told) => self.tell(*told),
        }
    }

    /// Tells of an arrival: first who moves values, then who waits for them.
    fn tell(&mut self, told: Told) -> Outside {
        let Told { arrived, trigger, then, .. } = told;
        if let Some(flag) = arrived {
            self.raise(&flag);
        }
        if let Some(trigger) = trigger {
            self.fire(&trigger);
        }
        then.map_or(Outside::Nothing, Outside::Then)
    }

    fn raise(&mut self, flag: &Flag) {
        let now = self.now;
        flag.raise(1, now, |task, turn, at| self.schedule(at, What::Task(task, turn)));
    }

    /// A trigger has reached its card.
    fn fire(&mut self, trigger: &Trigger) {
        if let Some(put) = trigger.count_up() {
            self.post(self.now, self.now, trigger.node(), Errand::Put, put);
        }
    }

    fn do_later(&mut self, id: u32) -> Outside {
        match self.later.take(id) {
            None => {}
            Some(Later::Raise(flag)) => self.raise(&flag),
            Some(Later::Free(hold)) => return Outside::Free(hold),
            Some(Later::Fire(trigger)) => self.fire(&trigger),
            Some(Later::Begin { node, stream }) => self.begin_stream(node, stream),
            Some(Later::End { node, stream }) => {
                if let Some(flag) = self.end_stream(node, stream) {
                    self.raise(&flag);
                }
            }
        }
        Outside::Nothing
    }

    /// Has a real card's packet on its way at `at`.
    pub fn send(&mut self, at: Ps, (from, to): (u32, u32), errand: Errand, packet: Packet) {
        let bytes = packet.payload.len() as u64;
        self.ground.stations[from as usize].queued += 1;
        let cargo = Cargo::Packet(Box::new(packet));
        let (stage, tail, notify) = (Stage::Unit, 0, false);
        let (source, target) = (Place::Host, Place::Host);
        self.launch(
            at,
            Flight { errand, stage, from, to, at: from, bytes, tail, source, target, notify, cargo },
        );
    }
}
