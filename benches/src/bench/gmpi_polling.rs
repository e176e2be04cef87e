//! `gmpi-polling` (GMPI paper, VI B): whether a daemon that polls slows kernels down that do not call it.

use std::time::Duration;

use ggas_gmpi::{Config, Gmpi, Placement, Polling};
use ggas_kernels::{KernelMem, Processor};

use crate::args::{BENCH_POLLING_COMPUTE, BENCH_POLLING_READ, bench_gmpi_polling};
use crate::error::Doing;
use crate::gmpi::{Ranks, config};
use crate::kernel;
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

const KERNEL: &str = "bench_gmpi_polling_rounds";

/// Who polls: nobody, the daemon in each of its ways, and the paper's daemon, which looks at rings in GPU memory.
const METHODS: [&str; 5] = ["none", "sleep", "yield", "spin", "spin-copied"];

/// Kernels in a row with the same daemon.
const IN_A_ROW: usize = 3;

pub(crate) struct GmpiPolling;

impl Bench for GmpiPolling {
    fn name(&self) -> &'static str {
        "gmpi-polling"
    }

    fn about(&self) -> &'static str {
        "a kernel that fills the processor, beside a daemon of GMPI that polls and is not called (GMPI paper, VI B)"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &METHODS
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        if team.size() > 1 {
            let why = "a daemon that nobody calls is measured in one process: leave --fabric out";
            return Err(BenchError::Unsupported(why.to_owned()));
        }
        let methods = task.methods();
        let mut report = task.report();
        report.nodes = 1;
        let setup = Setup::new(task, Worker::Kernels)?;
        let repeats = options.iterations.unwrap_or(if options.device == Device::Gpu { 30 } else { 2 });
        progress.begin(self.name(), 2 * repeats * methods.len() as u64);
        for (name, what) in [("memory", BENCH_POLLING_READ), ("compute", BENCH_POLLING_COMPUTE)] {
            let work = Work::new(&setup, what)?;
            // The first one also warms up.
            let mut check = work.run(options)?.1;
            let mut ns = vec![Vec::new(); methods.len()];
            for _ in 0..repeats {
                for (method, ns) in methods.iter().zip(&mut ns) {
                    progress.now(format!("{name}, daemon: {method}"));
                    let daemon = daemon(&setup, method)?;
                    for _ in 0..IN_A_ROW {
                        let (took, wrong) = work.run(options)?;
                        ns.push(took.as_nanos() as f64);
                        check.merge(wrong);
                    }
                    daemon.map_or(Ok(()), |gmpi| gmpi.close().doing("closing GMPI"))?;
                    progress.step();
                }
            }
            let rows = methods.iter().zip(ns).map(|(method, ns)| work.row(method, name, ns));
            let mut none = None;
            for row in rows {
                let median = row.latency_us.median;
                if row.method.as_deref() == Some("none") {
                    none = Some(median);
                }
                let row = match none.filter(|none| *none > 0.0) {
                    Some(none) => row.with("over_none_percent", 100.0 * (median - none) / none),
                    None => row,
                };
                report.push(row, std::mem::take(&mut check));
            }
        }
        report
            .notes
            .push("with each daemon in turn; a time is from a kernel's first block to its last".to_owned());
        if options.device == Device::Cpu {
            report.notes.push("on the CPU executor a daemon takes a core from the kernels".to_owned());
        }
        Ok(report)
    }
}

/// One that polls as `method` says.
fn daemon(setup: &Setup, method: &str) -> Result<Option<Gmpi>, BenchError> {
    let (polling, placement) = match method {
        "sleep" => (Polling::Sleep, Placement::Mapped),
        "yield" => (Polling::Yield, Placement::Mapped),
        "spin" => (Polling::Spin, Placement::Mapped),
        "spin-copied" => (Polling::Spin, Placement::Copied),
        _ => return Ok(None),
    };
    let config = Config { polling, placement, ..config(setup.options) };
    Ranks::of_one(setup, &config).map(Some)
}

