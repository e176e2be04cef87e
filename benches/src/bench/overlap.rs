//! `put-overlap` and `rma-overlap`: how much of a transfer passes while the block that began it computes.

use crate::args::{
    BENCH_OVERLAP_BLOCK, BENCH_OVERLAP_BULK, BENCH_OVERLAP_NONE, BENCH_OVERLAP_RMA, BENCH_OVERLAP_WARP,
    bench_overlap, bench_peer,
};
use ggas_kernels::KernelMem;

use super::iterations_for;
use crate::ends::{self, KernelEnd, Program, kernel_ends};
use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::payload::{Layout, MAX_PUT, RoundData};
use crate::setup::{Setup, Worker};
use crate::space::{window, window_of};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, RandomStream, Report, Row, Samples, Team};

const KERNEL: &str = "bench_overlap_rounds";

/// Bound of the kernel.
const MOST_THREADS: u32 = 512;

/// Steps by which the length of one is measured.
const TRIAL_STEPS: u64 = 200;

pub(crate) struct PutOverlap;

impl Bench for PutOverlap {
    fn name(&self) -> &'static str {
        "put-overlap"
    }

    fn about(&self) -> &'static str {
        "puts by a block that computes meanwhile: how much of the communication is hidden"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["block", "warp", "bulk"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let gpu = options.device == Device::Gpu;
        let sizes: &[u64] = if gpu { &[4096, 65_536, 1 << 20] } else { &[4096, 65_536] };
        report(Task::new(self, team, options)?, sizes, 256 << 20, progress, puts)
    }
}

pub(crate) struct RmaOverlap;

impl Bench for RmaOverlap {
    fn name(&self) -> &'static str {
        "rma-overlap"
    }

    fn about(&self) -> &'static str {
        "puts that a block posts and that pass while it computes: how much of the communication is hidden"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["notification"]
    }

    fn by_engines(&self) -> &'static [&'static str] {
        &["notification"]
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        report(Task::new(self, team, options)?, &[8, 4096, 65_536], MAX_PUT, progress, posts)
    }
}

/// What a row measures.
#[derive(Clone, Copy)]
struct Shape {
    method: &'static str,
    bytes: u64,
    threads: u32,
}

impl Shape {
    fn way(self) -> u32 {
        match self.method {
            "block" => BENCH_OVERLAP_BLOCK,
            "warp" => BENCH_OVERLAP_WARP,
            "bulk" => BENCH_OVERLAP_BULK,
            _ => BENCH_OVERLAP_RMA,
        }
    }

    /// Threads that do not compute: those of the warp that is set apart.
    fn idle(self) -> u32 {
        if matches!(self.method, "warp" | "bulk") { 32 } else { 0 }
    }

    fn rounds(self, options: &Options) -> u64 {
        let small = if options.device == Device::Gpu { 2000 } else { 60 };
        options.iterations.unwrap_or(iterations_for(small, self.bytes))
    }
}

fn report(
    task: Task,
    sizes: &[u64],
    most: u64,
    progress: &mut Progress,
    measure: fn(Task, Shape) -> Result<(Row, Check), BenchError>,
) -> Result<Report, BenchError> {
    let options = task.options;
    let sizes = options.sizes_or(sizes, 1..=most, 1)?;
    let threads = options.threads_or(&[if options.device == Device::Gpu { MOST_THREADS } else { 64 }]);
    let fits = |threads: &u32| (64..=MOST_THREADS).contains(threads) && threads.is_multiple_of(32);
    if let Some(bad) = threads.iter().find(|threads| !fits(threads)) {
        return Err(BenchError::option("threads", bad, "use 64 to 512, in multiples of 32"));
    }
    let mut report = task.report();
    let methods = task.methods();
    progress.begin(task.bench.name(), (methods.len() * sizes.len() * threads.len()) as u64);
    for method in methods {
        for &bytes in &sizes {
            for &threads in &threads {
                progress.now(format!("{method}, {bytes} bytes, {threads} threads"));
                let (mut row, check) = measure(task, Shape { method, bytes, threads })?;
                (row.blocks, row.threads) = (Some(1), Some(threads));
                report.push(row.method(method).bytes(bytes), check);
                progress.step();
            }
        }
    }
    report.notes.push("min, median and p99 are of both at once".to_owned());
    Ok(report)
}

