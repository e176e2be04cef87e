//! Long payloads: peers read them here, and this process reads theirs, into place. A part of [`Core`].

use std::time::Instant;

use ggas_wire::{Place, Taken, WireError};

use super::super::desk::Asked;
use super::super::grants::{Given, Reading, UNWRITTEN, Unread, Unwritten};
use super::super::landing::OF_CLASS;
use super::super::message::{self, Head, Offer, RELEASES};
use super::super::wire::{Piece, Wire};
use super::{Core, Sent};
use crate::memory::TAIL;
use crate::packet::{ByReference, Packet, Payload};

/// So often the wire is asked for ends of reads that it has closed.
const ENDS: usize = 1_000;

/// So many payloads that have been read are told of at once: half of those that a peer may write, so that it need not wait for slots.
const TOLD: usize = OF_CLASS as usize / 2;
const _: () = assert!(TOLD <= RELEASES, "one message tells of them");

impl<W: Wire> Core<W> {
    /// Lets the process at a node, to which packets may go, read a payload: see `message::Offer`.
    pub(super) fn offer(&mut self, source: &ByReference) -> Result<(Offer, Vec<W::Grant>), WireError> {
        let total: usize = source.runs().map(|run| run.len as usize).sum();
        let (mut body, mut tail, mut filled) = (total.saturating_sub(TAIL), [0; TAIL], 0);
        let (mut keys, mut grants) = (Vec::new(), Vec::new());
        let place = if source.tail.is_some() { Place::Gpu } else { Place::Host };
        for run in source.runs() {
            let len = body.min(run.len as usize);
            body -= len;
            if len > 0 {
                // SAFETY: lent until the hold is dropped, which is behind `revoke`, and behind the end of the peer.
                match unsafe { self.wire.grant(run.address, len, place) } {
                    Ok((grant, key)) => {
                        grants.push(grant);
                        keys.push(key);
                    }
                    Err(error) => {
                        self.revoke_unused(grants);
                        return Err(error);
                    }
                }
            }
            if let Some(of_device) = &source.tail {
                tail = **of_device;
                continue;
            }
            for at in len..run.len as usize {
                // SAFETY: as above; others may write there.
                tail[filled] = unsafe { std::ptr::read_volatile((run.address + at as u64) as *const u8) };
                filled += 1;
            }
        }
        self.long.last += 1;
        Ok((Offer { id: self.long.last, keys, tail }, grants))
    }

    /// Sends a packet whose payload is a reference to memory; there is a credit for it.
    pub(super) fn send_long(&mut self, to: u16, packet: &mut Packet) -> Sent {
        self.hear_cards(); // an answer to a long payload takes the news along that this was read
        let link = &self.links[usize::from(to)];
        let (Some(ticket), Payload::ByReference(source)) = (link.theirs, &packet.payload) else {
            return self.throw_away();
        };
        let head = Head { ticket, taken: link.taken };
        let (offer, grants) = match self.offer(source) {
            Ok(offered) => offered,
            Err(error) => return self.send_failed(to, packet, &error),
        };
        message::encode_offer(packet, head, &offer, &mut self.buffer);
        // Who has others to read begins with this one later: it may go with the next ones, when the wire is moved on.
        let busy = self.links[usize::from(to)].granted != [0; 2];
        match self.hand_over(to, busy) {
            Ok(Taken::Yes) => {
                let class = packet.class() as usize;
                self.give(to, offer.id, packet, grants, None);
                self.offers |= !self.links[usize::from(to)].held.is_empty();
                self.sent(to, class)
            }
            other => {
                self.revoke_unused(grants);
                self.unsent(to, other)
            }
        }
    }

    /// Nobody has heard of these, so nothing of them is read.
    fn revoke_unused(&mut self, grants: Vec<W::Grant>) {
        for grant in grants {
            let _ = self.wire.revoke(grant);
        }
    }

    /// A payload is the peer's until it says that it has it.
    pub(super) fn give(
        &mut self,
        to: u16,
        id: u64,
        packet: &mut Packet,
        grants: Vec<W::Grant>,
        slot: Option<u32>,
    ) {
        let class = packet.class() as usize;
        if let Payload::ByReference(ByReference { hold, .. }) = std::mem::take(&mut packet.payload) {
            self.long.given.insert(id, Given { node: to, class, grants, hold: Some(hold), slot });
        }
        self.links[usize::from(to)].granted[class] += 1;
    }

    /// The source cannot be read: the target gets the packet without it, as of any bad source.
    #[cold]
    fn send_failed(&mut self, to: u16, packet: &mut Packet, error: &WireError) -> Sent {
        tracing::warn!("no process can be let read {} bytes, so the command fails: {error}", packet.len);
        let unit = match packet.kind {
            crate::packet::Kind::Put => extoll_abi::ErrorUnits::REQUESTER,
            _ => extoll_abi::ErrorUnits::RESPONDER,
        };
        packet.error |= unit;
        packet.payload = Payload::None;
        self.send_to(to, packet)
    }

