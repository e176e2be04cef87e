//! InfiniBand verbs (thesis 5.5.4, 5.5.5), on the software HCA. No HCA has run any of it.

mod by_host;
mod by_kernels;
pub(crate) mod ladder;
pub(crate) mod sides;

use ggas_verbs::Placement;
use ggas_verbs::layout::{GGAS_IBV_CMP_SWAP, GGAS_IBV_FETCH_ADD, GGAS_IBV_WRITE};

use crate::error::Doing;
use crate::payload::RoundData;
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Options, Progress, Report, Row, Samples, Team};
use sides::{Shape, Side};

/// Requests of a block in a round.
const BATCH: u32 = 32;
/// Most requests of a queue pair under way: fewer than a round has, so that queues are full at times, as in the thesis.
const DEPTH: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Bandwidth,
    Rate,
    Atomics,
}

pub(crate) struct VerbsBench {
    name: &'static str,
    about: &'static str,
    what: What,
    /// Sizes, and most bytes of a request.
    sizes: &'static [u64],
    most: u64,
    /// Numbers of queue pairs.
    pairs: &'static [u32],
}

pub(crate) const BANDWIDTH: VerbsBench = VerbsBench {
    name: "verbs-bandwidth",
    about: "writes by verbs on one queue pair of the software HCA, which kernels or hosts post (thesis 5.5.4)",
    what: What::Bandwidth,
    sizes: &[64, 1024, 4096, 65_536],
    most: 1 << 20,
    pairs: &[1],
};
pub(crate) const RATE: VerbsBench = VerbsBench {
    name: "verbs-rate",
    about: "short writes by verbs on 1 to 32 queue pairs of the software HCA, a block or a host thread each (thesis 5.5.4)",
    what: What::Rate,
    sizes: &[32],
    most: 4096,
    pairs: &[1, 2, 4, 8, 16, 32],
};
pub(crate) const ATOMICS: VerbsBench = VerbsBench {
    name: "verbs-atomics",
    about: "compare-and-swap and fetch-and-add by verbs of the software HCA, one after the other (thesis 5.5.4)",
    what: What::Atomics,
    sizes: &[8],
    most: 8,
    pairs: &[1],
};

/// Who posts, and where the queues lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    GpuQueues,
    HostQueues,
    Assisted,
    Host,
}

/// The thesis's four methods (5.5.4).
pub(crate) const WAYS: [(&str, Way); 4] = [
    ("gpu-queues", Way::GpuQueues),
    ("host-queues", Way::HostQueues),
    ("assisted", Way::Assisted),
    ("host", Way::Host),
];

impl Way {
    fn named(method: &str) -> Way {
        WAYS.iter().find(|(name, _)| *name == method).map_or(Way::Host, |(_, way)| *way)
    }

    fn placement(self) -> Placement {
        if self == Way::GpuQueues { Placement::Kernel } else { Placement::Host }
    }
}

/// What each report of verbs says.
pub(crate) const NO_HCA: &str = "a software HCA in this process; no HCA has run this";

/// One row's work: rounds of `batch` requests on each queue pair, waited for at their ends.
#[derive(Clone, Copy)]
struct Load {
    way: Way,
    operation: u32,
    pairs: u32,
    bytes: u64,
    batch: u32,
    rounds: u64,
}

impl Load {
    fn is_write(&self) -> bool {
        self.operation == GGAS_IBV_WRITE
    }

    /// Bytes that a queue pair's requests of a round move.
    fn part(&self) -> u64 {
        self.bytes * u64::from(self.batch)
    }

    /// Bytes that a round moves: what even rounds send, what odd ones send and what comes lie behind one another.
    fn length(&self) -> u64 {
        self.part() * u64::from(self.pairs)
    }

    /// Where queue pair `pair` takes from in round `round`, or has answers put.
    fn source(&self, pair: u64, round: u64) -> u64 {
        pair * self.part() + if self.is_write() { round % 2 * self.length() } else { 0 }
    }

    /// Where it goes.
    fn arrival(&self, pair: u64) -> u64 {
        2 * self.length() + pair * self.part()
    }

    fn sides(&self, setup: &Setup) -> Result<[Side; 2], BenchError> {
        let bytes = 3 * self.length() as usize;
        let (placement, pairs) = (self.way.placement(), self.pairs);
        let shape = Shape { placement, pairs, depth: DEPTH, ..Shape::new(bytes) };
        shape.open(setup)
    }
}

impl Bench for VerbsBench {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        const NAMES: [&str; 4] = [WAYS[0].0, WAYS[1].0, WAYS[2].0, WAYS[3].0];
        &NAMES
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let sizes = options.sizes_or(self.sizes, 8..=self.most, 8)?;
        let pairs = if self.what == What::Rate { options.blocks_or(self.pairs) } else { self.pairs.to_vec() };
        if let Some(bad) = pairs.iter().find(|pairs| !(1..=64).contains(*pairs)) {
            return Err(BenchError::option("blocks", bad, "use 1 to 64: each has a queue pair"));
        }
        let mut report = task.report();
        report.notes.push(NO_HCA.to_owned());
        let methods = task.methods();
        progress.begin(self.name, (methods.len() * sizes.len() * pairs.len()) as u64);
        for method in methods {
            for &bytes in &sizes {
                for &pairs in &pairs {
                    progress.now(format!("{method}, {bytes} bytes, {pairs} queue pairs"));
                    self.rows(task, &mut report, (method, bytes, pairs))?;
                    progress.step();
                }
            }
        }
        Ok(report)
    }
}

