//! The other barrier of thesis 6.7.2: kernels end, and the next begin when those of all nodes have.

use crate::args::bench_relaunch;
use ggas_kernels::{Behind, KernelMem, Launch, run_rounds, start};

use std::time::{Duration, Instant};

use crate::error::Doing;
use crate::kernel;
use crate::setup::{Setup, Worker};
use crate::space::Space;
use crate::team::Task;
use crate::{BenchError, Check, Device, Samples};

const KERNEL: &str = "bench_barrier_relaunched";
/// Between them, if they are behind those of their own node only.
const BETWEEN: &str = "bench_barrier_between";

/// Rounds of a graph.
const BATCH: u64 = 100;

/// Most GPUs whose kernels are behind those of all others in a graph. The host sees to these edges one after the other:
/// a round of 2, 3 and 4 H200 takes 2.6, 6.6 and 17 µs so, and 3.1 µs by a kernel that meets.
const MOST_BY_EDGES: u32 = 2;

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
    let space = Space::new(&setup, blocks as usize * options.nodes as usize * 8, 0)?;
    let wrong = setup
        .local()
        .map(|node| setup.processor(node).alloc(8).doing("allocating kernel memory"))
        .collect::<Result<Vec<_>, _>>()?;
    let graph = method == GRAPH;
    // Kernels that meet need a GPU each.
    let meets = graph && options.nodes > MOST_BY_EDGES && options.nodes <= options.gpus;
    let run = Relaunch { setup: &setup, space: &space, wrong: &wrong, blocks, threads, meets };
    let behind = if meets { Behind::Own } else { Behind::All };
    let limit = options.timeout * 2 + Duration::from_secs(20);
    let (checked, empty) = (run.rounds(true)?, run.rounds(false)?);
    if graph {
        run_rounds(&checked, behind, 1, limit).doing("running a graph")?;
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
        let took = run_rounds(&empty, behind, times + 1, limit).doing("running a graph")?;
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
    space.check()?;
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
    space: &'a Space,
    /// Of each node here: marks that were not there yet.
    wrong: &'a [KernelMem],
    blocks: u32,
    threads: u32,
    /// Behind each round the nodes meet by a kernel.
    meets: bool,
}

impl<'a> Relaunch<'a> {
    /// A batch; with `checks` the kernels look for what those of the round before stored.
    fn rounds(&self, checks: bool) -> Result<Vec<Vec<Launch<'a>>>, BenchError> {
        let mut rounds = Vec::new();
        for number in 0..BATCH {
            rounds.push(self.kernels(KERNEL, self.blocks, number, checks)?);
            if self.meets {
                rounds.push(self.kernels(BETWEEN, 1, number, checks)?);
            }
        }
        Ok(rounds)
    }

    /// One for each node here.
    fn kernels(
        &self,
        kernel: &'static str,
        blocks: u32,
        round: u64,
        checks: bool,
    ) -> Result<Vec<Launch<'a>>, BenchError> {
        let launch = |(node, wrong): (u32, &KernelMem)| {
            let args = bench_relaunch {
                window: self.space.window_of(node)?,
                marks: 0,
                wrong: if checks { wrong.address() } else { 0 },
                round,
                group: self.space.group_of(node)?,
            };
            Ok(kernel::launch(self.setup.processor(node), kernel, blocks, self.threads, &args))
        };
        self.setup.local().zip(self.wrong).map(launch).collect()
    }
}
