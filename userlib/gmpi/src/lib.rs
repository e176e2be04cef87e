//! GMPI: MPI calls from inside kernels (Kuwahara, Hanawa, Boku: *A proposal of GMPI*). Kernels call by `ggas/gmpi.cuh`; a daemon
//! thread of the host makes the calls, over our own messages or an MPI library.
//!
//! ```
//! use ggas::{Job, Processor};
//! use ggas_gmpi::{Config, Gmpi};
//! use std::sync::Arc;
//!
//! let job = Job::join()?;
//! let processor = Processor::cpu();
//! let gmpi = Gmpi::open(&job, &processor, &Config::default())?;
//! let memory = Arc::new(processor.alloc(4096)?);
//! gmpi.attach(&memory)?;
//! // A kernel that takes `gmpi.address()` as its `gmpi_buf_t *` runs here.
//! gmpi.check()?;
//! gmpi.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod busy;
pub mod carrier;
mod class;
mod comms;
mod config;
mod daemon;
mod direct;
mod error;
mod gmpi;
#[allow(missing_docs, non_camel_case_types)]
#[rustfmt::skip]
pub mod layout;
mod library;
mod memory;
mod rings;

pub use carrier::mpi::Staging;
pub use class::{Class, Status};
pub use comms::{Comm, Win};
pub use config::{Config, PLACEMENTS, Placement, Polling};
pub use direct::Direct;
pub use error::GmpiError;
pub use gmpi::{Gmpi, Joined};
pub use memory::Span;
