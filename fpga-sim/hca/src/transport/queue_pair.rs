//! A queue pair: its states, and what is in it (IBTA 10.3.1).

use std::collections::VecDeque;

use super::requester::Requester;
use super::responder::Responder;
use super::{Nanos, Reach};
use crate::regions::{Access, Domain};
use crate::wire::{Flow, Packet, psn};
use crate::work::{Completion, Kind, ReceiveWork, SendWork, Status};

/// States of a queue pair; `Sqd` and `SQE` do not exist here: the latter is not for reliable connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// New: nothing may be posted.
    Reset,
    /// Receives may be posted.
    Init,
    /// Ready to receive: requests of the peer are executed.
    ReadyToReceive,
    /// Ready to send, too.
    ReadyToSend,
    /// Failed: all work ends as flushed.
    Error,
}

/// Largest payload of a packet on a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub enum Mtu {
    /// 256 bytes.
    B256 = 256,
    /// 512 bytes.
    B512 = 512,
    /// 1024 bytes.
    #[default]
    B1024 = 1024,
    /// 2048 bytes.
    B2048 = 2048,
    /// 4096 bytes.
    B4096 = 4096,
}

impl Mtu {
    /// All of them.
    pub const ALL: [Mtu; 5] = [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096];

    /// Bytes.
    pub fn bytes(self) -> usize {
        usize::from(self as u16)
    }

    /// Bytes of the longest message.
    fn longest(self) -> u64 {
        MESSAGE_MAX.min(PACKETS_MAX * self as u64)
    }

    /// How many packets `len` bytes are: at least one.
    pub fn packets(self, len: u64) -> u32 {
        len.div_ceil(self as u64).max(1) as u32
    }
}

/// What a queue pair is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Protection domain: of its keys, and of the peer's requests.
    pub domain: Domain,
    /// What the peer may do at all, whatever its keys allow.
    pub access: Access,
    /// Most requests that are posted and not completed.
    pub send_depth: usize,
    /// Most receives that are posted and not used.
    pub receive_depth: usize,
    /// Whether the peer is told how many receives there are.
    pub credits: bool,
}

/// Whom a queue pair talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The way there.
    pub flow: Flow,
    /// Number of the peer's queue pair.
    pub peer: u32,
    /// Largest payload, the same on both sides.
    pub mtu: Mtu,
    /// First sequence number of the peer's requests.
    pub receive_psn: u32,
    /// Most reads and atomic operations of the peer at a time, 1 to 255.
    pub responses: u8,
    /// Code of how long the peer waits where no receive is posted, see [`RNR_NANOS`](crate::wire::RNR_NANOS).
    pub not_ready: u8,
}

/// How a queue pair sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reliability {
    /// First sequence number of requests.
    pub send_psn: u32,
    /// Time to wait for an answer is 4.096 µs · 2^`timeout`; 0: for ever. At most 31.
    pub timeout: u8,
    /// How often a request is repeated without an answer, 0 to 7.
    pub retries: u8,
    /// How often where the peer has no receive, 0 to 6; 7: for ever.
    pub not_ready_retries: u8,
    /// Most reads and atomic operations at a time, 1 to 255: at most what the peer has as `responses`.
    pub reads: u8,
    /// Most packets that wait for acknowledges.
    pub window: u32,
}

impl Default for Reliability {
    fn default() -> Reliability {
        Reliability { send_psn: 0, timeout: 14, retries: 7, not_ready_retries: 7, reads: 16, window: 128 }
    }
}

impl Reliability {
    /// How long an answer is waited for; `None`: for ever.
    pub(crate) fn patience(&self) -> Option<Nanos> {
        (self.timeout > 0).then(|| 4096 << self.timeout)
    }
}

