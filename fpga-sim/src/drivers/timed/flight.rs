//! A packet on its way: through the sender's card, over links, through the target's card into memory.
//!
//! Everything passed is a thing that serves one after the other ([`pass`]). Of the card these are its requester, its
//! responder, its completer, its window unit (SMFU), and its reads and writes over the bus; each node has one of each.

use std::collections::VecDeque;

use super::costs::{Costs, Unit};
use super::flag::Flag;
use super::trigger::Trigger;
use super::wires::{Next, Passed, Ride, Trip, Wires, pass};
use super::{Place, Ps};
use crate::packet::{Class, Packet};

/// What a flight is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// Bytes, or nothing but a notification, from a requester to a completer.
    Put,
    /// A request to a responder.
    Get,
    /// What a responder sends.
    Answer,
    /// Bytes of stores to a window.
    Store,
    /// A load of a window.
    Load,
    /// What was loaded.
    Loaded,
    /// A request of a real card that its own units answer once it is there.
    Ask,
}

impl Errand {
    pub fn class(self) -> Class {
        match self {
            Errand::Answer | Errand::Loaded => Class::Response,
            _ => Class::Request,
        }
    }
}

/// What it passes next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    Unit,
    Read,
    Wire,
    Target,
    Write,
    Arrive,
}

/// Who is told.
#[derive(Default)]
pub(super) struct Told {
    pub sent: Option<Flag>,
    pub arrived: Option<Flag>,
    pub trigger: Option<Trigger>,
    pub then: Option<Box<dyn FnOnce() + Send>>,
}

/// What it brings.
pub(super) enum Cargo {
    /// The train before the last one of a command.
    Nothing,
    Told(Box<Told>),
    Packet(Box<Packet>),
}

pub(super) struct Flight {
    pub errand: Errand,
    pub stage: Stage,
    pub from: u32,
    pub to: u32,
    pub ride: Ride,
    /// It has a place in its card's queue.
    pub queued: bool,
    pub bytes: u64,
    /// When the last of it is there.
    pub tail: u64,
    pub source: Place,
    pub target: Place,
    pub notify: bool,
    pub cargo: Cargo,
}

/// What a node's card has, and when each is free.
#[derive(Clone, Default)]
pub(super) struct Station {
    requester: u64,
    responder: u64,
    completer: u64,
    window_out: u64,
    window_in: u64,
    read: u64,
    write: u64,
    /// When what was sent and what arrived last did so, of requests and responses: none overtakes it.
    sent: [Order; 2],
    arrived: [u64; 2],
    /// Commands and packets that have not begun their way in the network, of requests and responses.
    pub queued: [u64; 2],
    /// Programs that wait for a place among these requests, with their turns.
    pub waiting: VecDeque<(u32, u32)>,
    /// The network refused a packet of the card.
    pub refused: bool,
}

#[derive(Clone, Copy, Default)]
struct Order {
    head: u64,
    tail: u64,
}

/// What comes of a step.
pub(super) enum Step {
    /// It goes on at this time.
    On(u64),
    /// The same; its source was read at the second time.
    Left(u64, u64),
    /// The same; its place in the card's queue is free.
    Entered(u64),
    /// It is told when there is room for it.
    Wait,
    /// It is there.
    There,
}

/// What flights pass.
pub(super) struct Ground {
    pub costs: Costs,
    pub wires: Wires,
    pub stations: Vec<Station>,
}

impl Ground {
    /// One step of a flight whose head is where it is `now`.
    #[inline]
    pub fn step(&mut self, now: u64, id: u32, flight: &mut Flight) -> Step {
        let came = Passed { head: now, tail: flight.tail.max(now) };
        match flight.stage {
            Stage::Unit => self.leave(came, flight),
            Stage::Read => self.read(came, flight),
            Stage::Wire => self.cross(came, id, flight),
            Stage::Target => self.enter(came, flight),
            Stage::Write => self.write(came, flight),
            Stage::Arrive => Step::There,
        }
    }

    fn leave(&mut self, came: Passed, flight: &mut Flight) -> Step {
        let Ground { costs, stations, .. } = self;
        let station = &mut stations[flight.from as usize];
        let (free, unit) = match flight.errand {
            Errand::Answer => (&mut station.responder, costs.responder),
            Errand::Store | Errand::Load | Errand::Loaded => (&mut station.window_out, costs.window),
            _ => (&mut station.requester, costs.requester),
        };
        let passed = through(costs, free, unit, came, flight.bytes);
        flight.stage = Stage::Read;
        flight.tail = passed.tail;
        Step::On(passed.head)
    }

