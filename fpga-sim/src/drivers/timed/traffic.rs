//! Flights: how they begin, go on, wait for room, and are there.

use super::Place;
use super::Ps;
use super::credits::Held;
use super::flight::{Cargo, Errand, Flight, Stage, Step, Told, sent_at};
use super::node::Put;
use super::state::{Later, Outside, State, What};
use super::trigger::Trigger;
use super::wires::Ride;
use crate::packet::{Class, Packet};

impl State {
    /// Sends a flight on its way at `at`.
    pub fn launch(&mut self, at: Ps, flight: Flight) {
        self.counts.flights += 1;
        self.counts.packets += self.ground.costs.packets(flight.bytes);
        self.counts.bytes += flight.bytes;
        let flight = self.flights.insert(flight);
        self.schedule(at, What::Flight(flight));
    }

    /// Hands a put to a unit of its node's card at `at`, train by train; its bytes are there at `tail`.
    /// `queued`: it has a place in the card's queue.
    pub fn post(&mut self, at: Ps, tail: Ps, node: u32, errand: Errand, put: Put, queued: bool) {
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
                    ride: Ride::from(node, Held::default()),
                    queued: queued && last,
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

    pub fn step(&mut self, id: u32) -> Outside {
        let Some(flight) = self.flights.get_mut(id) else { return Outside::Nothing };
        let (from, class) = (flight.from, flight.errand.class());
        let step = self.ground.step(self.now.0, id, flight);
        self.set_alarm();
        match step {
            Step::On(at) => self.schedule(Ps(at), What::Flight(id)),
            Step::Wait => {}
            Step::Entered(at) => {
                self.schedule(Ps(at), What::Flight(id));
                return self.entered(from, class);
            }
            Step::Left(at, read) => {
                self.schedule(Ps(at), What::Flight(id));
                return self.left(id, read);
            }
            Step::There => return self.arrive(id),
        }
        Outside::Nothing
    }

    /// Has buffers looked at as they asked for.
    fn set_alarm(&mut self) {
        if let Some((at, buffer)) = self.ground.wires.buffers.alarm.take() {
            self.schedule(Ps(at), What::Room(buffer));
        }
    }

    /// There may be room for a flight that waits, by an alarm for `when`.
    pub fn admit(&mut self, buffer: u32, when: u64) -> Outside {
        let admitted = self.ground.wires.buffers.admit(buffer, when, self.now.0);
        self.set_alarm();
        let Some((id, held)) = admitted else { return Outside::Nothing };
        if let Some(flight) = self.flights.get_mut(id) {
            flight.ride.admitted = Some(held);
        }
        self.step(id)
    }

    /// What held room of a link has gone on at `at`.
    pub fn give_back(&mut self, held: Held, at: Ps) {
        let when = at.0 + self.ground.costs.link_latency;
        self.ground.wires.buffers.give(held, when);
        self.set_alarm();
    }

    /// A flight has left its card's queue for the network.
    fn entered(&mut self, from: u32, class: Class) -> Outside {
        let station = &mut self.ground.stations[from as usize];
        if let Some((task, turn)) = station.waiting.pop_front().filter(|_| class == Class::Request) {
            // Its place is that program's.
            self.schedule(self.now, What::Task(task, turn));
            return Outside::Nothing;
        }
        station.queued[class as usize] -= 1;
        let wake = std::mem::take(&mut station.refused);
        if wake { Outside::Wake(from) } else { Outside::Nothing }
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
                if let Some(hold) = self.cards.take_source(packet) {
                    self.schedule_later(sent, Later::Free(hold));
                }
                Outside::Nothing
            }
            _ => Outside::Nothing,
        }
    }

    fn arrive(&mut self, id: u32) -> Outside {
        let Some(flight) = self.flights.take(id) else { return Outside::Nothing };
        let to = flight.to;
        match flight.cargo {
            Cargo::Nothing => Outside::Nothing,
            Cargo::Packet(packet) => match self.cards.deliver(to, packet, flight.ride.held) {
                Ok(()) => Outside::Wake(to),
                Err(packet) => {
                    self.give_back(flight.ride.held, self.now);
                    Outside::Gone(packet)
                }
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
            self.fire(&trigger, trigger.count_up());
        }
        then.map_or(Outside::Nothing, Outside::Then)
    }

    /// A put that was held goes to the requester, if there is one.
    pub fn fire(&mut self, trigger: &Trigger, put: Option<Put>) {
        if let Some(put) = put {
            self.post(self.now, self.now, trigger.node(), Errand::Put, put, false);
        }
    }

    /// Has a real card's packet on its way at `at`.
    pub fn send(&mut self, at: Ps, (from, to): (u32, u32), errand: Errand, packet: Packet) {
        let bytes = packet.payload.len() as u64;
        self.ground.stations[from as usize].queued[errand.class() as usize] += 1;
        let cargo = Cargo::Packet(Box::new(packet));
        let (stage, tail, notify) = (Stage::Unit, 0, false);
        let (source, target) = (Place::Host, Place::Host);
        let ride = Ride::from(from, Held::default());
        self.launch(
            at,
            Flight {
                errand,
                stage,
                from,
                to,
                ride,
                queued: true,
                bytes,
                tail,
                source,
                target,
                notify,
                cargo,
            },
        );
    }
}
