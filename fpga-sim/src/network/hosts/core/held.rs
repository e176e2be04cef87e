//! Packets on their way to the wire: at once, or with others in one message. A part of [`Core`].
//!
//! To give the wire a message takes a system call, which costs more than all that a card does for a short packet. So where a
//! peer has many packets that it has not taken, the next ones wait for each other. They go when there are enough of them, when the card
//! has asked a few times without posting another one ([`Asks`](super::super::asks::Asks)), when who asks goes to sleep, and after
//! [a nap](super::super::sleep) of the thread that looks after the wire: it is awake while anything may be held back.

use std::mem;

use ggas_wire::{MESSAGE_MAX, Taken, WireError};

use super::super::message::{self, HEAD, Head, RELEASES};
use super::super::wire::Wire;
use super::{Core, Read, Sent};
use crate::packet::Packet;

/// A peer with so many packets that it has not taken is busy: more for it wait for each other.
pub(super) const BUSY: u64 = 8;
/// Longer packets wait for nobody: to copy them costs more than to send them.
const SHORT: usize = 1024;
/// Bytes of a message that wait for no more: half of the credits of a class at 64 bytes a packet.
const FULL: usize = 4608;

impl<W: Wire> Core<W> {
    /// Sends a packet to a process, to which packets may go; there is a credit for it.
    #[inline]
    pub(super) fn send_to(&mut self, to: u16, packet: &Packet) -> Sent {
        let link = &self.links[usize::from(to)];
        let Some(ticket) = link.theirs else { return self.throw_away() };
        let head = Head { ticket, taken: link.taken };
        if !message::encode(packet, head, &mut self.buffer) {
            return self.throw_away(); // `carriage` asks for no such payload
        }
        // Nearly always nothing is held back, and there is nothing to add.
        let waits = self.may_hold && link.untaken() >= BUSY;
        if waits | !link.held.is_empty() | !self.long.releases.is_empty() {
            return self.hand_over_of(to, packet);
        }
        let Some(peer) = link.peer else { return self.unsent(to, Ok(Taken::Later)) };
        match self.wire.send(peer, &self.buffer) {
            Ok(Taken::Yes) => {
                let link = &mut self.links[usize::from(to)];
                link.told = link.taken;
                self.sent(to, packet.class() as usize)
            }
            other => self.unsent(to, other),
        }
    }

    /// The same, of a packet still without its payload. It waits where that could not be read, or the wire takes no more.
    pub(super) fn send_read_to(&mut self, to: u16, packet: &Packet, read: Read<'_>) -> Sent {
        let len = message::len_of(packet);
        match len - HEAD > SHORT {
            true => self.send_in_room(to, packet, read, len),
            false => self.send_in_buffer(to, packet, read, len),
        }
    }

    fn send_in_buffer(&mut self, to: u16, packet: &Packet, read: Read<'_>, len: usize) -> Sent {
        let link = &self.links[usize::from(to)];
        let Some(ticket) = link.theirs else { return self.throw_away() };
        let head = Head { ticket, taken: link.taken };
        self.buffer.resize(len, 0); // nothing is cleared that is written anyway
        match message::encode_read(packet, head, read, &mut self.buffer) {
            true => self.hand_over_of(to, packet),
            false => Sent::Wait,
        }
    }

    /// The same of one that waits for nobody, written to where the wire takes it from, if there is such a place.
    fn send_in_room(&mut self, to: u16, packet: &Packet, read: Read<'_>, len: usize) -> Sent {
        if !self.links[usize::from(to)].held.is_empty() {
            match self.let_go(to) {
                Ok(Taken::Yes) => {}
                other => return self.unsent(to, other), // none overtakes another
            }
        }
        let ids = if self.long.releases.is_empty() { Vec::new() } else { self.releases_of(to, len) };
        let link = &mut self.links[usize::from(to)];
        let (Some(ticket), Some(peer)) = (link.theirs, link.peer) else { return self.throw_away() };
        let room = self.wire.room().and_then(|room| room.split_at_mut_checked(len));
        let Some((message, behind)) = room else { return self.send_in_buffer(to, packet, read, len) };
        if !message::encode_read(packet, Head { ticket, taken: link.taken }, read, message) {
            return Sent::Wait;
        }
        behind.as_chunks_mut::<8>().0.iter_mut().zip(&ids).for_each(|(to, id)| *to = id.to_le_bytes());
        match self.wire.send_room(peer, len + 8 * ids.len()) {
            Ok(Taken::Yes) => {
                link.told = link.taken;
                self.long.releases.drain(..ids.len());
                self.sent(to, packet.class() as usize)
            }
            other => self.unsent(to, other),
        }
    }

    /// Gives the wire the message in the buffer, of a packet.
    #[inline(never)]
    fn hand_over_of(&mut self, to: u16, packet: &Packet) -> Sent {
        match self.hand_over(to, false) {
            Ok(Taken::Yes) => self.sent(to, packet.class() as usize),
            other => self.unsent(to, other),
        }
    }

