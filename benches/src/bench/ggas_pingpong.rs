//! `ggas-pingpong` (thesis 6.6.1): plain stores and loads of 8 bytes by 1 to 8,192 threads.

use crate::args::bench_ggas_pingpong;
use ggas_kernels::{KernelMem, Processor};
use ggas_window::Window;

use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::setup::{Setup, Worker};
use crate::space::{window, window_of};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, RandomStream, Report, Row, Samples, Team};

const WORD: u64 = 8;

/// Threads of a block; more make a grid of blocks of the thesis's size, up to as many threads as it has.
const BLOCK: u32 = 1024;
const OF_GRIDS: u32 = 64;
const MOST: u32 = 8192;

pub(crate) struct GgasPingpong;

impl Bench for GgasPingpong {
    fn name(&self) -> &'static str {
        "ggas-pingpong"
    }

    fn about(&self) -> &'static str {
        "8-byte stores to and loads from another node by 1 to 8,192 threads (thesis 6.6.1)"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["write", "read"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let shapes = shapes(options)?;
        let mut report = task.report();
        let methods = task.methods();
        progress.begin(self.name(), (methods.len() * shapes.len()) as u64);
        for method in methods {
            for &shape in &shapes {
                let Shape { blocks, threads } = shape;
                progress.now(format!("{method}, {blocks} x {threads} threads"));
                let (samples, check) = match method {
                    "write" => write(task, shape)?,
                    _ => read(task, shape)?,
                };
                let mut row = Row::new(&samples).method(method).bytes(WORD * u64::from(shape.all()));
                (row.blocks, row.threads) = (Some(blocks), Some(threads));
                report.push(row, check);
                progress.step();
            }
        }
        Ok(report)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    blocks: u32,
    threads: u32,
}

impl Shape {
    /// Of so many threads: one block as far as it goes.
    fn of(threads: u32) -> Shape {
        match threads {
            ..=BLOCK => Shape { blocks: 1, threads },
            _ => Shape { blocks: threads / OF_GRIDS, threads: OF_GRIDS },
        }
    }

    fn all(self) -> u32 {
        self.blocks * self.threads
    }
}

/// Each thread has one word, so sizes name thread counts too.
fn shapes(options: &Options) -> Result<Vec<Shape>, BenchError> {
    let words = if options.sizes.is_empty() {
        Vec::new()
    } else {
        options.sizes_or(&[], WORD..=WORD * u64::from(MOST), WORD)?
    };
    let words = words.into_iter().map(|size| (size / WORD) as u32);
    if let Some(bad) = words.clone().find(|count| *count > BLOCK && count % OF_GRIDS != 0) {
        let advice =
            format!("more than {BLOCK} threads are blocks of {OF_GRIDS}: use multiples of 512 bytes");
        return Err(BenchError::option("sizes", u64::from(bad) * WORD, advice));
    }
    let mut shapes: Vec<_> = words.map(Shape::of).collect();
    for &blocks in &options.blocks_or(&[1]) {
        shapes.extend(options.threads.iter().map(|&threads| Shape { blocks, threads }));
    }
    if let Some(bad) = shapes.iter().find(|shape| shape.all() > MOST) {
        return Err(BenchError::option("blocks", bad.blocks, format!("use up to {MOST} threads in all")));
    }
    if shapes.is_empty() {
        let most = if options.device == Device::Gpu { MOST } else { BLOCK };
        let usual = [1, 8, 32, 128, 512, 1024, 2048, 4096, MOST];
        shapes = usual.into_iter().filter(|threads| *threads <= most).map(Shape::of).collect();
    }
    shapes.sort_unstable();
    shapes.dedup();
    Ok(shapes)
}

fn iterations(options: &Options, threads: u32) -> u64 {
    options.iterations.unwrap_or(match options.device {
        Device::Gpu => 5000,
        // The executor switches between threads one by one.
        Device::Cpu => (20_000 / u64::from(threads)).clamp(50, 1000),
    })
}

