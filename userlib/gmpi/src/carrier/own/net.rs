//! Frames between the processes of a carrier, by puts alone.
//!
//! Each process has an inbox: for each other one a few slots, and a word in which that one says how many frames it has taken,
//! and how many messages that came in frames it has received: as many of them wait there at most as this side has credits for. A frame is one put, which ends at the end of its slot: a put's last bytes become visible last (spec 2.3), so the number
//! in the last word says that all is there. Nothing of a notification queue is used, so engines carry it as the model does.

use ggas::device::PeerEnd;
use ggas::members::Trace;
use ggas::{Address, Connection, HostBuffer, Node, Port, PortConfig, PostError, Region, Spec};
use serde::{Deserialize, Serialize};

use crate::GmpiError;

/// Frames of one sender that may be on their way.
const SLOTS: u64 = 16;
/// Bytes of a slot.
const SLOT: usize = 4096;
/// Words of the header behind the payload, the number last.
const HEADER: usize = 8;
/// Most bytes that a frame carries.
pub const PAYLOAD: usize = SLOT - HEADER * 8;
/// Messages in frames that may lie at a receiver before they are received, of each sender: 256 KiB.
pub const CREDITS: u64 = 64;
/// Longest put (spec 2.2).
const PUT_MAX: usize = 8 << 20;

/// What a frame says beside its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Which kind, the carrier's to number.
    pub kind: u32,
    /// Bytes of the payload.
    pub len: u32,
    /// What the kind takes.
    pub words: [u64; 5],
}

/// The number up to `sent` of which the other side has told the lower half.
fn up_to(sent: u64, told: u32) -> u64 {
    sent - u64::from((sent as u32).wrapping_sub(told))
}

/// How others reach an inbox.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Inbox {
    port: Address,
    nla: u64,
}

struct Peer {
    connection: Connection,
    nla: u64,
    /// Frames sent there, and those that it has said it took.
    sent: u64,
    /// Frames taken from there, and what it was told of that.
    taken: u64,
    told: u64,
    /// Messages in frames to there; those from there that were received, and what it was told of that.
    eager: u64,
    received: u64,
    received_told: u64,
    /// It waits to be told.
    urgent: bool,
    lost: bool,
    /// It left in order: all that it had to say is here.
    left: bool,
}

/// The frames of one process.
pub struct Net {
    // Regions go before their port.
    inbox: Region,
    outbox: Region,
    port: Port,
    rank: usize,
    peers: Vec<Peer>,
    next: usize,
    /// Where somebody asked for it.
    trace: Option<Trace>,
}

impl Net {
    /// An inbox for `size` processes; the second step is [`connect`](Self::connect).
    pub fn new(node: &Node, rank: usize, size: usize) -> Result<(Net, Inbox), GmpiError> {
        // Frames carry more than messages, which are counted here.
        let port = node.open_port(PortConfig { traced: false, ..PortConfig::default() })?;
        let bytes = size * (SLOTS as usize * SLOT + 8);
        let inbox = port.register(HostBuffer::zeroed(bytes)?)?;
        let outbox = port.register(HostBuffer::zeroed(bytes)?)?;
        let said = Inbox { port: port.address(), nla: inbox.nla(0)? };
        Ok((Net { inbox, outbox, port, rank, peers: Vec::new(), next: 0, trace: None }, said))
    }

    /// Where the others are, by rank.
    pub fn connect(&mut self, inboxes: &[Inbox]) {
        let peer = |inbox: &Inbox| Peer {
            connection: self.port.connect(inbox.port),
            nla: inbox.nla,
            sent: 0,
            taken: 0,
            told: 0,
            eager: 0,
            received: 0,
            received_told: 0,
            urgent: false,
            lost: false,
            left: false,
        };
        self.peers = inboxes.iter().map(peer).collect();
    }

    /// Counts what is sent from here on.
    pub fn trace(&mut self, trace: Trace) {
        self.trace = Some(trace);
    }

    /// Whether somebody asked for that.
    pub fn traces(&self) -> bool {
        self.trace.is_some()
    }

    /// Counts what kernels have sent: bytes and messages.
    pub fn add_sent(&mut self, to: usize, sent: [u64; 2]) {
        self.trace.iter_mut().for_each(|trace| trace.add(to, sent));
    }

    fn count(&mut self, to: usize, bytes: usize) {
        self.trace.iter_mut().filter(|_| bytes > 0).for_each(|trace| trace.add(to, [bytes as u64, 1]));
    }

    /// The port, to register memory at.
    pub fn port(&self) -> &Port {
        &self.port
    }

    fn slot(&self, of: usize, number: u64) -> usize {
        (of * SLOTS as usize + (number % SLOTS) as usize) * SLOT
    }

    fn credit(&self, of: usize) -> usize {
        self.peers.len() * SLOTS as usize * SLOT + of * 8
    }

    /// Frames that `to` has taken of ours: what was sent before them has arrived.
    pub fn taken_by(&self, to: usize) -> u64 {
        up_to(self.peers[to].sent, self.inbox.load_u64(self.credit(to)).unwrap_or_default() as u32)
    }

    /// Counts one more message in a frame, if there is a credit for it: false, there is none.
    pub fn takes_credit(&mut self, to: usize) -> bool {
        let sent = self.peers[to].eager;
        let received = match to == self.rank {
            true => self.peers[to].received,
            false => up_to(sent, (self.inbox.load_u64(self.credit(to)).unwrap_or_default() >> 32) as u32),
        };
        let has = sent - received < CREDITS;
        self.peers[to].eager += u64::from(has);
        has
    }

    /// A message that came in a frame was received.
    pub fn received(&mut self, from: usize) {
        self.peers[from].received += 1;
    }