    fn read(&mut self, came: Passed, flight: &mut Flight) -> Step {
        let Ground { costs, stations, .. } = self;
        let station = &mut stations[flight.from as usize];
        // Stores bring their bytes with them.
        let reads = flight.bytes > 0 && !matches!(flight.errand, Errand::Store | Errand::Get | Errand::Load);
        let mut passed = came;
        if reads {
            let (rate, bytes) = (costs.read(flight.source), flight.bytes);
            passed = pass(
                &mut station.read,
                came,
                rate.time(bytes),
                rate.time(costs.first(bytes)),
                costs.bus_read,
            );
        }
        let last = &mut station.sent[flight.errand.class() as usize];
        passed.head = passed.head.max(last.head);
        passed.tail = passed.tail.max(last.tail).max(passed.head);
        *last = Order { head: passed.head, tail: passed.tail };
        flight.stage = Stage::Wire;
        flight.tail = passed.tail;
        Step::Left(passed.head, passed.tail)
    }

    fn cross(&mut self, came: Passed, id: u32, flight: &mut Flight) -> Step {
        let (class, bytes) = (flight.errand.class(), flight.carried());
        let trip = Trip { flight: id, to: flight.to, class, bytes };
        let passed = match self.wires.step(&self.costs, trip, came, &mut flight.ride) {
            Next::Wait => return Step::Wait,
            Next::Hop(passed) => passed,
            Next::There(passed) => {
                flight.stage = Stage::Target;
                passed
            }
        };
        flight.tail = passed.tail;
        let entered = std::mem::take(&mut flight.queued);
        if entered { Step::Entered(passed.head) } else { Step::On(passed.head) }
    }

    fn enter(&mut self, came: Passed, flight: &mut Flight) -> Step {
        let Ground { costs, stations, .. } = self;
        let station = &mut stations[flight.to as usize];
        let (free, unit) = match flight.errand {
            // The card's own units see to these; they wait for all of it.
            Errand::Ask => {
                let at = station.arrive(Class::Request, came.tail);
                flight.stage = Stage::Arrive;
                return Step::On(at);
            }
            Errand::Get | Errand::Load => {
                flight.answer();
                return Step::On(came.tail);
            }
            Errand::Store | Errand::Loaded => (&mut station.window_in, costs.window),
            _ => (&mut station.completer, costs.completer),
        };
        let passed = through(costs, free, unit, came, flight.bytes);
        flight.stage = Stage::Write;
        flight.tail = passed.tail;
        Step::On(passed.head)
    }

    fn write(&mut self, came: Passed, flight: &mut Flight) -> Step {
        let Ground { costs, stations, .. } = self;
        let station = &mut stations[flight.to as usize];
        let (rate, bytes) = (costs.write(flight.target), flight.bytes);
        let passed =
            pass(&mut station.write, came, rate.time(bytes), rate.time(costs.first(bytes)), costs.bus_write);
        let notified = if flight.notify { costs.notify } else { 0 };
        flight.stage = Stage::Arrive;
        let there = station.arrive(flight.errand.class(), passed.tail + notified);
        // A real card has its packets' room until it takes them.
        if !matches!(flight.cargo, Cargo::Packet(_)) {
            let gone = passed.tail - costs.bus_write + costs.link_latency;
            self.wires.buffers.give(std::mem::take(&mut flight.ride.held), gone);
        }
        Step::On(there)
    }
}

impl Station {
    /// Nothing of a class is there before what came first.
    fn arrive(&mut self, class: Class, at: u64) -> u64 {
        let last = &mut self.arrived[class as usize];
        *last = at.max(*last);
        *last
    }
}

/// Through a unit that takes packet after packet.
#[inline]
fn through(costs: &Costs, free: &mut u64, unit: Unit, came: Passed, bytes: u64) -> Passed {
    let start = came.head.max(*free);
    *free = start + unit.busy * costs.packets(bytes);
    let last = *free - unit.busy;
    Passed { head: start + unit.latency, tail: came.tail.max(last) + unit.latency }
}

impl Flight {
    /// Bytes that links carry.
    #[inline]
    fn carried(&self) -> u64 {
        if matches!(self.errand, Errand::Get | Errand::Load) { 0 } else { self.bytes }
    }

    /// A request becomes its answer.
    fn answer(&mut self) {
        self.errand = if self.errand == Errand::Get { Errand::Answer } else { Errand::Loaded };
        std::mem::swap(&mut self.from, &mut self.to);
        // It holds the request's room until it leaves: so the responder stops who asks.
        self.ride = Ride::from(self.from, self.ride.held);
        self.stage = Stage::Unit;
    }
}

/// When the requester has told of a source that was read at `read`.
pub(super) fn sent_at(costs: &Costs, read: u64) -> Ps {
    Ps(read + costs.notify + costs.bus_write)
}
