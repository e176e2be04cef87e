//! NVIDIA GPUs through the CUDA driver: probing, memory, launches, windows, the copier.
//!
//! This crate owns every raw driver call of the suite. It loads libcuda at run time and checks it first: without a
//! driver, with a stub or with an old one, [`probe`] returns [`NoGpu`], and nothing panics.
//!
//! Kernels of the suite wait for each other, for the host, or for the model of the card. So no call of this crate waits
//! for the whole GPU while such a kernel runs ([`Running`]): driver calls that would wait are deferred until it has ended.
//!
//! ```no_run
//! # fn main() -> Result<(), ggas_gpu::GpuError> {
//! # let fatbin: &'static [u8] = &[];
//! use std::time::Duration;
//! let gpu = ggas_gpu::Gpu::open(0)?;
//! let module = gpu.load(fatbin)?;
//! let buffer = gpu.alloc(1 << 20)?;
//! let args = buffer.address();
//! // SAFETY: the kernel takes one address, and the buffer outlives it.
//! let launch = unsafe { ggas_gpu::Launch::new(&module, "kernel", 4, 128, &args) };
//! ggas_gpu::start(&[launch])?.wait(Duration::from_secs(5))?;
//! let mut result = [0; 8];
//! buffer.read(0, &mut result)?;
//! # Ok(()) }
//! ```

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod copier;
mod current;
mod dma_buf;
mod error;
mod fit;
mod gpu;
mod graph;
mod ipc;
mod launch;
mod loops;
mod managed;
mod mapping;
mod memory;
mod module;
mod pinned;
mod place;
mod probe;
mod queue;
mod ranges;
mod resident;
mod running;
mod share;
mod stream;
mod sys;
mod window;

pub use copier::{AtomicStart, Copier, CopierGuard, CopyState};
pub use current::CurrentContext;
pub use error::{DriverError, GpuError, NoGpu};
pub use gpu::Gpu;
pub use graph::{Behind, run_rounds};
pub use ipc::{IpcMemory, IpcName};
pub use launch::Launch;
pub use loops::{Loop, run_loops};
pub use managed::ManagedBuffer;
pub use mapping::{HostMapping, Keeper};
pub use memory::DeviceBuffer;
pub use module::Module;
pub use pinned::PinnedBuffer;
pub use probe::{GpuInfo, Peer, probe};
pub use queue::Queue;
pub use running::{Running, start, start_repeated};
pub use share::GpuPart;
pub use stream::{Event, Stream};
pub use window::GpuWindow;

/// Calls put off because waiting kernels are resident: frees, unregistrations, unloads. 0 when none is resident.
pub fn deferred_calls() -> usize {
    resident::gate().pending()
}
