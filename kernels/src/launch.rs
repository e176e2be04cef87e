//! Launching kernels and waiting for them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ggas_clock::Clock;

use ggas_gpu::{Behind, GpuError};

use crate::exec::{self, Args, CpuRun};
use crate::image;
use crate::memory::MemoryError;
use crate::processor::{Gpu, Processor};
use crate::proxy::Attended;
use crate::trap::TrapError;

/// Most threads of a block.
pub const MAX_BLOCK: u32 = 1024;

/// One kernel on one processor: `grid` blocks of `block` threads, both with one dimension.
#[derive(Clone)]
pub struct Launch<'a> {
    pub(crate) processor: &'a Processor,
    pub(crate) kernel: &'a str,
    pub(crate) grid: u32,
    pub(crate) block: u32,
    pub(crate) args: Arc<Args>,
    pub(crate) args_size: usize,
    pub(crate) resident: Option<u32>,
    cached: bool,
}

impl<'a> Launch<'a> {
    /// A launch of `kernel` with a copy of `args`: of one in `kernels/src/kernels.def`, or one that was
    /// [added](crate::add).
    ///
    /// # Safety
    /// `T` is the `repr(C)` structure of this kernel's arguments. Every address
    /// in it is valid on `processor` for what the kernel does with it, until the
    /// [`Running`] of this launch was waited for or dropped.
    pub unsafe fn new<T: Copy>(
        processor: &'a Processor,
        kernel: &'a str,
        grid: u32,
        block: u32,
        args: &T,
    ) -> Self {
        let (args, args_size) = (Arc::new(Args::new(args)), size_of::<T>());
        Self { processor, kernel, grid, block, args, args_size, resident: None, cached: false }
    }

    /// The grid may have more blocks than live at once: none of them waits for one that comes later. Unless this is
    /// said, a grid whose blocks do not all fit is refused.
    ///
    /// On the CPU executor at most `blocks` (at least one) live at a time, in the order of their numbers; the next one
    /// starts when one has ended. A block that waits for one which cannot start waits in vain: its report, or
    /// [`LaunchError::Timeout`], says how many have not started. On a GPU the hardware decides how many live, and places
    /// for that many are asked for.
    pub fn resident(self, blocks: u32) -> Self {
        Self { resident: Some(blocks.max(1)), ..self }
    }

    /// On a GPU the kernel prefers a large L1 cache to shared memory that its blocks do not need: for one whose loads fill a
    /// multiprocessor's cache, and whose multiprocessors it need not share with kernels that did not ask for that.
    pub fn cached(self) -> Self {
        Self { cached: true, ..self }
    }

    /// Puts the kernel into a stream of the caller's, a `cudaStream_t` or `CUstream` of its GPU, behind what is there
    /// and before what comes; the stream may be captured into a graph. Nothing here waits for it: its own waits are
    /// bounded, and the caller looks at what it left once the stream is done.
    ///
    /// # Safety
    /// The stream is one of the primary context of the processor's GPU. What [`new`](Self::new) asks of addresses holds
    /// until the stream is done with the kernel, and the processor lives as long. If kernels wait for each other, the
    /// caller sees to it that they run at once: a stream for each, and room on the GPUs for all their blocks.
    ///
    /// # Errors
    /// A launch that cannot run; [`LaunchError::NoStream`] on the CPU.
    pub unsafe fn enqueue(&self, stream: *mut std::ffi::c_void) -> Result<(), LaunchError> {
        self.check()?;
        let Processor::Gpu(processor) = self.processor else {
            return Err(LaunchError::NoStream { kernel: self.kernel.to_owned() });
        };
        // SAFETY: the caller's contract.
        unsafe { self.on(processor)?.enqueue(stream) }.map_err(LaunchError::Gpu)
    }

