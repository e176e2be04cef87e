//! `global-reduction` (thesis 6.9.2): values that are spread over the nodes become one sum, inside a kernel.

use crate::args::bench_global;
use ggas_kernels::KernelMem;

use super::iterations_for;
use crate::error::Doing;
use crate::host::require_memory;
use crate::kernel::{self, Probe};
use crate::setup::{Setup, Worker};
use crate::space::Space;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, RandomStream, Report, Row, Samples, Team};

const KERNEL: &str = "bench_global_sum";

/// Values of a node at most: 1 GiB.
const MAX_ELEMENTS: u64 = 128 << 20;

pub(crate) struct GlobalReduction;

impl Bench for GlobalReduction {
    fn name(&self) -> &'static str {
        "global-reduction"
    }

    fn about(&self) -> &'static str {
        "sum of doubles spread over the nodes: each sums its own, then they allreduce (thesis 6.9.2); elements: of a node"
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let sizes: &[u64] = match options.device {
            Device::Gpu => &[1024, 65_536, 1 << 20, 16 << 20],
            Device::Cpu => &[1024, 16_384],
        };
        let sizes = options.sizes_or(sizes, 1..=MAX_ELEMENTS, 1)?;
        for &elements in &sizes {
            require_memory(elements, elements.saturating_mul(4 * 8 * u64::from(options.nodes)))?;
        }
        let mut report = task.report();
        progress.begin(self.name(), sizes.len() as u64);
        for &elements in &sizes {
            let shape = default_shape(options.device, elements);
            for blocks in options.blocks_or(&[shape.0]) {
                for threads in options.threads_or(&[shape.1]) {
                    let threads = threads.next_multiple_of(32).min(512);
                    progress.now(format!("{elements} elements, {blocks} x {threads} threads"));
                    let (samples, check) = sums(task, elements, blocks, threads)?;
                    let mut row = Row::new(&samples);
                    row.elements = Some(elements);
                    (row.blocks, row.threads) = (Some(blocks), Some(threads));
                    row.rate_per_s = samples.rate_per_s();
                    report.push(row.bandwidth_of(8 * elements), check);
                }
            }
            progress.step();
        }
        Ok(report)
    }
}

fn default_shape(device: Device, elements: u64) -> (u32, u32) {
    match device {
        Device::Cpu => (2, 32),
        Device::Gpu => (elements.div_ceil(2048).clamp(1, 132) as u32, 512),
    }
}

/// What a node has in even and odd rounds: small whole numbers, so that sums are exact.
fn input(options: &Options, node: u32, round: u64, elements: u64) -> Vec<f64> {
    let random = RandomStream::new(options.seed, u64::from(node) * 2 + round % 2);
    (0..elements).map(|i| (random.word(i) % 8192) as f64).collect()
}

/// One node's memory.
struct Node {
    inputs: [KernelMem; 2],
    partial: KernelMem,
    out: KernelMem,
    probe: Probe,
}

impl Node {
    fn new(setup: &Setup, node: u32, elements: u64, blocks: u32, rounds: u64) -> Result<Self, BenchError> {
        let processor = setup.processor(node);
        let filled = |values: Vec<f64>| -> Result<KernelMem, BenchError> {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
            let memory = processor.alloc(bytes.len()).doing("allocating kernel memory")?;
            memory.write(0, &bytes).doing("writing kernel memory")?;
            Ok(memory)
        };
        let of = |round| filled(input(setup.options, node, round, elements));
        Ok(Self {
            inputs: [of(0)?, of(1)?],
            partial: filled(vec![-1.0; 2 * blocks as usize])?,
            out: filled(vec![-1.0])?,
            probe: Probe::with_warm_up(processor, rounds)?,
        })
    }
}

fn sums(task: Task, elements: u64, blocks: u32, threads: u32) -> Result<(Samples, Check), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::Kernels)?;
    let space = Space::new(&setup, 256, 4096)?;
    let small = if options.device == Device::Gpu { 5000 } else { 200 };
    let rounds = options.iterations.unwrap_or(iterations_for(small, elements * 8 / 64));
    let own = |node| Node::new(&setup, node, elements, blocks, rounds);
    let nodes = setup.local().map(own).collect::<Result<Vec<_>, _>>()?;
    let mut launches = Vec::new();
    for (node, own) in setup.local().zip(&nodes) {
        let args = bench_global {
            timing: own.probe.args(),
            group: space.group_of(node)?,
            in_: [own.inputs[0].address(), own.inputs[1].address()],
            partial: own.partial.address(),
            out: own.out.address(),
            count: elements,
        };
        launches.push(kernel::launch(setup.processor(node), KERNEL, blocks, threads, &args));
    }
    setup.share::<()>(Vec::new())?;
    kernel::run(&launches, options)?;
    space.check()?;
    let last = Probe::rounds_of(rounds) - 1;
    let expected: f64 = (0..options.nodes).flat_map(|node| input(options, node, last, elements)).sum();
    let mut check = Check::default();
    for (node, own) in setup.local().zip(&nodes) {
        own.probe.finished(KERNEL, None)?;
        let seen = own.out.read_u64s(0, 1).doing("reading kernel memory")?;
        check.equal(&format!("sum at node {node}"), expected.to_bits(), seen[0]);
    }
    let samples = match nodes.first() {
        Some(first) if setup.local().start == 0 => Some(first.probe.samples()?),
        _ => None,
    };
    setup.collect(samples, check)
}
