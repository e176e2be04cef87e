//! `ggas-bandwidth` (thesis 6.6.2, 6.6.3): copies by plain stores and loads, coalesced and not.

use crate::args::bench_ggas_bandwidth;
use ggas_kernels::KernelMem;

use super::iterations_for;
use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::payload::RoundData;
use crate::setup::{Setup, Worker};
use crate::space::Space;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

/// Bytes that a thread moves at a time.
const UNIT: u64 = 16;

pub(crate) struct GgasBandwidth;

impl Bench for GgasBandwidth {
    fn name(&self) -> &'static str {
        "ggas-bandwidth"
    }

    fn about(&self) -> &'static str {
        "copies to and from another node by plain stores and loads (thesis 6.6.2)"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["store", "load", "store-strided", "load-strided"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let (sizes, shape): (&[u64], _) = match options.device {
            Device::Gpu => (&[65_536, 1 << 20, 16 << 20], (128, 512)),
            Device::Cpu => (&[4096, 65_536, 1 << 20], (1, 32)),
        };
        let sizes = options.sizes_or(sizes, UNIT..=64 << 20, UNIT)?;
        let mut report = task.report();
        let methods = task.methods();
        progress.begin(self.name(), (methods.len() * sizes.len()) as u64);
        for method in methods {
            for &bytes in &sizes {
                for &blocks in &options.blocks_or(&[shape.0]) {
                    for &threads in &options.threads_or(&[shape.1]) {
                        progress.now(format!("{method}, {bytes} bytes, {blocks} x {threads} threads"));
                        let (samples, check) = copy(task, method, bytes, blocks, threads)?;
                        let mut row = Row::new(&samples).method(method);
                        (row.blocks, row.threads) = (Some(blocks), Some(threads));
                        report.push(row.bytes(bytes).bandwidth_of(bytes), check);
                    }
                }
                progress.step();
            }
        }
        Ok(report)
    }
}

/// Kernel memory of node 0 that holds `bytes`.
fn filled(setup: &Setup, bytes: &[u8]) -> Result<KernelMem, BenchError> {
    let memory = setup.processor(0).alloc(bytes.len()).doing("allocating kernel memory")?;
    memory.write(0, bytes).doing("writing kernel memory")?;
    Ok(memory)
}

/// Copies of `bytes` by `store`, `load` or their strided forms.
pub(super) fn copy(
    task: Task,
    method: &str,
    bytes: u64,
    blocks: u32,
    threads: u32,
) -> Result<(Samples, Check), BenchError> {
    let options = task.options;
    let load = method.starts_with("load");
    let kernel = if load { "bench_ggas_load" } else { "bench_ggas_store" };
    let setup = Setup::new(task, Worker::Kernels)?;
    let len = bytes as usize;
    let space = Space::new(&setup, len, 4096)?;
    let data = RoundData::new(options.seed, 0, len);
    let small = if options.device == Device::Gpu { 1000 } else { 400 };
    let iterations = options.iterations.unwrap_or(iterations_for(small, bytes / 16));
    let [first, second] = [0, 1].map(|node| setup.ends().contains(&node));
    let mut check = Check::default();
    let mut samples = None;
    // Storing, node 1's part is poisoned and node 0 holds both sources; loading, it is the other way round.
    if second {
        let there = if load { data.of(0) } else { data.poison().to_vec() };
        space.window.write(1, 0, &there).doing("writing the window")?;
    }
    setup.share::<()>(Vec::new())?;
    if first {
        let here = match load {
            true => [filled(&setup, data.poison())?, filled(&setup, &[0])?],
            false => [filled(&setup, &data.of(0))?, filled(&setup, &data.of(1))?],
        };
        let probe = Probe::with_warm_up(setup.processor(0), iterations)?;
        let args = bench_ggas_bandwidth {
            timing: probe.args(),
            window: space.window_of(0)?,
            group: space.group_of(0)?,
            local: [here[0].address(), here[1].address()],
            offset: 0,
            bytes,
            peer: 1,
            strided: u32::from(method.ends_with("strided")),
        };
        kernel::run(&[kernel::launch(setup.processor(0), kernel, blocks, threads, &args)], options)?;
        space.check()?;
        probe.finished(kernel, None)?;
        samples = Some(probe.samples()?);
        if load {
            let mut seen = vec![0; len];
            here[0].read(0, &mut seen).doing("reading kernel memory")?;
            check.bytes("loaded bytes", &data.of(0), &seen);
        }
    }
    setup.share::<()>(Vec::new())?;
    if second && !load {
        let mut seen = vec![0; len];
        space.window.read(1, 0, &mut seen).doing("reading the window")?;
        check.bytes("stored bytes", &data.of(Probe::rounds_of(iterations) - 1), &seen);
    }
    setup.collect(samples, check)
}
