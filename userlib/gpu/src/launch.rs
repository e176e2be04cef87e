//! Kernels that run at the same time and wait for each other.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::GpuError;
use crate::fit::{self, Load};
use crate::gpu::Gpu;
use crate::module::{Function, Module};
use crate::resident::gate;
use crate::stream::Stream;
use crate::sys::*;
use ggas_clock::{Backoff, Clock, Ladder};

/// A kernel to start: grid and block are one-dimensional; the kernel takes one structure by value.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    module: &'a Module,
    kernel: &'a str,
    grid: u32,
    block: u32,
    args: &'a [MaybeUninit<u8>],
    shared: u32,
    cooperative: bool,
    resident: u32,
    cached: bool,
}

impl<'a> Launch<'a> {
    /// `grid` blocks of `block` threads; `args` is the kernel's parameter.
    ///
    /// # Safety
    /// `T` is the `repr(C)` structure that the kernel takes. Every address in it is valid on the module's GPU for
    /// what the kernel does with it, until the kernel has ended.
    pub unsafe fn new<T: Copy>(
        module: &'a Module,
        kernel: &'a str,
        grid: u32,
        block: u32,
        args: &'a T,
    ) -> Launch<'a> {
        let bytes = std::ptr::from_ref(args).cast::<MaybeUninit<u8>>();
        // SAFETY: the bytes of `args`, borrowed as long; padding may be uninitialised, which this type allows.
        let args = unsafe { std::slice::from_raw_parts(bytes, size_of::<T>()) };
        // SAFETY: passed on.
        unsafe { Launch::with_bytes(module, kernel, grid, block, args) }
    }

    /// As [`Launch::new`], from the bytes of the parameter.
    ///
    /// # Safety
    /// As [`Launch::new`].
    pub unsafe fn with_bytes(
        module: &'a Module,
        kernel: &'a str,
        grid: u32,
        block: u32,
        args: &'a [MaybeUninit<u8>],
    ) -> Launch<'a> {
        Launch {
            module,
            kernel,
            grid,
            block,
            args,
            shared: 0,
            cooperative: false,
            resident: u32::MAX,
            cached: false,
        }
    }

    /// Adds `bytes` of dynamic shared memory to each block (at most 48 KiB with the static part).
    pub fn shared(self, bytes: u32) -> Launch<'a> {
        Launch { shared: bytes, ..self }
    }

    /// Launches so that the driver, too, guarantees that all blocks are resident at once.
    pub fn cooperative(self) -> Launch<'a> {
        Launch { cooperative: true, ..self }
    }

    /// It suffices that so many blocks are resident at once: no block waits for one that comes later.
    pub fn resident(self, blocks: u32) -> Launch<'a> {
        Launch { resident: blocks.max(1), ..self }
    }

    /// Prefers a large L1 cache to shared memory, for this and later launches of the kernel: for one whose loads fill a
    /// multiprocessor's cache. Others keep their split, and cannot share a multiprocessor with it.
    pub fn cached(self) -> Launch<'a> {
        Launch { cached: true, ..self }
    }

    pub(crate) fn describe(&self) -> String {
        format!("{} ({} × {})", self.kernel, self.grid, self.block)
    }

    /// Checks shape and arguments; finds the kernel.
    pub(crate) fn prepare(&self) -> Result<(Function, Load), GpuError> {
        let function = self.module.function(self.kernel)?;
        let shape = |why: String| GpuError::Shape {
            kernel: self.kernel.to_owned(),
            grid: self.grid,
            block: self.block,
            why,
        };
        if self.grid == 0 || self.block == 0 || self.grid > i32::MAX as u32 {
            return Err(shape("grid and block must be at least 1 and below 2^31".to_owned()));
        }
        if self.block > function.max_threads {
            return Err(shape(format!("a block of it has at most {} threads", function.max_threads)));
        }
        if self.args.len() != function.argument_bytes {
            let (needed, got) = (function.argument_bytes, self.args.len());
            return Err(GpuError::ArgumentSize { kernel: self.kernel.to_owned(), needed, got });
        }
        if self.cached {
            self.module.prefer_cache(self.kernel, function)?;
        }
        let per_sm = self.module.occupancy(function, self.block, self.shared as usize)?;
        Ok((function, Load { blocks: u64::from(self.at_once()), per_sm }))
    }

    /// Puts the kernel into `stream`, a stream of its module's GPU.
    pub(crate) fn submit_to(&self, stream: &Stream) -> Result<(), GpuError> {
        // SAFETY: the stream is alive.
        unsafe { self.submit(stream.raw()) }
    }

    /// Puts the kernel into a stream of the caller's, a `cudaStream_t` or `CUstream`; the stream may be captured into
    /// a graph. Nothing here waits for it or knows that it runs.
    ///
    /// # Safety
    /// The stream is one of the primary context of the module's GPU. What [`Launch::new`] asks of addresses holds until
    /// the stream is done with the kernel, and the module lives as long. If kernels wait for each other, the caller
    /// sees to it that all their blocks find a place at once.
    ///
    /// # Errors
    /// Errors of names, shapes and arguments, and what the driver refuses.
    pub unsafe fn enqueue(&self, stream: *mut std::ffi::c_void) -> Result<(), GpuError> {
        // SAFETY: passed on.
        unsafe { self.submit(stream.cast()) }
    }

    /// A copy of the parameter for the driver, which copies it again during a call; structures may hold 16-byte aligned
    /// members.
    fn parameter(&self) -> Vec<MaybeUninit<u128>> {
        let mut copy = vec![MaybeUninit::<u128>::zeroed(); self.args.len() / 16 + 1];
        // SAFETY: the vector has more bytes than `args`, and they do not overlap.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.args.as_ptr(),
                copy.as_mut_ptr().cast::<MaybeUninit<u8>>(),
                self.args.len(),
            );
        }
        copy
    }

    /// Adds the kernel to a graph, behind the nodes `before`.
    pub(crate) fn add_to(&self, graph: CUgraph, before: &[CUgraphNode]) -> Result<CUgraphNode, GpuError> {
        let (function, _) = self.prepare()?;
        self.gpu().enter()?;
        let mut copy = self.parameter();
        let mut parameters = [copy.as_mut_ptr().cast::<std::ffi::c_void>()];
        let parameters = if self.args.is_empty() { std::ptr::null_mut() } else { parameters.as_mut_ptr() };
        let node = CUDA_KERNEL_NODE_PARAMS {
            func: function.raw.0,
            gridDimX: self.grid,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: self.block,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: self.shared,
            kernelParams: parameters,
            extra: std::ptr::null_mut(),
            kern: std::ptr::null_mut(),
            ctx: std::ptr::null_mut(), // that of `func`
        };
        let mut added = std::ptr::null_mut();
        // SAFETY: `prepare` compared the parameter's size; graph, nodes and function are alive; `added` is written on
        // success.
        let result =
            unsafe { cuGraphAddKernelNode_v2(&mut added, graph, before.as_ptr(), before.len(), &node) };
        self.gpu().check("cuGraphAddKernelNode", result)?;
        Ok(added)
    }

    /// Blocks that are to be resident at once.
    pub(crate) fn at_once(&self) -> u32 {
        self.grid.min(self.resident)
    }

    /// The GPU that it runs on.
    pub(crate) fn gpu(&self) -> &'a Gpu {
        self.module.gpu()
    }

    /// # Safety
    /// `stream` is a stream of the GPU's context.
    unsafe fn submit(&self, stream: CUstream) -> Result<(), GpuError> {
        let (function, _) = self.prepare()?;
        // SAFETY: passed on; the function is this launch's.
        unsafe { self.submit_prepared(function, stream) }
    }

    /// Puts the kernel into a stream, with what [`prepare`](Self::prepare) gave for this launch.
    ///
    /// # Safety
    /// `stream` is a stream of the GPU's context, and `function` came from this launch.
    pub(crate) unsafe fn submit_prepared(
        &self,
        function: Function,
        stream: CUstream,
    ) -> Result<(), GpuError> {
        let gpu = self.module.gpu();
        gpu.enter()?;
        let mut copy = self.parameter();
        let mut parameters = [copy.as_mut_ptr().cast::<std::ffi::c_void>()];
        let parameters = if self.args.is_empty() { std::ptr::null_mut() } else { parameters.as_mut_ptr() };
        let (grid, block) = (self.grid, self.block);
        if self.cooperative {
            // SAFETY: `prepare` compared the parameter's size; function and stream are alive.
            let result = unsafe {
                cuLaunchCooperativeKernel(
                    function.raw.0,
                    grid,
                    1,
                    1,
                    block,
                    1,
                    1,
                    self.shared,
                    stream,
                    parameters,
                )
            };
            return gpu.check("cuLaunchCooperativeKernel", result);
        }
        // SAFETY: as above; `extra` is null since the parameters are given.
        let result = unsafe {
            let extra = std::ptr::null_mut();
            cuLaunchKernel(function.raw.0, grid, 1, 1, block, 1, 1, self.shared, stream, parameters, extra)
        };
        gpu.check("cuLaunchKernel", result)
    }
}