/// Why a queue pair refuses a call.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QpError {
    /// The state does not allow it.
    #[error(
        "the queue pair is in state {0:?}: bring it through Init, ReadyToReceive and ReadyToSend in this order"
    )]
    State(State),
    /// A number is out of its range.
    #[error("{0} is out of range: see the field's documentation")]
    Attribute(&'static str),
    /// The queue has no place.
    #[error("the queue is full with {0} entries: poll for completions first")]
    Full(usize),
    /// A message longer than 2^31 bytes, or of more than 2^22 packets.
    #[error("a message of {0} bytes is too long: at most {1} with the connection's MTU")]
    Length(u64, u64),
}

ggas_errors::debug_as_display!(QpError);

/// Longest message (IBTA 9.7.6).
pub(crate) const MESSAGE_MAX: u64 = 1 << 31;

/// Most packets of a message. What is under way is less than the window and one message: less than half of all numbers, so that
/// before and behind can be told apart (IBTA 9.7.2).
const PACKETS_MAX: u64 = 1 << 22;

/// A queue pair of a reliable connection.
pub struct QueuePair {
    pub(super) number: u32,
    pub(super) state: State,
    pub(super) attributes: Attributes,
    pub(super) connection: Option<Connection>,
    pub(super) receives: VecDeque<ReceiveWork>,
    pub(super) requester: Requester,
    pub(super) responder: Responder,
}

impl QueuePair {
    /// A queue pair in [`State::Reset`].
    pub fn new(number: u32, attributes: Attributes) -> QueuePair {
        QueuePair {
            number,
            state: State::Reset,
            attributes,
            connection: None,
            receives: VecDeque::new(),
            requester: Requester::default(),
            responder: Responder::default(),
        }
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.state
    }

    /// What it was made with.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Whom it talks to.
    pub fn connection(&self) -> Option<&Connection> {
        self.connection.as_ref()
    }

    /// To [`State::Reset`], from any state: all is forgotten, without completions.
    pub fn reset(&mut self) {
        *self = QueuePair::new(self.number, self.attributes);
    }

    /// To [`State::Init`].
    ///
    /// # Errors
    /// [`QpError::State`].
    pub fn init(&mut self) -> Result<(), QpError> {
        self.step(&[State::Reset, State::Init], State::Init)
    }

    /// To [`State::ReadyToReceive`].
    ///
    /// # Errors
    /// [`QpError`].
    pub fn ready_to_receive(&mut self, connection: Connection) -> Result<(), QpError> {
        let range = |ok, name| if ok { Ok(()) } else { Err(QpError::Attribute(name)) };
        range(connection.peer <= psn::MASK, "peer")?;
        range(connection.receive_psn <= psn::MASK, "receive_psn")?;
        range(connection.responses > 0, "responses")?;
        range(connection.not_ready < 32, "not_ready")?;
        self.step(&[State::Init], State::ReadyToReceive)?;
        self.responder.start(&connection);
        self.connection = Some(connection);
        Ok(())
    }

    /// To [`State::ReadyToSend`].
    ///
    /// # Errors
    /// [`QpError`].
    pub fn ready_to_send(&mut self, reliability: Reliability) -> Result<(), QpError> {
        let range = |ok, name| if ok { Ok(()) } else { Err(QpError::Attribute(name)) };
        range(reliability.send_psn <= psn::MASK, "send_psn")?;
        range(reliability.timeout < 32, "timeout")?;
        range(reliability.retries < 8, "retries")?;
        range(reliability.not_ready_retries < 8, "not_ready_retries")?;
        range(reliability.reads > 0, "reads")?;
        range((1..1 << 22).contains(&reliability.window), "window")?;
        self.step(&[State::ReadyToReceive], State::ReadyToSend)?;
        self.requester.start(reliability);
        Ok(())
    }

    fn step(&mut self, from: &[State], to: State) -> Result<(), QpError> {
        if !from.contains(&self.state) {
            return Err(QpError::State(self.state));
        }
        self.state = to;
        Ok(())
    }

