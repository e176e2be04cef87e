//! The forms: who sees to it that boundaries travel, and when (thesis 4.5, 5.8, 6.9.1).

use std::time::Instant;

use ggas_gpu::Stream;
use ggas_kernels::{Behind, Launch, Loop, Processor, run_loops, run_rounds, start};

use super::run::{Node, Run, Shape};
use crate::args::*;
use crate::energy::Span;
use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::{BenchError, Device, Samples};

/// Iterations of a graph, an even number.
const BATCH: u64 = 100;

/// Blocks of a kernel that only communicates.
const SENDERS: u32 = 4;

/// Blocks of a kernel that stores boundaries and meets.
const STORERS: u32 = 32;

const STEP: &str = "bench_himeno_step";
const EXCHANGE: &str = "bench_himeno_exchange";
const PERSISTENT: &str = "bench_himeno_persistent";
const BOUNDARY: &str = "bench_himeno_boundary";

/// Who communicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Nobody: a kernel an iteration.
    Compute,
    /// The host copies boundaries, when the kernel that made them has ended, while another computes.
    Hybrid,
    /// The host sends and receives by copies in its memory, when kernels have ended.
    MpiLike,
    /// The last block of a kernel's boundary.
    InKernel,
    /// All blocks of the boundary, each its part; the last one tells the neighbours.
    Parts,
    /// Kernels between those that compute.
    Stream,
    /// The same in a loop of a graph.
    Device,
    /// All blocks, by stores, and a meeting of all blocks of all nodes.
    Ggas,
    /// The same, but blocks wait for those alone whose points they read.
    Persistent,
    /// Boundaries and a meeting alone, as `Ggas` has them.
    Exchange,
    /// Boundaries, and waits for those beside a block's own, as `Persistent` has them.
    ExchangeFlags,
}

impl Form {
    pub const ALL: [Form; 11] = [
        Form::Compute,
        Form::Hybrid,
        Form::MpiLike,
        Form::InKernel,
        Form::Parts,
        Form::Stream,
        Form::Device,
        Form::Ggas,
        Form::Persistent,
        Form::Exchange,
        Form::ExchangeFlags,
    ];
    pub const NAMES: [&str; 11] = [
        "compute",
        "hybrid",
        "mpi-like",
        "in-kernel",
        "parts",
        "stream",
        "device",
        "ggas",
        "persistent",
        "exchange",
        "exchange-flags",
    ];

    pub fn name(self) -> &'static str {
        let at = Self::ALL.iter().position(|form| *form == self);
        at.map_or("", |at| Self::NAMES[at])
    }

    /// Whether it is one at all: others only communicate.
    pub fn computes(self) -> bool {
        !matches!(self, Form::Exchange | Form::ExchangeFlags)
    }

    /// Whether the host knows all nodes' kernels.
    pub fn is_of_one_process(self) -> bool {
        matches!(self, Form::Hybrid | Form::MpiLike)
    }
}

const ALL_PLANES: u32 = BENCH_HIMENO_BOUNDARY | BENCH_HIMENO_INTERIOR;

