//! What a process has of a network of hosts: its wire, its links, its meetings, and packets that wait for its card.

mod held;
mod job;
mod landed;
mod long;
mod parts;
mod people;
mod pump;
mod short;

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;

use extoll_abi::Modifier;
use ggas_clock::Clock;
use ggas_wire::{Taken, WireError};

use super::desk::Desk;
use super::events::{End, Want};
use super::grants::Long;
use super::landing::LANDS;
use super::link::{CREDITS, LONG, Link, TELL};
use super::meeting::Meetings;
use super::message::Head;
use super::places::Places;
use super::seen::Seen;
use super::wire::Wire;
use crate::packet::{ANYONE, Class, Hold, NOBODY, Packet, Payload};

/// Packets of a class from this node to itself that wait.
const OWN: usize = 128;

/// What happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Packets for nobody; and those that a peer had not said to have taken when it went.
    pub thrown_away: u64,
    /// Messages without a ticket of this process, or of one that is gone.
    pub foreign: u64,
    pub malformed: u64,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Gone,
    /// Into the own queue: the card has work.
    Here,
    /// It is as it was, to be sent again.
    Wait,
}

pub(super) struct Core<W: Wire> {
    wire: W,
    me: u16,
    places: Places,
    clock: Clock,
    meetings: Meetings,
    links: Vec<Link<W::Peer>>,
    seen: Arc<Seen>,
    own: [VecDeque<Packet>; 2],
    /// From others, in order of arrival, with the ticket that they came with.
    arrived: [VecDeque<(u64, Packet)>; 2],
    /// Nodes whose peers have to be told of credits.
    owed: VecDeque<u16>,
    /// Nodes whose processes say goodbye, and may still send.
    leave: Vec<u16>,
    /// Puts that are for whoever comes.
    parts: parts::Parts,
    /// Nodes with messages that wait for more packets.
    holding: Vec<u16>,
    /// Messages may wait: somebody looks after them.
    may_hold: bool,
    words: job::Words<W::Peer>,
    /// Peers are to read what messages that wait tell of. To move the wire on can take milliseconds then, so they go before.
    offers: bool,
    /// The wire had no room for a packet; or the own queue.
    waits: bool,
    own_waits: bool,
    /// The card is to try again what was refused.
    retry: bool,
    /// Processes that were found to be gone: who sleeps for something of one has to look.
    ended: Vec<(u16, End)>,
    buffer: Vec<u8>,
    long: Long<W::Grant>,
    pub counts: Counts,
}

/// Whether a payload by reference may be written into the peer's landing, once a slot is free.
fn lands<P>(link: &Link<P>, packet: &Packet) -> bool {
    let fits = matches!(&packet.payload, Payload::ByReference(source) if source.more.is_empty() && source.tail.is_none());
    link.runway.is_some() && fits && packet.total <= LANDS
}

/// Writes the payload of a packet to where it is told, or says that it cannot.
pub(super) type Read<'a> = &'a mut dyn FnMut(&mut [u8]) -> bool;

impl<W: Wire> Core<W> {
    pub fn new(wire: W, meetings: Meetings, places: Places, clock: Clock, seen: &Arc<Seen>) -> Core<W> {
        let gpus = wire.reaches_gpus();
        Core {
            me: meetings.me,
            places,
            clock,
            links: (0..meetings.nodes.len()).map(|_| Link::new(0, ANYONE)).collect(),
            meetings,
            seen: seen.clone(),
            own: Default::default(),
            arrived: Default::default(),
            owed: VecDeque::new(),
            leave: Vec::new(),
            parts: parts::Parts::default(),
            holding: Vec::new(),
            may_hold: false,
            words: job::Words::new(),
            offers: false,
            waits: false,
            own_waits: false,
            retry: false,
            ended: Vec::new(),
            buffer: Vec::with_capacity(wire.message_max()),
            wire,
            long: Long::new(seen, gpus),
            counts: Counts::default(),
        }
    }

    /// Sends a packet, or has it wait; what it has is taken from it where that is kept.
    pub fn send(&mut self, packet: &mut Packet) -> Sent {
        self.send_with(packet, None)
    }

    /// The same of a packet whose payload is read when there is room for it.
    pub fn send_read(&mut self, packet: &mut Packet, read: Read<'_>) -> Sent {
        self.send_with(packet, Some(read))
    }

    #[inline]
    fn send_with(&mut self, packet: &mut Packet, read: Option<Read<'_>>) -> Sent {
        let to = self.places.process(packet.destination);
        if to == self.me && !packet.modifier.contains(Modifier::MC) {
            if let Some(read) = read {
                let mut bytes = vec![0; packet.len as usize].into_boxed_slice();
                if !read(&mut bytes) {
                    return Sent::Wait;
                }
                packet.payload = Payload::Bytes(bytes);
            }
            return self.send_here(packet);
        }
        let Some(link) = self.links.get_mut(usize::from(to)) else { return self.throw_away() };
        if packet.modifier.contains(Modifier::MC) {
            return self.throw_away(); // groups have no members
        }
        if packet.process != ANYONE && packet.process != link.era {
            // For one who had the place before: it waits for nobody. Who may have it now is met all the same.
            self.expect(to);
            return self.throw_away();
        }
        if parts::is_part(packet) {
            return self.send_part(to, packet, read);
        }
        self.send_open(to, packet, read)
    }

