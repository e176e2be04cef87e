//! Messages between the members of a network, and what each of them must get (spec 7).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use extoll_abi::regs::{EXTOLL_RF_VELO_COUNT, EXTOLL_RF_VELO_DROPS};
use ggas::velo::{MailboxSlots, Message, MessageMatch, SendError, VELO_MAX_BYTES, VeloConfig, VeloPort};
use ggas::{Address, Node};

use super::member::Member;
use super::program::{Dead, Program};

/// Shape of the mailboxes of a network.
#[derive(Clone, Copy, Debug)]
pub struct Mailboxes {
    /// Bytes of each; one slot stays free.
    pub bytes: usize,
    /// Size of their slots.
    pub slots: MailboxSlots,
    /// Traffic class of the messages.
    pub class: u8,
}

impl Mailboxes {
    /// Drawn from a generator of their own: networks of seeds without messages are what they were before there were any.
    pub fn of(seed: u64, floods: bool) -> Option<Mailboxes> {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x7e10);
        let slots = if random.bool() { MailboxSlots::B64 } else { MailboxSlots::B128 };
        let bytes = if floods { 4096 } else { 4096 << random.u32(0..=2) };
        let class = random.u8(..4);
        random.bool().then_some(Mailboxes { bytes, slots, class })
    }
}

/// A message that was accepted and has not come.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sent {
    tag: u8,
    mtt: u8,
    bytes: Vec<u8>,
}

/// What must come from one other node, in its order.
#[derive(Default)]
struct Stream {
    sent: VecDeque<Sent>,
    /// Some may never come, and nobody counts them: a node has died.
    uncertain: bool,
}

impl Stream {
    /// Takes out what came, asked for as `wanted`; how many before it never will, which is 0 unless `gaps`.
    fn take(&mut self, came: &Message, wanted: impl Fn(&Sent) -> bool, gaps: bool) -> usize {
        let looked_at = if gaps || self.uncertain { usize::MAX } else { 1 };
        let is = |sent: &Sent| {
            (sent.tag, sent.mtt, &sent.bytes[..]) == (came.tag(), came.mtt(), came.bytes())
                && !came.is_damaged()
        };
        let mut asked_for = (0..self.sent.len()).filter(|&at| wanted(&self.sent[at])).take(looked_at);
        let Some(last) = asked_for.find(|&at| is(&self.sent[at])) else {
            let first = self.sent.iter().find(|sent| wanted(sent));
            panic!("came: {came:?}; was to come: {first:?} of {}", self.sent.len());
        };
        let (mut at, before) = (0, self.sent.len());
        self.sent.retain(|sent| {
            at += 1;
            at > last + 1 || !wanted(sent)
        });
        if self.uncertain { 0 } else { before - self.sent.len() - 1 }
    }
}

/// A member's port for messages, and what must come there.
pub struct Mail {
    pub port: VeloPort,
    streams: RefCell<Vec<Stream>>,
    /// Messages that the port accepted, and that came.
    counts: Cell<(u64, u64)>,
    /// Messages that were seen never to come.
    gaps: Cell<usize>,
}

impl Mail {
    pub fn open(node: &Node, shape: Mailboxes, nodes: usize) -> Mail {
        let Mailboxes { bytes, slots, class } = shape;
        let config =
            VeloConfig { mailbox_bytes: bytes, segment_bytes: 4096, slots, class, ..VeloConfig::default() };
        Mail {
            port: VeloPort::open(node.device(), config).expect("a port for messages"),
            streams: RefCell::new((0..nodes).map(|_| Stream::default()).collect()),
            counts: Cell::default(),
            gaps: Cell::new(0),
        }
    }

    /// Nobody knows any more what comes from this node.
    pub fn doubt(&self, node: usize) {
        self.streams.borrow_mut()[node].uncertain = true;
    }

    /// Nothing more comes from the last start of this node.
    pub fn forget(&self, node: usize) {
        self.streams.borrow_mut()[node] = Stream::default();
    }

    /// Messages of one node that have not come.
    pub fn missing_of(&self, node: usize) -> usize {
        self.streams.borrow()[node].sent.len()
    }