impl<'a> Run<'a> {
    /// Makes `iterations` from the first data on. Gives the time of an iteration, as this process saw it.
    ///
    /// # Errors
    /// [`BenchError::Kernel`]: a node waited in vain; what was done before is in its memory.
    pub fn iterate(&'a self, form: Form, iterations: u64) -> Result<Samples, BenchError> {
        let _counted = Span::begin();
        self.plan(iterations)?;
        let samples = match form {
            Form::Compute => self.kernel_each(ALL_PLANES, iterations),
            Form::InKernel => {
                self.kernel_each(ALL_PLANES | BENCH_HIMENO_WAIT | BENCH_HIMENO_SEND, iterations)
            }
            Form::Parts => self.kernel_each(ALL_PLANES | BENCH_HIMENO_WAIT | BENCH_HIMENO_STORE, iterations),
            Form::Stream => self.stream(iterations),
            Form::Device => self.device(iterations),
            Form::Ggas => {
                let what = ALL_PLANES | BENCH_HIMENO_STORE | BENCH_HIMENO_MEET;
                self.lasting(PERSISTENT, form, what, iterations)
            }
            Form::Persistent => {
                let what = ALL_PLANES | BENCH_HIMENO_STORE | BENCH_HIMENO_WAIT;
                self.lasting(PERSISTENT, form, what, iterations)
            }
            Form::Exchange => self.lasting(BOUNDARY, form, BENCH_HIMENO_MEET, iterations),
            Form::ExchangeFlags => self.lasting(BOUNDARY, form, 0, iterations),
            Form::Hybrid => self.by_host(iterations, Self::hybrid),
            Form::MpiLike => self.by_host(iterations, Self::mpi_like),
        };
        // What a kernel says of itself tells more than that it did not end.
        self.finished(form.name(), iterations)?;
        samples
    }

    /// Of the grid of a node.
    pub fn shape_of(&self, form: Form) -> Shape {
        match form {
            Form::Ggas | Form::Persistent => self.lasting,
            Form::Exchange | Form::ExchangeFlags => {
                Shape { blocks: self.step.blocks.min(self.lasting.blocks).min(STORERS), ..self.step }
            }
            _ => self.step,
        }
    }

    /// Blocks of a node; `None` where each kernel has as many as it has items.
    pub fn blocks_of(&self, form: Form) -> Option<u32> {
        let own = matches!(form, Form::Ggas | Form::Persistent) || !form.computes();
        (own || !self.has_block_per_item()).then(|| self.shape_of(form).blocks)
    }

