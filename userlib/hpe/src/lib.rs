//! One pointer for every memory: any thread copies to and from any device of its host and of other ranks, shares objects with those of its
//! host, and reads files into them.
//!
//! After J. Cabezas et al., *Runtime and Architecture Support for Efficient Data Exchange in Multi-Accelerator Applications* (HPE), cited
//! as (digest n), and with today's means where they do better. Devices are GPUs and devices of the CPU executor.
//!
//! ```
//! use ggas_hpe::{Runtime, Use};
//!
//! let runtime = Runtime::builder().executors(2).build()?;
//! let [one, two] = runtime.devices()[..] else { return Ok(()) };
//!
//! // Any two memories, by their pointers alone.
//! let (here, there) = (runtime.alloc(one, 4096)?, runtime.alloc(two, 4096)?);
//! let mut back = [0u8; 4096];
//! // SAFETY: nobody else uses the three.
//! unsafe {
//!     runtime.copy(here, [7; 4096].as_ptr(), 4096)?;
//!     runtime.copy(there, here, 4096)?;
//!     runtime.copy(back.as_mut_ptr(), there, 4096)?;
//! }
//! assert_eq!(back, [7; 4096]);
//! assert_eq!(runtime.owner(there), Some(two));
//!
//! // One pointer for host and device.
//! let shared = runtime.alloc_shared(one, 4096)?.cast::<u64>();
//! // SAFETY: the object is this thread's.
//! unsafe { *shared = 20 };
//! let inside = runtime.device_address(shared.cast())? as *mut u64;
//! runtime.launch(&[(shared.cast(), Use::Write)], || {
//!     // In place of a kernel. SAFETY: kernels have the object now.
//!     unsafe { *inside += 1 }
//! })?;
//! // SAFETY: as above.
//! assert_eq!(unsafe { *shared }, 21);
//! # Ok::<(), ggas_hpe::HpeError>(())
//! ```
//!
//! Between the ranks of a job, each joins with its part of the network ([`Runtime::join`]); a rank tells others of an object by
//! [`Runtime::remote`] of its own number, and they copy to and from that pointer as to and from any other.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod address;
mod blocks;
mod builder;
mod context;
mod copy;
mod device;
mod direct;
mod error;
mod files;
mod fork;
mod futex;
mod launch;
#[allow(missing_docs)]
#[rustfmt::skip]
pub mod layout;
mod map;
mod masked;
mod network;
mod objects;
mod pinned;
mod runtime;
mod segment;
mod shared;
mod slots;
mod spread;
mod staged;
mod worker;

pub use address::DeviceId;
pub use builder::{Builder, Tracking};
pub use context::{LockCounts, Locking, Wait};
pub use copy::{Way, WayCounts};
pub use direct::StorageLibrary;
pub use error::{HpeError, Refusal};
pub use files::is_regular;
pub use launch::{Prepared, Use};
pub use map::{Map, RemoteCounts};
pub use pinned::{PinnedBuffers, PinnedCounts};
pub use runtime::{Counts, Runtime, SharedCounts};
pub use staged::{Staging, Told};
