//! `tn`: triggered puts by kernels, against the same puts posted at once, and against a kernel that ends before the next
//! one sends.

use std::sync::Arc;
use std::time::Duration;

use crate::args::{self, bench_tn};
use ggas::tn::{Signal, When, WindowConfig, WindowTriggers};
use ggas_kernels::{Behind, KernelMem, Launch, run_rounds};
use ggas_window::Window;

use super::iterations_for;
use super::litmus::in_one_process;
use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::messages::counted;
use crate::payload::RoundData;
use crate::setup::{Setup, Worker};
use crate::space::{window, window_of};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

const SIZES: [u64; 7] = [8, 64, 256, 1024, 4096, 16_384, 65_536];
/// Most threads of a block (`GGAS_KERNEL_BOUND` of the kernels).
const MOST_THREADS: u64 = 512;
/// Puts of a graph.
const BATCH: u64 = 100;
/// Where the data arrive: behind the word that is signalled.
const ARRIVAL: usize = 4096;

const SIGNAL: &str = "put-signal";
const PREPARED: &str = "trigger-prepared";
const GRAPH: &str = "graph";

pub(crate) struct Triggered;

impl Bench for Triggered {
    fn name(&self) -> &'static str {
        "tn"
    }

    fn about(&self) -> &'static str {
        "one way from a kernel's trigger of a registered put to its signal at the peer, against a put and a kernel's end"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &[SIGNAL, "trigger", PREPARED, GRAPH]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        in_one_process(team)?;
        let sizes = options.sizes_or(&SIZES, 1..=8 << 20, 1)?;
        super::methods_by_sizes(task, &task.methods(), &sizes, progress, |report, method, bytes| {
            let threads = threads(options, bytes);
            let shape = Shape { method, bytes, threads };
            let (samples, check) = Run::new(task, shape)?.measure()?;
            let mut row = Row::new(&samples).method(method).bytes(bytes);
            (row.blocks, row.threads) = (Some(1), Some(threads));
            report.push(row.bandwidth_of(bytes), check);
            Ok(())
        })
    }
}

/// As put-signal's blocks.
fn threads(options: &Options, bytes: u64) -> u32 {
    let wanted = if options.device == Device::Cpu { 64 } else { bytes.div_ceil(16) };
    let threads = wanted.clamp(32, MOST_THREADS).next_multiple_of(32) as u32;
    options.threads_or(&[threads])[0].min(MOST_THREADS as u32)
}

#[derive(Clone, Copy)]
struct Shape {
    method: &'static str,
    bytes: u64,
    threads: u32,
}

/// One node's part.
struct End {
    node: u32,
    probe: Probe,
    source: [Arc<KernelMem>; 2],
    /// Sent, seen, and the first error of kernels that do one of them.
    counts: KernelMem,
    triggers: WindowTriggers,
}

struct Run<'a> {
    setup: Setup<'a>,
    shape: Shape,
    window: Arc<Window>,
    arrival: [usize; 2],
    ends: Vec<End>,
}