    /// The same kernel of all nodes. None of its blocks waits for another one of its grid.
    fn each(
        &'a self,
        kernel: &'static str,
        blocks: impl Fn(&Node) -> u32,
        what: u32,
        offset: u64,
    ) -> Result<Vec<Launch<'a>>, BenchError> {
        let launch = |node| {
            let args = bench_himeno { offset: offset as u32, ..self.args(node, what)? };
            let shape = Shape { blocks: blocks(node), ..self.step };
            Ok(self.launch(node, kernel, shape, &args).cached().resident(2))
        };
        self.nodes.iter().map(launch).collect()
    }

    /// A kernel that computes.
    fn step(&'a self, what: u32, offset: u64) -> Result<Vec<Launch<'a>>, BenchError> {
        self.each(STEP, |node| self.blocks_of_step(node, what), what, offset)
    }

    /// A kernel that communicates only.
    fn exchange(&'a self, blocks: u32, what: u32) -> Result<Vec<Launch<'a>>, BenchError> {
        self.each(EXCHANGE, |_| blocks, what, 0)
    }

    /// A kernel an iteration; the last one of a graph says how far they came.
    fn kernel_each(&'a self, what: u32, iterations: u64) -> Result<Samples, BenchError> {
        self.queued(iterations, |i, last| {
            let ends = if last { BENCH_HIMENO_ADVANCE } else { 0 };
            Ok(vec![self.step(what | ends | BENCH_HIMENO_EVEN, i)?])
        })
    }

    /// Compute the boundary, send it, compute the rest, wait for the neighbours'.
    fn stream(&'a self, iterations: u64) -> Result<Samples, BenchError> {
        self.queued(iterations, |i, _| {
            Ok(vec![
                self.step(BENCH_HIMENO_BOUNDARY | BENCH_HIMENO_EVEN, i)?,
                self.exchange(SENDERS, BENCH_HIMENO_SEND)?,
                self.step(BENCH_HIMENO_INTERIOR | BENCH_HIMENO_EVEN, i)?,
                self.exchange(1, BENCH_HIMENO_WAIT | BENCH_HIMENO_ADVANCE)?,
            ])
        })
    }

    /// Kernels one after the other on each node, queued ahead by graphs of an even number of iterations, and one of those that are
    /// left. `kernels` of iteration `i` of a graph, which may be its last one. Times are those of the whole graphs, if there are any.
    fn queued(
        &'a self,
        iterations: u64,
        kernels: impl Fn(u64, bool) -> Result<Vec<Vec<Launch<'a>>>, BenchError>,
    ) -> Result<Samples, BenchError> {
        let options = self.setup.options;
        let batch = if options.device == Device::Gpu { BATCH } else { 2 };
        // Nodes of one GPU take turns: a kernel that waits might keep out the one that it waits for.
        let behind = if options.nodes > options.gpus { Behind::All } else { Behind::Own };
        let mut samples = None;
        for (batch, times) in [(batch, iterations / batch), (iterations % batch, 1)] {
            if batch * times == 0 {
                continue;
            }
            let rounds = (0..batch).map(|i| kernels(i, i + 1 == batch)).collect::<Result<Vec<_>, _>>()?;
            let took = run_rounds(&rounds.concat(), behind, times as u32, self.limit());
            let took = took.doing("running kernels")?;
            samples.get_or_insert_with(|| {
                Samples::new(took.iter().map(|all| all.as_nanos() as f64 / batch as f64).collect(), batch)
            });
        }
        Ok(samples.unwrap_or_else(|| Samples::new(Vec::new(), 1)))
    }

    /// The GPU repeats the kernels by itself; it sends while it computes.
    fn device(&'a self, iterations: u64) -> Result<Samples, BenchError> {
        let [boundary, exchange, interior] = [
            self.step(BENCH_HIMENO_BOUNDARY, 0)?,
            self.exchange(SENDERS, BENCH_HIMENO_SEND | BENCH_HIMENO_WAIT)?,
            self.step(BENCH_HIMENO_INTERIOR, 0)?,
        ];
        let mut loops = Vec::new();
        for (place, node) in self.nodes.iter().enumerate() {
            let [boundary, exchange, interior] =
                [&boundary, &exchange, &interior].map(|kernels| kernels[place].clone());
            let steps = vec![vec![boundary], vec![exchange, interior]];
            loops.push(Loop { steps, words: (&node.state, 0) });
        }
        let took = run_loops(&loops, self.limit()).doing("running kernels")?;
        Ok(Samples::new(vec![took.as_nanos() as f64 / iterations as f64], iterations))
    }

    /// Blocks that live for all iterations.
    fn lasting(
        &'a self,
        kernel: &'static str,
        form: Form,
        what: u32,
        iterations: u64,
    ) -> Result<Samples, BenchError> {
        let mut probes = Vec::new();
        let mut launches = Vec::new();
        for node in &self.nodes {
            let probe = Probe::new(self.setup.processor(node.id), iterations, 0)?;
            let args = bench_himeno { timing: probe.args(), ..self.args(node, what)? };
            launches.push(self.launch(node, kernel, self.shape_of(form), &args));
            probes.push(probe);
        }
        kernel::run(&launches, self.setup.options)?;
        let first = probes.first().filter(|_| self.setup.local().start == 0);
        first.map_or(Ok(Samples::new(Vec::new(), 1)), Probe::samples)
    }

    /// The host starts and waits.
    fn by_host(
        &'a self,
        iterations: u64,
        one: fn(&'a Self, &mut Host<'a>, u64) -> Result<(), BenchError>,
    ) -> Result<Samples, BenchError> {
        let mut host = Host::new(self)?;
        let mut ns = Vec::new();
        for iteration in 0..iterations {
            let begun = Instant::now();
            one(self, &mut host, iteration)?;
            ns.push(begun.elapsed().as_nanos() as f64);
        }
        Ok(Samples::new(ns, 1))
    }

    fn hybrid(&'a self, host: &mut Host<'a>, iteration: u64) -> Result<(), BenchError> {
        let wait = |launches: &[Launch<'a>]| {
            start(launches).and_then(|running| running.wait(self.limit())).doing("running kernels")
        };
        wait(&host.boundary)?;
        let interior = start(&host.interior).doing("starting kernels")?;
        host.put(self, ((iteration + 1) % 2) as usize)?;
        interior.wait(self.limit()).doing("running kernels")
    }

    fn mpi_like(&'a self, host: &mut Host<'a>, iteration: u64) -> Result<(), BenchError> {
        start(&host.whole).and_then(|running| running.wait(self.limit())).doing("running kernels")?;
        host.send_and_receive(self, ((iteration + 1) % 2) as usize)
    }
}

/// What the host starts and copies with.
struct Host<'a> {
    boundary: Vec<Launch<'a>>,
    interior: Vec<Launch<'a>>,
    whole: Vec<Launch<'a>>,
    /// A stream for the copies of each node that is on a GPU.
    streams: Vec<Option<Stream>>,
}

