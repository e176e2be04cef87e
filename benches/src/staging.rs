//! Memory of kernels that hosts send to another node's: by one copy, or through memory of the hosts (thesis 3.4.1).

use std::sync::Arc;

use ggas::{HostBuffer, Spec};
use ggas_kernels::{KernelMem, Launch, Mapped, Processor, Stream};
use ggas_window::Window;

use crate::args::bench_host_sync;
use crate::ends::{HostEnd, host_ends_with};
use crate::error::Doing;
use crate::hosts::until;
use crate::kernel;
use crate::payload::{Layout, Payload, RoundData};
use crate::setup::Setup;
use crate::space::window;
use crate::{BenchError, Check, Options, Via};

const COPYING: &str = "posting a copy";

/// What both nodes have, all of it in this process: kernel memory that is sent and where it arrives, and memory of the hosts.
pub(crate) struct Memories<'a> {
    setup: &'a Setup<'a>,
    window: Arc<Window>,
    source: [KernelMem; 2],
    data: RoundData,
    pub hosts: Vec<HostEnd>,
    pub layout: Layout,
}

impl<'a> Memories<'a> {
    /// For payloads of `bytes` of stream 0; memory of the hosts is laid out for another stream, `hosts`.
    pub fn new(setup: &'a Setup<'a>, bytes: u64, hosts: u64) -> Result<Memories<'a>, BenchError> {
        let layout = Layout::new(bytes);
        let seed = setup.options.seed;
        let data = RoundData::new(seed, 0, layout.bytes);
        let window = window(setup, layout.bytes)?;
        window.write(1, 0, data.poison()).doing("writing the window")?;
        let filled = |round: u64| -> Result<KernelMem, BenchError> {
            let memory = setup.processor(0).alloc(layout.bytes).doing("allocating kernel memory")?;
            memory.write(0, &data.of(round)).doing("writing kernel memory")?;
            Ok(memory)
        };
        let source = [filled(0)?, filled(1)?];
        let hosts =
            host_ends_with(setup, layout, &RoundData::new(seed, hosts, layout.bytes), |node, port| {
                Payload::host(port, layout.len())?.for_kernels(setup.processor(node))
            })?;
        Ok(Memories { setup, window, source, data, hosts, layout })
    }

    pub fn options(&self) -> &Options {
        self.setup.options
    }

    /// Kernel memory of node 0 with what round `round` sends.
    pub fn source(&self, round: u64) -> u64 {
        self.source[(round % 2) as usize].address()
    }

    /// Kernel memory of node 1 where it arrives, as `viewer` reaches it.
    pub fn target(&self, viewer: usize) -> Result<u64, BenchError> {
        self.window.member(viewer).doing("choosing a member")?.pointer_of(1).doing("mapping a window")
    }

    /// Host memory of node 0 with what round `round` sends.
    pub fn host_source(&self, round: u64) -> u64 {
        self.hosts[0].payload.address() + self.layout.source(round) as u64
    }

    /// Host memory of node 1 where it arrives.
    pub fn host_target(&self) -> u64 {
        self.hosts[1].payload.address() + self.layout.arrival() as u64
    }

    /// Compares what is in kernel memory of node 1 with what the last of `rounds` sent.
    pub fn check(&self, rounds: u64) -> Result<Check, BenchError> {
        let mut seen = vec![0; self.layout.bytes];
        self.window.read(1, 0, &mut seen).doing("reading the window")?;
        let mut check = Check::default();
        check.bytes("what arrived at node 1", &self.data.of(rounds - 1), &seen);
        Ok(check)
    }

    /// The same of host memory of node 1.
    pub fn check_host(&self, rounds: u64) -> Result<Check, BenchError> {
        self.data.check(1, &self.hosts[1].payload, self.layout, rounds)
    }
}

/// A kernel that streams are made for which only copy.
pub(crate) struct Bystander {
    rounds: KernelMem,
}

impl Bystander {
    pub fn new(processor: &Processor) -> Result<Bystander, BenchError> {
        let rounds = processor.alloc(8).doing("allocating kernel memory")?;
        rounds.write(0, &[0; 8]).doing("writing kernel memory")?;
        Ok(Bystander { rounds })
    }

    pub fn launch<'a>(&self, processor: &'a Processor) -> [Launch<'a>; 1] {
        let args = bench_host_sync { rounds: self.rounds.address(), ..bench_host_sync::default() };
        [kernel::launch(processor, "bench_host_sync_round", 1, 32, &args)]
    }
}