impl<'a> Run<'a> {
    fn new(task: Task<'a>, shape: Shape) -> Result<Run<'a>, BenchError> {
        let setup = Setup::new(task, Worker::Kernels)?;
        let bytes = shape.bytes as usize;
        let arrival = [ARRIVAL, ARRIVAL + bytes.next_multiple_of(256)];
        let window = window(&setup, arrival[1] + bytes)?;
        let mut run = Run { setup, shape, window, arrival, ends: Vec::new() };
        for node in run.setup.ends() {
            let end = run.end(node)?;
            run.ends.push(end);
        }
        Ok(run)
    }

    fn end(&self, node: u32) -> Result<End, BenchError> {
        let Run { setup, shape, window, arrival, .. } = self;
        let (processor, bytes) = (setup.processor(node), shape.bytes as usize);
        let (own, poison) = (self.data(node), self.data(1 - node));
        let filled = |round: u64| {
            let memory = processor.alloc(bytes).doing("allocating kernel memory")?;
            memory.write(0, &own.of(round)).doing("writing kernel memory")?;
            Ok::<_, BenchError>(Arc::new(memory))
        };
        let source = [filled(0)?, filled(1)?];
        for at in arrival {
            window.write(node as usize, *at, poison.poison()).doing("writing the window")?;
        }
        let small = if setup.options.device == Device::Gpu { 5000 } else { 200 };
        let rounds = setup.options.iterations.unwrap_or(iterations_for(small, shape.bytes)).max(2);
        let config = WindowConfig { tags: 2, timeout: setup.options.timeout };
        let triggers =
            WindowTriggers::open(window, node as usize, config).doing("making a table of triggers")?;
        for (tag, (source, at)) in (0..).zip(source.iter().zip(arrival)) {
            let to = ((1 - node) as usize, *at);
            let put = triggers.put(When::tag(tag), source, 0..bytes, to, Some(Signal::Add(0, 1)));
            put.doing("registering a put")?;
        }
        let counts = processor.alloc(24).doing("allocating kernel memory")?;
        Ok(End { node, probe: Probe::with_warm_up(processor, rounds)?, source, counts, triggers })
    }

    fn data(&self, sender: u32) -> RoundData {
        RoundData::new(self.setup.options.seed, sender.into(), self.shape.bytes as usize)
    }

    fn args(&self, end: &End, form: u32) -> Result<bench_tn, BenchError> {
        let counts = end.counts.address();
        Ok(bench_tn {
            timing: end.probe.args(),
            window: window_of(&self.window, end.node)?,
            tn: end.triggers.address(),
            source: [end.source[0].address(), end.source[1].address()],
            arrival: self.arrival.map(|at| at as u64),
            bytes: self.shape.bytes,
            signal: 0,
            counts,
            status: counts + 16,
            form,
            scope: args::BENCH_PUT_BLOCK,
            peer: 1 - end.node,
            first: u32::from(end.node == 0),
        })
    }

    fn launch(&self, end: &End, kernel: &'static str, form: u32) -> Result<Launch<'_>, BenchError> {
        let args = self.args(end, form)?;
        Ok(kernel::launch(self.setup.processor(end.node), kernel, 1, self.shape.threads, &args))
    }

    fn measure(&self) -> Result<(Samples, Check), BenchError> {
        let samples = if self.shape.method == GRAPH { self.by_kernels()? } else { self.resident()? };
        let mut check = Check::default();
        for end in &self.ends {
            let sent = self.data(1 - end.node);
            for (round, at) in (0..).zip(self.arrival) {
                let mut seen = vec![0; self.shape.bytes as usize];
                self.window.read(end.node as usize, at, &mut seen).doing("reading the window")?;
                check.bytes(&format!("what arrived at node {}", end.node), &sent.of(round), &seen);
            }
            let status = end.triggers.status().doing("reading the status of triggers")?;
            counted(end.node, status, &mut check);
        }
        self.setup.collect(Some(samples), check)
    }

    /// One kernel at each end for all rounds.
    fn resident(&self) -> Result<Samples, BenchError> {
        const KERNEL: &str = "bench_tn_rounds";
        let form = match self.shape.method {
            SIGNAL => args::BENCH_TN_SIGNAL,
            PREPARED => args::BENCH_TN_PREPARED,
            _ => args::BENCH_TN_TRIGGER,
        };
        let launches = self.ends.iter().map(|end| self.launch(end, KERNEL, form));
        let launches = launches.collect::<Result<Vec<_>, _>>()?;
        kernel::run(&launches, self.setup.options)?;
        for end in &self.ends {
            let member = self.window.member(end.node as usize).doing("choosing a member")?;
            end.probe.finished(KERNEL, end.triggers.report().or_else(|| member.report()))?;
        }
        Ok(self.first()?.probe.samples()?.halved())
    }

    /// A kernel that has seen what came ends, and the next one sends.
    fn by_kernels(&self) -> Result<Samples, BenchError> {
        let round = |i: u64| {
            let step = |end: &End| {
                let sends = (i + u64::from(end.node)).is_multiple_of(2);
                let form = if sends { args::BENCH_TN_SEND } else { args::BENCH_TN_WAIT };
                self.launch(end, "bench_tn_step", form)
            };
            self.ends.iter().map(step).collect::<Result<Vec<_>, _>>()
        };
        let rounds = (0..BATCH).map(round).collect::<Result<Vec<_>, _>>()?;
        let options = self.setup.options;
        let times = (self.first()?.probe.rounds() / BATCH).clamp(2, 10_000) as u32;
        let limit = options.timeout * 2 + Duration::from_secs(20);
        // The first is warm-up.
        let took = run_rounds(&rounds, Behind::Own, times + 1, limit).doing("running a graph")?;
        for end in &self.ends {
            let status = end.counts.load_u64(16).doing("reading kernel memory")?;
            if status != 0 {
                let report = self.window.member(end.node as usize).doing("choosing a member")?.report();
                let reason = report.map_or(format!("status {status}"), |report| report.to_string());
                return Err(BenchError::Kernel { kernel: "bench_tn_step".to_owned(), reason });
            }
        }
        let ns = took.iter().skip(1).map(|all| all.as_nanos() as f64 / BATCH as f64);
        Ok(Samples::new(ns.collect(), BATCH))
    }

    fn first(&self) -> Result<&End, BenchError> {
        self.ends.first().ok_or_else(|| BenchError::Unsupported("tn needs two nodes".to_owned()))
    }
}