    /// Messages that have not come, without those of which nobody knows, and those seen never to come.
    pub fn owed(&self) -> usize {
        let streams = self.streams.borrow();
        let certain = streams.iter().filter(|stream| !stream.uncertain);
        certain.map(|stream| stream.sent.len()).sum::<usize>() + self.gaps.get()
    }

    /// Messages that the card dropped and counted.
    pub fn dropped(&self) -> usize {
        self.port.dropped().expect("a register") as usize
    }

    fn take(&self, message: &Message, wanted: impl Fn(&Sent) -> bool, drops: bool) {
        let stream = &mut self.streams.borrow_mut()[usize::from(message.source().node)];
        self.gaps.set(self.gaps.get() + stream.take(message, wanted, drops));
        let (sent, came) = self.counts.get();
        self.counts.set((sent, came + 1));
    }

    /// Reads all messages that are there.
    pub fn drain(&self, drops: bool) {
        while let Some(message) = self.port.poll() {
            self.take(&message, |_| true, drops);
        }
    }

    /// Reads one message with this tag, from `source` if that is said, past others that stay.
    pub fn pick(&self, tag: u8, source: Option<Address>, drops: bool) {
        let any = MessageMatch::any().tag(tag);
        let wanted = source.map_or(any, |source| any.from(source));
        if let Some(message) = self.port.poll_match(&wanted) {
            assert!(source.is_none_or(|source| source == message.source()), "{message:?} for {wanted}");
            self.take(&message, |sent| sent.tag == tag, drops);
        }
    }

    /// The card counted what this port sent and got, and refused nothing.
    pub fn verify(&self, node: &Node) {
        let halves = |offset| {
            let value = node.read_register(offset).expect("a register");
            (value >> 32, value & 0xffff_ffff)
        };
        assert_eq!(self.port.outstanding(), 0, "node {}: messages that the card did not take", node.id());
        assert_eq!(halves(EXTOLL_RF_VELO_COUNT), self.counts.get(), "node {}: sent and received", node.id());
        assert_eq!(halves(EXTOLL_RF_VELO_DROPS), (0, 0), "node {}: refused messages", node.id());
    }
}

impl Program<'_> {
    /// A message of any size to `other`, which has met this node. Few tags: they are there to be picked.
    pub fn message(&mut self, other: &Member) -> Result<(), Dead> {
        let mut bytes = vec![0; self.random.usize(..=VELO_MAX_BYTES)];
        self.random.fill(&mut bytes);
        let sent = Sent { tag: self.random.u8(..4) * 85, mtt: self.random.u8(..4), bytes };
        self.world.count_message();
        self.send(other, sent)
    }

    /// Behind it all messages of this member have left its card, once it has come back.
    pub fn message_to_itself(&mut self) -> Result<(), Dead> {
        let me = self.me.clone();
        self.send(&me, Sent { tag: 0, mtt: 0, bytes: Vec::new() })
    }

    /// Sends, and reads what came while there is no room.
    fn send(&mut self, other: &Member, sent: Sent) -> Result<(), Dead> {
        let (world, me) = (self.world, self.me.clone());
        let (Some(mine), Some(theirs)) = (&me.mail, &other.mail) else { return Ok(()) };
        let connection = mine.port.connect(theirs.port.address());
        world.until(
            || format!("room to send at node {}", me.node),
            || {
                if me.over.get() {
                    return Some(Err(Dead));
                }
                match connection.try_send_typed(&sent.bytes, sent.tag, sent.mtt) {
                    Ok(()) => Some(Ok(())),
                    Err(SendError::WouldBlock) => {
                        self.drain();
                        None
                    }
                    Err(error) => panic!("node {} cannot send: {error}", me.node),
                }
            },
        )?;
        theirs.streams.borrow_mut()[me.node].sent.push_back(sent);
        let (sent, came) = mine.counts.get();
        mine.counts.set((sent + 1, came));
        Ok(())
    }

    /// Reads one message out of its turn.
    pub fn pick_message(&mut self) {
        let me = self.me.clone();
        let Some(mail) = &me.mail else { return };
        let tag = self.random.u8(..4) * 85;
        let source = if self.random.bool() { self.peer() } else { None };
        let source = source.and_then(|other| Some(other.mail.as_ref()?.port.address()));
        mail.pick(tag, source, self.world.plan.drops);
    }
}
