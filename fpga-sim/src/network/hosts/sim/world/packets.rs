//! Packets: what processes post, what the wire takes, and what cards take, in the order in which it went.

use std::collections::VecDeque;

use extoll_abi::Address;

use super::{Event, World};
use crate::network::hosts::core::Sent;
use crate::network::hosts::message::{self, Head};
use crate::network::hosts::sim::net::{Came, Goes};
use crate::network::shared::codec::{Rules, tests::put};
use crate::packet::{ANYONE, Class, Kind, Packet, Payload};

/// Payload of those that have one.
const BYTES: u32 = 2_000;

fn with_bytes(packet: Packet) -> Packet {
    let payload = Payload::copy_of(&[7; BYTES as usize]);
    Packet { kind: Kind::Put, len: BYTES, total: BYTES, payload, ..packet }
}

impl World {
    /// A packet's number, and whom it is meant for.
    pub(super) fn number_packet(&mut self, who: usize, to: u16) -> (u32, u32) {
        self.packet += 1;
        let seen = &self.processes[who].seen;
        let meant = (seen.era(to) != ANYONE).then(|| (seen.process(to) >> 8) as usize - 1);
        self.meant.insert(self.packet, meant);
        (self.packet, seen.era(to))
    }

    pub fn post(&mut self, who: usize, to: u16, kind: Kind) {
        let packet = self.packet_of(who, to, kind);
        // Some are too long to wait for others.
        let long = kind == Kind::Notification && self.random.u8(..8) == 0;
        self.send(who, if long { with_bytes(packet) } else { packet });
        self.step(who);
    }

    /// A put that is too long to wait for others.
    pub fn post_bytes(&mut self, who: usize, to: u16) {
        let packet = self.packet_of(who, to, Kind::Put);
        self.send(who, with_bytes(packet));
        self.step(who);
    }

    pub fn packet_of(&mut self, who: usize, to: u16, kind: Kind) -> Packet {
        let (tag, process) = self.number_packet(who, to);
        Packet {
            source: Address::new(self.processes[who].node, 0),
            destination: Address::new(to, 0),
            kind,
            address: who as u64,
            tag,
            process,
            ..put(0, 0, 0)
        }
    }

    pub fn send(&mut self, who: usize, mut packet: Packet) {
        let (way, tag) = ((who, packet.destination.node, packet.class() as usize), packet.tag);
        let sent = match std::mem::take(&mut packet.payload) {
            // As cards send what they can read at once.
            Payload::Bytes(bytes) => {
                let mut read = |to: &mut [u8]| {
                    to.copy_from_slice(&bytes);
                    true
                };
                let sent = self.processes[who].core().send_read(&mut packet, &mut read);
                packet.payload = Payload::Bytes(bytes);
                sent
            }
            payload => {
                packet.payload = payload;
                self.processes[who].core().send(&mut packet)
            }
        };
        match sent {
            Sent::Wait => self.processes[who].waiting.push_back(packet),
            _ => self.accepted.entry(way).or_default().push_back(tag),
        }
        self.flush();
    }

    /// What the wire took is on its way.
    pub fn flush(&mut self) {
        self.begin_reads();
        self.end_writes();
        let gone = std::mem::take(&mut self.messages.borrow_mut().gone);
        if self.messages.borrow().swallows {
            return;
        }
        for (from, to, goes) in gone {
            match &goes {
                _ if self.cards => {} // their commands say what has to come
                Goes::Message(bytes) => self.went_in_message(from, to, bytes),
                Goes::Write(landed) => {
                    let (_, rest) = Head::of(&landed.head).expect("a head");
                    let class = message::class_of(rest).expect("a packet");
                    let led = message::decode_led(rest, &self.rules(from, to, class)).expect("a packet");
                    self.note_went(from, to, &led.0);
                }
            }
            self.messages.borrow_mut().on_wire.entry((from, to)).or_default().push_back(goes);
            let at = self.delay();
            self.plan(at, Event::Message { from, to });
        }
    }

    fn rules(&self, from: usize, to: usize, class: Class) -> Rules {
        let (from, to) = (self.processes[from].node, self.processes[to].node);
        Rules { class, from, to, most: self.most(), process: ANYONE }
    }

    fn went_in_message(&mut self, from: usize, to: usize, bytes: &[u8]) {
        let (_, mut rest) = Head::of(bytes).expect("a head");
        while !message::is_short(rest) && !message::is_landing(rest) {
            let class = message::class_of(rest).expect("a packet");
            let mut packet = Packet::empty();
            let rules = self.rules(from, to, class);
            rest = message::decode(rest, &rules, &mut packet).expect("a packet").behind;
            self.note_went(from, to, &packet);
        }
    }

    fn note_went(&mut self, from: usize, to: usize, packet: &Packet) {
        let here = self.processes[to].node;
        let meant = self.meant[&packet.tag];
        assert!(meant.is_none_or(|meant| meant == to), "a packet for {meant:?} goes to {to}");
        let class = packet.class() as usize;
        let accepted = self.accepted.entry((from, here, class)).or_default();
        // Those before it were thrown away, or they come too late.
        let place = accepted.iter().position(|tag| *tag == packet.tag);
        accepted.drain(..=place.expect("packets go in the order in which they were accepted"));
        let now = self.now();
        self.went.entry((from, to, class)).or_default().push((packet.tag, now));
    }

    /// The next of what goes from one process to another is there.
    pub(super) fn arrive(&mut self, from: usize, to: usize) {
        let next = self.messages.borrow_mut().on_wire.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        let alive = self.processes[to].alive;
        match next {
            Some(Goes::Message(bytes)) if alive => {
                self.messages.borrow_mut().come.entry(to).or_default().push_back(Came::Message(bytes));
            }
            Some(Goes::Write(landed)) if alive && !self.messages.borrow_mut().breaks() => {
                self.messages.borrow_mut().land((from, to), landed);
                self.wake(from);
            }
            Some(Goes::Write(landed)) => {
                self.messages.borrow_mut().lose((from, to), landed);
                return self.wake(from);
            }
            _ => return,
        }
        self.step(to);
    }

    /// A card takes a packet: the next one that went.
    pub(super) fn take(&mut self, who: usize, packet: Packet) {
        self.taken += 1;
        let way = (packet.address as usize, who, packet.class() as usize);
        let came = self.came.entry(way).or_default();
        let (tag, went) = self.went[&way][*came];
        assert!(
            packet.payload.bytes().is_none_or(|bytes| bytes.iter().all(|byte| *byte == 7)),
            "other bytes came"
        );
        assert_eq!(packet.tag, tag, "from {} to {}: the {came}th packet of class {}", way.0, way.1, way.2);
        *came += 1;
        if let Some(since) = self.lost.get(&(who, way.0)) {
            assert!(went <= *since, "{who} took {} for lost, and takes what it sent later", way.0);
        }
        self.begin_reading(who, packet);
    }
}
