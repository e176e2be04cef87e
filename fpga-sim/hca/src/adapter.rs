//! The adapter: queue pairs, completion queues and regions, and who of them has something to do.

mod objects;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use extoll_sim::memory::Memory;

use crate::cq::CompletionQueue;
use crate::numbers::ByNumber;
use crate::regions::Regions;
use crate::transport::{Nanos, QpError, QueuePair, Reach, State};
use crate::wire::{Flow, Packet, WireError, decode};
use crate::work::{Completion, ReceiveWork, SendWork};

/// Names a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CqId(pub u32);

/// What happened that no completion says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A queue pair has entered [`State::Error`] by itself.
    QueuePairFailed(u32),
    /// A completion queue was full: it gets nothing any more, and its queue pairs fail.
    Overrun(CqId),
}

/// Why the adapter refuses a call.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HcaError {
    /// No queue pair has the number.
    #[error("there is no queue pair {0:#x}")]
    QueuePair(u32),
    /// No completion queue has the name.
    #[error("there is no completion queue {0}")]
    CompletionQueue(u32),
    /// It is in use.
    #[error("completion queue {0} is used by queue pairs: destroy them first")]
    InUse(u32),
    /// All numbers are taken.
    #[error("the adapter has no free queue pair: destroy one")]
    Full,
    /// All addresses are taken.
    #[error(
        "the process has {0} adapters, which is all that there are addresses for: use one for several things"
    )]
    Adapters(usize),
    /// The queue pair refuses.
    #[error(transparent)]
    Qp(#[from] QpError),
}

ggas_errors::debug_as_display!(HcaError);

struct Slot {
    qp: QueuePair,
    send_cq: CqId,
    receive_cq: CqId,
    /// Whether it is in the list of those that may have something to send.
    listed: bool,
    /// When the adapter looks at its time next.
    timer: Option<Nanos>,
    failed: bool,
}

struct Place {
    queue: Box<dyn CompletionQueue>,
    /// It was full once.
    broken: bool,
}

/// The first queue pair's number; those below are management's.
const FIRST_QP: u32 = 0x11;

/// An adapter. It has no thread and no clock: whoever owns it gives it packets and the time.
pub struct Hca {
    memory: Arc<dyn Memory>,
    regions: Regions,
    domains: u32,
    slots: ByNumber<Slot>,
    next_qp: u32,
    queues: ByNumber<Place>,
    next_cq: u32,
    ready: VecDeque<u32>,
    timers: BinaryHeap<Reverse<(Nanos, u32)>>,
    done: Vec<Completion>,
    /// A payload that was sent.
    spare: Vec<u8>,
    events: VecDeque<Event>,
    /// Queue pairs in [`State::Error`].
    failed: Vec<u32>,
}

impl Hca {
    /// An adapter that reaches `memory`.
    pub fn new(memory: Arc<dyn Memory>) -> Hca {
        Hca {
            memory,
            regions: Regions::default(),
            domains: 0,
            slots: ByNumber::default(),
            next_qp: FIRST_QP,
            queues: ByNumber::default(),
            next_cq: 0,
            ready: VecDeque::new(),
            timers: BinaryHeap::new(),
            done: Vec::new(),
            spare: Vec::new(),
            events: VecDeque::new(),
            failed: Vec::new(),
        }
    }

    /// Posts a request.
    ///
    /// # Errors
    /// [`HcaError`]; nothing was posted then.
    pub fn post_send(&mut self, number: u32, work: SendWork) -> Result<(), HcaError> {
        Ok(self.with(number, |qp, reach| qp.post_send(work, reach))??)
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// [`HcaError`]; nothing was posted then.
    pub fn post_receive(&mut self, number: u32, work: ReceiveWork) -> Result<(), HcaError> {
        Ok(self.with(number, |qp, reach| qp.post_receive(work, reach))??)
    }

    /// How many receives of a queue pair are not used.
    pub fn receives(&self, number: u32) -> usize {
        self.slots.get(&number).map_or(0, |slot| slot.qp.receives())
    }

    /// Takes a completion out of a queue of the adapter's own.
    pub fn poll(&mut self, queue: CqId) -> Option<Completion> {
        self.queues.get_mut(&queue.0)?.queue.pop()
    }

    /// What happened that no completion says.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Queue pairs in [`State::Error`].
    pub(crate) fn failed(&self) -> &[u32] {
        &self.failed
    }

    /// A datagram has come, from its IP header on.
    ///
    /// # Errors
    /// [`WireError`]: it was thrown away.
    pub fn receive_datagram(&mut self, datagram: &[u8], now: Nanos) -> Result<(), WireError> {
        let (flow, packet) = decode(datagram)?;
        self.receive(&flow, &packet, now);
        Ok(())
    }

    /// A packet has come. What is for nobody is thrown away.
    pub fn receive(&mut self, flow: &Flow, packet: &Packet, now: Nanos) {
        let _ = self.with(packet.bth.destination, |qp, reach| qp.receive(flow, packet, reach, now));
    }

    /// The next packet to be sent and its way; `None`: nothing may be sent now.
    pub fn transmit(&mut self, now: Nanos) -> Option<(Flow, Packet)> {
        while let Some(number) = self.ready.pop_front() {
            let next = |slot: &mut Slot, reach: &mut Reach<'_>| {
                slot.listed = false;
                let flow = slot.qp.connection()?.flow;
                slot.qp.transmit(reach, now).map(|packet| (flow, packet))
            };
            if let Ok(Some(sent)) = self.with_slot(number, next) {
                return Some(sent);
            }
            // `with` has listed it for what may not go yet: whatever lets that go calls `with` again.
            if self.ready.back() == Some(&number) {
                self.ready.pop_back();
                if let Some(slot) = self.slots.get_mut(&number) {
                    slot.listed = false;
                }
            }
        }
        None
    }