    /// The same of one of several packets for whoever comes.
    #[cold]
    fn send_part(&mut self, to: u16, packet: &mut Packet, read: Option<Read<'_>>) -> Sent {
        if !self.parts.may_go(to, packet, self.links[usize::from(to)].era) {
            self.parts.went(to, packet, NOBODY);
            self.expect(to);
            return self.throw_away();
        }
        let before = self.counts.thrown_away;
        let sent = self.send_open(to, packet, read);
        if sent == Sent::Gone {
            let era = self.links[usize::from(to)].era;
            self.parts.went(to, packet, if self.counts.thrown_away == before { era } else { NOBODY });
        }
        sent
    }

    /// The same of one that may go to the process that is met, if any is.
    #[inline]
    fn send_open(&mut self, to: u16, packet: &mut Packet, read: Option<Read<'_>>) -> Sent {
        let link = &mut self.links[usize::from(to)];
        if link.theirs.is_none() || link.peer.is_none() {
            return self.send_unmet(to);
        }
        link.ways.used = true;
        let class = packet.class() as usize;
        let long = matches!(packet.payload, Payload::ByReference(_));
        let lands = long && lands(link, packet);
        let slot = link.runway.as_ref().and_then(|runway| runway.free(packet.class()).filter(|_| lands));
        // To have it read takes longer than to wait for a slot.
        let none = lands && slot.is_none();
        let most = link.sent[class].wrapping_sub(link.taken_there[class]) >= CREDITS;
        if most || long && link.granted[class] >= LONG || none {
            link.waits = true;
            self.seen.asks.need();
            // For what it does not have it gives no credits back.
            if let Err(error) = self.let_go(to) {
                self.give_up(to, &error);
            }
            return Sent::Wait;
        }
        match (slot, read) {
            (Some(slot), _) => self.send_landed(to, packet, slot),
            (None, Some(read)) => self.send_read_to(to, packet, read),
            (None, None) if long => self.send_long(to, packet),
            (None, None) => self.send_to(to, packet),
        }
    }

    /// The wire did not take a packet.
    fn unsent(&mut self, to: u16, taken: Result<Taken, WireError>) -> Sent {
        match taken {
            Ok(_) => {
                self.waits = true;
                self.seen.asks.need();
                Sent::Wait
            }
            Err(error) => {
                self.give_up(to, &error);
                if !self.meetings.is_wired(to) {
                    return self.throw_away();
                }
                self.links[usize::from(to)].waits = true; // until they have met
                Sent::Wait
            }
        }
    }

    /// The wire cannot reach a node.
    #[cold]
    fn give_up(&mut self, node: u16, error: &WireError) {
        let may_miss = self.links[usize::from(node)].may_miss();
        if self.meetings.doubt(node, may_miss, self.clock.now()) {
            tracing::info!("node {node} is to be met, since the wire does not reach it: {error}");
        } else {
            tracing::warn!("node {node} is given up: {error}");
            self.meetings.expel(node);
        }
        self.hear_news();
    }

    /// What the wire was given for a node, or is to be, does not come there: the rest is heard of at the next news.
    #[cold]
    fn misses(&mut self, node: u16, why: &dyn std::fmt::Display) {
        tracing::info!("node {node} may miss something: {why}");
        let may_miss = self.links[usize::from(node)].may_miss();
        self.meetings.fails(node, may_miss, self.clock.now());
    }

    #[cold]
    fn send_unmet(&mut self, node: u16) -> Sent {
        let want = self.meetings.want(node, self.clock.now());
        self.hear_news();
        if want == Want::ThrowAway {
            return self.throw_away();
        }
        // Who is known may be open by now.
        let link = &mut self.links[usize::from(node)];
        let open = link.theirs.is_some() && link.peer.is_some();
        (self.retry, link.waits) = (self.retry || open, !open);
        Sent::Wait
    }

    /// Begins to meet a process that a packet will be for, or who comes where one is gone.
    pub fn expect(&mut self, node: u16) {
        if self.links.get(usize::from(node)).is_some_and(|link| link.theirs.is_none()) && node != self.me {
            self.meetings.want(node, self.clock.now());
            self.hear_news();
        }
    }

    fn send_here(&mut self, packet: &mut Packet) -> Sent {
        let queue = &mut self.own[packet.class() as usize];
        if queue.len() >= OWN {
            self.own_waits = true;
            return Sent::Wait;
        }
        queue.push_back(packet.take());
        self.note_arrivals();
        Sent::Here
    }

    fn throw_away(&mut self) -> Sent {
        self.counts.thrown_away += 1;
        Sent::Gone
    }

