//! What changes while virtual time passes: the event queue, flights, programs, cards, GPUs.

use super::Ps;
use super::cards::Cards;
use super::cores::Cores;
use super::flag::{Flag, Waiting};
use super::flight::{Flight, Ground};
use super::gpu::{Body, Gpu};
use super::queue::{Agenda, Event, Slab};
use super::trigger::Trigger;
use crate::packet::{Hold, Packet};

/// What is due.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// A program's wait is over, if it is still that one.
    Task(u32, u32),
    /// A card runs, if nothing had it run since.
    Card(u32, u32),
    Flight(u32),
    /// There may be room at the end of a link for a flight that waits.
    Room(u32),
    Later(u32),
}

/// What else may be due.
pub(super) enum Later {
    /// A word counts up.
    Raise(Flag),
    /// Nobody reads a source any more.
    Free(Hold),
    /// A put that is to be held reaches its card.
    Hold(Trigger),
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
    /// A thread of a host; else a block.
    pub host: bool,
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
    /// Most trains that were on their way at once.
    pub most_flights: u64,
    /// Of all events and their times: two runs that have the same did the same.
    pub digest: u64,
}

pub(super) struct State {
    pub now: Ps,
    queue: Agenda,
    pub ground: Ground,
    pub flights: Slab<Flight>,
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
    /// Of each node.
    pub cores: Vec<Cores>,
    pub counts: Counts,
}

impl State {
    pub fn new(ground: Ground, cards: Cards, gpus: Vec<Gpu>) -> State {
        State {
            now: Ps::ZERO,
            queue: Agenda::new(),
            ground,
            flights: Slab::new(),
            later: Slab::new(),
            tasks: Vec::new(),
            idle_tasks: Vec::new(),
            live: 0,
            running: None,
            debt: Ps::ZERO,
            cards,
            cores: gpus.iter().map(|_| Cores::default()).collect(),
            gpus,
            counts: Counts::default(),
        }
    }

    pub fn counts(&self) -> Counts {
        Counts { hops: self.ground.wires.hops, most_flights: self.flights.places() as u64, ..self.counts }
    }

    /// The time of the program that runs, or of the event.
    #[inline]
    pub fn here(&self) -> Ps {
        self.now + self.debt
    }

    #[inline]
    pub fn schedule(&mut self, at: Ps, what: What) {
        self.queue.push(at.0, what);
    }

    pub fn schedule_later(&mut self, at: Ps, later: Later) {
        let later = self.later.insert(later);
        self.schedule(at, What::Later(later));
    }

    /// When something is due next; `None`: nothing ever is.
    pub fn next(&mut self) -> Option<Ps> {
        while let Some(event) = self.queue.peek() {
            let Event { at, what, .. } = *event;
            if self.is_due(what) {
                return Some(Ps(at));
            }
            self.queue.pop();
        }
        None
    }

    /// Whether that is a program's turn.
    pub fn is_program_next(&mut self) -> bool {
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
            What::Flight(_) | What::Room(_) | What::Later(_) => true,
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
            What::Room(buffer) => (5, buffer),
        };
        let word = event.at ^ kind << 60 ^ u64::from(id) << 28;
        self.counts.digest = (self.counts.digest.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
        match event.what {
            What::Task(task, _) => self.begin_turn(task),
            What::Card(card, _) => Outside::Card(card),
            What::Flight(flight) => self.step(flight),
            What::Room(buffer) => self.admit(buffer, event.at),
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
        let host = body.is_none();
        if host {
            self.cores[node as usize].begin(self.ground.costs.host.cores);
        }
        let id = match self.idle_tasks.pop() {
            Some(id) => {
                let task = &mut self.tasks[id as usize];
                (task.node, task.host, task.body) = (node, host, body);
                id
            }
            None => {
                self.tasks.push(Task { turn: 0, node, host, body });
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
        if task.host {
            self.cores[task.node as usize].end();
        }
        self.idle_tasks.push(id);
    }

    pub fn raise(&mut self, flag: &Flag) {
        let now = self.now;
        flag.raise(1, |waiting| self.see(waiting, now));
    }

    /// The word that a program polls has changed at `now`.
    pub fn see(&mut self, waiting: &Waiting, now: Ps) {
        let Waiting { task, turn, since, poll, .. } = *waiting;
        let Task { node, host, .. } = self.tasks[task as usize];
        let slice = self.ground.costs.host.slice;
        let at = match host {
            true => self.cores[node as usize].sees(task, since, poll, now, slice),
            false => poll.sees(since, now),
        };
        self.schedule(at, What::Task(task, turn));
    }

    /// The cores that the program which runs has to share, if it is a host's.
    fn shared_cores(&mut self) -> Option<&mut Cores> {
        let Task { node, host, .. } = self.tasks[self.running? as usize];
        host.then(|| &mut self.cores[node as usize])
    }

    /// When the program that runs is done, if it is busy for so long.
    pub fn busy(&mut self, time: Ps) -> Ps {
        let (here, slice) = (self.here(), self.ground.costs.host.slice);
        let done =
            self.shared_cores().filter(|_| time > Ps::ZERO).map(|cores| cores.compute(here, time, slice));
        done.unwrap_or(here + time)
    }

    /// The program that runs is busy for so long, from its next wait on.
    pub fn charge(&mut self, time: Ps) {
        self.debt = self.busy(time) - self.now;
    }

    /// When the program that runs first looks, if it polls from now on.
    pub fn poll(&mut self) -> Ps {
        let (here, slice, task) = (self.here(), self.ground.costs.host.slice, self.running);
        let since = task.and_then(|task| Some(self.shared_cores()?.poll(task, here, slice)));
        since.unwrap_or(here)
    }

    fn do_later(&mut self, id: u32) -> Outside {
        match self.later.take(id) {
            None => {}
            Some(Later::Raise(flag)) => self.raise(&flag),
            Some(Later::Free(hold)) => return Outside::Free(hold),
            Some(Later::Hold(trigger)) => self.fire(&trigger, trigger.hold()),
            Some(Later::Fire(trigger)) => self.fire(&trigger, trigger.count_up()),
            Some(Later::Begin { node, stream }) => self.begin_stream(node, stream),
            Some(Later::End { node, stream }) => {
                if let Some(flag) = self.end_stream(node, stream) {
                    self.raise(&flag);
                }
            }
        }
        Outside::Nothing
    }
}
