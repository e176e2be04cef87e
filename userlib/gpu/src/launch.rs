//! Kernels to start: their shapes, arguments, and what the driver is told.

use std::mem::MaybeUninit;

use crate::error::GpuError;
use crate::fit::Load;
use crate::gpu::Gpu;
use crate::module::{Function, Module};
use crate::stream::Stream;
use crate::sys::*;

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

    /// Prefers a large L1 cache, for this and later launches of the kernel: its multiprocessors get no more shared memory than
    /// those blocks need which run there at once. For one whose loads fill the cache. Others keep their split, and cannot
    /// share a multiprocessor with it.
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
            self.module.prefer_cache(self.kernel, function, self.block, self.shared as usize)?;
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
