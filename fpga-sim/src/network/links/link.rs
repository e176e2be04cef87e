//! Link layer: one end of a cable as a state machine, without clocks, threads or wires.
//!
//! Data frames carry a sequence number and a CRC-32 over header and payload. The receiving end takes them in
//! order only, answers with cumulative acknowledgements, and asks for a repeat once per gap; the sending end
//! keeps every frame until it is acknowledged and goes back to the oldest one on a repeat request or when its
//! timer runs out (go-back-N). So as long as the cable lets a frame through now and then, each packet arrives
//! exactly once and in order, whatever else happens to frames. Credits, counted per virtual channel and returned with
//! the acknowledgements, keep a sender from overrunning the receiver's buffers; responses have their own credits
//! and go first, so that requests never block them.
//!
//! Use: [`LinkPort::push`] packets; after every call take frames with [`LinkPort::transmit`] until it returns
//! `None` and put them on the wire; hand frames from the wire to [`LinkPort::receive`]; collect packets with
//! [`LinkPort::take`]; call [`LinkPort::timeout`] when [`LinkPort::deadline`] has passed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Virtual channels: requests and responses.
pub const CHANNELS: usize = 2;
/// Channel of requests.
pub const REQUESTS: usize = 0;
/// Channel of responses.
pub const RESPONSES: usize = 1;

const DATA: u8 = 0;
const ACK: u8 = 1;
const REPEAT: u8 = 2;
const PROBE: u8 = 3;
/// Kind, channel, and one or three 32-bit numbers in front of the payload.
const DATA_HEADER: usize = 6;
const ACK_BYTES: usize = 2 + 4 + 4 * CHANNELS;
const CRC_BYTES: usize = 4;

/// What both ends of a link agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkConfig {
    /// Frames that may be unacknowledged.
    pub window: usize,
    /// Packets of each channel that the receiver has room for.
    pub credits: u32,
    /// First retransmission timeout; it doubles up to 64 times this while nothing is acknowledged.
    pub timeout: Duration,
}

impl Default for LinkConfig {
    fn default() -> Self {
        LinkConfig { window: 32, credits: 16, timeout: Duration::from_micros(300) }
    }
}

/// Counters of one end of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Data frames sent for the first time.
    pub sent: u64,
    /// Payload bytes in them.
    pub sent_bytes: u64,
    /// Data frames taken, in order.
    pub received: u64,
    /// Payload bytes in them.
    pub received_bytes: u64,
    /// Data frames sent again.
    pub retransmitted: u64,
    /// Times the retransmission timer ran out.
    pub timeouts: u64,
    /// Frames with a wrong checksum.
    pub crc_errors: u64,
    /// Intact data frames that came out of order, or twice.
    pub sequence_errors: u64,
}

/// Bytes on the wire, with the packet that the payload bytes stand for.
#[derive(Debug, Clone)]
pub struct Frame<P> {
    /// Header, payload and CRC-32 (little endian, last four bytes).
    pub bytes: Vec<u8>,
    packet: Option<P>,
}

/// Tells the frames of one link apart, so that seeded faults need not depend on time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameId {
    /// Data frames: sequence number; others: how many went before.
    pub number: u32,
    /// Data frames: 1 for the first transmission, and so on; others: 0.
    pub attempt: u32,
}

impl<P> Frame<P> {
    fn seal(mut bytes: Vec<u8>, packet: Option<P>) -> Self {
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        Frame { bytes, packet }
    }

    /// Whether the checksum matches.
    pub fn intact(&self) -> bool {
        self.bytes
            .split_last_chunk::<CRC_BYTES>()
            .is_some_and(|(body, crc)| crc32fast::hash(body) == u32::from_le_bytes(*crc))
    }

    fn number(&self, offset: usize) -> u32 {
        let bytes = self.bytes.get(offset..offset + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_le_bytes)
    }
}

struct Unacked<P> {
    packet: P,
    channel: usize,
    payload: Arc<[u8]>,
    attempts: u32,
}

/// What the receiving half owes the other end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    None,
    Ack,
    Repeat,
}

/// One end of a link: a sending half for packets to the other end and a receiving half for packets from it.
pub struct LinkPort<P> {
    config: LinkConfig,
    counters: LinkCounters,

