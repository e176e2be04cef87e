//! `litmus`: what the memory model promises between two nodes, tried over many times; and builds without what makes
//! it hold, which must fail where the test is to be trusted.

use std::time::Instant;

use crate::args::{self, bench_litmus, bench_litmus_counts};
use ggas::HostBuffer;
use ggas_kernels::{KernelMem, Mapped, Processor};
use ggas_window::Window;

use crate::error::Doing;
use crate::kernel;
use crate::setup::{Setup, Worker};
use crate::space::Space;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

const KERNEL: &str = "bench_litmus_rounds";

/// Bytes from one pair's words to the next.
const STRIDE: u64 = 128;

/// Rounds of most tests on GPUs, all pairs together.
const ROUNDS: u64 = 12_000_000;

pub(crate) struct Litmus;

/// A test, and who puts in it.
#[derive(Clone, Copy)]
struct Test {
    name: &'static str,
    test: u32,
    form: u32,
}

const TESTS: [Test; 11] = [
    Test { name: "message-passing", test: args::BENCH_LITMUS_MESSAGE, form: 0 },
    Test { name: "store-buffering", test: args::BENCH_LITMUS_BUFFER, form: 0 },
    Test { name: "line", test: args::BENCH_LITMUS_LINE, form: 0 },
    Test { name: "causality", test: args::BENCH_LITMUS_CAUSALITY, form: 0 },
    Test { name: "barrier-grid", test: args::BENCH_LITMUS_GRID, form: 0 },
    Test { name: "put-thread", test: args::BENCH_LITMUS_PUT, form: args::BENCH_PUT_THREAD },
    Test { name: "put-warp", test: args::BENCH_LITMUS_PUT, form: args::BENCH_PUT_WARP },
    Test { name: "put-block", test: args::BENCH_LITMUS_PUT, form: args::BENCH_PUT_BLOCK },
    Test { name: "put-grid", test: args::BENCH_LITMUS_PUT, form: args::BENCH_PUT_GRID },
    Test { name: "put-bulk", test: args::BENCH_LITMUS_PUT, form: args::BENCH_PUT_BULK },
    Test { name: "put-bulk-handover", test: args::BENCH_LITMUS_PUT, form: args::BENCH_PUT_HANDOVER },
];

impl Test {
    fn is_put(&self) -> bool {
        self.test == args::BENCH_LITMUS_PUT
    }

    fn nodes(&self) -> u32 {
        if self.test == args::BENCH_LITMUS_CAUSALITY { 3 } else { 2 }
    }

    /// Its words lie in the window only: three nodes share no other memory, and groups meet by windows.
    fn is_in_window(&self) -> bool {
        self.nodes() > 2 || self.test == args::BENCH_LITMUS_GRID
    }

    /// Threads per block, and bytes of a put of a lane.
    fn shape(&self, gpu: bool) -> (u32, u64) {
        match self.form {
            args::BENCH_PUT_HANDOVER if !gpu => (64, 64),
            _ if !gpu => (if self.is_put() { 32 } else { 8 }, 64),
            args::BENCH_PUT_THREAD => (128, 64),
            args::BENCH_PUT_WARP => (256, 512),
            // Twice what the copy unit takes at a time.
            args::BENCH_PUT_BULK | args::BENCH_PUT_HANDOVER => (128, 16_384),
            _ => (128, 2048),
        }
    }

    fn lanes(&self, blocks: u32, threads: u32) -> u64 {
        match self.form {
            args::BENCH_PUT_THREAD => u64::from(blocks) * u64::from(threads),
            args::BENCH_PUT_WARP => u64::from(blocks) * u64::from(threads.div_ceil(32)),
            // Each block of a grid signals by itself.
            _ => blocks.into(),
        }
    }

    /// Rounds on GPUs, all pairs together. A line that is overwritten all the time is seen in one round of five; a grid's
    /// blocks that all signal and poll one word of host memory take over a millisecond for each.
    fn rounds(&self, host: bool) -> u64 {
        match self.form {
            _ if self.test == args::BENCH_LITMUS_LINE => 6 * ROUNDS,
            args::BENCH_PUT_GRID if host => ROUNDS / 16,
            _ => ROUNDS,
        }
    }

    /// Whether a build that is weak must show it on GPUs; elsewhere hardware may be stronger than its model.
    fn must_fail_when_weak(&self) -> bool {
        [args::BENCH_LITMUS_MESSAGE, args::BENCH_LITMUS_BUFFER].contains(&self.test)
    }
}