/// What lives on the GPUs now: all [`Running`] sets and the copiers, for the fit check.
static RESIDENT: Mutex<Vec<Resident>> = Mutex::new(Vec::new());

#[derive(Clone, Copy)]
struct Resident {
    id: u64,
    gpu: usize,
    load: Load,
}

fn resident() -> MutexGuard<'static, Vec<Resident>> {
    RESIDENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Places for kernels on their GPUs, beside all that is resident; given back on drop.
pub(crate) struct Reservation(u64);

impl Reservation {
    /// Reserves places for all blocks of `launches` at once, or fails.
    pub fn new(launches: &[Launch<'_>]) -> Result<Reservation, GpuError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut wanted = Vec::with_capacity(launches.len());
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        for launch in launches {
            let (_, load) = launch.prepare()?;
            wanted.push(Resident { id, gpu: launch.module.gpu().ordinal(), load });
        }
        let mut table = resident();
        for launch in launches {
            let gpu = launch.module.gpu();
            let here = |entry: &&Resident| entry.gpu == gpu.ordinal();
            let loads: Vec<_> = table.iter().chain(&wanted).filter(here).map(|entry| entry.load).collect();
            if loads.len() > fit::MAX_GRIDS || !fit::fits(&loads, gpu.info().multiprocessors) {
                return Err(does_not_fit(gpu, launches, table.iter().filter(here).count()));
            }
        }
        table.extend(wanted);
        Ok(Reservation(id))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        resident().retain(|entry| entry.id != self.0);
    }
}

fn does_not_fit(gpu: &Gpu, launches: &[Launch<'_>], others: usize) -> GpuError {
    let here = launches.iter().filter(|launch| launch.module.gpu() == gpu);
    let mut kernels = here.map(Launch::describe).collect::<Vec<_>>().join(" + ");
    if others > 0 {
        kernels += &format!(" beside {others} resident kernel(s)");
    }
    GpuError::DoesNotFit { gpu: gpu.ordinal(), kernels, sms: gpu.info().multiprocessors }
}

/// Starts kernels that run at the same time, each on a stream of its own.
///
/// # Errors
/// Before anything starts: [`GpuError::DoesNotFit`] if not all blocks of all kernels can be resident at once beside
/// what runs already, and errors of names, shapes and arguments. If the driver refuses a later kernel of the set,
/// the kernels started before it end by the time limits of their waits.
pub fn start(launches: &[Launch<'_>]) -> Result<Running, GpuError> {
    start_repeated(launches, 1)
}

/// Starts kernels as [`start`] does, `times` times each: a repetition of a kernel begins when the one before has ended.
///
/// # Errors
/// As [`start`].
pub fn start_repeated(launches: &[Launch<'_>], times: u32) -> Result<Running, GpuError> {
    let place = Reservation::new(launches)?;
    // All streams before the first kernel runs.
    let streams =
        launches.iter().map(|launch| launch.module.gpu().stream()).collect::<Result<Vec<_>, _>>()?;
    gate().enter();
    let mut running = Running { place: Some(place), kernels: Vec::new() };
    for (launch, stream) in launches.iter().zip(streams) {
        launch.submit_to(&stream)?;
        running.kernels.push(Kernel { name: launch.describe(), stream, done: false });
    }
    for _ in 1..times {
        for (launch, kernel) in launches.iter().zip(&running.kernels) {
            launch.submit_to(&kernel.stream)?;
        }
    }
    Ok(running)
}

/// Kernels that were started together. Dropping the value leaves the kernels running: they end by the time limits of
/// their waits. Until then no memory that they may use is freed.
#[must_use = "kernels are waited for with `wait`"]
pub struct Running {
    /// Held until all have ended; then the gate has counted them out, too.
    place: Option<Reservation>,
    kernels: Vec<Kernel>,
}

struct Kernel {
    name: String,
    stream: Stream,
    done: bool,
}

impl Running {
    /// The stream of [`in_stream`](Self::in_stream), whose work may go on.
    pub(crate) fn stream(&self) -> &Stream {
        &self.kernels[0].stream
    }

    /// What `submit` puts into `stream`, under one name.
    pub(crate) fn in_stream(
        place: Reservation,
        name: String,
        stream: Stream,
        submit: impl FnOnce(&Stream) -> Result<(), GpuError>,
    ) -> Result<Running, GpuError> {
        gate().enter();
        let running = Running { place: Some(place), kernels: vec![Kernel { name, stream, done: false }] };
        submit(&running.kernels[0].stream)?;
        Ok(running)
    }

    /// Waits until all kernels have ended.
    ///
    /// # Errors
    /// [`GpuError::Timeout`] names those that have not ended; they may be waited for again. [`GpuError::KernelFailed`]
    /// names one that failed, or all that ran on its GPU where the driver does not tell.
    pub fn wait(&mut self, timeout: Duration) -> Result<(), GpuError> {
        let mut backoff = Backoff::on(Ladder::DEVICE, Clock::REAL, timeout);
        while !self.is_done()? {
            if backoff.pause().is_err() {
                return Err(GpuError::Timeout { what: self.unfinished(None), waited: timeout });
            }
        }
        Ok(())
    }

    /// Whether all kernels have ended. Does not wait.
    ///
    /// # Errors
    /// [`GpuError::KernelFailed`].
    pub fn is_done(&mut self) -> Result<bool, GpuError> {
        for i in 0..self.kernels.len() {
            if self.kernels[i].done {
                continue;
            }
            match self.kernels[i].stream.is_done() {
                Ok(done) => self.kernels[i].done = done,
                Err(error) => return Err(self.failed(i, error)),
            }
        }
        let done = self.kernels.iter().all(|kernel| kernel.done);
        if done {
            self.count_out();
        }
        Ok(done)
    }

    /// An error of kernel `i`'s stream. The driver reports it on every stream of the GPU.
    fn failed(&mut self, i: usize, error: GpuError) -> GpuError {
        let gpu = self.kernels[i].stream.gpu().ordinal();
        let kernel = self.unfinished(Some(gpu));
        for kernel in self.kernels.iter_mut().filter(|kernel| kernel.stream.gpu().ordinal() == gpu) {
            kernel.done = true;
        }
        match error {
            GpuError::Driver(error) | GpuError::Lost { error, .. } => {
                GpuError::KernelFailed { gpu, kernel, error }
            }
            other => other,
        }
    }

    /// The kernels that have not ended, on one GPU or on all.
    fn unfinished(&self, gpu: Option<usize>) -> String {
        let here = |kernel: &&Kernel| gpu.is_none_or(|gpu| kernel.stream.gpu().ordinal() == gpu);
        let names = self.kernels.iter().filter(|kernel| !kernel.done).filter(here);
        names.map(|kernel| kernel.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn count_out(&mut self) {
        if self.place.take().is_some() {
            gate().leave();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.place.is_none() || matches!(self.is_done(), Ok(true)) {
            return;
        }
        let kernels = self.unfinished(None);
        if !kernels.is_empty() {
            tracing::warn!("{kernels} still run: GPU memory is freed when they have ended");
        }
        let (mut place, mut left) = (self.place.take(), std::mem::take(&mut self.kernels));
        gate().abandon(Box::new(move || {
            // A stream with an error has ended too; its GPU is lost.
            left.retain(|kernel| !kernel.done && matches!(kernel.stream.is_done(), Ok(false)));
            if left.is_empty() {
                place = None;
            }
            place.is_none()
        }));
    }
}
