//! Long payloads between processes: those that peers may read here, and those that this process reads there.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ggas_wire::Key;

use super::desk::{Asked, Desk};
use super::landing::{Ground, Landings};
use super::message::Offer;
use super::seen::Seen;
use crate::packet::{Class, Hold, Packet, Payload};

/// What a peer may read: granted exactly, and until it says that it has read it, or is gone.
pub(super) struct Given<G> {
    pub node: u16,
    /// Of its packet.
    pub class: usize,
    pub grants: Vec<G>,
    /// Keeps the memory where it is, until nobody reads it any more. Dropped outside of the core's lock.
    pub hold: Option<Hold>,
    /// Where it was written, of the peer's landing.
    pub slot: Option<u32>,
}

/// What the wire has not finished writing to a peer that has no claim to it any more: it said that it has it, or is gone.
pub(super) struct Unwritten {
    pub node: u16,
    pub hold: Hold,
    /// The peer is gone: so long the end of the write is waited for.
    pub until: Option<Instant>,
}

/// What the wire has not finished sending to a peer that has no claim to it any more.
pub(super) struct Unread<G> {
    pub node: u16,
    pub grants: Vec<G>,
    pub hold: Hold,
    /// So long that is waited for.
    pub until: Instant,
}

/// So long the end of writes to peers that are gone is waited for, from when the wire was told of that. The end of a process comes at once;
/// of a host that is cut off the system may hear nothing for a quarter of an hour, and the card's reports of later commands wait for this
/// one.
pub(super) const UNWRITTEN: Duration = Duration::from_secs(10);

/// What this process may read of a peer, or what one wrote.
pub(super) struct Grant {
    pub node: u16,
    /// Of its packet.
    pub class: Class,
    /// The ticket that it came with: it says nothing of the process that comes next.
    pub ticket: u64,
    /// The peer's name for it.
    pub id: u64,
    pub keys: Vec<Key>,
    /// Where it lies, of the landing.
    pub slot: Option<u32>,
}

/// What peers let this process read, as messages come.
pub(super) struct Incoming {
    pub desk: Arc<Desk>,
    pub grants: HashMap<u64, Grant>,
    last: u64,
    pub seen: Arc<Seen>,
    /// Of which node the process says that it has read something, and what.
    pub released: Vec<(u16, u64)>,
}

impl Incoming {
    pub fn new(seen: &Arc<Seen>, gpus: bool) -> Incoming {
        let (grants, released) = (HashMap::new(), Vec::new());
        Incoming { desk: Desk::new(seen, gpus), grants, last: 0, seen: seen.clone(), released }
    }

    /// The payload of a packet.
    pub fn take(&mut self, node: u16, ticket: u64, packet: &Packet, offer: Offer) -> Payload {
        self.last += 1;
        let (Offer { id, keys, tail }, class) = (offer, packet.class());
        self.grants.insert(self.last, Grant { node, class, ticket, id, keys, slot: None });
        self.desk.payload(self.last, packet.len, tail)
    }

    /// The payload of a packet that a peer wrote.
    pub fn land(
        &mut self,
        node: u16,
        ticket: u64,
        id: u64,
        (ground, slot): (&Arc<Ground>, u32),
        packet: &Packet,
    ) -> Payload {
        self.last += 1;
        let class = packet.class();
        self.grants.insert(self.last, Grant { node, class, ticket, id, keys: Vec::new(), slot: Some(slot) });
        self.desk.landed(self.last, ground, slot, packet.len)
    }
}

/// A read that a card asked for, until the wire is done with its memory.
#[derive(Default)]
pub(super) struct Reading {
    pub node: u16,
    pub ticket: u64,
    /// All of its pieces are with the wire.
    pub begun: bool,
    /// Those that are not over.
    pub pieces: u32,
    pub failed: bool,
}

/// The wire's name of a write has this bit, and the payload's.
pub(super) const WRITE: u64 = 1 << 63;

/// What the core has of all this.
pub(super) struct Long<G> {
    pub incoming: Incoming,
    pub landings: Landings<G>,
    pub given: HashMap<u64, Given<G>>,
    pub last: u64,
    /// Reads that the wire has not taken.
    pub asked: VecDeque<Asked>,
    pub reading: HashMap<u64, Reading>,
    /// Pieces that are over, and whether their bytes are there.
    pub ended: Vec<(u64, bool)>,
    /// Payloads whose writes are over, and whether they were made.
    pub written: Vec<(u64, bool)>,
    pub unwritten: HashMap<u64, Unwritten>,
    pub unread: Vec<Unread<G>>,
    /// Peers have to hear that something of theirs was read: node, ticket, their name for it.
    pub releases: VecDeque<(u16, u64, u64)>,
    /// Nobody reads there any more.
    pub let_go: Vec<Hold>,
}

impl<G> Long<G> {
    /// `gpus`: the wire reads to GPU memory.
    pub fn new(seen: &Arc<Seen>, gpus: bool) -> Long<G> {
        Long {
            incoming: Incoming::new(seen, gpus),
            landings: Landings::default(),
            given: HashMap::new(),
            last: 0,
            asked: VecDeque::new(),
            reading: HashMap::new(),
            ended: Vec::new(),
            written: Vec::new(),
            unwritten: HashMap::new(),
            unread: Vec::new(),
            releases: VecDeque::new(),
            let_go: Vec::new(),
        }
    }

    /// Whether there is something to do behind a look at the wire.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.incoming.desk.is_busy()
            | !self.written.is_empty()
            | !self.incoming.released.is_empty()
            | !self.landings.wanted.is_empty()
            | !self.unread.is_empty()
    }

    /// The wire was told only now that the process at a node is gone: from here on it has its time to end what it sends there.
    pub fn await_ends(&mut self, node: u16, now: Instant) {
        let until = now + UNWRITTEN;
        let unwritten = self.unwritten.values_mut().filter(|unwritten| unwritten.node == node);
        unwritten.for_each(|unwritten| unwritten.until = Some(until));
        let unread = self.unread.iter_mut().filter(|unread| unread.node == node);
        unread.for_each(|unread| unread.until = until);
    }

    /// Whether something of the process with this ticket is still read, or its card has to say what to do with it.
    pub fn reads_of(&self, ticket: u64) -> bool {
        self.incoming.grants.values().any(|grant| grant.ticket == ticket)
            || self.releases.iter().any(|(_, of, _)| *of == ticket)
    }
}