impl Bench for Litmus {
    fn name(&self) -> &'static str {
        "litmus"
    }

    fn about(&self) -> &'static str {
        "what the memory model promises between two nodes, and builds that break it"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &[
            "message-passing",
            "store-buffering",
            "line",
            "causality",
            "barrier-grid",
            "put-thread",
            "put-warp",
            "put-block",
            "put-grid",
            "put-bulk",
            "put-bulk-handover",
        ]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        in_one_process(team)?;
        let mut report = task.report();
        let tests: Vec<_> = TESTS.into_iter().filter(|test| options.wants(test.name)).collect();
        progress.begin(self.name(), tests.len() as u64);
        for test in tests {
            let builds = [("right", args::BENCH_LITMUS_RIGHT), ("weak", args::BENCH_LITMUS_WEAK)];
            let fence = ("fence", args::BENCH_LITMUS_FENCE);
            let fence = (test.test == args::BENCH_LITMUS_BUFFER).then_some(fence);
            let options = Options { nodes: test.nodes(), ..options.clone() };
            let task = Task::new(self, team, &options)?;
            for memory in ["window", "host"].into_iter().filter(|m| *m == "window" || !test.is_in_window()) {
                for (build, number) in builds.into_iter().chain(fence) {
                    progress.now(format!("{}, {memory}, {build}", test.name));
                    let outcome = play(task, test, memory == "host", number)?;
                    let row = outcome.row.method(test.name).with("data in", memory).with("build", build);
                    report.push(row, verdict(test, build, outcome.forbidden, &options));
                }
            }
            progress.step();
        }
        report.notes.push(
            "forbidden: outcomes that the right build must not have, and the weak one should".to_owned(),
        );
        Ok(report)
    }
}

pub(super) fn in_one_process(team: &Team) -> Result<(), BenchError> {
    if team.size() > 1 {
        let why = "it compares what both nodes saw: run it in one process";
        return Err(BenchError::Unsupported(why.to_owned()));
    }
    Ok(())
}

fn verdict(test: Test, build: &str, forbidden: u64, options: &Options) -> Check {
    let mut check = Check::default();
    if build == "right" && forbidden > 0 {
        check.wrong(forbidden, || format!("{}: {forbidden} forbidden outcomes", test.name));
    }
    let must_fail = build == "weak" && test.must_fail_when_weak() && options.device == Device::Gpu;
    if must_fail && forbidden == 0 {
        check.wrong(1, || format!("{}: the weak build did not fail, so the test shows nothing", test.name));
    }
    check
}

/// Words that both nodes share: in the window, or in host memory that both map.
struct Words {
    first: [u64; 2],
    second: [u64; 2],
    // Gone before the memory.
    _mapped: Vec<Mapped>,
    _host: Option<HostBuffer>,
}

impl Words {
    /// In the window what node 0 stores lies at node 1 and the other way round, behind `offset`.
    fn in_window(window: &Window) -> Result<Self, BenchError> {
        let at = |part: usize| {
            let pointer = window.member(0).and_then(|member| member.global_pointer(part));
            pointer.doing("finding the window's parts")
        };
        let (first, second) = (at(1)?, at(0)?);
        Ok(Self { first: [first; 2], second: [second; 2], _mapped: Vec::new(), _host: None })
    }

    fn in_host_memory(setup: &Setup, bytes: usize) -> Result<Self, BenchError> {
        let host = HostBuffer::zeroed(2 * bytes).doing("allocating host memory")?;
        let map = |node| {
            // SAFETY: the mappings are dropped before the memory, which nobody here reads while kernels run.
            unsafe { setup.processor(node).map_host(host.as_ptr(), host.len()) }.doing("mapping host memory")
        };
        let mapped = vec![map(0)?, map(1)?];
        let first = [mapped[0].address(), mapped[1].address()];
        let second = first.map(|address| address + bytes as u64);
        Ok(Self { first, second, _mapped: mapped, _host: Some(host) })
    }
}

/// What a node's kernel writes.
struct Seen {
    counts: KernelMem,
    late: KernelMem,
}

impl Seen {
    fn new(processor: &Processor, pairs: u64, rounds: u64) -> Result<Self, BenchError> {
        let counts = processor.alloc(size_of::<bench_litmus_counts>()).doing("allocating kernel memory")?;
        counts.write_u64s(0, &[0; 4]).doing("writing kernel memory")?;
        let late = processor.alloc((pairs * rounds / 8) as usize).doing("allocating kernel memory")?;
        Ok(Self { counts, late })
    }