    /// The same for a GPU's driver.
    pub(crate) fn on(&self, processor: &'a Gpu) -> Result<ggas_gpu::Launch<'_>, LaunchError> {
        let Self { kernel, grid, block, .. } = *self;
        let module = processor.module_of(kernel).ok_or_else(|| LaunchError::NotLoaded {
            kernel: kernel.to_owned(),
            processor: self.processor.name(),
        })?;
        // SAFETY: the contract of `Launch::new`.
        let launch = unsafe {
            ggas_gpu::Launch::with_bytes(module, kernel, grid, block, self.args.bytes(self.args_size))
        };
        let launch = if self.cached { launch.cached() } else { launch };
        Ok(self.resident.map_or(launch, |blocks| launch.resident(blocks)))
    }

    pub(crate) fn check(&self) -> Result<(), LaunchError> {
        let kernel = || self.kernel.to_owned();
        let expected =
            image::args_size(self.kernel).ok_or_else(|| LaunchError::UnknownKernel { kernel: kernel() })?;
        if expected != self.args_size {
            return Err(LaunchError::Arguments { kernel: kernel(), expected, got: self.args_size });
        }
        if self.grid == 0 || self.block == 0 || self.block > MAX_BLOCK {
            return Err(LaunchError::Geometry { kernel: kernel(), grid: self.grid, block: self.block });
        }
        Ok(())
    }
}

/// Why a launch did not start or did not end well.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// No kernel of this name.
    #[error(
        "no kernel is called `{kernel}`: kernels/src/kernels.def lists those of the library, and those of other crates \
         are known once ggas_kernels::add was called with them"
    )]
    UnknownKernel {
        /// The name that was asked for.
        kernel: String,
    },
    /// A GPU does not have the kernel.
    #[error("`{kernel}` is not on {processor}: call ggas_kernels::add before the GPU is opened")]
    NotLoaded {
        /// The name that was asked for.
        kernel: String,
        /// The GPU.
        processor: String,
    },
    /// The arguments are not the kernel's structure.
    #[error(
        "`{kernel}` takes {expected} bytes of arguments, got {got}; pass its structure (the library's are in \
         kernels/src/args.h)"
    )]
    Arguments {
        /// The kernel.
        kernel: String,
        /// Bytes of its structure.
        expected: usize,
        /// Bytes passed.
        got: usize,
    },
    /// An empty grid or an impossible block.
    #[error(
        "`{kernel}`: a grid of {grid} blocks of {block} threads; use at least one block of 1 to 1024 threads"
    )]
    Geometry {
        /// The kernel.
        kernel: String,
        /// Blocks asked for.
        grid: u32,
        /// Threads per block asked for.
        block: u32,
    },
    /// Kernels on the CPU are in no stream.
    #[error("`{kernel}` runs on the CPU, which has no streams; start it with `start`")]
    NoStream {
        /// The kernel.
        kernel: String,
    },
    /// All blocks must live at once, and these do not fit.
    #[error(
        "{threads} threads at once, this machine allows {limit}; use fewer, raise vm.max_map_count, or, if no block waits \
         for a later one, have few blocks live at a time (Launch::resident)"
    )]
    TooManyThreads {
        /// Threads of all launches together.
        threads: usize,
        /// How many fit.
        limit: usize,
    },
    /// The operating system gave no stacks or threads.
    #[error(
        "cannot get stacks or threads for the kernels: {0}; use fewer threads, or raise the limit of this process \
         (`ulimit -v`, `ulimit -u`)"
    )]
    Resources(#[source] io::Error),
    /// No thread of a block can ever continue.
    #[error("`{kernel}` block {block} is in a deadlock: {detail}")]
    Deadlock {
        /// The kernel.
        kernel: String,
        /// The block.
        block: u32,
        /// Where its threads stand.
        detail: String,
    },
    /// Threads of a block do not meet at one barrier.
    #[error("`{kernel}` block {block}: not all threads reach the same barrier: {detail}")]
    Divergence {
        /// The kernel.
        kernel: String,
        /// The block.
        block: u32,
        /// Where its threads stand.
        detail: String,
    },
    /// A loop waits without `ggas_pause()`. Its OS thread, and all kernel
    /// memory of this process from now on, are left behind: nothing can stop it.
    #[error(
        "`{kernel}` block {block} thread {thread} ran {limit:?} without a pause, barrier or exit; \
         call ggas_pause() in every loop that waits"
    )]
    NoPause {
        /// The kernel.
        kernel: String,
        /// The block.
        block: u32,
        /// The thread.
        thread: u32,
        /// How long it ran.
        limit: Duration,
    },
    /// The launch did not end in time; it was cancelled. Kernels on a GPU cannot be: they run on until their own
    /// bounded waits end them, and until then no GPU memory is freed.
    #[error("kernels still ran after {after:?}:\n  {waits}")]
    Timeout {
        /// How long the caller waited.
        after: Duration,
        /// What the threads did, one line per block.
        waits: String,
    },
    /// An access to a trapped address failed: of a window whose accesses pass the SMFU of a model. All kernels of the start
    /// have ended; memory of others is as it was.
    #[error("`{kernel}` block {block} thread {thread}: {access} at {place} failed: {source}")]
    Access {
        /// The kernel.
        kernel: String,
        /// The block.
        block: u32,
        /// The thread.
        thread: u32,
        /// What it was, and of how many bytes.
        access: String,
        /// Where it went: member and offset of a window.
        place: String,
        /// What kept it from ending well.
        source: TrapError,
    },
    /// A GPU refused, or failed.
    #[error(transparent)]
    Gpu(GpuError),
    /// The words that count a loop's rounds cannot be read or written.
    #[error("the words of a loop: {0}")]
    Memory(#[source] MemoryError),
    /// A device model failed while the executor called it, at a register store of
    /// a kernel or in idle time.
    #[error("a device model panicked while kernels ran: {what}; this is a bug of the model")]
    Device {
        /// The message of the panic.
        what: String,
    },
}

ggas_errors::debug_as_display!(LaunchError);

