//! Processes: how they begin, run and end.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use super::super::cards::Host;
use super::super::net::{Item, SimWire};
use super::{EVER, Event, SILENCE, World};
use crate::network::fabric::First;
use crate::network::hosts::complaints::Complaints;
use crate::network::hosts::core::Core;
use crate::network::hosts::events::{Bounds, Connection};
use crate::network::hosts::meeting::Meetings;
use crate::network::hosts::places::Places;
use crate::network::hosts::seen::Seen;
use crate::network::hosts::shared::Shared;
use crate::packet::{Class, Packet, Payload};
use crate::short_put::ShortPut;

pub struct Process {
    pub node: u16,
    pub shared: Arc<Shared<SimWire>>,
    /// Its card, where cards are simulated.
    pub host: Option<Box<Host>>,
    pub seen: Arc<Seen>,
    pub alive: bool,
    pub leaves: Option<Duration>,
    pub still_until: Duration,
    /// Its card takes no requests.
    pub answers_only: bool,
    pub open: HashMap<Connection, (usize, usize)>,
    pub waiting: VecDeque<Packet>,
    /// Packets whose payloads are read, and the numbers of the reads.
    pub reading: Vec<(Packet, u64)>,
    /// Those whose payloads lie in a landing.
    pub landed: Vec<Packet>,
    pub departures: u32,
    pub looks_at: Duration,
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

    fn put(&mut self, put: &ShortPut, bytes: &[u8]) -> bool {
        self.settle(&mut put.packet(bytes), &[])
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

impl Process {
    pub fn core(&self) -> MutexGuard<'_, Core<SimWire>> {
        self.shared.core()
    }

    /// The next packet for its card.
    fn take(&self, class: Class) -> Option<Packet> {
        self.core().take(class)
    }
}

impl World {
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
        if !self.cards {
            core.hold_back(self.random.bool());
        }
        let carries = (("sim".to_owned(), ""), false, self.most());
        let papers = ([0; 16], Vec::new());
        let own = (core, seen.clone());
        let shared = Shared::new(
            (node, "node"),
            papers,
            Bounds::of(SILENCE),
            carries,
            Arc::<Complaints>::default(),
            own,
        );
        let shared = Arc::new(shared.expect("descriptors"));
        let host =
            self.cards.then(|| Box::new(Host::new((me, node), &shared, &self.clock, &mut self.random)));
        self.processes.push(Process {
            node,
            shared,
            host,
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
        if self.cards {
            self.begin_program(me);
        }
    }

    /// A process is gone; its system says so where its host lives.
    pub fn end(&mut self, who: usize, host_lives: bool) {
        self.processes[who].alive = false;
        let node = self.processes[who].node;
        self.at[usize::from(node)] = None;
        if self.cards && self.processes[who].leaves.is_some() {
            self.processes[who].core().close();
            self.flush();
        }
        self.forget_memory(who);
        self.processes[who].host = None;
        let mut open: Vec<_> = self.processes[who].open.drain().map(|(_, tcp)| tcp).collect();
        open.sort_unstable();
        if host_lives {
            open.into_iter().for_each(|(tcp, end)| self.put_on(tcp, 1 - end, Item::Fin));
        } else {
            self.crashed.insert(who, self.now());
        }
        self.tell_end(who, host_lives);
    }

    /// Runs a process, once it does not stand still any more.
    pub fn wake(&mut self, who: usize) {
        let still = self.processes[who].still_until;
        match still > self.now() {
            true => self.plan(still, Event::Step(who)),
            false => self.step(who),
        }
    }

    /// Runs a process: its lobby and its card.
    pub fn step(&mut self, who: usize) {
        match &self.processes[who] {
            Process { alive: false, .. } => {}
            Process { host: Some(_), .. } => self.step_host(who),
            _ => self.step_without_card(who),
        }
    }

    /// The same, where something simple stands for the card.
    fn step_without_card(&mut self, who: usize) {
        // Else the card is the first to see what came.
        if self.random.bool() {
            self.processes[who].core().pump();
        }
        let next = self.processes[who].core().look();
        for _ in 0..3 {
            if self.processes[who].core().take_retry() {
                for packet in std::mem::take(&mut self.processes[who].waiting) {
                    self.send(who, packet);
                }
            }
            for class in [Class::Response, Class::Request] {
                while (class == Class::Response || !self.processes[who].answers_only)
                    && self.random.u8(..8) > 0
                    && let Some(packet) = self.processes[who].take(class)
                {
                    self.take(who, packet);
                }
            }
            self.look_at_reads(who);
            let (left, settles) = (self.random.u8(1..8), self.random.bool());
            let mut card = Card { packets: Vec::new(), left, settles };
            let hands_over = !self.processes[who].answers_only && self.random.bool();
            let first = hands_over.then_some(&mut card as &mut dyn First);
            let pumped = self.processes[who].core().pump_to(first);
            for (packet, bytes) in card.packets {
                if let Some(bytes) = bytes {
                    self.placed(&packet, &bytes);
                }
                self.take(who, packet);
            }
            drop(self.processes[who].core().take_let_go());
            let outs = self.processes[who].core().take_out();
            outs.into_iter().for_each(|out| self.obey(who, out));
            if !pumped {
                break;
            }
        }
        if self.random.bool() {
            self.processes[who].core().let_all_go();
        }
        self.flush();
        self.watch(who);
        self.reuse_sources();
        let (now, process) = (self.now(), &mut self.processes[who]);
        let soon =
            !process.seen.has_arrivals() && !process.core().has_out() && !process.core().desk().is_called();
        let soon = soon && !process.core().holds() && process.landed.is_empty();
        let again = !soon || std::mem::take(&mut self.messages.borrow_mut().refused);
        let next = next.map_or(EVER, |next| next.duration_since(self.clock.origin()));
        self.step_at(who, if again { now + Duration::from_micros(100) } else { next });
        self.see_off(who);
    }

    /// Has a process run at some time, if not before.
    pub fn step_at(&mut self, who: usize, at: Duration) {
        let (now, process) = (self.now(), &mut self.processes[who]);
        let at = at.max(now + Duration::from_micros(1));
        if at < process.looks_at || process.looks_at <= now {
            process.looks_at = at;
            if at < EVER {
                self.plan(at, Event::Step(who));
            }
        }
    }

    /// Who leaves is gone once all have what it sent, or its time is over.
    pub fn see_off(&mut self, who: usize) {
        if let Some(until) = self.processes[who].leaves {
            if self.processes[who].core().has_left() {
                self.left.insert((who, who));
                self.end(who, true);
            } else if until <= self.now() {
                self.end(who, true);
            }
        }
    }
}
