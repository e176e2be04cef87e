//! `barrier` (thesis 6.7): the GGAS barrier inside a kernel, by one block per node and by several, and beside it the end
//! of kernels (6.7.2).

use crate::args::{BENCH_MEET_BARRIER, BENCH_MEET_MASTER, BENCH_MEET_SYNC, bench_barrier};
use ggas_kernels::KernelMem;

use super::relaunch::{self, GRAPH, RELAUNCH};
use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::setup::{Setup, Worker};
use crate::space::Space;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

const KERNEL: &str = "bench_barrier_rounds";

/// Rounds in which every block checks that all others came.
const CHECKED_ROUNDS: u64 = 100;

/// Barriers timed together.
const BATCH: u64 = 10;

pub(crate) struct Barrier;

impl Bench for Barrier {
    fn name(&self) -> &'static str {
        "barrier"
    }

    fn about(&self) -> &'static str {
        "the GGAS barrier inside a kernel, one block per node or several, and by the end of kernels (thesis 6.7)"
    }

    fn methods(&self) -> &'static [&'static str] {
        &["sync", "single", "single-write", "master", "hierarchical", RELAUNCH, GRAPH]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        if !options.sizes.is_empty() {
            return Err(BenchError::option("sizes", options.sizes[0], "a barrier has no size"));
        }
        let mut report = task.report();
        let mut runs = Vec::new();
        let mut methods = task.methods();
        // The host and a graph know the kernels of one process.
        let fits = |method: &str| match method {
            RELAUNCH => team.size() == 1,
            GRAPH => team.size() == 1 && options.device == Device::Gpu,
            _ => true,
        };
        methods.retain(|method| fits(method));
        if methods.is_empty() {
            let method = options.method.as_deref().unwrap_or_default();
            let advice = "graph needs GPUs, and both graph and relaunch one process for all nodes";
            return Err(BenchError::option("method", method, advice));
        }
        for method in methods {
            for nodes in node_counts(options.nodes, team.size() > 1) {
                for blocks in blocks_of(method, options) {
                    for threads in options.threads_or(&[default_threads(options.device, nodes * blocks)]) {
                        runs.push((method, nodes, blocks, threads));
                    }
                }
            }
        }
        progress.begin(self.name(), runs.len() as u64);
        for (method, nodes, blocks, threads) in runs {
            progress.now(format!("{nodes} nodes, {blocks} x {threads} threads"));
            let options = Options { nodes, ..options.clone() };
            let task = Task { options: &options, ..task };
            let (samples, check) = match method {
                RELAUNCH | GRAPH => relaunch::rounds(task, method, blocks, threads)?,
                _ => barrier(task, method, blocks, threads)?,
            };
            let mut row = Row::new(&samples).method(method);
            (row.nodes, row.blocks, row.threads) = (Some(nodes), Some(blocks), Some(threads));
            row.rate_per_s = samples.rate_per_s();
            report.push(row, check);
            progress.step();
        }
        Ok(report)
    }
}

/// 2, 4, 8 and so on below `nodes`, and `nodes`; all or none of them where each is a process.
fn node_counts(nodes: u32, processes: bool) -> Vec<u32> {
    if processes {
        return vec![nodes];
    }
    let doublings = std::iter::successors(Some(2_u32), |n| n.checked_mul(2));
    doublings.take_while(|n| *n < nodes).chain([nodes]).collect()
}

/// On the CPU executor all threads of all blocks have a stack at once, and a machine has room for some ten thousand.
fn default_threads(device: Device, blocks: u32) -> u32 {
    match device {
        Device::Gpu => 64,
        Device::Cpu => (16_384 / blocks.max(1)).clamp(1, 32),
    }
}

fn blocks_of(method: &str, options: &Options) -> Vec<u32> {
    match method {
        RELAUNCH | GRAPH => options.blocks_or(&[1, 4]),
        "hierarchical" => options.blocks_or(&[4]).into_iter().filter(|blocks| *blocks > 1).collect(),
        _ => vec![1],
    }
}