    /// Posts a request.
    ///
    /// # Errors
    /// [`QpError`]; nothing was posted then.
    pub(crate) fn post_send(&mut self, work: SendWork, reach: &mut Reach<'_>) -> Result<(), QpError> {
        match (self.state, &self.connection) {
            (State::Error, _) => reach.done.push(work.completion(self.number, Status::Flushed)),
            (State::ReadyToSend, Some(connection)) => {
                let (len, most) = (work.local.len(), connection.mtu.longest());
                if len > most {
                    return Err(QpError::Length(len, most));
                }
                self.requester.post(work, connection.mtu, self.attributes.send_depth)?;
            }
            (state, _) => return Err(QpError::State(state)),
        }
        Ok(())
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// [`QpError`]; nothing was posted then.
    pub(crate) fn post_receive(&mut self, work: ReceiveWork, reach: &mut Reach<'_>) -> Result<(), QpError> {
        match self.state {
            State::Reset => return Err(QpError::State(self.state)),
            State::Error => reach.done.push(self.received(&work, Kind::Receive, Status::Flushed)),
            _ if self.receives.len() >= self.attributes.receive_depth => {
                return Err(QpError::Full(self.attributes.receive_depth));
            }
            _ => self.receives.push_back(work),
        }
        Ok(())
    }

    /// How many receives are posted and not used.
    pub(crate) fn receives(&self) -> usize {
        self.receives.len()
    }

    /// A packet has come from `flow`.
    pub(crate) fn receive(&mut self, flow: &Flow, packet: &Packet, reach: &mut Reach<'_>, now: Nanos) {
        let Some(connection) = self.connection else { return };
        // What is not from the peer is nobody's (IBTA A17.9.2).
        if flow.source != connection.flow.destination || flow.destination != connection.flow.source {
            return;
        }
        // The keys' numbers must agree, and one of the two be a full member's (IBTA 10.9.3).
        if packet.bth.pkey & 0x7fff != 0x7fff {
            return;
        }
        let response = packet.bth.opcode.is_response();
        match self.state {
            State::ReadyToReceive | State::ReadyToSend if !response => self.request(packet, reach),
            State::ReadyToSend => self.response(packet, reach, now),
            _ => {}
        }
    }

    /// The next packet that this queue pair has to send, if any may go now: answers first.
    pub(crate) fn transmit(&mut self, reach: &mut Reach<'_>, now: Nanos) -> Option<Packet> {
        if let Some(answer) = self.answer(reach) {
            return Some(answer);
        }
        if self.state == State::ReadyToSend { self.next_request(reach, now) } else { None }
    }

    /// Whether [`transmit`](QueuePair::transmit) may have a packet. What it waits for comes by other calls.
    pub(crate) fn has_to_send(&self) -> bool {
        let requester = &self.requester;
        let unsent = self.state == State::ReadyToSend && requester.at < requester.queue.len();
        unsent || !self.responder.responses.is_empty()
    }

    /// When [`timer`](QueuePair::timer) has something to do next.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.requester.deadline()
    }

    /// Enters [`State::Error`]: what is posted ends as flushed.
    pub(crate) fn fail(&mut self, reach: &mut Reach<'_>) {
        self.state = State::Error;
        self.requester.flush(self.number, reach.done);
        if let Some(work) = self.responder.take_message() {
            reach.done.push(self.received(&work, Kind::Receive, Status::Flushed));
        }
        for work in std::mem::take(&mut self.receives) {
            reach.done.push(self.received(&work, Kind::Receive, Status::Flushed));
        }
    }

    /// As [`fail`](QueuePair::fail), by its owner: the peer gets no answer any more.
    pub(crate) fn stop(&mut self, reach: &mut Reach<'_>) {
        self.responder.forget_answers();
        self.fail(reach);
    }

    /// The completion of a receive that brought nothing.
    pub(super) fn received(&self, work: &ReceiveWork, kind: Kind, status: Status) -> Completion {
        Completion { id: work.id, qp: self.number, status, kind, len: 0, immediate: None, solicited: false }
    }
}
