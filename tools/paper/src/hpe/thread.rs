//! A thread of the host and its GPU: how it sends, receives and exchanges, by each way.

use std::cell::{Cell, RefCell};

use extoll_sim::timed::{Flag, Node, Ps};

use super::GPUS;
use super::machine::{Lane, Machine, Way, pieces};

/// A thread of a run.
pub(super) struct Thread<'m> {
    machine: &'m Machine,
    node: Node<'m>,
    me: usize,
    /// Pieces sent to and received from each GPU.
    sent: RefCell<[u64; GPUS]>,
    received: RefCell<[u64; GPUS]>,
    /// Waits for other threads' buffers and for locks.
    waited: Cell<Ps>,
}

impl<'m> Thread<'m> {
    pub fn new(machine: &'m Machine, me: usize) -> Thread<'m> {
        let counts = || RefCell::new([0; GPUS]);
        Thread {
            machine,
            node: machine.host(me),
            me,
            sent: counts(),
            received: counts(),
            waited: Cell::default(),
        }
    }

    pub fn waited(&self) -> Ps {
        self.waited.get()
    }

    pub fn now(&self) -> Ps {
        self.node.now()
    }

    fn buffer(&self) -> u64 {
        self.machine.numbers.get("buffer_bytes") as u64
    }

    fn pieces(&self, bytes: u64) -> u64 {
        match self.machine.way {
            Way::Double => bytes.div_ceil(self.buffer()),
            _ => 1,
        }
    }

    /// Waits for what another thread counts up.
    fn until(&self, flag: &Flag, least: u64) {
        if flag.value() < least {
            let began = self.node.now();
            self.node.wait(flag, least);
            self.waited.set(self.waited.get() + (self.node.now() - began));
        }
    }

    /// A call that returns once the copy of pinned memory has ended.
    fn copy(&self, lane: Lane, bytes: u64) {
        let host = &self.machine.system.host;
        self.node.work(Ps::ns(self.machine.system.gpu.copy_call_ns - host.post_ns));
        let done = self.machine.begin(self.me, lane, bytes);
        self.node.wait(&done, 1);
    }

    /// The same of pageable memory: the driver copies one piece between its buffer and the program's while the next is on the lanes.
    fn copy_pageable(&self, lane: Lane, bytes: u64) {
        let piece = self.machine.numbers.get("driver_bytes") as u64;
        let touched = self.machine.numbers.get("touched") as u64;
        self.node.work(Ps::ns(self.machine.system.gpu.copy_call_ns - self.machine.system.host.post_ns));
        let mut on_lanes: Option<(Flag, u64)> = None;
        for bytes in pieces(bytes, piece) {
            if lane == Lane::Up {
                self.node.compute(0, touched * bytes);
            }
            let begun = self.machine.begin(self.me, lane, bytes);
            if let Some((before, length)) = on_lanes.replace((begun, bytes)) {
                self.node.wait(&before, 1);
                if lane == Lane::Down {
                    self.node.compute(0, touched * length);
                }
            }
        }
        if let Some((last, length)) = on_lanes {
            self.node.wait(&last, 1);
            if lane == Lane::Down {
                self.node.compute(0, touched * length);
            }
        }
    }

    /// Gives data to another GPU's thread: copies them to the host, or only tells that they are there.
    pub fn send(&self, to: usize, bytes: u64) {
        let channel = self.machine.channel(self.me, to);
        let sent = self.sent.borrow()[to];
        match self.machine.way {
            Way::Naive | Way::Pinned => {
                self.until(&channel.free, sent);
                self.to_host(bytes);
                channel.full.add(1);
            }
            Way::Double => {
                for (piece, bytes) in (sent..).zip(pieces(bytes, self.buffer())) {
                    // Of two buffers the one before last has been taken.
                    self.until(&channel.free, (piece + 1).saturating_sub(2));
                    self.copy(Lane::Down, bytes);
                    channel.full.add(1);
                }
            }
            Way::Software | Way::OneQueue | Way::Peer => channel.full.add(1),
        }
        self.sent.borrow_mut()[to] += self.pieces(bytes);
    }

    fn to_host(&self, bytes: u64) {
        if self.machine.way == Way::Naive {
            self.copy_pageable(Lane::Down, bytes);
        } else {
            self.copy(Lane::Down, bytes);
        }
    }

    /// Takes data of another GPU.
    pub fn receive(&self, from: usize, bytes: u64) {
        let channel = self.machine.channel(from, self.me);
        let received = self.received.borrow()[from];
        match self.machine.way {
            Way::Naive => {
                self.until(&channel.full, received + 1);
                self.copy_pageable(Lane::Up, bytes);
                channel.free.add(1);
            }
            Way::Pinned | Way::Double => {
                let piece = if self.machine.way == Way::Pinned { bytes } else { self.buffer() };
                for (piece, bytes) in (received..).zip(pieces(bytes, piece)) {
                    self.until(&channel.full, piece + 1);
                    self.copy(Lane::Up, bytes);
                    channel.free.add(1);
                }
            }
            Way::Software | Way::OneQueue | Way::Peer => {
                // That the data are there is the program's matter, and none of its waits for exchange.
                self.node.wait(&channel.full, received + 1);
                self.pull(from, self.me, bytes);
                channel.free.add(1);
            }
        }
        self.received.borrow_mut()[from] += self.pieces(bytes);
    }

    /// Both directions with one partner.
    pub fn exchange(&self, with: usize, bytes: u64) {
        if self.machine.way == Way::Double {
            return self.exchange_pieces(with, bytes);
        }
        self.send(with, bytes);
        self.receive(with, bytes);
    }

    /// By hand: a piece goes down while the partner's last one goes up.
    fn exchange_pieces(&self, with: usize, bytes: u64) {
        let (out, into) = (self.machine.channel(self.me, with), self.machine.channel(with, self.me));
        let (sent, received) = (self.sent.borrow()[with], self.received.borrow()[with]);
        let all: Vec<u64> = pieces(bytes, self.buffer()).collect();
        for step in 0..=all.len() {
            let down = all.get(step).map(|bytes| {
                self.until(&out.free, (sent + step as u64 + 1).saturating_sub(2));
                self.machine.begin(self.me, Lane::Down, *bytes)
            });
            if let Some(bytes) = step.checked_sub(1).map(|before| all[before]) {
                self.until(&into.full, received + step as u64);
                let up = self.machine.begin(self.me, Lane::Up, bytes);
                self.node.wait(&up, 1);
                into.free.add(1);
            }
            if let Some(down) = down {
                self.node.wait(&down, 1);
                out.full.add(1);
            }
        }
        self.sent.borrow_mut()[with] += all.len() as u64;
        self.received.borrow_mut()[with] += all.len() as u64;
    }

    /// HPE's copy between two GPUs.
    pub fn pull(&self, from: usize, to: usize, bytes: u64) {
        if self.machine.way.between(from, to) == Way::Peer {
            let done = self.queue(from, Lane::To(to), bytes);
            return self.finish(from, &done);
        }
        let mut up: [Option<Flag>; 2] = [None, None];
        for (number, bytes) in pieces(bytes, self.buffer()).enumerate() {
            if let Some(before) = up[number % 2].take() {
                self.finish(to, &before);
            }
            let down = self.queue(from, Lane::Down, bytes);
            self.finish(from, &down);
            up[number % 2] = Some(self.queue(to, Lane::Up, bytes));
        }
        up.into_iter().flatten().for_each(|last| self.finish(to, &last));
    }

    fn locked(&self, gpu: usize, what: impl FnOnce()) {
        let waited = self.machine.contexts[gpu].with(self.node, what);
        self.waited.set(self.waited.get() + waited);
    }

    /// Locks a context, queues a copy, unlocks.
    pub fn queue(&self, gpu: usize, lane: Lane, bytes: u64) -> Flag {
        let mut begun = None;
        self.locked(gpu, || begun = Some(self.machine.begin(gpu, lane, bytes)));
        begun.unwrap_or_else(|| self.machine.channel(gpu, gpu).full.clone()) // unreachable: it has run
    }

    /// Locks, looks, unlocks, and waits until the next look.
    pub fn finish(&self, gpu: usize, done: &Flag) {
        loop {
            self.locked(gpu, || self.node.work(Ps::ns(self.machine.system.host.poll_ns)));
            if done.value() >= 1 {
                return;
            }
            self.node.work(self.machine.numbers.ns("wait_ns"));
        }
    }
}