/// What a run of the kernel does in each round.
#[derive(Clone, Copy)]
struct Work {
    way: u32,
    steps: u64,
}

/// Communication alone, as much computation alone, and both. `run` gives the samples of node 0, if it is here.
fn measured(
    setup: &Setup,
    shape: Shape,
    mut run: impl FnMut(Work) -> Result<(Option<Samples>, Check), BenchError>,
) -> Result<(Row, Check), BenchError> {
    let median = |samples: &Option<Samples>| samples.as_ref().map_or(0.0, |s| s.latency().median);
    let mut check = Check::default();
    let mut timed = |way, steps| -> Result<Option<Samples>, BenchError> {
        let (samples, found) = run(Work { way, steps })?;
        check.merge(found);
        Ok(samples)
    };
    let communication = median(&timed(shape.way(), 0)?);
    let trial = median(&timed(BENCH_OVERLAP_NONE, TRIAL_STEPS)?);
    let steps = (communication / trial.max(1e-3) * TRIAL_STEPS as f64).round().clamp(1.0, 1e9) as u64;
    let computation = median(&timed(BENCH_OVERLAP_NONE, steps)?);
    let both = timed(shape.way(), steps)?;
    let (both, check) = setup.collect(both, check)?;
    Ok((columns(&both, communication, computation), check))
}

/// A row of both at once, with what each took alone, in us: the part that was hidden, and what communication adds to the
/// computation's time (thesis 4.4.3).
pub(super) fn columns(both: &Samples, communication: f64, computation: f64) -> Row {
    let row = Row::new(both);
    let overhead = row.latency_us.median - computation;
    let most = communication.min(computation).max(1e-3);
    row.with("communication_us", communication)
        .with("computation_us", computation)
        .with("overhead_us", overhead)
        .with("overlap_percent", 100.0 * (communication - overhead) / most)
}

/// The words with which the threads of node 0 compute.
struct State {
    words: KernelMem,
    seeds: RandomStream,
    /// Steps of all runs so far.
    steps: u64,
}

impl State {
    fn new(setup: &Setup, threads: u32) -> Result<Self, BenchError> {
        let seeds = RandomStream::new(setup.options.seed, 1 << 32);
        let words = setup.processor(0).alloc(8 * threads as usize).doing("allocating kernel memory")?;
        let bytes: Vec<u8> = (0..threads.into()).flat_map(|i| seeds.word(i).to_le_bytes()).collect();
        words.write(0, &bytes).doing("writing kernel memory")?;
        Ok(Self { words, seeds, steps: 0 })
    }

    /// Computes what the first and the last of the computing threads must have by now.
    fn check(&self, shape: Shape) -> Result<Check, BenchError> {
        let mut check = Check::default();
        for thread in [shape.idle(), shape.threads - 1] {
            let mut word = self.seeds.word(thread.into());
            for _ in 0..self.steps {
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
            }
            let seen = self.words.load_u64(8 * thread as usize).doing("reading kernel memory")?;
            check.equal(&format!("what thread {thread} computed"), word, seen);
        }
        Ok(check)
    }
}