impl<'a> Host<'a> {
    fn new(run: &'a Run<'a>) -> Result<Self, BenchError> {
        let stream = |node: &Node| match run.setup.processor(node.id) {
            Processor::Gpu(gpu) => gpu.device().stream().doing("making a stream").map(Some),
            _ => Ok(None),
        };
        let of = |what| run.step(what, 0);
        Ok(Self {
            boundary: of(BENCH_HIMENO_BOUNDARY)?,
            interior: of(BENCH_HIMENO_INTERIOR | BENCH_HIMENO_ADVANCE)?,
            whole: of(ALL_PLANES | BENCH_HIMENO_ADVANCE)?,
            streams: run.nodes.iter().map(stream).collect::<Result<_, _>>()?,
        })
    }

    /// One-sided: straight to where the neighbour needs it.
    fn put(&self, run: &Run<'_>, field: usize) -> Result<(), BenchError> {
        for (node, stream) in run.nodes.iter().zip(&self.streams) {
            let Some(stream) = stream else {
                for (from, to, plane) in planes(run, node, field) {
                    let mut bytes = vec![0; run.slices.plane_bytes() as usize];
                    let read = run.window.read(node.id as usize, from, &mut bytes);
                    read.and_then(|()| run.window.write(to, plane, &bytes)).doing("copying a boundary")?;
                }
                continue;
            };
            for (from, to, bytes) in run.addresses(node, field)? {
                // SAFETY: parts of the window, mapped for all GPUs of this process; kernels neither write the source nor
                // use the other place before the next iteration.
                unsafe { stream.copy(to, from, bytes) }.doing("copying a boundary")?;
            }
        }
        for stream in self.streams.iter().flatten() {
            stream.wait("copies of boundaries", run.limit()).doing("copying a boundary")?;
        }
        Ok(())
    }

    /// Two-sided: into a message, and out of it.
    fn send_and_receive(&self, run: &Run<'_>, field: usize) -> Result<(), BenchError> {
        let mut messages = Vec::new();
        for node in &run.nodes {
            for (from, to, plane) in planes(run, node, field) {
                let mut bytes = vec![0; run.slices.plane_bytes() as usize];
                run.window.read(node.id as usize, from, &mut bytes).doing("sending a boundary")?;
                messages.push((to, plane, bytes));
            }
        }
        for (to, plane, bytes) in messages {
            run.window.write(to, plane, &bytes).doing("receiving a boundary")?;
        }
        Ok(())
    }
}

/// A node's planes that others need: offset here, the neighbour, offset there.
fn planes(run: &Run<'_>, node: &Node, field: usize) -> Vec<(usize, usize, usize)> {
    let edges = run.slices.edges(node.id).into_iter().flatten();
    let place = |edge: super::slices::Edge| {
        let from = run.slices.plane_at(field, edge.plane as u32);
        (from as usize, edge.node as usize, edge.to[field] as usize)
    };
    edges.map(place).collect()
}