    /// Goes on with all of this. Called when the wire was moved on.
    pub(super) fn serve_long(&mut self) {
        self.hear_ended();
        self.hear_released();
        self.hear_cards();
        for asked in std::mem::take(&mut self.long.asked) {
            let rest = self.begin_read(asked);
            self.long.asked.extend(rest);
        }
        match (self.may_hold, self.long.releases.len()) {
            (_, 0) => {}
            (true, 1..TOLD) => self.seen.asks.hold_news(),
            _ => self.tell_released(),
        }
        let long = &self.long;
        if long.asked.is_empty() && long.reading.is_empty() && long.releases.is_empty() {
            long.incoming.desk.rest();
        }
    }

    /// What cards want to be read, and what they have read.
    pub(super) fn hear_cards(&mut self) {
        let (asked, released) = self.long.incoming.desk.take();
        if !released.is_empty() {
            self.long.landings.empty_parked();
        }
        for grant in released {
            if let Some(grant) = self.long.incoming.grants.remove(&grant) {
                let link = &mut self.links[usize::from(grant.node)];
                let same = link.ticket == grant.ticket;
                if same {
                    let lent = &mut link.lent[grant.class as usize];
                    *lent = lent.saturating_sub(1);
                }
                if let (Some(slot), true) = (grant.slot, same)
                    && let Some(landing) = self.long.landings.of(grant.node)
                {
                    landing.busy &= !(1 << slot);
                }
                self.long.releases.push_back((grant.node, grant.ticket, grant.id));
            }
        }
        self.long.asked.extend(asked);
    }

