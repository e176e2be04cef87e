//! `verbs-ladder`: the time inside post and inside poll, without the waits between them, for each step of thesis Table 5.4, and of the
//! RMA unit's post and poll beside it (5.5.5, 5.6.4).

use ggas_kernels::KernelMem;
use ggas_verbs::layout::{GGAS_IBV_MLX4, GGAS_IBV_MLX5};
use ggas_verbs::{Format, Placement};

use super::sides::{Shape, Side};
use crate::args::{
    BENCH_VERBS_POLL, BENCH_VERBS_POST, bench_rma_calls, bench_verbs_counts, bench_verbs_ladder,
};
use crate::ends::{self, KernelEnd, Program, kernel_ends};
use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::payload::{Layout, RoundData};
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Options, Progress, Report, Row, Samples, Team};

/// The steps, each with all before it; of mlx5's queues three of them; the RMA unit's descriptors and notifications.
const METHODS: [&str; 10] =
    ["port", "shared", "static", "unstamped", "bare", "near", "mlx5-static", "mlx5-bare", "mlx5-near", RMA];
const RMA: &str = "rma";
/// Of `METHODS`, from this one on: the format, and the step.
const MLX5: [u32; 3] = [2, 4, 5];
const LADDER: usize = 6;
/// From this step on keys are given as they lie in requests.
const STATIC: u32 = 2;
/// From this step on accesses are ordered on the GPU, where the queues have to lie then.
const NEAR: u32 = 5;
/// Calls that counts are told of, as in Table 5.3.
const COUNTED: u64 = 100;
/// Numbers in `bench_verbs_counts`.
const COUNTS: [&str; 5] = ["queue_reads", "queue_writes", "doorbells", "table_reads", "table_writes"];

pub(crate) struct VerbsLadder;

impl Bench for VerbsLadder {
    fn name(&self) -> &'static str {
        "verbs-ladder"
    }

    fn about(&self) -> &'static str {
        "time inside post and poll of verbs, waiting excluded, by the steps of thesis Table 5.4; of the RMA unit's beside it"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &METHODS
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let sizes = options.sizes_or(&[64], 8..=4096, 8)?;
        let threads = options.threads_or(&[1, 32, 64]);
        if let Some(bad) = threads.iter().find(|threads| **threads != 1 && !(32..=512).contains(*threads)) {
            let advice = "use 1 for the form of a thread, 32 for a warp's, 64 to 512 for a block's";
            return Err(BenchError::option("threads", bad, advice));
        }
        let mut report = task.report();
        report.notes.push(super::NO_HCA.to_owned());
        report.notes.push(format!(
            "accesses are of {COUNTED} calls: those by the vocabulary, counted by a kernel of its own"
        ));
        let methods = task.methods();
        progress.begin(self.name(), methods.len() as u64);
        for method in methods {
            progress.now(method);
            for &bytes in &sizes {
                for call in CALLS {
                    if method == RMA {
                        let (samples, check) = rma(task, bytes, call)?;
                        let row = Row::new(&samples).method(method).bytes(bytes).with("call", call.0);
                        report.push(of_threads(row, 1), check);
                        continue;
                    }
                    verbs(task, &mut report, (method, bytes, call), &threads)?;
                }
            }
            progress.step();
        }
        Ok(report)
    }
}

