//! `collectives`: broadcast, all-gather, all-to-all and reduce-scatter inside a kernel, by packets.

use crate::args::*;
use ggas_kernels::KernelMem;

use super::reduce::BATCH;
use crate::error::Doing;
use crate::host::require_memory;
use crate::kernel::{self, Probe};
use crate::setup::{Setup, Worker};
use crate::space::Space;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, RandomStream, Report, Row, Samples, Team};

const KERNEL: &str = "bench_collective";

/// Floats of each node at most: 4 MiB.
const MAX_ELEMENTS: u64 = 1 << 20;

pub(crate) struct Collectives;

impl Bench for Collectives {
    fn name(&self) -> &'static str {
        "collectives"
    }

    fn about(&self) -> &'static str {
        "broadcast, all-gather, all-to-all, reduce-scatter inside a kernel; elements: floats from one node to another"
    }

    fn methods(&self) -> &'static [&'static str] {
        &["broadcast", "all-gather", "all-to-all", "reduce-scatter"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let sizes = options.sizes_or(&[1, 64, 1024, 16_384], 1..=MAX_ELEMENTS, 1)?;
        for &elements in &sizes {
            require_memory(elements, elements.saturating_mul(3 * 4 * u64::from(options.nodes).pow(2)))?;
        }
        let mut report = task.report();
        let methods = task.methods();
        progress.begin(self.name(), (methods.len() * sizes.len()) as u64);
        for method in methods {
            for &elements in &sizes {
                let shape = default_shape(options, elements);
                for blocks in options.blocks_or(&[shape.0]) {
                    for threads in options.threads_or(&[shape.1]) {
                        progress.now(format!("{method}, {elements} elements, {blocks} x {threads} threads"));
                        let (samples, check) = moves(task, method, elements, blocks, threads)?;
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
}

fn default_shape(options: &Options, elements: u64) -> (u32, u32) {
    match (options.device, elements) {
        (Device::Cpu, _) => (1, 32),
        (Device::Gpu, ..=64) => (1, 32),
        (Device::Gpu, _) => (elements.div_ceil(512).clamp(1, 32) as u32, 256),
    }
}

/// What a node puts in, for even and odd rounds: small whole numbers, so that sums are exact.
fn input(options: &Options, node: u32, round: u64, len: u64) -> Vec<f32> {
    let random = RandomStream::new(options.seed, u64::from(node) * 2 + round % 2);
    (0..len).map(|i| (random.word(i) % 8192) as f32).collect()
}

fn bytes_of(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn moves(
    task: Task,
    method: &str,
    elements: u64,
    blocks: u32,
    threads: u32,
) -> Result<(Samples, Check), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::Kernels)?;
    let space = Space::new(&setup, 256, 4096)?;
    let all = elements * u64::from(options.nodes);
    let (way, in_len, out_len) = match method {
        "broadcast" => (BENCH_MOVE_BROADCAST, elements, elements),
        "all-gather" => (BENCH_MOVE_ALL_GATHER, elements, all),
        "all-to-all" => (BENCH_MOVE_ALL_TO_ALL, all, all),
        _ => (BENCH_MOVE_REDUCE_SCATTER, all, elements),
    };
    let small = if options.device == Device::Gpu { 2000 } else { 300 };
    let operations = options.iterations.unwrap_or((small * 4096 / elements.max(4096)).max(20));
    // The root of a broadcast waits for nobody.
    let apart = method == "broadcast";
    let batch = if apart { 1 } else { BATCH.min(operations) };
    let rounds = operations / batch;
    let (mut memory, mut probes, mut launches) = (Vec::new(), Vec::new(), Vec::new());
    for node in setup.local() {
        let filled = |floats: Vec<f32>| -> Result<KernelMem, BenchError> {
            let memory = setup.processor(node).alloc(floats.len() * 4).doing("allocating kernel memory")?;
            memory.write(0, &bytes_of(&floats)).doing("writing kernel memory")?;
            Ok(memory)
        };
        let inputs = [filled(input(options, node, 0, in_len))?, filled(input(options, node, 1, in_len))?];
        let output = filled(vec![-1.0; out_len as usize])?;
        let probe = Probe::with_warm_up(setup.processor(node), rounds)?;
        let args = bench_reduce {
            timing: probe.args(),
            group: space.group_of(node)?,
            in_: [inputs[0].address(), inputs[1].address()],
            out: output.address(),
            count: elements,
            apart: apart.into(),
            way,
            form: if blocks == 1 { BENCH_FORM_BLOCK } else { BENCH_FORM_OWNED },
            batch: batch as u32,
        };
        launches.push(kernel::launch(setup.processor(node), KERNEL, blocks, threads, &args));
        memory.push((node, inputs, output));
        probes.push(probe);
    }
    setup.share::<()>(Vec::new())?;
    kernel::run(&launches, options)?;
    space.check()?;
    for probe in &probes {
        probe.finished(KERNEL, None)?;
    }
    let mut check = Check::default();
    let last = Probe::rounds_of(rounds) - 1 + (batch - 1);
    let inputs: Vec<_> = (0..options.nodes).map(|node| input(options, node, last, in_len)).collect();
    for (node, _, output) in &memory {
        // The root keeps what it sends in its input.
        if method == "broadcast" && *node == 0 {
            continue;
        }
        let own = (*node as u64 * elements) as usize..((*node as u64 + 1) * elements) as usize;
        let expected: Vec<f32> = match method {
            "broadcast" => inputs[0].clone(),
            "all-gather" => inputs.concat(),
            "all-to-all" => inputs.iter().flat_map(|from| from[own.clone()].to_vec()).collect(),
            _ => own.map(|i| inputs.iter().map(|from| from[i]).sum()).collect(),
        };
        let mut seen = vec![0; expected.len() * 4];
        output.read(0, &mut seen).doing("reading kernel memory")?;
        check.bytes(&format!("results at node {node}"), &bytes_of(&expected), &seen);
    }
    let samples = setup.samples_of_first(&probes)?.map(|samples| samples.divided(batch));
    setup.collect(samples, check)
}
