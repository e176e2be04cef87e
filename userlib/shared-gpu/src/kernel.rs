//! The crate's kernels and their arguments.

use ggas_gpu::{Gpu, Launch, Module, Stream};

use crate::SharedGpuError;

/// `struct shared_gpu_reduce` in kernels/shared_gpu.cu.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Reduce {
    pub(crate) result: u64,
    pub(crate) first: u64,
    pub(crate) slots: u64,
    pub(crate) stride: u64,
    pub(crate) count: u64,
    pub(crate) number: u32,
    pub(crate) element: u32,
    pub(crate) op: u32,
    pub(crate) reserved: u32,
}

/// `struct shared_gpu_copy` there.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Copy {
    pub(crate) to: u64,
    pub(crate) from: u64,
    pub(crate) bytes: u64,
}

/// `struct shared_gpu_words` there.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Words {
    pub(crate) directory: u64,
    pub(crate) copy: u64,
    pub(crate) number: u64,
    pub(crate) at: u64,
    pub(crate) value: u64,
    pub(crate) looks: u64,
}

pub(crate) const REDUCE: &str = "ggas_shared_gpu_reduce";
pub(crate) const STORE: &str = "ggas_shared_gpu_store";
pub(crate) const BULK: &str = "ggas_shared_gpu_bulk";
pub(crate) const WORDS: &str = "ggas_shared_gpu_words";

ggas_kernels::kernels! {
    static KERNELS = [
        ggas_shared_gpu_reduce(Reduce),
        ggas_shared_gpu_store(Copy),
        ggas_shared_gpu_bulk(Copy),
        ggas_shared_gpu_words(Words),
    ];
}

unsafe extern "C" {
    fn ggas_shared_gpu_reduce_on_host(args: *const Reduce);
}

/// The reduction's kernel on the calling thread: in host memory.
///
/// # Safety
/// The vectors are there, and nobody else writes to them or reads the result meanwhile.
pub(crate) unsafe fn reduce(args: &Reduce) {
    // SAFETY: the structure is the kernel's; the caller's contract.
    unsafe { ggas_shared_gpu_reduce_on_host(args) };
}

/// Queues the reduction's kernel on a GPU.
///
/// # Safety
/// The stream is of the module's GPU. The vectors are in memory that it reaches until the stream is idle; nobody else writes to them or
/// reads the result until then.
pub(crate) unsafe fn enqueue_reduce(
    module: &Module,
    stream: &Stream,
    args: &Reduce,
) -> Result<(), SharedGpuError> {
    let blocks = args.count.div_ceil(256).clamp(1, 512) as u32;
    // SAFETY: the structure is this kernel's; the caller's contract. No block waits for another.
    let launch = unsafe { Launch::new(module, REDUCE, blocks, 256, args) };
    // SAFETY: as above.
    Ok(unsafe { launch.enqueue(stream.as_raw()) }?)
}

/// Makes the kernels known to the CPU executor.
pub(crate) fn add() -> Result<(), SharedGpuError> {
    Ok(ggas_kernels::add(&KERNELS)?)
}

/// Loads them on a GPU that may have been opened before.
pub(crate) fn load(gpu: &Gpu) -> Result<Module, SharedGpuError> {
    Ok(gpu.load(KERNELS.fatbin())?)
}