fn barrier(task: Task, method: &str, blocks: u32, threads: u32) -> Result<(Samples, Check), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::Kernels)?;
    let marks = blocks as usize * options.nodes as usize * 8;
    // A word of each thread and node that writes.
    let written = blocks as usize * threads as usize * options.nodes as usize * 8;
    let space = Space::new(&setup, marks + written, 0)?;
    let wrong = setup
        .local()
        .map(|node| setup.processor(node).alloc(8).doing("allocating kernel memory"))
        .collect::<Result<Vec<_>, _>>()?;
    let run = Run { setup: &setup, space: &space, method, blocks, threads, marks };
    run.rounds(CHECKED_ROUNDS, Some(&wrong))?;
    let mut check = Check::default();
    for (node, wrong) in setup.local().zip(&wrong) {
        let early = wrong.load_u64(0).doing("reading kernel memory")?;
        if early > 0 {
            check.wrong(early, || format!("node {node} left a barrier before all others had come"));
        }
    }
    let default = if options.device == Device::Gpu { 5000 } else { 300 };
    let samples = run.rounds(options.iterations.unwrap_or(default), None)?;
    setup.collect(samples, check)
}

struct Run<'a> {
    setup: &'a Setup<'a>,
    space: &'a Space,
    method: &'a str,
    blocks: u32,
    threads: u32,
    /// Bytes of marks in the window; what threads write lies behind them.
    marks: usize,
}

impl Run<'_> {
    /// Barriers on all nodes; with `wrong` every block also marks and checks. Gives the samples of node 0.
    fn rounds(&self, rounds: u64, wrong: Option<&[KernelMem]>) -> Result<Option<Samples>, BenchError> {
        let setup = self.setup;
        let kind = match self.method {
            "sync" => BENCH_MEET_SYNC,
            "master" => BENCH_MEET_MASTER,
            _ => BENCH_MEET_BARRIER,
        };
        // One meeting is short beside what reading the clock and noting a sample takes.
        let batch = if wrong.is_some() { 1 } else { BATCH.min(rounds) };
        let rounds = rounds / batch;
        let mut probes = Vec::new();
        let mut launches = Vec::new();
        for (index, node) in setup.local().enumerate() {
            let probe = Probe::with_warm_up(setup.processor(node), rounds)?;
            let args = bench_barrier {
                timing: probe.args(),
                group: self.space.group_of(node)?,
                window: self.space.window_of(node)?,
                marks: 0,
                wrong: wrong.and_then(|wrong| wrong.get(index)).map_or(0, KernelMem::address),
                writes: if self.method == "single-write" { self.marks as u64 } else { u64::MAX },
                kind,
                batch: batch as u32,
            };
            let (blocks, threads) = (self.blocks, self.threads);
            launches.push(kernel::launch(setup.processor(node), KERNEL, blocks, threads, &args));
            probes.push(probe);
        }
        // No kernel begins before all nodes are ready, since the waits of the first are bounded.
        setup.share::<()>(Vec::new())?;
        kernel::run(&launches, setup.options)?;
        self.space.check()?;
        for probe in &probes {
            probe.finished(KERNEL, None)?;
        }
        Ok(setup.samples_of_first(&probes)?.map(|samples| samples.divided(batch)))
    }
}

#[cfg(test)]
mod tests {
    use super::{default_threads, node_counts};
    use crate::Device;

    #[test]
    fn many_nodes_have_fewer_threads_on_the_cpu() {
        let threads = |blocks| default_threads(Device::Cpu, blocks);
        assert_eq!([2, 512, 1024, 4096, u32::MAX].map(threads), [32, 32, 16, 4, 1]);
        assert_eq!(default_threads(Device::Gpu, 1024), 64);
    }

    #[test]
    fn rows_double_the_nodes() {
        assert_eq!(node_counts(2, false), [2]);
        assert_eq!(node_counts(6, false), [2, 4, 6]);
        assert_eq!(node_counts(8, false), [2, 4, 8]);
        assert_eq!(node_counts(8, true), [8]);
    }
}
