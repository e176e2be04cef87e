//! The forms: who sees to it that boundaries travel, and when (thesis 4.5, 5.8, 6.9.1).

use ggas::Way;
use ggas_kernels::{Behind, Launch, Loop, run_loops, run_rounds};

use super::run::{Node, Run};
use super::shape::Shape;
use crate::args::*;
use crate::energy::Span;
use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::{BenchError, Device, Samples};

/// Iterations of a graph, an even number.
const BATCH: u64 = 100;

/// Blocks of a kernel that only communicates.
const SENDERS: u32 = 4;

/// Most blocks of a kernel that stores boundaries and meets, 8 or more, and bytes of a boundary for each (measured on H100).
const STORERS: u32 = 32;
const STORED: u64 = 4096;

const STEP: &str = "bench_himeno_step";
const EXCHANGE: &str = "bench_himeno_exchange";
const PERSISTENT: &str = "bench_himeno_persistent";
const BOUNDARY: &str = "bench_himeno_boundary";
const SIDES: &str = "bench_himeno_sides";

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
    /// Kernels between those that compute, by queues that reach the neighbours by stores.
    Queues,
    /// The same by queues of the network device.
    QueuesDevice,
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
    pub const ALL: [Form; 13] = [
        Form::Compute,
        Form::Hybrid,
        Form::MpiLike,
        Form::InKernel,
        Form::Parts,
        Form::Stream,
        Form::Device,
        Form::Queues,
        Form::QueuesDevice,
        Form::Ggas,
        Form::Persistent,
        Form::Exchange,
        Form::ExchangeFlags,
    ];
    pub const NAMES: [&str; 13] = [
        "compute",
        "hybrid",
        "mpi-like",
        "in-kernel",
        "parts",
        "stream",
        "device",
        "queues",
        "queues-device",
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

    /// Whether it is one of grids that are cut in more directions than one: no part's boundary is whole planes then, which the
    /// others compute first, and blocks wait for no part's rows and points.
    pub fn splits(self) -> bool {
        use Form::*;
        matches!(self, Compute | MpiLike | Stream | Device | Queues | QueuesDevice | Ggas)
    }

    /// Whether the host knows all nodes' kernels.
    pub fn is_of_one_process(self) -> bool {
        matches!(self, Form::Hybrid | Form::MpiLike)
    }
}

pub(super) const ALL_PLANES: u32 = BENCH_HIMENO_BOUNDARY | BENCH_HIMENO_INTERIOR;

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
            Form::Queues => self.by_queues(form, Way::Stores, iterations),
            Form::QueuesDevice => self.by_queues(form, Way::Device, iterations),
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
        self.finished(form.name(), iterations, |_| None)?;
        samples
    }

    /// Of the grid of a node.
    pub fn shape_of(&self, form: Form) -> Shape {
        match form {
            Form::Ggas | Form::Persistent => self.lasting,
            Form::Exchange | Form::ExchangeFlags => {
                let (bytes, options) = (self.parts.plane_bytes(), self.setup.options);
                let blocks = (bytes / STORED).clamp(8, STORERS.into()) as u32;
                // Each thread stores 16 bytes, if so many suffice.
                let threads = match options.device == Device::Gpu && options.threads.is_empty() {
                    true => {
                        (bytes.div_ceil(u64::from(blocks) * 16) as u32).next_multiple_of(32).clamp(256, 512)
                    }
                    false => self.step.threads,
                };
                Shape { blocks: self.step.blocks.min(self.lasting.blocks).min(blocks), threads }
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

    /// Whether neighbours are in more directions than that of planes.
    pub(super) fn is_split(&self) -> bool {
        !self.parts.split.is_of_slices()
    }

    /// A kernel that exchanges messages, where the grid is cut in more directions than one.
    pub(super) fn sides(&'a self, what: u32) -> Result<Vec<Launch<'a>>, BenchError> {
        self.each(SIDES, |_| STORERS, what, 0)
    }

    /// A kernel that computes.
    pub(super) fn step(&'a self, what: u32, offset: u64) -> Result<Vec<Launch<'a>>, BenchError> {
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
        if self.is_split() {
            return self.queued(iterations, |i, _| {
                Ok(vec![
                    self.step(ALL_PLANES | BENCH_HIMENO_EVEN, i)?,
                    self.sides(BENCH_HIMENO_SEND)?,
                    self.sides(BENCH_HIMENO_WAIT | BENCH_HIMENO_ADVANCE)?,
                ])
            });
        }
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
    pub(super) fn queued(
        &'a self,
        iterations: u64,
        kernels: impl Fn(u64, bool) -> Result<Vec<Vec<Launch<'a>>>, BenchError>,
    ) -> Result<Samples, BenchError> {
        let options = self.setup.options;
        let batch = if options.device == Device::Gpu { BATCH } else { 2 };
        // Nodes of one GPU take turns: a kernel that waits might keep out the one that it waits for.
        let behind = if options.nodes > options.gpus { Behind::All } else { Behind::Own };
        // The executor's kernels take long even if they find that one has failed, so that it is looked for in between.
        let at_once = if options.device == Device::Gpu { u64::MAX } else { 100 };
        let (mut samples, mut per_sample) = (Vec::new(), 1);
        for (batch, times) in [(batch, iterations / batch), (iterations % batch, 1)] {
            if batch * times == 0 {
                continue;
            }
            let rounds =
                (0..batch).map(|i| kernels(i, i + 1 == batch)).collect::<Result<Vec<_>, _>>()?.concat();
            let counts = samples.is_empty();
            let mut left = times;
            while left > 0 && !self.has_failed()? {
                let now = left.min(at_once);
                let took = run_rounds(&rounds, behind, now as u32, self.limit()).doing("running kernels")?;
                if counts {
                    samples.extend(took.iter().map(|all| all.as_nanos() as f64 / batch as f64));
                    per_sample = batch;
                }
                left -= now;
            }
        }
        Ok(Samples::new(samples, per_sample))
    }

    /// The GPU repeats the kernels by itself; where neighbours are in the direction of planes only, it sends while it computes.
    fn device(&'a self, iterations: u64) -> Result<Samples, BenchError> {
        let steps = match self.is_split() {
            true => vec![
                vec![self.step(ALL_PLANES, 0)?],
                vec![self.sides(BENCH_HIMENO_SEND)?],
                vec![self.sides(BENCH_HIMENO_WAIT)?],
            ],
            false => vec![
                vec![self.step(BENCH_HIMENO_BOUNDARY, 0)?],
                vec![
                    self.exchange(SENDERS, BENCH_HIMENO_SEND | BENCH_HIMENO_WAIT)?,
                    self.step(BENCH_HIMENO_INTERIOR, 0)?,
                ],
            ],
        };
        let loops = self.nodes.iter().enumerate().map(|(place, node)| {
            let of_node = |step: &Vec<Vec<Launch<'a>>>| step.iter().map(|all| all[place].clone()).collect();
            Loop { steps: steps.iter().map(of_node).collect(), words: (&node.state, 0) }
        });
        let took = run_loops(&loops.collect::<Vec<_>>(), self.limit()).doing("running kernels")?;
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
            // Nothing else runs beside them.
            launches.push(self.launch(node, kernel, self.shape_of(form), &args).cached());
            probes.push(probe);
        }
        kernel::run(&launches, self.setup.options)?;
        let first = probes.first().filter(|_| self.setup.local().start == 0);
        first.map_or(Ok(Samples::new(Vec::new(), 1)), Probe::samples)
    }
}