    /// A packet is on its way.
    #[inline]
    pub(super) fn sent(&mut self, to: u16, class: usize) -> Sent {
        let link = &mut self.links[usize::from(to)];
        link.sent[class] = link.sent[class].wrapping_add(1);
        self.seen.asks.spare();
        Sent::Gone
    }

    /// Gives the wire the message in the buffer, which has one packet; or keeps it for the next ones, as where the peer is busy anyway.
    #[inline]
    pub(super) fn hand_over(&mut self, to: u16, busy: bool) -> Result<Taken, WireError> {
        let link = &self.links[usize::from(to)];
        let Some(peer) = link.peer else { return Ok(Taken::Later) };
        let packet = self.buffer.len() - HEAD;
        let waits = self.may_hold && packet <= SHORT && (busy || link.untaken() >= BUSY);
        if !link.held.is_empty() {
            let fits = waits && link.held.len() + packet <= MESSAGE_MAX;
            if !fits && self.let_go(to)? == Taken::Later {
                return Ok(Taken::Later); // none overtakes another
            }
        }
        if waits {
            return self.hold(to);
        }
        // Nearly never there is any.
        let releases = if self.long.releases.is_empty() { 0 } else { self.add_releases(to) };
        let taken = self.wire.send(peer, &self.buffer);
        if let Ok(Taken::Yes) = taken {
            let link = &mut self.links[usize::from(to)];
            link.told = link.taken;
            if releases > 0 {
                self.long.releases.drain(..releases);
            }
        }
        taken
    }

    /// Keeps the packet in the buffer for those behind it.
    fn hold(&mut self, to: u16) -> Result<Taken, WireError> {
        let held = &mut self.links[usize::from(to)].held;
        if held.is_empty() {
            held.resize(HEAD, 0);
            self.holding.push(to);
        }
        held.extend_from_slice(&self.buffer[HEAD..]);
        let full = held.len() >= FULL;
        self.seen.asks.hold();
        if full {
            let _ = self.let_go(to)?; // what is not taken now stays
        }
        Ok(Taken::Yes)
    }

    /// Says behind the packet in the buffer what has been read of a node; how many payloads.
    #[cold]
    fn add_releases(&mut self, to: u16) -> usize {
        let ids = self.releases_of(to, self.buffer.len());
        message::add_releases(&ids, &mut self.buffer);
        ids.len()
    }

    /// What the next message to a node, of so many bytes, may say to have been read.
    pub(super) fn releases_of(&self, node: u16, len: usize) -> Vec<u64> {
        let (link, most) = (&self.links[usize::from(node)], self.wire.message_max());
        let fits = len + RELEASES * 8 <= most;
        let ours = |release: &&(u16, u64, u64)| fits && (release.0, release.1) == (node, link.ticket);
        self.long.releases.iter().take_while(ours).take(RELEASES).map(|release| release.2).collect()
    }

    /// Gives the wire what is held back for a node.
    pub(super) fn let_go(&mut self, to: u16) -> Result<Taken, WireError> {
        let link = &mut self.links[usize::from(to)];
        // Who leaves takes what was sent before it said so.
        let (Some(ticket), Some(peer), false) = (link.answer, link.peer, link.held.is_empty()) else {
            return Ok(Taken::Yes);
        };
        let head = Head { ticket, taken: link.taken };
        link.held[..HEAD].copy_from_slice(&head.bytes());
        let taken = self.wire.send(peer, &link.held)?;
        match taken {
            Taken::Yes => {
                link.held.clear();
                link.told = link.taken;
                self.holding.retain(|node| *node != to);
            }
            Taken::Later => {
                self.waits = true;
                self.seen.asks.need();
            }
        }
        Ok(taken)
    }

    /// Has peers hear what they are to read before the wire is moved on.
    #[inline]
    pub(super) fn let_offers_go(&mut self) {
        if mem::take(&mut self.offers) {
            self.let_all_go();
        }
    }

    /// Gives the wire all that is held back. Whether nothing is any more.
    pub fn let_all_go(&mut self) -> bool {
        for to in mem::take(&mut self.holding) {
            match self.let_go(to) {
                Ok(_) if self.links[usize::from(to)].held.is_empty() => {}
                Ok(_) => self.holding.push(to),
                Err(error) => self.give_up(to, &error),
            }
        }
        self.tell_released();
        if self.holding.is_empty() {
            self.seen.asks.let_go();
        }
        self.holding.is_empty()
    }

    /// Packets may wait for each other from now on, since somebody sees to it that they do not wait for long; or no more. Whether none waits.
    pub fn hold_back(&mut self, may: bool) -> bool {
        self.may_hold = may && !self.meetings.leaving;
        self.let_all_go()
    }

    /// Whether packets wait for others.
    #[cfg(test)]
    pub fn holds(&self) -> bool {
        !self.holding.is_empty() || !self.long.releases.is_empty()
    }
}