/// A word per thread: below 2^48, so that counting up never wraps, and never 0, which memory is at first.
fn words(options: &Options, stream: u64, threads: u32) -> Vec<u64> {
    let random = RandomStream::new(options.seed, stream);
    (0..threads).map(|thread| (random.word(thread.into()) >> 16) + 1).collect()
}

fn kernel_words(processor: &Processor, words: &[u64]) -> Result<KernelMem, BenchError> {
    let memory = processor.alloc(words.len() * 8).doing("allocating kernel memory")?;
    memory.write_u64s(0, words).doing("writing kernel memory")?;
    Ok(memory)
}

fn window_words(window: &Window, node: usize, threads: u32) -> Result<Vec<u64>, BenchError> {
    (0..threads as usize).map(|i| window.load_u64(node, i * 8).doing("reading the window")).collect()
}

/// Both nodes store to each other in turn; every word counts up by one per round.
fn write(task: Task, shape: Shape) -> Result<(Samples, Check), BenchError> {
    const KERNEL: &str = "bench_ggas_write";
    let (options, threads) = (task.options, shape.all());
    let setup = Setup::new(task, Worker::Kernels)?;
    let window = window(&setup, threads as usize * WORD as usize)?;
    let begin = words(options, 0, threads);
    let (mut probes, mut inputs, mut launches) = (Vec::new(), Vec::new(), Vec::new());
    for node in setup.ends() {
        let probe = Probe::with_warm_up(setup.processor(node), iterations(options, threads))?;
        let input = kernel_words(setup.processor(node), &begin)?;
        let args = bench_ggas_pingpong {
            timing: probe.args(),
            window: window_of(&window, node)?,
            input: input.address(),
            output: 0,
            peer: 1 - node,
            first: u32::from(node == 0),
        };
        launches.push(kernel::launch(setup.processor(node), KERNEL, shape.blocks, shape.threads, &args));
        probes.push(probe);
        inputs.push(input);
    }
    setup.share::<()>(Vec::new())?;
    kernel::run(&launches, options)?;
    let mut check = Check::default();
    for (node, probe) in setup.ends().zip(&probes) {
        let report = window.member(node as usize).doing("choosing a member")?.report();
        probe.finished(KERNEL, report)?;
        let expected: Vec<u64> = begin.iter().map(|word| word + probe.rounds()).collect();
        let seen = window_words(&window, node as usize, threads)?;
        check.equal(&format!("words at node {node}"), &expected, &seen);
    }
    let samples = setup.samples_of_first(&probes)?;
    setup.collect(samples.map(Samples::halved), check)
}

/// Node 0 loads from node 1 and stores to its own memory.
fn read(task: Task, shape: Shape) -> Result<(Samples, Check), BenchError> {
    const KERNEL: &str = "bench_ggas_read";
    let (options, threads) = (task.options, shape.all());
    let setup = Setup::new(task, Worker::Kernels)?;
    let window = window(&setup, threads as usize * WORD as usize)?;
    let there = words(options, 1, threads);
    let mut check = Check::default();
    if setup.ends().contains(&1) {
        for (i, word) in there.iter().enumerate() {
            window.store_u64(1, i * 8, *word).doing("writing the window")?;
        }
    }
    setup.share::<()>(Vec::new())?;
    if !setup.ends().contains(&0) {
        return setup.collect(None, check);
    }
    let processor = setup.processor(0);
    let probe = Probe::with_warm_up(processor, iterations(options, threads))?;
    let output = kernel_words(processor, &there.iter().map(|word| !word).collect::<Vec<_>>())?;
    let args = bench_ggas_pingpong {
        timing: probe.args(),
        window: window_of(&window, 0)?,
        input: 0,
        output: output.address(),
        peer: 1,
        first: 1,
    };
    let launch = kernel::launch(processor, KERNEL, shape.blocks, shape.threads, &args);
    kernel::run(&[launch], options)?;
    probe.finished(KERNEL, None)?;
    let seen = output.read_u64s(0, threads as usize).doing("reading kernel memory")?;
    check.equal("loaded words", &there, &seen);
    setup.collect(Some(probe.samples()?), check)
}