    /// Observed, forbidden; an error unless all `threads` ended well.
    fn counts(&self, threads: u64, window: &Window, node: usize) -> Result<[u64; 2], BenchError> {
        let words = self.counts.read_u64s(0, 4).doing("reading kernel memory")?;
        let [observed, forbidden, ended, status] =
            std::array::from_fn(|i| words.get(i).copied().unwrap_or(0));
        if ended == threads {
            return Ok([observed, forbidden]);
        }
        let report = window.member(node).doing("choosing a member")?.report();
        let reason = report
            .map_or(format!("{ended} of {threads} threads ended well (status {status})"), |report| {
                report.to_string()
            });
        Err(BenchError::Kernel { kernel: KERNEL.to_owned(), reason })
    }

    fn late(&self) -> Result<Vec<u8>, BenchError> {
        let mut marks = vec![0; self.late.len()];
        self.late.read(0, &mut marks).doing("reading kernel memory")?;
        Ok(marks)
    }
}

struct Outcome {
    row: Row,
    forbidden: u64,
}

fn play(task: Task, test: Test, host: bool, build: u32) -> Result<Outcome, BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::Kernels)?;
    let gpu = options.device == Device::Gpu;
    let (threads, bytes) = test.shape(gpu);
    let threads = options.threads.first().copied().unwrap_or(threads).min(256);
    let blocks = options.blocks.first().copied().unwrap_or(if gpu { 132 } else { 2 });
    let pairs = u64::from(blocks) * u64::from(threads);
    let lanes = if test.is_put() { test.lanes(blocks, threads) } else { pairs };
    let rounds = options
        .iterations
        .unwrap_or(if gpu { test.rounds(host) / lanes + 1 } else { 320 })
        .next_multiple_of(32);
    let is_grid = test.form == args::BENCH_PUT_GRID;
    // A put of the grid is as large as those of all its blocks.
    let bytes = if is_grid { bytes * u64::from(blocks) } else { bytes };
    let places = if is_grid { 1 } else { lanes };
    let size = if test.is_put() { places * (16 + 2 * bytes) } else { pairs * STRIDE };
    let space = Space::new(&setup, size as usize, 0)?;
    let words =
        if host { Words::in_host_memory(&setup, size as usize)? } else { Words::in_window(&space.window)? };
    let (mut seen, mut launches) = (Vec::new(), Vec::new());
    for node in 0..test.nodes() {
        let processor = setup.processor(node);
        let mine =
            Seen::new(processor, if test.test == args::BENCH_LITMUS_BUFFER { pairs } else { 1 }, rounds)?;
        let args = bench_litmus {
            window: space.window_of(node)?,
            // Puts go to the window where they are not told of other parts.
            first: if !host && (test.is_put() || test.is_in_window()) {
                0
            } else {
                words.first[node as usize]
            },
            second: if test.is_in_window() { 0 } else { words.second[node as usize] },
            stride: if test.is_put() { size } else { STRIDE },
            late: mine.late.address(),
            counts: mine.counts.address(),
            group: space.group_of(node)?,
            rounds,
            bytes,
            test: test.test,
            build,
            form: test.form,
            reserved: 0,
        };
        launches.push(kernel::launch(processor, KERNEL, blocks, threads, &args));
        seen.push(mine);
    }
    let begun = Instant::now();
    kernel::run(&launches, options)?;
    let elapsed = begun.elapsed();
    space.check()?;
    // What the last node saw counts as observed.
    let (mut observed, mut forbidden) = (0, 0);
    for (node, mine) in seen.iter().enumerate() {
        let [looked, wrong] = mine.counts(pairs, &space.window, node)?;
        (observed, forbidden) = (looked, forbidden + wrong);
    }
    if test.test == args::BENCH_LITMUS_BUFFER {
        let both =
            seen[0].late()?.into_iter().zip(seen[1].late()?).map(|(a, b)| u64::from((a & b).count_ones()));
        forbidden += both.sum::<u64>();
    }
    let samples = Samples::new(vec![elapsed.as_nanos() as f64 / rounds as f64], rounds);
    let mut row = Row::new(&samples).with("rounds", lanes * rounds).with("observed", observed);
    if test.is_put() {
        row = row.bytes(bytes);
    }
    (row.blocks, row.threads) = (Some(blocks), Some(threads));
    Ok(Outcome { row: row.with("forbidden", forbidden), forbidden })
}
