//! Our own messages: no MPI library is needed. Short ones travel in frames (`net`), longer ones by a put into the receiver's
//! memory once that has said where; collectives are rounds of messages (`schedule`).

mod calls;
mod collectives;
mod flow;
mod freed;
mod group;
mod host;
mod limits;
mod loss;
mod matching;
mod net;
mod receive;
mod reduce;
mod schedule;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ggas::members::Trace;
use ggas::{Job, Node, Region};
use ggas_clock::Clock;

use self::flow::{Flow, Item, Then};
use self::group::{Group, Running, Window};
use self::limits::Limits;
use self::matching::{Envelope, Matching, Message, Wanted};
pub use self::net::Inbox;
use self::net::{Header, Net, PAYLOAD};
use super::Token;
use crate::memory::{Landed, Span};
use crate::{Class, GmpiError, Status};

pub(crate) use self::reduce::allows;

/// Kinds of frames, with what their words say.
mod kind {
    /// A message: context, tag.
    pub const EAGER: u32 = 1;
    /// A message whose bytes wait: context, tag, bytes, the send's token.
    pub const ASK: u32 = 2;
    /// Where they may go: the send's token, address, bytes, the receive's token; whether they come in frames, as they will not lie together.
    pub const GRANT: u32 = 3;
    /// They are there: the receive's token.
    pub const SENT: u32 = 4;
    /// Asks for bytes of a window: address there, bytes, address here, token, region and offset there.
    pub const FETCH: u32 = 5;
    /// What was put or fetched before this is there: token.
    pub const PING: u32 = 6;
    pub const PONG: u32 = 7;
    /// Bytes that were granted, but not put: the receive's token, where they are in the message, bytes that come in all.
    pub const PIECE: u32 = 8;
    /// Nobody will receive what was asked for: the send's token.
    pub const REFUSE: u32 = 9;
}

/// What a message that was not expected brought.
#[derive(Clone, Debug)]
enum Body {
    Bytes(Vec<u8>),
    /// They wait at the sender, which may be this process.
    Asks {
        len: u64,
        send: Token,
    },
}

/// Where what is received goes, and whether short messages are kept instead.
#[derive(Clone, Debug)]
struct Target {
    span: Span,
    keeps: bool,
}

/// An operation under way.
#[derive(Debug)]
enum Pending {
    /// A send; its bytes where the receiver has to ask for them: these, or those at its place.
    Send {
        at: Span,
        bytes: Option<Vec<u8>>,
        status: Status,
        to: u32,
    },
    Receive {
        at: Target,
        comm: usize,
    },
    /// Bytes are coming: what is told once they are there.
    Arriving {
        at: Target,
        status: Status,
        from: u32,
    },
    /// Of a collective: whose receive it is.
    Part {
        of: Token,
    },
    Collective(Box<Running>),
    /// Of a collective: bytes on offer.
    Piece {
        of: Token,
        to: u32,
        bytes: Vec<u8>,
    },
    /// Who owes a pong.
    Flush {
        waits: Vec<u32>,
    },
    /// Bytes of a window that were asked for.
    Fetch {
        from: u32,
    },
}

/// An inbox that the other processes do not know yet.
pub struct Opening {
    net: Net,
    rank: usize,
    inbox: Inbox,
}

impl Opening {
    /// Of process `rank` of `size`, on its node.
    ///
    /// # Errors
    /// A node has no room for a port or its memory.
    pub fn new(node: &Node, rank: usize, size: usize) -> Result<Opening, GmpiError> {
        let (net, inbox) = Net::new(node, rank, size)?;
        Ok(Opening { net, rank, inbox })
    }

    /// What the others have to know.
    pub fn inbox(&self) -> Inbox {
        self.inbox
    }

    /// With the inboxes of all, by rank.
    pub fn connect(self, inboxes: &[Inbox]) -> Own {
        Own::with(self.net, self.rank, inboxes)
    }
}

/// Messages between nodes.
pub struct Own {
    // Regions go before the port of `net`.
    regions: Vec<Region>,
    net: Net,
    limits: Limits,
    flow: Flow,
    matching: Matching<Body>,
    rank: u32,
    groups: Vec<Option<Group>>,
    /// Those that were freed, and on which something is under way.
    leaving: Vec<usize>,
    windows: Vec<Option<Window>>,
    next_context: u64,
    next: Token,
    pending: HashMap<Token, Pending>,
    done: HashMap<Token, Result<Status, Class>>,
    /// What short receives brought.
    landed: HashMap<Token, Landed>,
    /// Under way, and nobody will ask for them.
    forgotten: HashSet<Token>,
    /// Collectives whose round may be over.
    stirred: Vec<Token>,
    /// Who is gone: told by others, and what was made of it.
    gone: Arc<Vec<AtomicBool>>,
    known: Vec<bool>,
    losses: usize,
    watch: Option<ggas::members::LossGuard>,
    /// What the last collective of the host has gathered.
    gathered: Option<(Token, Vec<u8>)>,
    /// The barrier at the end.
    closing: Option<Token>,
    timeout: Duration,
    clock: Clock,
    failed: bool,
}