impl LaunchError {
    /// Whether a GPU has no room for the blocks beside those that run: nothing was started.
    pub fn lacks_room(&self) -> bool {
        matches!(self, LaunchError::Gpu(GpuError::DoesNotFit { .. }))
    }
}

/// Starts all launches at once: their blocks live together, so kernels may wait for each other.
///
/// # Errors
/// A launch that cannot run (name, arguments, geometry, resources); then none was started.
pub fn start(launches: &[Launch<'_>]) -> Result<Running, LaunchError> {
    start_times(launches, 1)
}

/// Runs all launches together, `times` times in a row, and waits for them at most `timeout` (on the CPU, each time).
/// On GPUs the kernels queue up in streams, so that the host costs no time between them.
///
/// # Errors
/// As [`start`] and [`Running::wait`].
pub fn run_repeated(launches: &[Launch<'_>], times: u32, timeout: Duration) -> Result<(), LaunchError> {
    if launches.iter().all(|launch| matches!(launch.processor, Processor::Gpu(_))) {
        return start_times(launches, times)?.wait(timeout);
    }
    (0..times).try_for_each(|_| start(launches)?.wait(timeout))
}

/// Runs rounds of kernels, all of them `times` times over: those of a round begin when those that they are [`Behind`] have
/// ended. GPUs see to that themselves, by a graph; on the CPU the host starts each round, behind all of the round before.
/// Gives how long all rounds took, each time; `timeout` bounds each.
///
/// # Errors
/// As [`start`] and [`Running::wait`]; rounds without kernels, or with different numbers of them.
pub fn run_rounds(
    rounds: &[Vec<Launch<'_>>],
    behind: Behind,
    times: u32,
    timeout: Duration,
) -> Result<Vec<Duration>, LaunchError> {
    let attended = Attended::new(rounds.iter().flatten());
    let mut graph = Vec::new();
    for round in rounds {
        let mut kernels = Vec::new();
        for launch in round {
            launch.check()?;
            if let Processor::Gpu(processor) = launch.processor {
                kernels.push(launch.on(processor)?);
            }
        }
        graph.push(kernels);
    }
    if rounds.iter().zip(&graph).all(|(round, on_gpus)| round.len() == on_gpus.len()) {
        let took = ggas_gpu::run_rounds(&graph, behind, times, timeout);
        let took = took.map_err(|error| attended.failure().unwrap_or(LaunchError::Gpu(error)))?;
        return attended.finish().map(|()| took);
    }
    let all = || {
        let begun = Clock::REAL.now();
        rounds.iter().try_for_each(|round| start(round)?.wait(timeout)).map(|()| Clock::REAL.since(begun))
    };
    (0..times).map(|_| all()).collect()
}

/// Kernels on GPUs `times` times, those on the CPU once.
fn start_times(launches: &[Launch<'_>], times: u32) -> Result<Running, LaunchError> {
    for launch in launches {
        launch.check()?;
    }
    let attended = Attended::new(launches.iter());
    let mut cpu = Vec::new();
    let mut config = None;
    let mut gpu = Vec::new();
    for launch in launches {
        match launch.processor {
            Processor::Cpu(processor) => {
                cpu.push(launch);
                config.get_or_insert(processor.config());
            }
            Processor::Gpu(processor) => gpu.push(launch.on(processor)?),
        }
    }
    // The CPU first: its kernels can be cancelled should the GPU refuse the others.
    let mut parts = Vec::new();
    if let Some(config) = config {
        parts.push(Part::Cpu(exec::start(config, &cpu)?));
    }
    if !gpu.is_empty() {
        parts.push(Part::Gpu(ggas_gpu::start_repeated(&gpu, times).map_err(LaunchError::Gpu)?));
    }
    Ok(Running { parts, attended })
}

enum Part {
    Cpu(CpuRun),
    Gpu(ggas_gpu::Running),
}

/// Kernels that run. Dropping it cancels those on the CPU; those on a GPU run on until they end.
#[must_use = "dropping it cancels the kernels"]
pub struct Running {
    parts: Vec<Part>,
    attended: Attended,
}

impl Running {
    /// Waits until all kernels of this start have ended, at most `timeout`.
    ///
    /// # Errors
    /// The first failure; after [`LaunchError::Timeout`] the kernels were cancelled.
    pub fn wait(mut self, timeout: Duration) -> Result<(), LaunchError> {
        let deadline = Clock::REAL.deadline(timeout);
        for part in &mut self.parts {
            match part {
                Part::Cpu(run) => run.wait(run.deadline(timeout))?,
                Part::Gpu(run) => {
                    let left = deadline.saturating_duration_since(Clock::REAL.now());
                    run.wait(left).map_err(|error| match error {
                        GpuError::Timeout { what: waits, .. } => {
                            self.attended.failure().unwrap_or(LaunchError::Timeout { after: timeout, waits })
                        }
                        error => LaunchError::Gpu(error),
                    })?;
                }
            }
        }
        self.attended.finish()
    }
}