/// A call that is timed.
type Call = (&'static str, u32);
const CALLS: [Call; 2] = [("post", BENCH_VERBS_POST), ("poll", BENCH_VERBS_POLL)];

fn of_threads(mut row: Row, threads: u32) -> Row {
    (row.blocks, row.threads) = (Some(1), Some(threads));
    row
}

/// The rows of a step's call: both places of queues, and all forms.
fn verbs(
    task: Task,
    report: &mut Report,
    (method, bytes, call): (&'static str, u64, Call),
    threads: &[u32],
) -> Result<(), BenchError> {
    let position = METHODS.iter().position(|name| *name == method).unwrap_or(0);
    let (format, step) = match position.checked_sub(LADDER) {
        None => (Format::Mlx4, position as u32),
        Some(at) => (Format::Mlx5, MLX5[at]),
    };
    let places = [("host", Placement::Host), ("gpu", Placement::Kernel)];
    for (queues, placement) in places.into_iter().skip(usize::from(step >= NEAR)) {
        for &threads in threads {
            let load = Load { format, step, bytes, placement, threads, call: call.1 };
            let (samples, mut check) = load.measure(task, rounds(task.options))?;
            let row = Row::new(&samples).method(method).bytes(bytes).with("step", step);
            let mut row = of_threads(row.with("queues", queues).with("call", call.0), threads);
            let (counts, counted) = load.count(task)?;
            check.merge(counted);
            for (name, count) in COUNTS.into_iter().zip(counts) {
                row = row.with(name, count);
            }
            report.push(row, check);
        }
    }
    Ok(())
}

fn rounds(options: &Options) -> u64 {
    options.iterations.unwrap_or(2000)
}

/// What one kernel does.
#[derive(Clone, Copy)]
struct Load {
    format: Format,
    step: u32,
    bytes: u64,
    placement: Placement,
    threads: u32,
    call: u32,
}

impl Load {
    /// Times of calls.
    fn measure(self, task: Task, rounds: u64) -> Result<(Samples, Check), BenchError> {
        let setup = Setup::new(task, Worker::Kernels)?;
        let (probe, check) = self.run(&setup, "bench_verbs_calls", rounds, None)?;
        Ok((probe.samples()?, check))
    }

    /// Accesses of calls, in the order of `COUNTS`.
    fn count(self, task: Task) -> Result<([u64; 5], Check), BenchError> {
        let setup = Setup::new(task, Worker::Kernels)?;
        let counts = setup.processor(0).alloc(size_of::<bench_verbs_counts>()).doing("allocating counts")?;
        counts.write(0, &[0; size_of::<bench_verbs_counts>()]).doing("clearing counts")?;
        let (_, check) = self.run(&setup, "bench_verbs_counted", COUNTED, Some(&counts))?;
        let words = counts.read_u64s(0, COUNTS.len()).doing("reading counts")?;
        Ok((std::array::from_fn(|i| words.get(i).copied().unwrap_or(0)), check))
    }

    fn run(
        self,
        setup: &Setup,
        kernel: &str,
        rounds: u64,
        counts: Option<&KernelMem>,
    ) -> Result<(Probe, Check), BenchError> {
        let length = self.bytes as usize;
        let shape =
            Shape { format: self.format, placement: self.placement, depth: 16, ..Shape::new(3 * length) };
        let [side, peer] = shape.open(setup)?;
        let data = RoundData::new(setup.options.seed, 0, length);
        for (at, bytes) in [(0, data.of(0)), (length, data.of(1))] {
            side.mr.buffer().write(at, &bytes).doing("writing memory")?;
        }
        peer.mr.buffer().write(2 * length, data.poison()).doing("writing memory")?;
        let processor = setup.processor(0);
        let queue = processor.alloc(64).doing("allocating kernel memory")?;
        let probe = Probe::with_warm_up(processor, rounds)?;
        let args = self.args((&side, &peer), &queue, &probe, (setup, counts))?;
        let idle = side.run_when_idle(processor);
        kernel::run(&[kernel::launch(processor, kernel, 1, self.threads, &args)], setup.options)?;
        drop(idle);
        probe.finished(kernel, None)?;
        let mut seen = vec![0; length];
        peer.mr.buffer().read(2 * length, &mut seen).doing("reading memory")?;
        let mut check = Check::default();
        check.bytes("what arrived", &data.of(probe.rounds() - 1), &seen);
        Ok((probe, check))
    }

    fn args(
        self,
        (side, peer): (&Side, &Side),
        queue: &KernelMem,
        probe: &Probe,
        (setup, counts): (&Setup, Option<&KernelMem>),
    ) -> Result<bench_verbs_ladder, BenchError> {
        const DOING: &str = "exporting queues";
        let key = |key: u32| if self.step >= STATIC { key.to_be() } else { key };
        let (pair, remote) = (&side.pairs[0], peer.mr.remote());
        Ok(bench_verbs_ladder {
            timing: probe.args(),
            qp: pair.qp.export().doing(DOING)?,
            cq: pair.send.export(queue, 0).doing(DOING)?,
            counts: counts.map_or(0, KernelMem::address),
            local: side.mr.address(),
            remote: remote.address + 2 * self.bytes,
            length: self.bytes,
            report: 0,
            timeout_ns: setup.options.timeout.as_nanos().try_into().unwrap_or(u64::MAX),
            lkey: key(side.mr.lkey()),
            rkey: key(remote.rkey),
            bytes: self.bytes as u32,
            step: self.step,
            call: self.call,
            node: 0,
            format: if self.format == Format::Mlx5 { GGAS_IBV_MLX5 } else { GGAS_IBV_MLX4 },
            reserved: 0,
        })
    }
}

/// Times of the RMA unit's calls, by one thread: that is all there is to a put.
fn rma(task: Task, bytes: u64, call: Call) -> Result<(Samples, Check), BenchError> {
    let setup = Setup::new(task, Worker::Kernels)?;
    let layout = Layout::new(bytes);
    let data = RoundData::new(task.options.seed, 0, layout.bytes);
    let rounds = rounds(task.options);
    let ends = kernel_ends(&setup, layout, &data, rounds)?;
    let [first, second] = &ends[..] else {
        let why = "verbs-ladder has both ends in one process: leave --fabric out";
        return Err(BenchError::Unsupported(why.to_owned()));
    };
    let program = |end: &KernelEnd| {
        let KernelEnd { probe, peer, port, .. } = end;
        let args = bench_rma_calls {
            timing: probe.args(),
            peer: *peer,
            port: port.address(),
            source: end.sources()?,
            bytes: bytes as u32,
            call: call.1,
        };
        Ok(Program { kernel: "bench_rma_post_poll", blocks: 1, threads: 1, args })
    };
    ends::run(&setup, std::slice::from_ref(first), program)?;
    let mut check = Check::default();
    let seen = second.payload.read(layout.arrival(), layout.bytes)?;
    check.bytes("what arrived", &data.of(Probe::rounds_of(rounds) - 1), &seen);
    setup.collect(Some(first.probe.samples()?), check)
}
