//! The library's kernels and where kernels run: a GPU or the CPU executor.
//!
//! Kernels are CUDA C++ over the headers in `kernels/include`; see the README
//! of this folder for how to write one. Here is how the host starts them:
//!
//! ```
//! use ggas_kernels::{Launch, Processor, start};
//! use ggas_selftest::{KERNELS, args::selftest_threads}; // a crate with kernels
//!
//! ggas_kernels::add(&KERNELS)?;
//! let cpu = Processor::cpu();
//! let out = cpu.alloc(4 * 64 * 8)?;
//! let counter = cpu.alloc(8)?;
//! let args = selftest_threads {
//!     out: out.address(),
//!     counter: counter.address(),
//!     report: 0,
//!     timeout_ns: 1_000_000_000,
//! };
//! // SAFETY: the structure is this kernel's, and the memory lives beyond the wait.
//! let launch = unsafe { Launch::new(&cpu, "ggas_selftest_threads", 4, 64, &args) };
//! start(&[launch])?.wait(std::time::Duration::from_secs(10))?;
//! assert!(out.read_u64s(0, 4 * 64)?.iter().all(|&seen| seen == 4 * 64));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

#[allow(missing_docs, non_camel_case_types)]
#[rustfmt::skip]
pub mod args;
mod exec;
mod idle;
mod image;
mod launch;
mod loops;
mod memory;
pub mod mmio;
mod processor;
mod proxy;
mod report;
mod stream;
pub mod trap;

pub use exec::CpuConfig;
pub use ggas_gpu::{Behind, PinnedBuffer};
pub use idle::{IdleGuard, on_idle};
#[doc(hidden)]
pub use image::HostKernel;
pub use image::{FATBIN, Image, ImageError, NVCC_NONE, NVCC_RELEASE, add, args_size, kernel_names};
pub use launch::{Launch, LaunchError, MAX_BLOCK, Running, run_repeated, run_rounds, start};
pub use loops::{Loop, run_loops};
pub use memory::{KernelMem, Mapped, MemoryError};
pub use processor::{Cpu, Gpu, Processor};
#[doc(hidden)]
pub use proxy::Server as ProxyServer;
pub use report::{QueueWait, wait_name};
pub use stream::Stream;
