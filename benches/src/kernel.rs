//! Running the benchmark kernels and reading their samples.

use std::time::Duration;

use crate::args::{bench_clock, bench_timing};
use ggas::KernelReport;
use ggas_kernels::{KernelMem, Launch, Processor, Running, start};

use crate::energy::Span;
use crate::error::Doing;
use crate::{BenchError, Options, Samples};

/// `BENCH_DONE` of `benches/kernels/bench.h`.
const DONE: u64 = crate::args::BENCH_DONE as u64;

/// Where a kernel leaves its samples, and how it ended.
pub(crate) struct Probe {
    clock: KernelMem,
    samples: KernelMem,
    count: u64,
    warm_up: u64,
}

impl Probe {
    /// For `count` samples after `warm_up` rounds, in memory of `processor`.
    pub fn new(processor: &Processor, count: u64, warm_up: u64) -> Result<Self, BenchError> {
        let bytes = usize::try_from(count).ok().and_then(|count| count.max(1).checked_mul(8));
        let bytes = bytes.ok_or_else(|| BenchError::option("iterations", count, "use fewer"))?;
        Ok(Self {
            clock: processor.alloc(size_of::<bench_clock>()).doing("allocating kernel memory")?,
            samples: processor.alloc(bytes).doing("allocating memory for samples")?,
            count,
            warm_up,
        })
    }

    /// For a tenth of `count`, at most 100, as warm-up.
    pub fn with_warm_up(processor: &Processor, count: u64) -> Result<Self, BenchError> {
        Self::new(processor, count, Self::rounds_of(count) - count)
    }

    /// Rounds of a kernel that takes `count` samples after a warm-up.
    pub fn rounds_of(count: u64) -> u64 {
        count + (count / 10).clamp(1, 100)
    }

    /// What the kernel gets.
    pub fn args(&self) -> bench_timing {
        bench_timing {
            clock: self.clock.address(),
            samples: self.samples.address(),
            count: self.count,
            warm_up: self.warm_up,
        }
    }

    /// Rounds that the kernel runs.
    pub fn rounds(&self) -> u64 {
        self.warm_up + self.count
    }

    /// Fails unless the kernel ran to its end; `report` is what a wait of it left behind.
    pub fn finished(&self, kernel: &str, report: Option<KernelReport>) -> Result<(), BenchError> {
        let status = self.clock()?.status;
        if status == DONE {
            return Ok(());
        }
        let reason = match (report, status) {
            (Some(report), _) => report.to_string(),
            (None, 0) => "it ended before its last round".to_owned(),
            (None, code) => {
                format!("it ended with status {code} (GGAS_ERR_* of kernels/include/ggas/layout.h)")
            }
        };
        Err(BenchError::Kernel { kernel: kernel.to_owned(), reason })
    }

    /// The samples in nanoseconds: ticks times the length of a tick, which is what the global timer says of the
    /// whole timed part.
    pub fn samples(&self) -> Result<Samples, BenchError> {
        let (clock, tick) = (self.clock()?, self.tick_ns()?);
        let taken = clock.taken.min(self.count) as usize;
        let words = self.samples.read_u64s(0, taken).doing("reading samples")?;
        Ok(Samples::new(words.into_iter().map(|sample| sample as f64 * tick).collect(), 1))
    }

    /// The length of a tick, for times that a kernel took beside its samples.
    pub fn tick_ns(&self) -> Result<f64, BenchError> {
        let clock = self.clock()?;
        let ticks = clock.ticks_end.saturating_sub(clock.ticks_begin).max(1);
        Ok(clock.ns_end.saturating_sub(clock.ns_begin) as f64 / ticks as f64)
    }

    /// How long the timed part took.
    pub fn seconds(&self) -> Result<f64, BenchError> {
        let clock = self.clock()?;
        Ok(clock.ns_end.saturating_sub(clock.ns_begin) as f64 / 1e9)
    }

    fn clock(&self) -> Result<bench_clock, BenchError> {
        let words =
            self.clock.read_u64s(0, size_of::<bench_clock>() / 8).doing("reading the kernel's clock")?;
        let [ticks_begin, ticks_end, ns_begin, ns_end, taken, status] =
            std::array::from_fn(|i| words.get(i).copied().unwrap_or(0));
        Ok(bench_clock { ticks_begin, ticks_end, ns_begin, ns_end, taken, status })
    }
}

/// A launch of a benchmark kernel.
pub(crate) fn launch<'a, T: Copy>(
    processor: &'a Processor,
    kernel: &'a str,
    blocks: u32,
    threads: u32,
    args: &T,
) -> Launch<'a> {
    // SAFETY: every caller passes the structure that image.rs names for this kernel, with addresses of memory
    // that lives until the kernels were waited for; `start` checks the structure's size.
    unsafe { Launch::new(processor, kernel, blocks, threads, args) }
}

/// Starts kernels that need each other.
pub(crate) fn begin(launches: &[Launch]) -> Result<Running, BenchError> {
    start(launches).doing("starting kernels")
}

/// Bound of waits for kernels whose own waits are bounded by `timeout`. These end them first; this is for kernels that are
/// slow.
pub(crate) fn limit(timeout: Duration) -> Duration {
    timeout * 2 + Duration::from_secs(20)
}

/// Waits for them.
pub(crate) fn finish(running: Running, options: &Options) -> Result<(), BenchError> {
    running.wait(limit(options.timeout)).doing("waiting for kernels")
}

/// Starts the kernels of this process, if there are any, and waits for them.
pub(crate) fn run(launches: &[Launch], options: &Options) -> Result<(), BenchError> {
    if launches.is_empty() {
        return Ok(());
    }
    let _counted = Span::begin();
    finish(begin(launches)?, options)
}
