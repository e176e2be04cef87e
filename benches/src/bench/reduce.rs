//! `reduce` and `allreduce` (thesis 6.8): float sums inside a kernel.

use crate::args::*;
use ggas_kernels::KernelMem;

use crate::error::Doing;
use crate::host::require_memory;
use crate::kernel::{self, Probe};
use crate::setup::{Setup, Worker};
use crate::space::Space;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, RandomStream, Report, Row, Samples, Team};

/// Elements at most: 64 MiB per node.
const MAX_ELEMENTS: u64 = 16 << 20;

/// Up to so many elements `switched` sends whole vectors, as the thesis's optimised forms do with small messages (6.8.5); where
/// the two cross on two and four H200, by `results/two-gpus` and `results/four-gpus`, is between 16 Ki and 256 Ki.
const SWITCH: u64 = 64 << 10;

/// Operations timed together.
pub(super) const BATCH: u64 = 10;

pub(crate) struct Reduce;

impl Bench for Reduce {
    fn name(&self) -> &'static str {
        "reduce"
    }

    fn about(&self) -> &'static str {
        "float sum at the root inside a kernel (thesis 6.8)"
    }

    fn methods(&self) -> &'static [&'static str] {
        &["packets", "gather", "remote-read", "tree", "all-to-all", "switched"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        run(Task::new(self, team, options)?, progress)
    }
}

pub(crate) struct Allreduce;

impl Bench for Allreduce {
    fn name(&self) -> &'static str {
        "allreduce"
    }

    fn about(&self) -> &'static str {
        "float sum at every node inside a kernel (thesis 6.8)"
    }

    fn methods(&self) -> &'static [&'static str] {
        &[
            "block",
            "owned",
            "shared",
            "grid",
            "one-shot",
            "two-shot",
            "remote-read",
            "gather",
            "all-gather",
            "tree",
            "all-to-all",
            "switched",
        ]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        run(Task::new(self, team, options)?, progress)
    }
}

fn run(task: Task, progress: &mut Progress) -> Result<Report, BenchError> {
    let options = task.options;
    let elements: &[u64] = match options.device {
        Device::Gpu => &[1, 64, 256, 1024, 16_384, 262_144],
        Device::Cpu => &[1, 64, 1024, 16_384],
    };
    let elements = options.sizes_or(elements, 1..=MAX_ELEMENTS, 1)?;
    for &elements in &elements {
        // Two inputs and an output per node, and as much again on the way there.
        require_memory(elements, elements.saturating_mul(6 * 4 * u64::from(options.nodes)))?;
    }
    let mut report = task.report();
    let methods = task.methods();
    progress.begin(task.bench.name(), (methods.len() * elements.len()) as u64);
    for method in methods {
        for &elements in &elements {
            let way = way_of(task.bench.name(), method, elements);
            let shape = default_shape(options, &way, elements);
            for blocks in options.blocks_or(&[shape.0]) {
                let blocks = if way.one_block { 1 } else { blocks };
                for threads in options.threads_or(&[shape.1]) {
                    progress.now(format!("{method}, {elements} elements, {blocks} x {threads} threads"));
                    let (samples, check) = sums(task, &way, elements, blocks, threads)?;
                    let mut row = Row::new(&samples).method(method);
                    row.elements = Some(elements);
                    (row.blocks, row.threads) = (Some(blocks), Some(threads));
                    report.push(row.bandwidth_of(4 * elements), check);
                }
            }
            progress.step();
        }
    }
    Ok(report)
}

/// One row in the usual shape.
pub(crate) fn row(task: Task, method: &str, elements: u64) -> Result<(Row, Check), BenchError> {
    let way = way_of(task.bench.name(), method, elements);
    let (blocks, threads) = default_shape(task.options, &way, elements);
    let (samples, check) = sums(task, &way, elements, blocks, threads)?;
    let mut row = Row::new(&samples).method(method);
    row.elements = Some(elements);
    (row.blocks, row.threads) = (Some(blocks), Some(threads));
    Ok((row.bandwidth_of(4 * elements), check))
}