impl Own {
    /// One for each of these nodes, which are all in this process: rank i is node i.
    ///
    /// # Errors
    /// A node has no room for a port or its memory.
    pub fn local(nodes: &[Node]) -> Result<Vec<Own>, GmpiError> {
        let made = nodes.iter().enumerate().map(|(rank, node)| Opening::new(node, rank, nodes.len()));
        let made = made.collect::<Result<Vec<_>, _>>()?;
        let inboxes: Vec<Inbox> = made.iter().map(Opening::inbox).collect();
        Ok(made.into_iter().map(|opening| opening.connect(&inboxes)).collect())
    }

    /// For this process of a job. Collective over the job, which `timeout` bounds, as all that waits for other processes later.
    ///
    /// # Errors
    /// As of [`local`](Self::local); processes that do not come.
    pub fn join(job: &Job, timeout: Duration) -> Result<Own, GmpiError> {
        let (rank, size) = (job.rank() as usize, job.size() as usize);
        let opening = Opening::new(job.node(), rank, size)?;
        let inboxes = job.exchange_values(&opening.inbox(), timeout)?;
        let own = opening.connect(&inboxes);
        let gone = own.gone.clone();
        let watch = job.on_loss(move |rank| {
            gone.get(rank as usize).inspect(|gone| gone.store(true, Ordering::Release));
        });
        Ok(Own { watch: Some(watch), timeout, ..own })
    }

    fn with(mut net: Net, rank: usize, inboxes: &[Inbox]) -> Own {
        net.connect(inboxes);
        Trace::asked(Some("GGAS_GMPI_TRACE"), rank, Some(inboxes.len()))
            .into_iter()
            .for_each(|trace| net.trace(trace));
        let (size, rank) = (inboxes.len(), rank as u32);
        let world =
            Group { context: 0, rank, members: (0..size as u32).collect(), collectives: 0, freed: None };
        let alone = Group { context: 2, rank: 0, members: vec![rank], collectives: 0, freed: None };
        Own {
            regions: Vec::new(),
            net,
            limits: Limits::new(size),
            flow: Flow::new(size),
            matching: Matching::default(),
            rank,
            groups: vec![Some(world), Some(alone)],
            leaving: Vec::new(),
            windows: Vec::new(),
            next_context: 4,
            next: 1,
            pending: HashMap::new(),
            done: HashMap::new(),
            landed: HashMap::new(),
            forgotten: HashSet::new(),
            stirred: Vec::new(),
            gone: Arc::new((0..size).map(|_| AtomicBool::new(false)).collect()),
            known: vec![false; size],
            losses: 0,
            watch: None,
            gathered: None,
            closing: None,
            timeout: Duration::from_secs(30),
            clock: Clock::real(),
            failed: false,
        }
    }

    /// How long calls of the host that wait for other processes may take.
    pub fn timeout(self, timeout: Duration) -> Own {
        Own { timeout, ..self }
    }

    /// Counts what is sent from here on, for `ggas map traced:PREFIX`: into `PREFIX.RANK.prof`, when this goes. `GGAS_TRACE=PREFIX` does
    /// the same.
    #[must_use]
    pub fn traced(mut self, prefix: &Path) -> Own {
        self.net.trace(Trace::new(prefix, self.rank as usize, Some(self.known.len())));
        self
    }

    fn token(&mut self) -> Token {
        self.next += 1;
        self.next
    }

    /// One that calls may be made on.
    fn group(&self, comm: usize) -> Result<&Group, Class> {
        self.group_of(comm).and_then(|group| if group.freed.is_none() { Ok(group) } else { Err(Class::COMM) })
    }

    /// One of something that is under way, which may have been freed since.
    fn group_of(&self, comm: usize) -> Result<&Group, Class> {
        self.groups.get(comm).and_then(Option::as_ref).ok_or(Class::COMM)
    }

    /// Rank of a member of a communicator in the world.
    fn world(&self, comm: usize, rank: u32) -> Result<u32, Class> {
        self.group_of(comm)?.members.get(rank as usize).copied().ok_or(Class::RANK)
    }