/// Puts into a window.
fn puts(task: Task, shape: Shape) -> Result<(Row, Check), BenchError> {
    let setup = Setup::new(task, Worker::Kernels)?;
    let len = shape.bytes as usize;
    let window = window(&setup, len)?;
    let data = RoundData::new(task.options.seed, 0, len);
    let rounds = shape.rounds(task.options);
    let [first, second] = [0, 1].map(|node| setup.ends().contains(&node));
    let filled = |bytes: &[u8]| {
        let memory = setup.processor(0).alloc(bytes.len()).doing("allocating kernel memory")?;
        memory.write(0, bytes).doing("writing kernel memory")?;
        Ok::<_, BenchError>(memory)
    };
    let mut sender = match first {
        true => Some((State::new(&setup, shape.threads)?, [filled(&data.of(0))?, filled(&data.of(1))?])),
        false => None,
    };
    measured(&setup, shape, |work| {
        let (mut samples, mut check) = (None, Check::default());
        if second {
            window.write(1, 0, data.poison()).doing("writing the window")?;
        }
        setup.share::<()>(Vec::new())?;
        if let Some((state, sources)) = &mut sender {
            let probe = Probe::with_warm_up(setup.processor(0), rounds)?;
            let args = bench_overlap {
                timing: probe.args(),
                peer: bench_peer { target: 0, node: 1, vpid: 0 },
                window: window_of(&window, 0)?,
                source: [sources[0].address(), sources[1].address()],
                state: state.words.address(),
                bytes: shape.bytes,
                steps: work.steps,
                way: work.way,
                idle: shape.idle(),
                sender: 1,
                ..bench_overlap::default()
            };
            let launch = kernel::launch(setup.processor(0), KERNEL, 1, shape.threads, &args);
            kernel::run(&[launch], task.options)?;
            probe.finished(KERNEL, window.member(0).doing("choosing a member")?.report())?;
            state.steps += work.steps * probe.rounds();
            check.merge(state.check(shape)?);
            samples = Some(probe.samples()?);
        }
        setup.share::<()>(Vec::new())?;
        if second && work.way != BENCH_OVERLAP_NONE {
            let mut seen = vec![0; len];
            window.read(1, 0, &mut seen).doing("reading the window")?;
            check.bytes("what arrived at node 1", &data.of(Probe::rounds_of(rounds) - 1), &seen);
        }
        Ok((samples, check))
    })
}

/// Puts posted to the NIC or an engine.
fn posts(task: Task, shape: Shape) -> Result<(Row, Check), BenchError> {
    let setup = Setup::new(task, Worker::Kernels)?;
    let layout = Layout::new(shape.bytes);
    let data = RoundData::new(task.options.seed, 0, layout.bytes);
    let rounds = shape.rounds(task.options);
    let mut ends = kernel_ends(&setup, layout, &data, rounds)?;
    let first = setup.ends().contains(&0);
    let mut state = if first { Some(State::new(&setup, shape.threads)?) } else { None };
    measured(&setup, shape, |work| {
        for end in &mut ends {
            end.probe = Probe::with_warm_up(setup.processor(end.node), rounds)?;
            if end.node == 1 {
                end.payload.write(layout.arrival(), data.poison())?;
            }
        }
        setup.share::<()>(Vec::new())?;
        let words = state.as_ref().map_or(0, |state| state.words.address());
        ends::run(&setup, &ends, |end| program(end, shape, work, words))?;
        setup.share::<()>(Vec::new())?;
        let (mut samples, mut check) = (None, Check::default());
        for end in &ends {
            match (&mut state, end.node) {
                (Some(state), 0) => {
                    state.steps += work.steps * end.probe.rounds();
                    check.merge(state.check(shape)?);
                    samples = Some(end.probe.samples()?);
                }
                (_, 1) if work.way != BENCH_OVERLAP_NONE => {
                    check.merge(data.check(1, &end.payload, layout, end.probe.rounds())?);
                }
                _ => {}
            }
        }
        Ok((samples, check))
    })
}

/// Node 0 posts and computes; node 1 takes the notification of the last put.
fn program(
    end: &KernelEnd,
    shape: Shape,
    work: Work,
    state: u64,
) -> Result<Program<'static, bench_overlap>, BenchError> {
    let sender = end.node == 0;
    let args = bench_overlap {
        timing: end.probe.args(),
        peer: end.peer,
        port: end.port.address(),
        source: end.sources()?,
        state,
        bytes: shape.bytes,
        steps: work.steps,
        way: work.way,
        idle: shape.idle(),
        sender: sender.into(),
        ..bench_overlap::default()
    };
    Ok(Program { kernel: KERNEL, blocks: 1, threads: if sender { shape.threads } else { 32 }, args })
}
