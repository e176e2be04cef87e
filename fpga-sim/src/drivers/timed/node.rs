//! Nodes as the threads of their hosts use them, and what they ask of cards.

use super::flag::{Flag, Poll};
use super::flight::{Errand, Told};
use super::gpu::Stream;
use super::state::Later;
use super::trigger::Trigger;
use super::{Place, Ps, Timed};

/// A one-sided access: bytes of one node that come to another.
pub struct Put {
    pub(super) to: usize,
    pub(super) bytes: u64,
    pub(super) from: Place,
    pub(super) into: Place,
    pub(super) notify: bool,
    pub(super) told: Box<Told>,
}

impl Put {
    /// `bytes` to node `to`, from host memory to host memory; nobody is told. Of a [get](Node::get) `to` is the node that
    /// is read. 0 bytes: nothing but a notification.
    pub fn new(to: usize, bytes: u64) -> Put {
        let (from, into) = (Place::Host, Place::Host);
        Put { to, bytes, from, into, notify: false, told: Box::default() }
    }

    /// Whose memory is read.
    pub fn from(self, from: Place) -> Put {
        Put { from, ..self }
    }

    /// Whose memory is written.
    pub fn into(self, into: Place) -> Put {
        Put { into, ..self }
    }

    /// The card writes a notification behind the data (`card.notify_ns`).
    pub fn notified(self) -> Put {
        Put { notify: true, ..self }
    }

    /// The word counts up when the requester has told that the source may be used again.
    pub fn sent(mut self, flag: &Flag) -> Put {
        self.told.sent = Some(flag.clone());
        self
    }

    /// The word counts up when the data, and its notification if there is one, are visible.
    pub fn arrived(mut self, flag: &Flag) -> Put {
        self.told.arrived = Some(flag.clone());
        self
    }

    /// Triggers a put that the target's card holds, at the same moment.
    pub fn triggers(mut self, trigger: &Trigger) -> Put {
        self.told.trigger = Some(trigger.clone());
        self
    }

    /// Runs at the same moment, before any program sees the word: moves real values, for example. It must not wait.
    pub fn then(mut self, then: impl FnOnce() + Send + 'static) -> Put {
        self.told.then = Some(Box::new(then));
        self
    }
}

impl std::fmt::Debug for Put {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Put").field("to", &self.to).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// A node, as a thread of its host uses it. Calls that take time let other programs go on meanwhile, or are paid for when
/// the program waits next.
#[derive(Clone, Copy)]
pub struct Node<'t> {
    pub(super) timed: &'t Timed,
    pub(super) index: u32,
}

impl<'t> Node<'t> {
    /// Its number.
    pub fn index(&self) -> usize {
        self.index as usize
    }

    /// Time of the program that asks.
    pub fn now(&self) -> Ps {
        self.timed.now()
    }

    /// The thread is busy for so long.
    pub fn work(&self, time: Ps) {
        self.timed.sleep(time);
    }

    /// The thread computes `elements`, and reads and writes `bytes` of memory, whichever takes longer
    /// (`host.elements_per_ns`, `host.memory_bytes_per_ns`).
    pub fn compute(&self, elements: u64, bytes: u64) {
        self.work(self.timed.costs.host.compute(elements, bytes));
    }

    /// Posts a put: `host.post_ns` of the thread, then the descriptor's way to the card (`bus.write_ns`). It waits while the
    /// card's queue is full.
    ///
    /// # Panics
    /// Where there is no node [`to`](Put::new).
    pub fn put(&self, put: Put) {
        self.post(Errand::Put, put);
    }

    /// Posts a get of `bytes` of node [`to`](Put::new), which come to this node; [`Put::arrived`] is here.
    ///
    /// # Panics
    /// As [`Node::put`].
    pub fn get(&self, get: Put) {
        self.post(Errand::Get, get);
    }

    fn post(&self, errand: Errand, put: Put) {
        self.timed.post(self.timed.costs.host.post, self.index, errand, put);
    }

    /// Hands the card a put that it holds until it was triggered `threshold` times; `host.post_ns`, then the descriptor's
    /// way to the card (`bus.write_ns`). Triggers that are there before count too (section 3.2 of GPU-TN), and the put
    /// begins once the card has both.
    ///
    /// # Panics
    /// As [`Node::put`].
    pub fn prepare(&self, put: Put, threshold: u64) -> Trigger {
        self.timed.check(&put);
        let trigger = Trigger::new(self.index, put, threshold);
        self.timed.charge(self.timed.costs.host.post);
        self.timed.later(Ps(self.timed.costs.bus_write), Later::Hold(trigger.clone()));
        trigger
    }

    /// Triggers as a store of the host does: `host.post_ns`, `bus.write_ns`, `card.trigger_ns`.
    pub fn trigger(&self, trigger: &Trigger) {
        let timed = self.timed;
        timed.charge(timed.costs.host.post);
        timed.later(Ps(timed.costs.bus_write + timed.costs.trigger), Later::Fire(trigger.clone()));
    }

    /// Polls host memory, each `host.poll_ns`, until the word is `least` or more; then `host.look_ns`.
    pub fn wait(&self, flag: &Flag, least: u64) {
        let poll = Poll { period: self.timed.costs.host.poll, look: self.timed.costs.host.look };
        self.timed.wait(flag, least, poll);
    }

    /// A copy between the memory of host and GPU by a call of the thread, which waits for its end
    /// (`gpu.copy_call_ns`, `gpu.copy_bytes_per_ns`).
    pub fn copy(&self, bytes: u64) {
        self.work(self.timed.costs.gpu.copy(bytes));
    }

    /// A stream of the node's GPU; each has a number and is there from the beginning.
    pub fn stream(&self, number: usize) -> Stream<'t> {
        Stream { timed: self.timed, node: self.index, stream: number as u32 }
    }
}

impl std::fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Node").field(&self.index).finish()
    }
}