    // Sending half.
    waiting: [VecDeque<(P, Arc<[u8]>)>; CHANNELS],
    unacked: VecDeque<Unacked<P>>,
    /// Sequence number of `unacked[0]`.
    base: u32,
    /// Next of `unacked` to transmit; all before it are on the wire.
    next: usize,
    /// Packets sent, and packets whose buffer the receiver has freed, both since the start, modulo 2³².
    sent: [u32; CHANNELS],
    freed: [u32; CHANNELS],
    deadline: Option<Instant>,
    backoff: u32,
    probe: bool,

    // Receiving half.
    held: VecDeque<(usize, P)>,
    expected: u32,
    given_back: [u32; CHANNELS],
    answer: Answer,
    /// A repeat was requested for this gap already.
    repeat_asked: bool,
    control_frames: u32,
}

impl<P: Clone> LinkPort<P> {
    /// An idle end. Both ends need the same configuration.
    pub fn new(config: LinkConfig) -> Self {
        LinkPort {
            config,
            counters: LinkCounters::default(),
            waiting: Default::default(),
            unacked: VecDeque::new(),
            base: 0,
            next: 0,
            sent: [0; CHANNELS],
            freed: [0; CHANNELS],
            deadline: None,
            backoff: 1,
            probe: false,
            held: VecDeque::new(),
            expected: 0,
            given_back: [0; CHANNELS],
            answer: Answer::None,
            repeat_asked: false,
            control_frames: 0,
        }
    }

    /// Queues a packet with the bytes that stand for it on the wire.
    pub fn push(&mut self, channel: usize, packet: P, payload: Arc<[u8]>) {
        self.waiting[channel].push_back((packet, payload));
    }

    /// Counters since the start; a reset keeps them.
    pub fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// Data frames that wait for their acknowledgement.
    pub fn unacknowledged(&self) -> usize {
        self.unacked.len()
    }

    /// Nothing to send, nothing unacknowledged, nothing held.
    pub fn is_idle(&self) -> bool {
        self.unacked.is_empty() && self.waiting.iter().all(VecDeque::is_empty) && self.held.is_empty()
    }

    /// Back to the start, as both ends of a link do when it is trained anew. What it held is forgotten.
    pub fn reset(&mut self) {
        let counters = self.counters;
        *self = LinkPort::new(self.config);
        self.counters = counters;
    }

