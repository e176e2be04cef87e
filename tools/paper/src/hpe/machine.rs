//! The machine: memories and lanes, contexts and what threads tell each other.

use std::sync::Arc;

use extoll_sim::timed::{Flag, Kernel, Node, Place, Ps, Put, System, Timed};

use super::GPUS;
use crate::PaperError;
use crate::memory::Memory;
use crate::parameters::{Numbers, of_text};
use crate::report::Parameter;

const TEXT: &str = include_str!("software.toml");
/// The stream of copies that are made one after the other; kernels have stream 0.
const COPIES: usize = 1;

pub(super) fn parameters() -> Vec<Parameter> {
    of_text(TEXT)
}

/// How a copy between two GPUs is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// CUDA 3, whole and through pageable memory: by the thread of either GPU (Listing 1).
    Naive,
    /// The same through pinned memory.
    Pinned,
    /// The same through two pinned buffers, written by hand.
    Double,
    /// HPE's runtime without peer-DMA: any thread, two pinned buffers, contexts locked for calls only (4.1).
    Software,
    /// The same where a context makes one copy at a time.
    OneQueue,
    /// HPE with peer-DMA on a bus, and `Software` between buses.
    Peer,
}

impl Way {
    pub const ALL: [Way; 6] = [Way::Naive, Way::Pinned, Way::Double, Way::Software, Way::OneQueue, Way::Peer];

    pub fn name(self) -> &'static str {
        match self {
            Way::Naive => "naive",
            Way::Pinned => "pinned",
            Way::Double => "double-buffered",
            Way::Software => "HPE software",
            Way::OneQueue => "HPE software, one copy a context",
            Way::Peer => "HPE peer-DMA",
        }
    }

    /// As copies between these GPUs are made.
    pub fn between(self, from: usize, to: usize) -> Way {
        if self == Way::Peer && from / 2 != to / 2 { Way::Software } else { self }
    }
}

/// Where a GPU's data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// To the host.
    Down,
    /// From the host.
    Up,
    /// To another GPU of the bus.
    To(usize),
}

/// A lock of which threads get hold in the order of asking.
#[derive(Clone)]
pub(super) struct Lock {
    asked: Memory<u64>,
    served: Flag,
    /// How long it was held.
    held: Memory<Ps>,
}

impl Lock {
    fn new(timed: &Timed) -> Lock {
        Lock { asked: Memory::default(), served: timed.flag(), held: Memory::default() }
    }

    /// Does something with it; gives what was waited for it.
    pub fn with(&self, node: Node<'_>, what: impl FnOnce()) -> Ps {
        let ticket = std::mem::replace(&mut *self.asked.lock(), 0);
        *self.asked.lock() = ticket + 1;
        let asked = node.now();
        if self.served.value() < ticket {
            node.wait(&self.served, ticket);
        }
        let began = node.now();
        what();
        // What was done is paid for before anybody else has the lock.
        node.work(Ps::ZERO);
        *self.held.lock() += node.now() - began;
        self.served.add(1);
        began - asked
    }

    pub fn held(&self) -> Ps {
        *self.held.lock()
    }
}

/// Data on their way from a thread to another: how many pieces are there, and how many were taken.
#[derive(Clone)]
pub(super) struct Channel {
    pub full: Flag,
    pub free: Flag,
}

#[derive(Clone)]
pub(super) struct Machine {
    pub way: Way,
    pub numbers: Numbers,
    pub system: System,
    pub contexts: Vec<Lock>,
    channels: Vec<Channel>,
    timed: Arc<Timed>,
}

impl Machine {
    pub fn new(system: &System, way: Way, seed: u64) -> Result<Machine, PaperError> {
        let timed = Timed::new(system, 2 * GPUS, seed)?;
        let contexts = (0..GPUS).map(|_| Lock::new(&timed)).collect();
        let channel = |_| Channel { full: timed.flag(), free: timed.flag() };
        let channels = (0..GPUS * GPUS).map(channel).collect();
        Ok(Machine { way, numbers: Numbers::of(TEXT), system: system.clone(), contexts, channels, timed })
    }

    pub fn channel(&self, from: usize, to: usize) -> &Channel {
        &self.channels[from * GPUS + to]
    }

    /// A GPU.
    pub fn gpu(&self, gpu: usize) -> Node<'_> {
        self.timed.node(gpu)
    }

    /// The host, as the thread of this GPU.
    pub fn host(&self, gpu: usize) -> Node<'_> {
        self.timed.node(GPUS + gpu)
    }

    /// A thread for each of the first GPUs.
    pub fn run(&self, threads: usize, program: impl Fn(usize)) {
        let program = &program;
        let programs = (0..threads).map(|me| (GPUS + me, format!("thread {me}"), move || program(me)));
        self.timed.run(programs);
    }

    /// Several threads that use GPU 0.
    pub fn run_on_one(&self, threads: usize, program: impl Fn(usize)) {
        let program = &program;
        let programs = (0..threads).map(|me| (GPUS, format!("thread {me}"), move || program(me)));
        self.timed.run(programs);
    }

    /// Begins a copy of pinned memory, or between GPUs, by a call that does not wait; what is returned counts up at its end.
    pub fn begin(&self, gpu: usize, lane: Lane, bytes: u64) -> Flag {
        if self.way == Way::OneQueue {
            return self.enqueue(gpu, lane, bytes);
        }
        let done = self.timed.flag();
        let put = |to| Put::new(to, bytes).arrived(&done);
        match lane {
            Lane::Down => self.gpu(gpu).put(put(GPUS + gpu).from(Place::Gpu)),
            Lane::Up => self.host(gpu).put(put(gpu).into(Place::Gpu)),
            Lane::To(to) => self.gpu(gpu).put(put(to).from(Place::Gpu).into(Place::Gpu)),
        }
        done
    }

    /// The same in the one stream that a GPU's context has for copies.
    fn enqueue(&self, gpu: usize, lane: Lane, bytes: u64) -> Flag {
        self.gpu(gpu).stream(COPIES).launch(Kernel::new("copy", 1), move |block| {
            let done = block.timed().flag();
            match lane {
                Lane::Up => block.get(Put::new(GPUS + gpu, bytes).into(Place::Gpu).arrived(&done)),
                Lane::Down => block.put(Put::new(GPUS + gpu, bytes).from(Place::Gpu).arrived(&done)),
                Lane::To(to) => {
                    block.put(Put::new(to, bytes).from(Place::Gpu).into(Place::Gpu).arrived(&done))
                }
            }
            block.wait(&done, 1, Place::Gpu);
        })
    }
}

/// Bytes of the pieces of so many bytes.
pub(super) fn pieces(bytes: u64, piece: u64) -> impl Iterator<Item = u64> {
    (0..bytes).step_by(piece.max(1) as usize).map(move |at| piece.min(bytes - at))
}