    /// Whether packets wait for the card.
    #[inline]
    fn note_arrivals(&self) -> bool {
        let waits = |class: usize| !self.arrived[class].is_empty() || !self.own[class].is_empty();
        let classes = u8::from(waits(0)) | u8::from(waits(1)) << 1;
        self.seen.set_arrivals(classes);
        classes != 0
    }

    /// Whether there is anything to take, or to tell the lobby.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.retry || !self.ended.is_empty() || !self.long.let_go.is_empty() || self.has_out()
    }

    /// Whether the card has to be told to try again; once.
    pub fn take_retry(&mut self) -> bool {
        std::mem::take(&mut self.retry)
    }

    /// What nobody reads any more: to be dropped without the core's lock; once.
    pub fn take_let_go(&mut self) -> Vec<Hold> {
        std::mem::take(&mut self.long.let_go)
    }

    /// Where cards ask for long payloads.
    pub fn desk(&self) -> &Arc<Desk> {
        &self.long.incoming.desk
    }

    /// Processes that were found to be gone; once.
    pub fn take_ended(&mut self) -> Vec<(u16, End)> {
        std::mem::take(&mut self.ended)
    }

    /// The next packet of a class.
    pub fn take(&mut self, class: Class) -> Option<Packet> {
        let class = class as usize;
        if let Some(packet) = self.own[class].pop_front() {
            self.retry |= std::mem::take(&mut self.own_waits);
            self.note_arrivals();
            return Some(packet);
        }
        let (ticket, packet) = self.arrived[class].pop_front()?;
        self.note_arrivals();
        let node = ticket as u16; // it names the node
        // Of a process that is gone meanwhile, nobody wants to know how many were taken.
        if let Some(link) = self.links.get_mut(usize::from(node)).filter(|link| link.ticket == ticket)
            && link.take(class)
        {
            self.owed.push_back(node);
        }
        Some(packet)
    }

    /// Tells peers of credits that no packet has told them of.
    fn tell_owed(&mut self) {
        for _ in 0..self.owed.len() {
            let Some(node) = self.owed.pop_front() else { return };
            let link = &mut self.links[usize::from(node)];
            let owes = (0..2).any(|class| link.taken[class].wrapping_sub(link.told[class]) >= TELL);
            link.ways.used |= owes;
            if owes && !link.held.is_empty() {
                match self.let_go(node) {
                    Ok(Taken::Later) => self.owed.push_back(node), // others may have room
                    Ok(Taken::Yes) => {}
                    Err(error) => self.give_up(node, &error),
                }
            } else if let (Some(ticket), Some(peer), true) = (link.theirs, link.peer, owes) {
                let head = Head { ticket, taken: link.taken };
                match self.wire.send(peer, &head.bytes()) {
                    Ok(Taken::Yes) => link.told = link.taken,
                    Ok(Taken::Later) => self.owed.push_back(node),
                    Err(error) => tracing::warn!("node {node} hears of no credits: {error}"),
                }
            }
        }
    }

    /// Whether packets may go to the process at a node.
    #[cfg(test)]
    pub fn is_open(&self, node: u16) -> bool {
        self.links[usize::from(node)].theirs.is_some()
    }

    /// Whether it is known that packets come from there.
    #[cfg(test)]
    pub fn has_heard(&self, node: u16) -> bool {
        !self.meetings.is_wired(node) || self.meetings.has_come(node)
    }

    /// As who breaks the rules.
    #[cfg(test)]
    pub fn expel(&mut self, node: u16) {
        self.meetings.expel(node);
        self.hear_news();
    }

    /// What is kept that is over when nothing is under way.
    #[cfg(test)]
    pub fn kept(&self) -> Vec<(&'static str, usize)> {
        let long = &self.long;
        let of_links = |count: fn(&Link<W::Peer>) -> u32| self.links.iter().map(count).sum::<u32>() as usize;
        let kept = [
            ("own", self.own.iter().map(VecDeque::len).sum()),
            ("arrived", self.arrived.iter().map(VecDeque::len).sum()),
            ("held", self.links.iter().map(|link| link.held.len()).sum()),
            ("granted", of_links(|link| link.granted[0] + link.granted[1])),
            ("lent", of_links(|link| link.lent[0] + link.lent[1])),
            ("given", long.given.len()),
            ("grants", long.incoming.grants.len()),
            ("asked", long.asked.len()),
            ("reading", long.reading.len()),
            ("unwritten", long.unwritten.len()),
            ("unread", long.unread.len()),
            ("releases", long.releases.len()),
            ("let go", long.let_go.len()),
            ("reads", long.incoming.desk.kept()),
        ];
        kept.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    pub fn clear_own(&mut self) {
        self.own.iter_mut().for_each(VecDeque::clear);
        self.note_arrivals();
    }

    /// A descriptor to sleep on; whether that may begin.
    pub fn arm(&mut self) -> Option<(RawFd, bool)> {
        self.wire.arm()
    }
}