    /// When [`LinkPort::timeout`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Goes back to the oldest unacknowledged frame if the timer has run out.
    pub fn timeout(&mut self, now: Instant) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        self.counters.timeouts += 1;
        self.backoff = (self.backoff * 2).min(64);
        self.deadline = None;
        self.next = 0;
        // Without frames to repeat it waits for credits: ask whether a message about them was lost.
        self.probe = self.unacked.is_empty();
    }

    /// Goes back at the next [`LinkPort::timeout`], without waiting for the timer: the cable works again.
    pub fn hurry(&mut self, now: Instant) {
        self.deadline = self.deadline.map(|_| now);
        self.backoff = 1;
    }

    /// The next frame for the wire.
    pub fn transmit(&mut self, now: Instant) -> Option<(Frame<P>, FrameId)> {
        let frame = self.control().or_else(|| self.data());
        let blocked = self.waiting.iter().any(|queue| !queue.is_empty());
        if self.unacked.is_empty() && !blocked {
            self.deadline = None;
        } else if self.deadline.is_none() {
            self.deadline = Some(now + self.config.timeout * self.backoff);
        }
        frame
    }

    /// Acknowledgements, repeat requests and probes.
    fn control(&mut self) -> Option<(Frame<P>, FrameId)> {
        let kind = match std::mem::replace(&mut self.answer, Answer::None) {
            Answer::Ack => ACK,
            Answer::Repeat => REPEAT,
            Answer::None if std::mem::take(&mut self.probe) => PROBE,
            Answer::None => return None,
        };
        let mut bytes = Vec::with_capacity(ACK_BYTES + CRC_BYTES);
        bytes.extend_from_slice(&[kind, 0]);
        bytes.extend_from_slice(&self.expected.to_le_bytes());
        self.given_back.iter().for_each(|count| bytes.extend_from_slice(&count.to_le_bytes()));
        self.control_frames = self.control_frames.wrapping_add(1);
        Some((Frame::seal(bytes, None), FrameId { number: self.control_frames, attempt: 0 }))
    }

    fn data(&mut self) -> Option<(Frame<P>, FrameId)> {
        if self.next == self.unacked.len() {
            self.start_next()?;
        }
        let number = self.base.wrapping_add(self.next as u32);
        let entry = &mut self.unacked[self.next];
        self.next += 1;
        entry.attempts += 1;
        if entry.attempts == 1 {
            self.counters.sent += 1;
            self.counters.sent_bytes += entry.payload.len() as u64;
        } else {
            self.counters.retransmitted += 1;
        }
        let mut bytes = Vec::with_capacity(DATA_HEADER + entry.payload.len() + CRC_BYTES);
        bytes.extend_from_slice(&[DATA, entry.channel as u8]);
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&entry.payload);
        let id = FrameId { number, attempt: entry.attempts };
        Some((Frame::seal(bytes, Some(entry.packet.clone())), id))
    }

    /// Moves the next waiting packet into the window, responses first; `None` if window or credits are used up.
    fn start_next(&mut self) -> Option<()> {
        let has_credit =
            |channel: usize| self.sent[channel].wrapping_sub(self.freed[channel]) < self.config.credits;
        let channel = [RESPONSES, REQUESTS]
            .into_iter()
            .find(|&channel| !self.waiting[channel].is_empty() && has_credit(channel))
            .filter(|_| self.unacked.len() < self.config.window)?;
        let (packet, payload) = self.waiting[channel].pop_front()?;
        self.sent[channel] = self.sent[channel].wrapping_add(1);
        self.unacked.push_back(Unacked { packet, channel, payload, attempts: 0 });
        Some(())
    }

    /// Takes a frame off the wire.
    pub fn receive(&mut self, frame: Frame<P>) {
        let valid = frame.intact() && frame.bytes.len() >= DATA_HEADER + CRC_BYTES;
        match (valid, frame.bytes.first()) {
            (true, Some(&DATA)) => self.receive_data(frame),
            (true, Some(&kind @ (ACK | REPEAT))) => self.receive_answer(&frame, kind == REPEAT),
            (true, Some(&PROBE)) => self.answer = Answer::Ack,
            _ => {
                self.counters.crc_errors += 1;
                self.ask_repeat();
            }
        }
    }

    fn receive_data(&mut self, frame: Frame<P>) {
        let channel = usize::from(frame.bytes[1]) % CHANNELS;
        let room = self.held.iter().filter(|held| held.0 == channel).count() < self.config.credits as usize;
        let number = frame.number(2);
        let (Some(packet), true) = (frame.packet, number == self.expected && room) else {
            self.counters.sequence_errors += 1;
            let seen_before = (number.wrapping_sub(self.expected) as i32) < 0;
            return if seen_before { self.answer = Answer::Ack } else { self.ask_repeat() };
        };
        self.counters.received += 1;
        self.counters.received_bytes += (frame.bytes.len() - DATA_HEADER - CRC_BYTES) as u64;
        self.expected = self.expected.wrapping_add(1);
        self.repeat_asked = false;
        self.answer = Answer::Ack;
        self.held.push_back((channel, packet));
    }

    fn ask_repeat(&mut self) {
        if !std::mem::replace(&mut self.repeat_asked, true) {
            self.answer = Answer::Repeat;
        }
    }

    fn receive_answer(&mut self, frame: &Frame<P>, repeat: bool) {
        let acked = frame.number(2).wrapping_sub(self.base) as usize;
        for channel in 0..CHANNELS {
            let freed = frame.number(6 + 4 * channel);
            // Answers may overtake each other: only news counts.
            if (freed.wrapping_sub(self.freed[channel]) as i32) > 0 {
                self.freed[channel] = freed;
            }
        }
        if acked > self.unacked.len() {
            return; // An old answer that was overtaken.
        }
        if acked > 0 {
            self.unacked.drain(..acked);
            self.base = self.base.wrapping_add(acked as u32);
            self.next = self.next.saturating_sub(acked);
            self.deadline = None;
            self.backoff = 1;
        }
        if repeat {
            self.next = 0;
        }
    }

    /// The next packet that arrived, in order within its channel, with its channel. Frees its buffer: the credit
    /// goes back with the next acknowledgement.
    pub fn take(&mut self, channel: usize) -> Option<P> {
        let index = self.held.iter().position(|held| held.0 == channel)?;
        let (_, packet) = self.held.remove(index)?;
        self.given_back[channel] = self.given_back[channel].wrapping_add(1);
        if self.answer == Answer::None {
            self.answer = Answer::Ack;
        }
        Some(packet)
    }
}