    fn end(&mut self, token: Token, how: Result<Status, Class>) {
        if !self.forgotten.remove(&token) {
            self.done.insert(token, how);
        }
    }

    fn frame(&mut self, to: u32, kind: u32, words: [u64; 5], payload: Vec<u8>, then: Then) {
        // What waits for it has failed already.
        if self.known[to as usize] {
            return;
        }
        let header = Header { kind, len: payload.len() as u32, words };
        self.flow.push(to as usize, Item::Frame { header, payload, then });
    }

    /// What came: for a receive, a send that waits, or nobody yet.
    fn handle(&mut self, from: usize, header: Header, payload: Vec<u8>) -> Result<(), GmpiError> {
        let [a, b, c, d, e] = header.words;
        match header.kind {
            kind::EAGER => {
                let envelope = Envelope { context: a, source: from as u32, tag: b as i32 };
                self.arrived(Message { envelope, body: Body::Bytes(payload) });
            }
            kind::ASK => {
                let envelope = Envelope { context: a, source: from as u32, tag: b as i32 };
                self.arrived(Message { envelope, body: Body::Asks { len: c, send: d } });
            }
            kind::GRANT => self.granted(from as u32, a, b, c, d, e != 0)?,
            kind::SENT => {
                if let Some(Pending::Arriving { status, .. }) = self.pending.remove(&a) {
                    self.end(a, status.error.map_or(Ok(status), Err));
                }
                // The sender waits to hear that its bytes were read.
                self.net.tell_soon(from)?;
            }
            kind::FETCH => self.fetched(from, a, b, c, d, e),
            kind::PING => self.frame(from as u32, kind::PONG, header.words, Vec::new(), Then::Nothing),
            kind::PONG => self.pong(from as u32, a),
            kind::PIECE => self.came(a, b, c, payload),
            kind::REFUSE => self.refused(from as u32, a),
            other => tracing::error!(from, kind = other, "a frame of another version was thrown away"),
        }
        Ok(())
    }

    fn pong(&mut self, from: u32, token: Token) {
        if let Some(Pending::Fetch { .. }) = self.pending.get(&token) {
            self.pending.remove(&token);
            self.limits.fetched(from);
            return self.end(token, Ok(Status::EMPTY));
        }
        let Some(Pending::Flush { waits }) = self.pending.get_mut(&token) else { return };
        waits.retain(|rank| *rank != from);
        if waits.is_empty() {
            self.pending.remove(&token);
            self.end(token, Ok(Status::EMPTY));
        }
    }

    /// Bytes of a window are wanted: only such as lie in one.
    fn fetched(&mut self, from: usize, win: u64, displacement: u64, bytes: u64, nla: u64, token: u64) {
        let window = self.windows.get(win as usize).and_then(Option::as_ref);
        let inside = window
            .filter(|window| displacement.checked_add(bytes).is_some_and(|end| end <= window.own.len as u64));
        if let Some(Window { own, .. }) = inside {
            let (region, offset) = (own.index, own.offset + displacement as usize);
            self.flow.push(from, Item::Put { region, offset, len: bytes as usize, nla });
        }
        self.frame(from as u32, kind::PONG, [token, 0, 0, 0, 0], Vec::new(), Then::Nothing);
    }

    /// What is sent is over.
    fn sent(&mut self, token: Token) {
        match self.pending.remove(&token) {
            Some(Pending::Send { status, .. }) => self.end(token, Ok(status)),
            Some(other) => {
                self.pending.insert(token, other);
            }
            None => {}
        }
    }

    fn wanted(&self, comm: usize, from: Option<u32>, tag: Option<i32>) -> Result<Wanted, Class> {
        let source = from.map(|rank| self.world(comm, rank)).transpose()?;
        Ok(Wanted { context: self.group(comm)?.context, source, tag })
    }

    /// One step of all that is under way.
    fn step(&mut self) -> Result<bool, GmpiError> {
        let mut moved = self.take_frames()?;
        self.advance();
        let mut over = Vec::new();
        moved |= self.flow.send(&mut self.net, &self.regions, &mut over)?;
        over.into_iter().for_each(|token| self.sent(token));
        self.bury();
        self.net.tell_all()?;
        self.lose()?;
        Ok(moved)
    }

    /// All frames that are here; whether there were any.
    fn take_frames(&mut self) -> Result<bool, GmpiError> {
        let mut any = false;
        while let Some((from, header, payload)) = self.net.poll()? {
            self.handle(from, header, payload)?;
            any = true;
        }
        Ok(any)
    }
}