/// A kernel, and how it goes about it.
struct Way {
    kernel: &'static str,
    way: u32,
    /// One block at most, where that is the point of the method.
    one_block: bool,
    /// By a grid; one block has a form of its own.
    form: u32,
}

fn way_of(bench: &str, method: &str, elements: u64) -> Way {
    const PACKED: &str = "bench_allreduce_packed";
    let of = |kernel, way, one_block, form| Way { kernel, way, one_block, form };
    let method = match (method, bench) {
        ("switched", _) if elements > SWITCH => "all-to-all",
        ("switched", "reduce") => "gather",
        ("switched", _) => "all-gather",
        _ => method,
    };
    let staged = match method {
        "remote-read" => BENCH_WAY_REMOTE_READ,
        "gather" => BENCH_WAY_GATHER,
        "all-gather" => BENCH_WAY_ALL_GATHER,
        "tree" => BENCH_WAY_TREE,
        _ => BENCH_WAY_ALL_TO_ALL,
    };
    match (bench, method) {
        ("reduce", "packets") => of("bench_reduce_packed", 0, false, BENCH_FORM_OWNED),
        ("reduce", _) => of("bench_reduce_staged", staged, false, BENCH_FORM_GRID),
        (_, "block") => of(PACKED, BENCH_WAY_AUTO, true, BENCH_FORM_BLOCK),
        (_, "owned") => of(PACKED, BENCH_WAY_AUTO, false, BENCH_FORM_OWNED),
        (_, "shared") => of(PACKED, BENCH_WAY_AUTO, false, BENCH_FORM_SHARED),
        (_, "grid") => of(PACKED, BENCH_WAY_AUTO, false, BENCH_FORM_GRID),
        (_, "one-shot") => of(PACKED, BENCH_WAY_ONE_SHOT, false, BENCH_FORM_OWNED),
        (_, "two-shot") => of(PACKED, BENCH_WAY_TWO_SHOT, false, BENCH_FORM_OWNED),
        _ => of("bench_allreduce_staged", staged, false, BENCH_FORM_GRID),
    }
}

/// Blocks and threads: one block for short vectors, whose cost is the meeting; many for packets, of which a
/// multiprocessor sends about 25 bytes per nanosecond.
fn default_shape(options: &Options, way: &Way, elements: u64) -> (u32, u32) {
    let packets = way.kernel.ends_with("packed");
    match (options.device, elements) {
        (Device::Cpu, ..=4096) => (1, 32),
        (Device::Cpu, _) if way.one_block => (1, 32),
        (Device::Cpu, _) => (2, 32),
        (Device::Gpu, ..=64) => (1, 32),
        (Device::Gpu, ..=256) => (1, 128),
        (Device::Gpu, _) if way.one_block => (1, 512),
        (Device::Gpu, ..=16_384) if packets => (elements.div_ceil(512).clamp(2, 32) as u32, 256),
        (Device::Gpu, _) if packets => (32, 512),
        (Device::Gpu, ..=4096) => (1, 512),
        (Device::Gpu, _) => (16, 512),
    }
}

/// What a node adds, for even and odd rounds: small whole numbers, so that sums of floats are exact.
fn input(options: &Options, node: u32, round: u64, elements: u64) -> Vec<f32> {
    let random = RandomStream::new(options.seed, u64::from(node) * 2 + round % 2);
    (0..elements).map(|i| (random.word(i) % 8192) as f32).collect()
}

