//! The other barrier of thesis 6.7.2: kernels end, and the next begin when those of all nodes have.

use ggas_kernels::args::bench_relaunch;
use ggas_kernels::{KernelMem, Launch, run_rounds, start};
use ggas_window::Window;

use std::time::{Duration, Instant};

use crate::error::Doing;
use crate::kernel;
use crate::setup::{Setup, Worker};
use crate::space::{window, window_of};
use crate::team::Task;
use crate::{BenchError, Check, Device, Samples};

const KERNEL: &str = "bench_barrier_relaunched";

/// Rounds of a graph.
const BATCH: u64 = 100;

/// The GPUs begin the next kernels when all have ended, by a graph.
pub(super) const GRAPH: &str = "graph";
/// The host does, which waits for all of them.
pub(super) const RELAUNCH: &str = "relaunch";

/// Samples of a round of kernels with nothing in them, and the check of rounds that store to the other nodes.
pub(super) fn rounds(
    task: Task,
    method: &str,
    blocks: u32,
    threads: u32,
) -> Result<(Samples, Check), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::Kernels)?;
    let window = window(&setup, blocks as usize * options.nodes as usize * 8)?;
    let wrong = setup
        .local()
        .map(|node| setup.processor(node).alloc(8).doing("allocating kernel memory"))
        .collect::<Result<Vec<_>, _>>()?;
    let run = Relaunch { setup: &setup, window: &window, wrong: &wrong, blocks, threads };
    let limit = options.timeout * 2 + Duration::from_secs(20);
    let checked = (0..BATCH).map(|number| run.round(number, true)).collect::<Result<Vec<_>, _>>()?;
    let empty = (0..BATCH).map(|number| run.round(number, false)).collect::<Result<Vec<_>, _>>()?;
    let graph = method == GRAPH;
    if graph {
        run_rounds(&checked, 1, limit).doing("running a graph")?;
    } else {
        by_host(&checked, limit)?;
    }
    let mut check = Check::default();
    for (node, wrong) in setup.local().zip(&wrong) {
        let early = wrong.load_u64(0).doing("reading kernel memory")?;
        if early > 0 {
            check.wrong(early, || format!("kernels of node {node} did not see what the round before stored"));
        }
    }
    let default = if options.device == Device::Gpu { 5000 } else { 300 };
    let iterations = options.iterations.unwrap_or(default);
    let mut ns = Vec::new();
    if graph {
        let times = (iterations / BATCH).clamp(2, 10_000) as u32;
        // The first is warm-up.
        let took = run_rounds(&empty, times + 1, limit).doing("running a graph")?;
        ns.extend(took.iter().skip(1).map(|all| all.as_nanos() as f64 / BATCH as f64));
    } else {
        let mut warm = false;
        while (ns.len() as u64) < iterations {
            let took = by_host(&empty, limit)?;
            ns.extend(took.into_iter().filter(|_| warm));
            warm = true;
        }
        ns.truncate(iterations as usize);
    }
    let batch = if graph { BATCH } else { 1 };
    setup.collect(Some(Samples::new(ns, batch)), check)
}

/// Nanoseconds of each round that the host starts and waits for.
fn by_host(rounds: &[Vec<Launch<'_>>], limit: Duration) -> Result<Vec<f64>, BenchError> {
    let one = |round: &Vec<Launch<'_>>| {
        let begun = Instant::now();
        start(round).and_then(|running| running.wait(limit)).doing("running kernels")?;
        Ok(begun.elapsed().as_nanos() as f64)
    };
    rounds.iter().map(one).collect()
}

struct Relaunch<'a> {
    setup: &'a Setup<'a>,
    window: &'a Window,
    /// Of each node here: marks that were not there yet.
    wrong: &'a [KernelMem],
    blocks: u32,
    threads: u32,
}

impl<'a> Relaunch<'a> {
    /// A kernel for each node here; with `checks` they look for what those of the round before stored.
    fn round(&self, round: u64, checks: bool) -> Result<Vec<Launch<'a>>, BenchError> {
        let launch = |(node, wrong): (u32, &KernelMem)| {
            let args = bench_relaunch {
                window: window_of(self.window, node)?,
                marks: 0,
                wrong: if checks { wrong.address() } else { 0 },
                round,
            };
            Ok(kernel::launch(self.setup.processor(node), KERNEL, self.blocks, self.threads, &args))
        };
        self.setup.local().zip(self.wrong).map(launch).collect()
    }
}
