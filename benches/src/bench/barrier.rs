//! `barrier` (thesis 6.7): the GGAS barrier inside a kernel, by one block per node and by several.

use ggas_kernels::KernelMem;
use ggas_kernels::args::bench_barrier;

use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::setup::{Setup, Worker};
use crate::space::Space;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

const KERNEL: &str = "bench_barrier_rounds";

/// Rounds in which every block checks that all others came.
const CHECKED_ROUNDS: u64 = 100;

pub(crate) struct Barrier;

impl Bench for Barrier {
    fn name(&self) -> &'static str {
        "barrier"
    }

    fn about(&self) -> &'static str {
        "the GGAS barrier inside a kernel, one block per node or several (thesis 6.7)"
    }

    fn methods(&self) -> &'static [&'static str] {
        &["single", "hierarchical"]
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
        for method in task.methods() {
            for nodes in node_counts(options.nodes, team.size() > 1) {
                for blocks in blocks_of(method, options) {
                    for threads in options.threads_or(&[if options.device == Device::Gpu { 64 } else { 32 }])
                    {
                        runs.push((method, nodes, blocks, threads));
                    }
                }
            }
        }
        progress.begin(self.name(), runs.len() as u64);
        for (method, nodes, blocks, threads) in runs {
            progress.now(format!("{nodes} nodes, {blocks} x {threads} threads"));
            let options = Options { nodes, ..options.clone() };
            let (samples, check) = barrier(Task { options: &options, ..task }, blocks, threads)?;
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

fn blocks_of(method: &str, options: &Options) -> Vec<u32> {
    match method {
        "single" => vec![1],
        _ => options.blocks_or(&[4]).into_iter().filter(|blocks| *blocks > 1).collect(),
    }
}

fn barrier(task: Task, blocks: u32, threads: u32) -> Result<(Samples, Check), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::Kernels)?;
    let marks = blocks as usize * options.nodes as usize * 8;
    let space = Space::new(&setup, marks, 4096)?;
    let wrong = setup
        .local()
        .map(|node| setup.processor(node).alloc(8).doing("allocating kernel memory"))
        .collect::<Result<Vec<_>, _>>()?;
    run(&setup, &space, blocks, threads, CHECKED_ROUNDS, Some(&wrong))?;
    let mut check = Check::default();
    for (node, wrong) in setup.local().zip(&wrong) {
        let early = wrong.load_u64(0).doing("reading kernel memory")?;
        if early > 0 {
            check.wrong(early, || format!("node {node} left a barrier before all others had come"));
        }
    }
    let default = if options.device == Device::Gpu { 5000 } else { 300 };
    let samples = run(&setup, &space, blocks, threads, options.iterations.unwrap_or(default), None)?;
    setup.collect(samples, check)
}

/// Runs barriers on all nodes; with `wrong` every block also marks and checks. Gives the samples of node 0.
fn run(
    setup: &Setup,
    space: &Space,
    blocks: u32,
    threads: u32,
    rounds: u64,
    wrong: Option<&[KernelMem]>,
) -> Result<Option<Samples>, BenchError> {
    let mut probes = Vec::new();
    let mut launches = Vec::new();
    for (index, node) in setup.local().enumerate() {
        let probe = Probe::with_warm_up(setup.processor(node), rounds)?;
        let mut args = bench_barrier {
            timing: probe.args(),
            group: space.group_of(node)?,
            window: 0,
            marks: 0,
            wrong: 0,
        };
        if let Some(wrong) = wrong.and_then(|wrong| wrong.get(index)) {
            args.window = space.window_of(node)?;
            args.wrong = wrong.address();
        }
        launches.push(kernel::launch(setup.processor(node), KERNEL, blocks, threads, &args));
        probes.push(probe);
    }
    // No kernel begins before all nodes are ready, since the waits of the first are bounded.
    setup.share::<()>(Vec::new())?;
    kernel::run(&launches, setup.options)?;
    space.check()?;
    for probe in &probes {
        probe.finished(KERNEL, None)?;
    }
    setup.samples_of_first(&probes)
}

#[cfg(test)]
mod tests {
    use super::node_counts;

    #[test]
    fn rows_double_the_nodes() {
        assert_eq!(node_counts(2, false), [2]);
        assert_eq!(node_counts(6, false), [2, 4, 6]);
        assert_eq!(node_counts(8, false), [2, 4, 8]);
        assert_eq!(node_counts(8, true), [8]);
    }
}
