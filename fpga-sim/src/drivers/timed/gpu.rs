//! GPUs: streams whose kernels begin, have their blocks on the places that there are, and end.
//!
//! What is in a stream runs one after the other; each operation is a number of blocks, and each block is a program. A
//! stream has the whole GPU: kernels of several streams do not take each other's places.

use std::collections::VecDeque;
use std::sync::Arc;

use super::flag::{Flag, Poll};
use super::flight::Errand;
use super::node::Put;
use super::state::{Later, State};
use super::trigger::Trigger;
use super::{Place, Ps, Timed};

/// What a block does.
pub(super) type Code = dyn Fn(Block<'_>) + Send + Sync;

/// A block that is to begin.
pub(super) struct Body {
    pub code: Arc<Code>,
    pub name: &'static str,
    pub node: u32,
    pub stream: u32,
    pub index: usize,
    pub blocks: usize,
}

/// A kernel.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// For messages.
    pub name: &'static str,
    /// Its blocks.
    pub blocks: usize,
}

impl Kernel {
    /// A kernel of so many blocks.
    pub fn new(name: &'static str, blocks: usize) -> Kernel {
        Kernel { name, blocks }
    }
}

/// Something in a stream.
struct Operation {
    kernel: Kernel,
    places: usize,
    launch: Ps,
    between: Ps,
    end: Ps,
    code: Arc<Code>,
    ended: Flag,
}

/// The operation that runs.
struct Running {
    operation: Operation,
    /// Blocks that have begun, and that have ended.
    begun: usize,
    ended: usize,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Operation>,
    /// Something was begun that has not ended.
    busy: bool,
    running: Option<Running>,
}

/// A node's GPU.
#[derive(Default)]
pub(super) struct Gpu {
    streams: Vec<Line>,
}

impl Gpu {
    fn stream(&mut self, number: u32) -> &mut Line {
        let number = number as usize;
        if self.streams.len() <= number {
            self.streams.resize_with(number + 1, Line::default);
        }
        &mut self.streams[number]
    }
}

impl State {
    fn line(&mut self, node: u32, stream: u32) -> &mut Line {
        self.gpus[node as usize].stream(stream)
    }

    fn submit(&mut self, node: u32, stream: u32, operation: Operation) {
        let line = self.line(node, stream);
        line.waiting.push_back(operation);
        self.begin_next(node, stream);
    }

    fn begin_next(&mut self, node: u32, stream: u32) {
        let line = self.line(node, stream);
        let Some(next) = line.waiting.front().filter(|_| !line.busy) else { return };
        let launch = next.launch;
        line.busy = true;
        self.schedule_later(self.now + launch, Later::Begin { node, stream });
    }

    /// What is first in a stream begins.
    pub(super) fn begin_stream(&mut self, node: u32, stream: u32) {
        let line = self.line(node, stream);
        let Some(operation) = line.waiting.pop_front() else { return };
        let (blocks, places, between, end) =
            (operation.kernel.blocks, operation.places, operation.between, operation.end);
        let begun = blocks.min(places);
        let running = line.running.insert(Running { operation, begun, ended: 0 });
        if blocks == 0 {
            return self.schedule_later(self.now + end, Later::End { node, stream });
        }
        let bodies: Vec<Body> = (0..begun).map(|index| running.body(node, stream, index)).collect();
        for (index, body) in bodies.into_iter().enumerate() {
            self.begin_task(self.now + between * index as u64, node, Some(Box::new(body)));
        }
    }

    /// A block has ended: the next one takes its place.
    pub(super) fn end_block(&mut self, node: u32, stream: u32) {
        let here = self.here();
        let Some(running) = &mut self.line(node, stream).running else { return };
        running.ended += 1;
        let (between, end) = (running.operation.between, running.operation.end);
        if running.begun < running.operation.kernel.blocks {
            let body = running.body(node, stream, running.begun);
            running.begun += 1;
            self.begin_task(here + between, node, Some(Box::new(body)));
        } else if running.ended == running.begun {
            self.schedule_later(here + end, Later::End { node, stream });
        }
    }