    /// How many frames went to `to`.
    pub fn sent_to(&self, to: usize) -> u64 {
        self.peers[to].sent
    }

    /// Whether that process is known to be gone.
    pub fn is_lost(&self, rank: usize) -> bool {
        self.peers[rank].lost
    }

    /// The process is gone.
    pub fn lose(&mut self, rank: usize) {
        self.peers[rank].lost = true;
    }

    /// Whether it ended in order.
    pub fn has_left(&self, rank: usize) -> bool {
        self.peers[rank].left
    }

    /// Nothing can be written to the process any more.
    pub fn ended(&mut self, rank: usize, end: PeerEnd) {
        self.peers[rank].left = end == PeerEnd::Left;
        self.lose(rank);
    }

    /// Sends a frame; false: no room now, or the process is gone ([`is_lost`](Self::is_lost)).
    pub fn send(&mut self, to: usize, header: Header, payload: &[u8]) -> Result<bool, GmpiError> {
        let number = self.peers[to].sent;
        if self.peers[to].lost || number - self.taken_by(to) >= SLOTS {
            return Ok(false);
        }
        let padded = payload.len().next_multiple_of(8);
        let (slot, len) = (self.slot(to, number), padded + HEADER * 8);
        let begin = slot + SLOT - len;
        self.outbox.write(begin, payload)?;
        let lens = u64::from(header.kind) << 32 | payload.len() as u64;
        let [a, b, c, d, e] = header.words;
        for (i, word) in [lens, a, b, c, d, e, 0, number + 1].into_iter().enumerate() {
            self.outbox.store_u64(begin + padded + 8 * i, word)?;
        }
        let there = self.peers[to].nla + (self.slot(self.rank, number) + SLOT - len) as u64;
        let posted = self.peers[to].connection.try_put(&self.outbox, begin, len, there, Spec::NONE);
        let went = self.posted(to, posted)?;
        self.peers[to].sent += u64::from(went);
        if went {
            self.count(to, payload.len());
        }
        Ok(went)
    }

    /// Puts bytes of a region of this port into memory of another process, in front of frames that follow. As `send`, how many were put.
    pub fn put(
        &mut self,
        to: usize,
        from: &Region,
        offset: usize,
        len: usize,
        nla: u64,
    ) -> Result<usize, GmpiError> {
        let len = len.min(PUT_MAX);
        let posted = self.peers[to].connection.try_put(from, offset, len, nla, Spec::NONE);
        let put = if self.posted(to, posted)? { len } else { 0 };
        self.count(to, put);
        Ok(put)
    }

    fn posted(&mut self, to: usize, posted: Result<(), PostError>) -> Result<bool, GmpiError> {
        match posted {
            Ok(()) => Ok(true),
            Err(PostError::WouldBlock) => Ok(false),
            Err(PostError::PeerLost(peer)) => {
                self.ended(to, peer.end);
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The next frame of any process.
    pub fn poll(&mut self) -> Result<Option<(usize, Header, Vec<u8>)>, GmpiError> {
        for _ in 0..self.peers.len() {
            let from = self.next;
            self.next = (self.next + 1) % self.peers.len();
            if let Some((header, payload)) = self.poll_from(from)? {
                return Ok(Some((from, header, payload)));
            }
        }
        Ok(None)
    }

    fn poll_from(&mut self, from: usize) -> Result<Option<(Header, Vec<u8>)>, GmpiError> {
        let number = self.peers[from].taken;
        let end = self.slot(from, number) + SLOT;
        if self.inbox.load_u64(end - 8)? != number + 1 {
            return Ok(None);
        }
        let word = |i: usize| self.inbox.load_u64(end - HEADER * 8 + 8 * i);
        let lens = word(0)?;
        let len = (lens as u32).min(PAYLOAD as u32);
        let header = Header {
            kind: (lens >> 32) as u32,
            len,
            words: [word(1)?, word(2)?, word(3)?, word(4)?, word(5)?],
        };
        let mut payload = vec![0; len as usize];
        let padded = payload.len().next_multiple_of(8);
        self.inbox.read(end - HEADER * 8 - padded, &mut payload)?;
        self.peers[from].taken += 1;
        if self.peers[from].taken - self.peers[from].told >= SLOTS / 2 {
            self.tell(from)?;
        }
        Ok(Some((header, payload)))
    }

    /// Says how many frames were taken from `to`, now or once there is room: it waits for that.
    pub fn tell_soon(&mut self, to: usize) -> Result<(), GmpiError> {
        self.peers[to].urgent = true;
        self.tell(to)
    }

    /// Says how many frames were taken from `to` and how many messages received, where it does not know.
    fn tell(&mut self, to: usize) -> Result<(), GmpiError> {
        let Peer { taken, received, .. } = self.peers[to];
        let at = self.credit(self.rank);
        let knows = self.peers[to].told == taken && self.peers[to].received_told == received;
        if knows || self.peers[to].lost {
            self.peers[to].urgent = false;
            return Ok(());
        }
        let nla = self.peers[to].nla + at as u64;
        let both = u64::from(taken as u32) | u64::from(received as u32) << 32;
        let posted = self.peers[to].connection.try_immediate_put(both, 8, nla, Spec::NONE);
        if self.posted(to, posted)? {
            self.peers[to].told = taken;
            self.peers[to].received_told = received;
            self.peers[to].urgent = false;
        }
        Ok(())
    }

    /// Says what there was no room for before.
    pub fn tell_all(&mut self) -> Result<(), GmpiError> {
        (0..self.peers.len()).try_for_each(|to| {
            let Peer { taken, told, received, received_told, urgent, .. } = self.peers[to];
            if taken - told >= SLOTS / 2 || received - received_told >= CREDITS / 4 || urgent {
                self.tell(to)
            } else {
                Ok(())
            }
        })
    }
}