/// Sends kernel memory of node 0 to node 1's by hosts.
pub(crate) trait Route {
    /// Begins round `round`.
    fn post(&self, round: u64) -> Result<(), BenchError>;

    /// Its data are there.
    fn wait(&self, round: u64) -> Result<(), BenchError>;
}

/// By one copy.
pub(crate) struct Direct<'a> {
    pub memories: &'a Memories<'a>,
    pub stream: &'a Stream<'a>,
}

impl Route for Direct<'_> {
    fn post(&self, round: u64) -> Result<(), BenchError> {
        let (to, from) = (self.memories.target(0)?, self.memories.source(round));
        // SAFETY: memory of both nodes, which nobody uses before the round is waited for.
        unsafe { self.stream.copy(to, from, self.memories.layout.bytes) }.doing(COPYING)
    }

    fn wait(&self, _: u64) -> Result<(), BenchError> {
        self.stream.wait().doing("waiting for a copy")
    }
}

/// By chunks through memory of both hosts: a copy to the host, the network, and a copy from the host, each beside those of
/// the chunks before. GPUs joined by NVLink have one host, and no network.
pub(crate) struct Staged<'a> {
    memories: &'a Memories<'a>,
    /// Of nodes 0 and 1.
    streams: [&'a Stream<'a>; 2],
    chunk: usize,
    // Gone before the memory.
    mapped: Mapped,
    /// Chunks of all rounds that are on the first host.
    came: HostBuffer,
}

impl<'a> Staged<'a> {
    pub fn new(
        memories: &'a Memories<'a>,
        streams: [&'a Stream<'a>; 2],
        chunk: usize,
    ) -> Result<Staged<'a>, BenchError> {
        let came = HostBuffer::zeroed(4096).doing("allocating host memory")?;
        // SAFETY: the mapping is dropped before the buffer, which is accessed by atomics only.
        let mapped = unsafe { memories.setup.processor(0).map_host(came.as_ptr(), 4096) };
        let mapped = mapped.doing("mapping host memory for kernels")?;
        Ok(Staged { memories, streams, chunk: chunk.max(1), mapped, came })
    }

    /// Where chunks begin, and how long they are.
    fn chunks(&self) -> impl Iterator<Item = (usize, usize)> {
        let (bytes, chunk) = (self.memories.layout.bytes, self.chunk);
        (0..bytes).step_by(chunk).map(move |at| (at, chunk.min(bytes - at)))
    }

    /// Chunks of a round.
    fn count(&self) -> u64 {
        self.memories.layout.bytes.div_ceil(self.chunk) as u64
    }

    /// Has a chunk on the second host; gives where.
    fn cross(&self, at: usize, bytes: usize) -> Result<u64, BenchError> {
        let Memories { setup, hosts, layout, .. } = self.memories;
        if setup.options.via == Via::Nvlink {
            return Ok(self.memories.host_source(0) + at as u64);
        }
        hosts[0].put(layout.source(0) + at, bytes, at as u64, Spec::COMPLETER)?;
        hosts[1].consume(setup.options)?;
        Ok(self.memories.host_target() + at as u64)
    }
}

impl Route for Staged<'_> {
    fn post(&self, round: u64) -> Result<(), BenchError> {
        let (to, from) = (self.memories.host_source(0), self.memories.source(round));
        for (number, (at, bytes)) in (1..).zip(self.chunks()) {
            let (to, from) = (to + at as u64, from + at as u64);
            // SAFETY: memory of node 0 and of its host, which nobody uses before the word below says that it is there.
            unsafe { self.streams[0].copy(to, from, bytes) }.doing(COPYING)?;
            // SAFETY: a word that is accessed by atomics only and lives until the streams were waited for.
            unsafe { self.streams[0].store(self.mapped.address(), round * self.count() + number) }
                .doing(COPYING)?;
        }
        Ok(())
    }

    fn wait(&self, round: u64) -> Result<(), BenchError> {
        let timeout = self.memories.setup.options.timeout;
        let to = self.memories.target(1)?;
        for (number, (at, bytes)) in (1..).zip(self.chunks()) {
            let wanted = round * self.count() + number;
            until("a chunk on the host", timeout, || self.came.load_u64(0) >= wanted)?;
            let from = self.cross(at, bytes)?;
            // SAFETY: memory of node 1 and of its host, which nobody uses before this round is over.
            unsafe { self.streams[1].copy(to + at as u64, from, bytes) }.doing(COPYING)?;
        }
        self.streams[1].wait().doing("waiting for copies")
    }
}