fn bytes_of(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Inputs of both parities and the output of one node.
struct Vectors {
    inputs: [KernelMem; 2],
    output: KernelMem,
}

impl Vectors {
    fn new(setup: &Setup, node: u32, elements: u64) -> Result<Self, BenchError> {
        let processor = setup.processor(node);
        let filled = |floats: Vec<f32>| -> Result<KernelMem, BenchError> {
            let memory = processor.alloc(floats.len() * 4).doing("allocating kernel memory")?;
            memory.write(0, &bytes_of(&floats)).doing("writing kernel memory")?;
            Ok(memory)
        };
        let of = |round| filled(input(setup.options, node, round, elements));
        Ok(Self { inputs: [of(0)?, of(1)?], output: filled(vec![-1.0; elements as usize])? })
    }
}

fn sums(
    task: Task,
    way: &Way,
    elements: u64,
    blocks: u32,
    threads: u32,
) -> Result<(Samples, Check), BenchError> {
    let kernel = way.kernel;
    // Only the root of a reduction waits; without meeting, the others would run ahead of it.
    let reduce = task.bench.name() == "reduce";
    let options = task.options;
    let setup = Setup::new(task, Worker::Kernels)?;
    let space = Space::for_blocks(&setup, 256, 4 * elements as usize, blocks)?;
    let small = if options.device == Device::Gpu { 2000 } else { 300 };
    let operations = options.iterations.unwrap_or((small * 1024 / elements.max(1024)).max(20));
    // Where all nodes wait for all, short operations by turns take long and short: together they tell the time of one.
    let batch = if reduce { 1 } else { BATCH.min(operations) };
    let rounds = operations / batch;
    let (mut vectors, mut probes, mut launches) = (Vec::new(), Vec::new(), Vec::new());
    for node in setup.local() {
        let own = Vectors::new(&setup, node, elements)?;
        let probe = Probe::with_warm_up(setup.processor(node), rounds)?;
        let args = bench_reduce {
            timing: probe.args(),
            group: space.group_of(node)?,
            in_: [own.inputs[0].address(), own.inputs[1].address()],
            out: own.output.address(),
            count: elements,
            apart: reduce.into(),
            way: way.way,
            form: if blocks == 1 { BENCH_FORM_BLOCK } else { way.form },
            batch: batch as u32,
        };
        launches.push(kernel::launch(setup.processor(node), kernel, blocks, threads, &args));
        vectors.push((node, own));
        probes.push(probe);
    }
    setup.share::<()>(Vec::new())?;
    kernel::run(&launches, options)?;
    space.check()?;
    for probe in &probes {
        probe.finished(kernel, None)?;
    }
    // Only the root of a reduction has the sums.
    vectors.retain(|(node, _)| *node == 0 || !reduce);
    // The last operation of the last round.
    let last = Probe::rounds_of(rounds) - 1 + (batch - 1);
    let check = check(options, elements, last, &vectors)?;
    let samples = setup.samples_of_first(&probes)?.map(|samples| samples.divided(batch));
    setup.collect(samples, check)
}

/// Compares the sums of operation `last`.
fn check(
    options: &Options,
    elements: u64,
    last: u64,
    vectors: &[(u32, Vectors)],
) -> Result<Check, BenchError> {
    let mut expected = vec![0.0_f32; elements as usize];
    for node in 0..options.nodes {
        for (sum, value) in expected.iter_mut().zip(input(options, node, last, elements)) {
            *sum += value;
        }
    }
    let expected = bytes_of(&expected);
    let mut check = Check::default();
    let mut seen = vec![0; expected.len()];
    for (node, own) in vectors {
        own.output.read(0, &mut seen).doing("reading kernel memory")?;
        check.bytes(&format!("sums at node {node}"), &expected, &seen);
    }
    Ok(check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_vectors_are_spread_by_all_to_all_and_small_ones_sent_whole() {
        let way = |bench, elements| way_of(bench, "switched", elements).way;
        for (bench, small) in [("reduce", BENCH_WAY_GATHER), ("allreduce", BENCH_WAY_ALL_GATHER)] {
            assert_eq!([1, SWITCH, SWITCH + 1].map(|n| way(bench, n)), [small, small, BENCH_WAY_ALL_TO_ALL]);
        }
    }
}
