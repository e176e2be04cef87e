//! What bounds memory: a process that sends, puts or fetches without end, and is not answered, is stopped, not the one that it sends to.
//!
//! A message in a frame takes one of the sender's [`CREDITS`](super::net::CREDITS), which the receiver gives back as it is received.
//! Without a credit the bytes stay where they are: the receiver gets an envelope, and asks for them. Envelopes are counted, too, and at
//! the limit a call is not begun (`Carrier::has_room`).

use super::super::{Operation, Token};
use super::flow::Then;
use super::{Body, Envelope, Message, Own, Pending, Running, kind};

/// Counts of each process.
#[derive(Debug)]
pub(super) struct Limits {
    /// Most messages on offer to a process, and most items and fetches that wait for one.
    most: usize,
    offered: Vec<usize>,
    fetches: Vec<usize>,
}

impl Limits {
    /// An envelope at the receiver takes some 100 bytes.
    const MOST: usize = 16_384;

    pub fn new(size: usize) -> Limits {
        Limits { most: Self::MOST, offered: vec![0; size], fetches: vec![0; size] }
    }

    pub fn granted(&mut self, by: u32) {
        let offered = &mut self.offered[by as usize];
        *offered = offered.saturating_sub(1);
    }

    pub fn fetches(&mut self, from: u32) {
        self.fetches[from as usize] += 1;
    }

    pub fn fetched(&mut self, from: u32) {
        let fetches = &mut self.fetches[from as usize];
        *fetches = fetches.saturating_sub(1);
    }

    /// The process is gone: what it was offered has failed.
    pub fn lose(&mut self, rank: usize) {
        (self.offered[rank], self.fetches[rank]) = (0, 0);
    }
}

impl Own {
    /// At most so many messages to one process whose bytes wait here until they are received there, beside those in frames; as many puts
    /// and gets. More are not begun.
    pub fn at_most(mut self, most: usize) -> Own {
        self.limits.most = most.max(1);
        self
    }

    /// Whether the process that it is for has taken enough of what was sent before.
    pub(super) fn room(&self, operation: &Operation) -> bool {
        let most = self.limits.most;
        let (comm, rank) = match operation {
            Operation::Send { to, comm, .. } => (*comm, *to),
            Operation::Put { rank, win, .. } | Operation::Get { rank, win, .. } => {
                let Some(window) = self.windows.get(*win).and_then(Option::as_ref) else { return true };
                (window.comm, *rank)
            }
            _ => return true,
        };
        // What is wrong with it is said by starting it.
        let Ok(to) = self.world(comm, rank).map(|to| to as usize) else { return true };
        let count = match operation {
            Operation::Send { .. } => self.limits.offered[to],
            _ => self.limits.fetches[to].max(self.flow.len(to)),
        };
        self.known[to] || count < most
    }

    /// Tells a process of a message whose bytes stay here until it asks for them.
    pub(super) fn offer(&mut self, to: u32, context: u64, tag: i32, len: u64, send: Token) {
        self.limits.offered[to as usize] += 1;
        if to == self.rank {
            let envelope = Envelope { context, source: to, tag };
            return self.arrived(Message { envelope, body: Body::Asks { len, send } });
        }
        let words = [context, u64::from(tag as u32), len, send, 0];
        self.frame(to, kind::ASK, words, Vec::new(), Then::Nothing);
    }

    /// Offers the next piece of a collective that is held for a process: one at a time, for they come in order.
    pub(super) fn offer_piece(&mut self, of: Token, running: &mut Running, to: u32) {
        let Some(index) = running.held.iter().position(|(held, _)| *held == to) else { return };
        let Some((to, bytes)) = running.held.remove(index) else { return };
        let Ok(context) = self.group_of(running.comm).map(|group| group.context + 1) else { return };
        running.offered += 1;
        let (token, len) = (self.token(), bytes.len() as u64);
        self.pending.insert(token, Pending::Piece { of, to, bytes });
        self.offer(to, context, running.tag, len, token);
    }

    /// A piece that a receive waits for is on offer.
    pub(super) fn accept_piece(&mut self, of: Token, receive: Token, from: u32, len: u64, send: Token) {
        self.pending.insert(receive, Pending::Part { of });
        self.frame(from, kind::GRANT, [send, 0, len, receive, 0], Vec::new(), Then::Nothing);
    }

    /// It was granted: it goes, and the next one is offered.
    pub(super) fn piece_granted(&mut self, send: Token, receive: Token) {
        let Some(Pending::Piece { of, to, bytes }) = self.pending.remove(&send) else { return };
        self.frame(to, kind::PIECE, [receive, 0, 0, 0, 0], bytes, Then::Nothing);
        let Some(Pending::Collective(mut running)) = self.pending.remove(&of) else { return };
        running.offered -= 1;
        self.offer_piece(of, &mut running, to);
        self.pending.insert(of, Pending::Collective(running));
        self.stirred.push(of);
    }

    /// Bytes for a receive of a collective.
    pub(super) fn take_piece(&mut self, receive: Token, bytes: &[u8]) {
        let Some(Pending::Part { of }) = self.pending.get(&receive) else { return };
        let of = *of;
        self.pending.remove(&receive);
        if let Some(Pending::Collective(running)) = self.pending.get_mut(&of) {
            running.take(receive, bytes);
            self.stirred.push(of);
        }
    }
}