    /// Whether [`transmit`](Hca::transmit) may have a packet.
    pub(crate) fn has_to_send(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes a packet back that was sent: the memory of its payload serves the next one.
    pub(crate) fn reuse(&mut self, packet: Packet) {
        if packet.payload.capacity() > self.spare.capacity() {
            self.spare = packet.payload;
        }
    }

    /// When [`timers`](Hca::timers) has something to do next.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    /// Time has come to `now`.
    pub fn timers(&mut self, now: Nanos) {
        while let Some(Reverse((at, number))) = self.timers.peek().copied()
            && at <= now
        {
            self.timers.pop();
            let Some(slot) = self.slots.get_mut(&number) else { continue };
            if slot.timer == Some(at) {
                slot.timer = None;
                let _ = self.with(number, |qp, reach| qp.timer(reach, now));
            }
        }
    }

    /// Has a queue pair do something, and sees to what follows: completions, times, packets.
    fn with<R>(
        &mut self,
        number: u32,
        act: impl FnOnce(&mut QueuePair, &mut Reach<'_>) -> R,
    ) -> Result<R, HcaError> {
        self.with_slot(number, |slot, reach| act(&mut slot.qp, reach))
    }

    #[inline]
    fn with_slot<R>(
        &mut self,
        number: u32,
        act: impl FnOnce(&mut Slot, &mut Reach<'_>) -> R,
    ) -> Result<R, HcaError> {
        let Hca { memory, regions, slots, ready, timers, done, spare, events, failed, .. } = self;
        let slot = slots.get_mut(&number).ok_or(HcaError::QueuePair(number))?;
        let domain = slot.qp.attributes().domain;
        let mut reach = Reach { memory: &**memory, regions, domain, done, spare };
        let result = act(slot, &mut reach);
        if !slot.listed && slot.qp.has_to_send() {
            slot.listed = true;
            ready.push_back(number);
        }
        if let Some(at) = slot.qp.deadline()
            && slot.timer.is_none_or(|timer| at < timer)
        {
            slot.timer = Some(at);
            timers.push(Reverse((at, number)));
        }
        if slot.qp.state() == State::Error && !slot.failed {
            slot.failed = true;
            failed.push(number);
            events.push_back(Event::QueuePairFailed(number));
        }
        if !self.done.is_empty() {
            self.deliver();
        }
        Ok(result)
    }

    /// Puts completions into their queues.
    fn deliver(&mut self) {
        let mut done = std::mem::take(&mut self.done);
        for completion in done.drain(..) {
            let Some(slot) = self.slots.get(&completion.qp) else { continue };
            let id = if completion.kind.is_receive() { slot.receive_cq } else { slot.send_cq };
            let Some(place) = self.queues.get_mut(&id.0) else { continue };
            if !place.broken && place.queue.push(&completion).is_err() {
                place.broken = true;
                self.overrun(id);
            }
        }
        if self.done.is_empty() {
            self.done = done;
        }
    }

    /// A completion queue is broken, and so are its queue pairs.
    fn overrun(&mut self, id: CqId) {
        self.events.push_back(Event::Overrun(id));
        let users = self.slots.iter().filter(|(_, slot)| slot.send_cq == id || slot.receive_cq == id);
        let users: Vec<u32> = users.map(|(number, _)| *number).collect();
        for number in users {
            let _ = self.with(number, |qp, reach| qp.stop(reach));
        }
    }
}