    /// Hands a read to the wire; what it does not take now comes back.
    fn begin_read(&mut self, mut asked: Asked) -> Option<Asked> {
        let Core { wire, links, long, .. } = self;
        let grant = long.incoming.grants.get(&asked.grant);
        let reading = long.reading.entry(asked.read).or_default();
        let link = grant.and_then(|grant| links.get(usize::from(grant.node)));
        let link = link.filter(|link| grant.is_some_and(|grant| grant.ticket == link.ticket));
        if let (Some(link), Some(grant)) = (link, grant) {
            // A packet may come before its meeting is over.
            let Some(peer) = link.peer else { return Some(asked) };
            (reading.node, reading.ticket) = (grant.node, grant.ticket);
            let (mut start, most) = (0, wire.most());
            'keys: for key in &grant.keys {
                let end = start + key.region_len() as usize;
                while asked.len > 0 && asked.offset < end {
                    let offset = (asked.offset - start) as u64;
                    let piece = Piece {
                        offset,
                        to: asked.to,
                        place: asked.place,
                        len: asked.len.min(end - asked.offset).min(most),
                    };
                    // SAFETY: who asked keeps the memory until the read is over.
                    match unsafe { wire.fetch(peer, key, piece, asked.read) } {
                        Ok(Taken::Yes) => reading.pieces += 1,
                        Ok(Taken::Later) => return Some(asked),
                        Err(error) => {
                            tracing::warn!("node {} cannot be read: {error}", grant.node);
                            break 'keys;
                        }
                    }
                    asked.pass(piece.len);
                }
                start = end;
            }
        }
        reading.begun = true;
        reading.failed |= asked.len > 0;
        self.end_read(asked.read);
        None
    }

    fn hear_ended(&mut self) {
        for (read, done) in std::mem::take(&mut self.long.ended) {
            if let Some(reading) = self.long.reading.get_mut(&read) {
                reading.pieces = reading.pieces.saturating_sub(1);
                reading.failed |= !done;
                self.end_read(read);
            }
        }
    }

    /// Tells who asked, if the wire is done with a read. Who does not give what he granted is given up; but who was told goodbye may
    /// have said farewell, and taken back his memory, before that is heard here.
    fn end_read(&mut self, read: u64) {
        let Some(Reading { begun: true, pieces: 0, failed, node, ticket }) = self.long.reading.get(&read)
        else {
            return;
        };
        let (failed, node, ticket) = (*failed, *node, *ticket);
        self.long.reading.remove(&read);
        self.long.incoming.desk.end(read, !failed);
        self.retry = true;
        if failed && !self.meetings.leaving && ticket != 0 && self.links[usize::from(node)].ticket == ticket {
            tracing::warn!("node {node} does not let read what it sent: it is treated as lost");
            self.links[usize::from(node)].ticket = 0;
            self.meetings.expel(node);
            self.hear_news();
        }
    }

    /// Peers have read what they were let read.
    fn hear_released(&mut self) {
        for (node, id) in std::mem::take(&mut self.long.incoming.released) {
            match self.long.given.remove(&id) {
                Some(given) if given.node == node => self.take_back(id, given, None),
                Some(given) => drop(self.long.given.insert(id, given)),
                None => {} // it was taken back when its process was found to be gone
            }
        }
    }

    /// A peer has no claim to a payload any more. Of what it did not get the wire may still read the memory, whatever the peer says.
    fn take_back(&mut self, id: u64, given: Given<W::Grant>, until: Option<Instant>) {
        let read: Vec<_> = given.grants.into_iter().filter(|grant| !self.wire.revoke(*grant)).collect();
        let link = &mut self.links[usize::from(given.node)];
        link.granted[given.class] = link.granted[given.class].saturating_sub(1);
        if let (Some(runway), Some(slot)) = (&mut link.runway, given.slot) {
            runway.vacate(slot);
        }
        self.retry |= std::mem::take(&mut link.waits);
        match given.hold {
            Some(hold) if given.slot.is_some() => {
                self.long.unwritten.insert(id, Unwritten { node: given.node, hold, until });
            }
            Some(hold) if !read.is_empty() => {
                let until = self.clock.now() + UNWRITTEN;
                self.long.unread.push(Unread { node: given.node, grants: read, hold, until });
            }
            hold => self.long.let_go.extend(hold),
        }
    }

    /// Asks the wire again whether it still reads what was granted to peers that have no claim to it any more; when to do so at the
    /// latest. At a look, `now`, the wire has been told who is gone, and then what takes too long is let go.
    #[cold]
    pub(super) fn ask_unread(&mut self, now: Option<Instant>) -> Option<Instant> {
        let Core { wire, long, .. } = self;
        for mut unread in std::mem::take(&mut long.unread) {
            unread.grants.retain(|grant| !wire.revoke(*grant));
            if !unread.grants.is_empty() && now.is_none_or(|now| unread.until > now) {
                long.unread.push(unread);
                continue;
            }
            if !unread.grants.is_empty() {
                tracing::warn!("node {}: the wire does not end what it sends of a payload", unread.node);
            }
            long.let_go.push(unread.hold);
        }
        long.unread.iter().map(|unread| unread.until).min()
    }

    /// The process at a node is gone, also for the wire: nobody reads for it any more, but what the wire is writing.
    pub(super) fn take_back_all(&mut self, node: u16) {
        let until = Some(self.clock.now() + UNWRITTEN);
        for unwritten in self.long.unwritten.values_mut().filter(|unwritten| unwritten.node == node) {
            unwritten.until = unwritten.until.or(until);
        }
        let of_node = |(id, given): (&u64, &Given<W::Grant>)| (given.node == node).then_some(*id);
        let given: Vec<u64> = self.long.given.iter().filter_map(of_node).collect();
        for id in given {
            if let Some(given) = self.long.given.remove(&id) {
                self.take_back(id, given, until);
            }
        }
    }

    /// Nothing goes to other processes any more, and nothing comes: their memory and ours is not touched from now on, but for what the
    /// wire does not end, whose memory stays in use.
    pub fn close(&mut self) {
        self.long.incoming.desk.close();
        for node in 0..self.links.len() as u16 {
            self.forget_peer(node);
            self.links[usize::from(node)].ticket = 0;
        }
        // The wire tells the ends of what was under way. It should do so at once.
        for _ in 0..ENDS {
            self.pump();
            let long = &self.long;
            let none = long.unwritten.is_empty() && long.unread.is_empty();
            if none && long.reading.is_empty() && long.asked.is_empty() {
                break;
            }
        }
    }

    /// Tells peers what of theirs has been read.
    pub(super) fn tell_released(&mut self) {
        // Of processes that are not met, and of those for which there is no room.
        let (mut kept, mut full) = (Vec::new(), Vec::new());
        while let Some((node, of, _)) = self.long.releases.front().copied() {
            let link = &self.links[usize::from(node)];
            let same = self.long.releases.iter().take_while(|release| (release.0, release.1) == (node, of));
            let ids: Vec<u64> = same.take(RELEASES).map(|release| release.2).collect();
            if link.ticket == of && (link.answer.is_none() || full.contains(&node)) {
                kept.extend(ids.iter().map(|id| (node, of, *id)));
            } else if let (Some(ticket), Some(peer), true) = (link.answer, link.peer, link.ticket == of) {
                self.buffer.clear();
                self.buffer.extend_from_slice(&Head { ticket, taken: link.taken }.bytes());
                message::add_releases(&ids, &mut self.buffer);
                let taken = link.taken;
                self.links[usize::from(node)].ways.used = true;
                match self.wire.send(peer, &self.buffer) {
                    Ok(Taken::Yes) => self.links[usize::from(node)].told = taken,
                    Ok(Taken::Later) => {
                        full.push(node);
                        kept.extend(ids.iter().map(|id| (node, of, *id)));
                    }
                    Err(_) if self.meetings.is_doubted(node) => {
                        kept.extend(ids.iter().map(|id| (node, of, *id))); // until they have met
                    }
                    Err(error) => tracing::warn!("node {node} does not hear what was read: {error}"),
                }
            }
            self.long.releases.drain(..ids.len());
        }
        self.long.releases.extend(kept);
    }
}