    /// What was first in a stream is over; gives the word that says so.
    pub(super) fn end_stream(&mut self, node: u32, stream: u32) -> Option<Flag> {
        let line = self.line(node, stream);
        let running = line.running.take();
        line.busy = false;
        self.begin_next(node, stream);
        running.map(|running| running.operation.ended)
    }
}

impl Running {
    fn body(&self, node: u32, stream: u32, index: usize) -> Body {
        let Operation { kernel, code, .. } = &self.operation;
        Body { code: code.clone(), name: kernel.name, node, stream, index, blocks: kernel.blocks }
    }
}

/// A stream of a node's GPU, as a thread of the host uses it: what is put into it runs one after the other.
#[derive(Clone, Copy)]
pub struct Stream<'t> {
    pub(super) timed: &'t Timed,
    pub(super) node: u32,
    pub(super) stream: u32,
}

impl Stream<'_> {
    /// Launches a kernel: `gpu.launch_call_ns` of the thread. `gpu.launch_ns` after it is first in the stream its blocks
    /// begin, one each `gpu.block_start_ns`, as many as there are places for; `gpu.end_ns` behind the last one it has
    /// ended, and the word that is returned counts up.
    pub fn launch(&self, kernel: Kernel, block: impl Fn(Block<'_>) + Send + Sync + 'static) -> Flag {
        let gpu = &self.timed.costs.gpu;
        self.timed.sleep(gpu.launch_call);
        self.submit(kernel, gpu.places.max(1), (gpu.launch, gpu.block_start, gpu.end), block)
    }

    /// Has the front end trigger a put, `gpu.ring_ns` after all that is in the stream before: posted ahead, rung at a
    /// kernel's end. The call itself costs `gpu.launch_call_ns`.
    pub fn trigger(&self, trigger: &Trigger) -> Flag {
        let trigger = trigger.clone();
        self.timed.sleep(self.timed.costs.gpu.launch_call);
        self.at_front("ring", self.timed.costs.gpu.ring, move |block| block.fire(&trigger))
    }

    /// Has the front end wait until a word in the GPU's memory is `least` or more, before what follows in the stream
    /// begins. The call itself costs `gpu.launch_call_ns`.
    pub fn wait_for(&self, flag: &Flag, least: u64) -> Flag {
        let flag = flag.clone();
        self.timed.sleep(self.timed.costs.gpu.launch_call);
        self.at_front("wait of a stream", Ps::ZERO, move |block| block.wait(&flag, least, Place::Gpu))
    }

    /// Polls, as [`Node::wait`](super::Node::wait), until all that is in the stream has ended.
    pub fn synchronize(&self) {
        let ended = self.at_front("end of a stream", Ps::ZERO, |_| ());
        let host = &self.timed.costs.host;
        self.timed.wait(&ended, 1, Poll { period: host.poll, look: host.look });
    }

    fn at_front(
        &self,
        name: &'static str,
        launch: Ps,
        code: impl Fn(Block<'_>) + Send + Sync + 'static,
    ) -> Flag {
        self.submit(Kernel::new(name, 1), 1, (launch, Ps::ZERO, Ps::ZERO), code)
    }

    fn submit(
        &self,
        kernel: Kernel,
        places: usize,
        (launch, between, end): (Ps, Ps, Ps),
        code: impl Fn(Block<'_>) + Send + Sync + 'static,
    ) -> Flag {
        self.timed.settle();
        let ended = self.timed.flag();
        let (code, word) = (Arc::new(code), ended.clone());
        let operation = Operation { kernel, places, launch, between, end, code, ended: word };
        self.timed.state().submit(self.node, self.stream, operation);
        ended
    }
}

/// A block of a kernel while it runs: a program.
#[derive(Clone, Copy)]
pub struct Block<'t> {
    pub(super) timed: &'t Timed,
    pub(super) node: u32,
    pub(super) index: usize,
    pub(super) blocks: usize,
}

impl Block<'_> {
    /// Its number in the kernel.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Blocks of the kernel.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// The node whose GPU it runs on.
    pub fn node(&self) -> usize {
        self.node as usize
    }

    /// The driver that runs it.
    pub fn timed(&self) -> &Timed {
        self.timed
    }

    /// Its time.
    pub fn now(&self) -> Ps {
        self.timed.now()
    }

    /// It is busy for so long.
    pub fn work(&self, time: Ps) {
        self.timed.sleep(time);
    }

    /// It computes `elements`, and reads and writes `bytes` of the GPU's memory, whichever takes longer
    /// (`gpu.block_elements_per_ns`, `gpu.block_memory_bytes_per_ns`).
    pub fn compute(&self, elements: u64, bytes: u64) {
        self.work(self.timed.costs.gpu.compute(elements, bytes));
    }

    /// A fence at system scope (`gpu.fence_ns`).
    pub fn fence(&self) {
        self.timed.charge(self.timed.costs.gpu.fence);
    }

    /// Triggers a put that the node's card holds, by one store: `gpu.store_ns`, then `bus.write_ns`, `card.trigger_ns`.
    pub fn trigger(&self, trigger: &Trigger) {
        self.timed.charge(self.timed.costs.gpu.store);
        self.fire(trigger);
    }

    fn fire(&self, trigger: &Trigger) {
        let costs = &self.timed.costs;
        self.timed.later(Ps(costs.bus_write + costs.trigger), Later::Fire(trigger.clone()));
    }

    /// Makes and posts a descriptor: `gpu.post_ns`, then `bus.write_ns` to the card, and on as [`Node::put`].
    ///
    /// # Panics
    /// As [`Node::put`].
    ///
    /// [`Node::put`]: super::Node::put
    pub fn put(&self, put: Put) {
        self.timed.post(self.timed.costs.gpu.post, self.node, Errand::Put, put);
    }

    /// As [`Block::put`], for a [get](super::Node::get).
    ///
    /// # Panics
    /// As [`Block::put`].
    pub fn get(&self, get: Put) {
        self.timed.post(self.timed.costs.gpu.post, self.node, Errand::Get, get);
    }

    /// Plain stores to a window of another node (GGAS): `gpu.store_ns`, then `gpu.block_store_bytes_per_ns` of the block;
    /// they pass the bus and the card's window unit, or neither where these cost nothing.
    ///
    /// # Panics
    /// As [`Block::put`].
    pub fn store(&self, put: Put) {
        self.timed.store(self.node, put);
    }

    /// Plain loads of a window of another node; the block waits for what comes.
    ///
    /// # Panics
    /// As [`Block::put`].
    pub fn load(&self, from: usize, bytes: u64) {
        let flag = self.timed.flag();
        let load = Put::new(from, bytes).from(Place::Gpu).into(Place::Gpu).arrived(&flag);
        self.timed.post(Ps::ZERO, self.node, Errand::Load, load);
        self.timed.wait(&flag, 1, Poll { period: Ps(1), look: Ps::ZERO });
    }

    /// Polls a word in the GPU's memory (each `gpu.poll_ns`) or in host memory (each `gpu.poll_host_ns`) until it is `least`
    /// or more; goes on at the end of the look that sees it.
    pub fn wait(&self, flag: &Flag, least: u64, place: Place) {
        let look = self.timed.costs.gpu.poll(place);
        self.timed.wait(flag, least, Poll { period: look, look });
    }
}

impl std::fmt::Debug for Block<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "block {} of {} on node {}", self.index, self.blocks, self.node)
    }
}

impl std::fmt::Debug for Stream<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stream {} of node {}", self.stream, self.node)
    }
}