/// A kernel, and what it leaves.
struct Work<'a> {
    processor: &'a Processor,
    data: KernelMem,
    sums: KernelMem,
    times: KernelMem,
    args: bench_gmpi_polling,
    blocks: u32,
    threads: u32,
    /// What each thread, or all of them, add up.
    wanted: u64,
}

impl<'a> Work<'a> {
    /// On a GPU some 10 ms.
    fn new(setup: &'a Setup<'a>, what: u32) -> Result<Self, BenchError> {
        let processor = setup.processor(0);
        let reads = what == BENCH_POLLING_READ;
        let (blocks, threads) = match processor {
            Processor::Gpu(gpu) => (gpu.device().info().multiprocessors * 4, 256),
            _ => (2, 64),
        };
        let on_gpu = setup.options.device == Device::Gpu;
        // Beyond any cache.
        let count = match (reads, on_gpu) {
            (false, _) => 1,
            (true, true) => 32 << 20,
            (true, false) => 1 << 16,
        };
        let rounds = match (reads, on_gpu) {
            (true, true) => 100,
            (true, false) => 2,
            (false, true) => 1 << 20,
            (false, false) => 1 << 12,
        };
        let alloc = |words: u64| processor.alloc(8 * words as usize).doing("allocating kernel memory");
        let (data, sums, times) = (alloc(count)?, alloc(u64::from(blocks))?, alloc(2 * u64::from(blocks))?);
        data.write_u64s(0, &(0..count).collect::<Vec<_>>()).doing("writing kernel memory")?;
        let wanted = match reads {
            true => (count * (count - 1) / 2).wrapping_mul(rounds),
            false => (0..rounds).fold(1u32, |x, _| step(x)).into(),
        };
        let args = bench_gmpi_polling {
            data: data.address(),
            count,
            rounds,
            sums: sums.address(),
            times: times.address(),
            what,
            reserved: 0,
        };
        Ok(Self { processor, data, sums, times, args, blocks, threads, wanted })
    }

    /// How long it took, by the processor's clock, and whether it did its work.
    fn run(&self, options: &Options) -> Result<(Duration, Check), BenchError> {
        let blocks = self.blocks as usize;
        self.sums.write_u64s(0, &vec![0; blocks]).doing("writing kernel memory")?;
        let launch = kernel::launch(self.processor, KERNEL, self.blocks, self.threads, &self.args);
        kernel::run(&[launch.resident(2)], options)?;
        let times = self.times.read_u64s(0, 2 * blocks).doing("reading kernel memory")?;
        let (begun, ended) = times.split_at(blocks);
        let (begun, ended) = (begun.iter().min().copied(), ended.iter().max().copied());
        let took = ended.unwrap_or(0).saturating_sub(begun.unwrap_or(0));
        let sums = self.sums.read_u64s(0, blocks).doing("reading kernel memory")?;
        let mut check = Check::default();
        if self.args.what == BENCH_POLLING_READ {
            let all = sums.iter().fold(0u64, |all, sum| all.wrapping_add(*sum));
            check.equal("the sum of what was read", self.wanted, all);
        } else {
            let of_block = self.wanted * u64::from(self.threads);
            sums.iter().for_each(|sum| check.equal("what a block computed", of_block, *sum));
        }
        Ok((Duration::from_nanos(took.max(1)), check))
    }

    fn row(&self, method: &str, name: &str, ns: Vec<f64>) -> Row {
        let mut row = Row::new(&Samples::new(ns, 1)).method(method);
        (row.blocks, row.threads) = (Some(self.blocks), Some(self.threads));
        let bytes = self.data.len() as u64 * self.args.rounds;
        row = match self.args.what == BENCH_POLLING_READ {
            true => row.bytes(bytes).bandwidth_of(bytes),
            false => {
                row.elements = Some(self.args.rounds);
                row
            }
        };
        row.with("work", name)
    }
}

/// As the kernel has it.
fn step(x: u32) -> u32 {
    (x ^ (x >> 15)).wrapping_mul(0x2c1b_3c6d).wrapping_add(0x9e37_79b9)
}
