//! Payloads that are written: to peers' landings, and what this process gives peers of its own. A part of [`Core`].

use std::time::Instant;

use ggas_wire::{Taken, WireError};

use super::super::grants::{Unwritten, WRITE};
use super::super::landing::{Ground, Landing, SLOT};
use super::super::message::{self, Head, LED};
use super::super::wire::{Wire, Write};
use super::{Core, Sent};
use crate::packet::{Packet, Payload};

impl<W: Wire> Core<W> {
    /// Writes a packet, whose payload is one stretch of memory, to a free slot of a peer's landing; there is a credit for it.
    pub(super) fn send_landed(&mut self, to: u16, packet: &mut Packet, slot: u32) -> Sent {
        self.hear_cards();
        match self.write(to, packet, slot) {
            Ok(Taken::Yes) => {
                let class = packet.class() as usize;
                self.give(to, self.long.last, packet, Vec::new(), Some(slot));
                self.sent(to, class)
            }
            other => self.unsent(to, other),
        }
    }

    fn write(&mut self, to: u16, packet: &Packet, slot: u32) -> Result<Taken, WireError> {
        if !self.links[usize::from(to)].held.is_empty() && self.let_go(to)? == Taken::Later {
            return Ok(Taken::Later); // none overtakes another
        }
        let ids = self.releases_of(to, LED);
        let link = &mut self.links[usize::from(to)];
        let (Some(ticket), Some(peer), Some(runway), Payload::ByReference(source)) =
            (link.theirs, link.peer, &mut link.runway, &packet.payload)
        else {
            return Ok(Taken::Later);
        };
        let (id, head) = (self.long.last + 1, Head { ticket, taken: link.taken });
        message::encode_led(packet, head, id, &ids, &mut self.buffer);
        let write = Write {
            key: &runway.key,
            at: u64::from(slot) * SLOT as u64,
            head: &self.buffer,
            from: source.first.address,
            len: source.first.len as usize,
            immediate: runway.first + slot,
            token: WRITE | id,
        };
        // SAFETY: lent until the hold is dropped, which is behind the end of the write; of a peer that is gone the wire says it within
        // `UNWRITTEN`, or the memory has to stay mapped.
        let taken = unsafe { self.wire.write(peer, &write) }?;
        if taken == Taken::Yes {
            runway.occupy(slot);
            link.told = link.taken;
            self.long.last = id;
            self.long.releases.drain(..ids.len());
        }
        Ok(taken)
    }

    /// Nobody reads what was written to peers any more.
    pub(super) fn hear_written(&mut self) {
        for (id, done) in std::mem::take(&mut self.long.written) {
            let mut not_there = None;
            if let Some(given) = self.long.given.get_mut(&id) {
                self.long.let_go.extend(given.hold.take());
                not_there = Some(given.node).filter(|_| !done);
            }
            let unwritten = self.long.unwritten.remove(&id);
            self.long.let_go.extend(unwritten.map(|unwritten| unwritten.hold));
            if let Some(node) = not_there {
                self.hear_unwritten(node);
            }
        }
    }

    /// A peer does not get a packet. Who said goodbye is gone, or will be.
    #[cold]
    fn hear_unwritten(&mut self, node: u16) {
        if !self.meetings.leaving && self.links[usize::from(node)].theirs.is_some() {
            tracing::warn!("node {node} did not get what was written there: it is treated as lost");
            self.links[usize::from(node)].ticket = 0;
            self.meetings.expel(node);
            self.hear_news();
        }
    }

    /// Lets go what was written to peers that are gone, where the wire does not say in time that this is over; when to look again.
    pub(super) fn give_up_unwritten(&mut self, now: Instant) -> Option<Instant> {
        let Core { long, .. } = self;
        let late = |_: &u64, unwritten: &mut Unwritten| unwritten.until.is_some_and(|until| until <= now);
        for (id, unwritten) in long.unwritten.extract_if(late) {
            tracing::warn!("node {}: the wire does not end write {id}", unwritten.node);
            long.let_go.push(unwritten.hold);
        }
        long.unwritten.values().filter_map(|unwritten| unwritten.until).min()
    }

    /// Gives peers landings that need one. Where there can be none, they go on without.
    pub(super) fn open_landings(&mut self) {
        for node in std::mem::take(&mut self.long.landings.wanted) {
            if self.wire.writes() && self.open_landing(node) == Taken::Later {
                self.long.landings.wanted.push(node);
            }
        }
    }

    fn open_landing(&mut self, node: u16) -> Taken {
        let link = &self.links[usize::from(node)];
        if link.ticket == 0 || link.last.is_some() {
            return Taken::Yes; // nothing comes from there, or not much more
        }
        // A packet may come before its meeting is over.
        let (Some(ticket), Some(peer)) = (link.theirs, link.peer) else { return Taken::Later };
        let head = Head { ticket, taken: link.taken };
        if self.long.landings.of(node).is_none()
            && let Err(error) = self.make_landing(node)
        {
            tracing::info!("node {node} has no landing, and so its payloads are read: {error}");
            return Taken::Yes;
        }
        let Some(landing) = self.long.landings.of(node) else { return Taken::Yes };
        let (first, Some(key)) = (landing.first(), landing.untold.clone()) else { return Taken::Yes };
        message::encode_landing(head, first, &key, &mut self.buffer);
        match self.wire.send(peer, &self.buffer) {
            Ok(Taken::Later) => return Taken::Later,
            Ok(Taken::Yes) => self.links[usize::from(node)].told = head.taken,
            Err(error) => tracing::warn!("node {node} does not hear of its landing: {error}"),
        }
        landing.untold = None;
        Taken::Yes
    }

    fn make_landing(&mut self, node: u16) -> Result<(), Box<dyn std::error::Error>> {
        if self.long.landings.is_full() {
            return Err("this process keeps as many as it may".into());
        }
        let (ground, random) = (Ground::new()?, (self.meetings.random)()?);
        // SAFETY: kept as long as the wire, which is dropped first.
        let opened = unsafe { self.wire.open(ground.address(), Ground::LEN) }?;
        self.long.landings.add(node, opened, ground, random);
        Ok(())
    }

    /// No write to the landing of a node begins any more. Those that began may go on, also of a process that has left.
    pub(super) fn close_landing(&mut self, node: u16) {
        if let Some(Landing { grant, ground, .. }) = self.long.landings.remove(node) {
            // It stays mapped, whoever reads there.
            let _ = self.wire.revoke(grant);
            self.long.landings.park(ground);
        }
    }

    /// Where landings of this process are, with those of peers that are gone.
    #[cfg(test)]
    pub fn landings(&self) -> Vec<u64> {
        self.long.landings.addresses()
    }

    /// The head of a message that the peer at a node may send now.
    #[cfg(test)]
    pub fn head_of(&self, node: u16) -> Head {
        let link = &self.links[usize::from(node)];
        Head { ticket: link.ticket, taken: link.taken_there }
    }
}