impl VerbsBench {
    fn rows(
        &self,
        task: Task,
        report: &mut Report,
        (method, bytes, pairs): (&'static str, u64, u32),
    ) -> Result<(), BenchError> {
        let operations: &[(&str, u32)] = match self.what {
            What::Atomics => {
                &[("compare-and-swap", GGAS_IBV_CMP_SWAP), ("fetch-and-add", GGAS_IBV_FETCH_ADD)]
            }
            _ => &[("write", GGAS_IBV_WRITE)],
        };
        for &(name, operation) in operations {
            let (batch, usual) = if self.what == What::Atomics { (1, 500) } else { (BATCH, 20) };
            let rounds = task.options.iterations.unwrap_or(usual);
            let load = Load { way: Way::named(method), operation, pairs, bytes, batch, rounds };
            let (samples, check) = measure(task, load)?;
            let mut row = Row::new(&samples).method(method).bytes(bytes);
            match self.what {
                What::Bandwidth => row = row.bandwidth_of(bytes),
                What::Rate => {
                    row.rate_per_s = samples.rate_per_s();
                    row = row.with("queue pairs", pairs);
                }
                What::Atomics => row = row.with("operation", name),
            }
            if load.way != Way::Host {
                (row.blocks, row.threads) = (Some(pairs), Some(threads(task.options)));
            }
            report.push(row, check);
        }
        Ok(())
    }
}

/// Threads of a block: the thesis's 64.
fn threads(options: &Options) -> u32 {
    options.threads_or(&[64]).first().copied().unwrap_or(64)
}

/// Half round trips of writes by kernels, which the host makes for them where `way` says so.
pub(crate) fn pingpong(task: Task, method: &str, bytes: u64) -> Result<(Samples, Check), BenchError> {
    let rounds = task.options.iterations.unwrap_or(1000);
    let load = Load { way: Way::named(method), operation: GGAS_IBV_WRITE, pairs: 1, bytes, batch: 1, rounds };
    let setup = Setup::new(task, Worker::Kernels)?;
    let sides = load.sides(&setup)?;
    let data = RoundData::new(task.options.seed, 0, bytes as usize);
    for side in &sides {
        let write = |at: u64, bytes: &[u8]| side.mr.buffer().write(at as usize, bytes);
        (0..2).try_for_each(|round| write(load.source(0, round), &data.of(round))).doing("writing memory")?;
    }
    let (samples, rounds) = by_kernels::pingpong(&setup, &sides, load)?;
    let mut check = Check::default();
    for side in &sides {
        let mut seen = vec![0; bytes as usize];
        side.mr.buffer().read(load.arrival(0) as usize, &mut seen).doing("reading memory")?;
        let mut expected = data.of(rounds - 1);
        let last = expected.len() - 8;
        expected[last..].copy_from_slice(&rounds.to_le_bytes());
        check.bytes("what arrived", &expected, &seen);
    }
    Ok((samples.halved(), check))
}

/// Times per request.
fn measure(task: Task, load: Load) -> Result<(Samples, Check), BenchError> {
    let worker = if load.way == Way::Host { Worker::Host } else { Worker::Kernels };
    let setup = Setup::new(task, worker)?;
    let sides = load.sides(&setup)?;
    let data = RoundData::new(task.options.seed, 0, load.length() as usize);
    lay_out(&sides, load, &data)?;
    let (samples, rounds) = match load.way {
        Way::Host => by_host::run(&setup, &sides, load)?,
        _ => by_kernels::run(&setup, &sides, load)?,
    };
    let check = arrived(&sides[1], &sides[0], load, &data, rounds)?;
    Ok((samples.divided(u64::from(load.batch) * u64::from(load.pairs)), check))
}

fn lay_out(sides: &[Side; 2], load: Load, data: &RoundData) -> Result<(), BenchError> {
    let length = load.length() as usize;
    for side in sides {
        let write = |at: usize, bytes: &[u8]| side.mr.buffer().write(at, bytes).doing("writing memory");
        write(0, &data.of(0))?;
        write(length, &data.of(1))?;
        // Atomic operations count from 0.
        if load.is_write() { write(2 * length, data.poison())? } else { write(2 * length, &vec![0; length])? }
    }
    Ok(())
}

/// Whether the last round's data came, or every atomic operation was done once.
fn arrived(to: &Side, from: &Side, load: Load, data: &RoundData, rounds: u64) -> Result<Check, BenchError> {
    let mut check = Check::default();
    let length = load.length() as usize;
    if load.is_write() {
        let mut seen = vec![0; length];
        to.mr.buffer().read(2 * length, &mut seen).doing("reading memory")?;
        check.bytes("what arrived", &data.of(rounds - 1), &seen);
    } else {
        let word = to.mr.buffer().load_u64(load.arrival(0) as usize).doing("reading the word")?;
        check.equal("the word, counted up", rounds, word);
        let last = from.mr.buffer().load_u64(load.source(0, 0) as usize).doing("reading an answer")?;
        check.equal("what the last operation brought back", rounds - 1, last);
    }
    Ok(check)
}
