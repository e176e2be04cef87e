//! GASPI on the nodes of a job (thesis 4.2): processes that write to and read from *segments* of each other through
//! *queues*, with notifications, passive messages, atomics, groups and collectives.
//!
//! [`Gaspi::init`] joins the job that the environment names (`ggas run` starts one); all calls are methods of [`Gaspi`].
//! The C interface stands on this crate (`userlib/gaspi/c`).
//!
//! ```no_run
//! use ggas_gaspi::{Config, GROUP_ALL, Gaspi, Notice, Part, Timeout};
//!
//! let gaspi = Gaspi::init(Config::default(), Timeout::Block)?;
//! gaspi.segment_create(0, 4096, GROUP_ALL, Timeout::Block)?;
//! let next = (gaspi.rank() + 1) % gaspi.ranks();
//! gaspi.store(0, 0, b"hello")?;
//! let part = Part { local: 0, local_offset: 0, remote: 0, remote_offset: 1024, bytes: 5 };
//! gaspi.write_notify(&[part], &Notice { segment: 0, id: 7, value: 1 }, next, 0)?;
//!
//! gaspi.notify_waitsome(0, 7, 1, Timeout::Block)?;
//! gaspi.notify_reset(0, 7)?;
//! let mut text = [0; 5];
//! gaspi.load(0, 1024, &mut text)?;
//! gaspi.wait(0, Timeout::Block)?;
//! gaspi.barrier(GROUP_ALL, Timeout::Block)?;
//! # Ok::<(), ggas_gaspi::GaspiError>(())
//! ```

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod calls;
mod collective;
mod commit;
mod config;
mod create;
mod crowd;
mod deaths;
mod error;
mod gaspi;
mod gaspi_groups;
mod gaspi_segments;
mod gpu;
mod group;
mod ledger;
mod meet;
mod meeting;
mod outbox;
mod passive;
mod posts;
mod puts;
mod reduce;
mod request;
mod segment;
mod service;
mod shared;
mod statistics;
mod stores;
mod timeout;
mod transfer;
mod wait;
mod wire;

pub use config::{Config, PASSIVE_MAX, QUEUES_MAX, SEGMENTS_MAX, TRANSFER_MAX};
pub use error::GaspiError;
pub use gaspi::Gaspi;
pub use gpu::{GpuConfig, GpuContext, GpuCopies, GpuWay, Policy};
pub use group::GROUP_ALL;
pub use posts::Within;
pub use reduce::{Datatype, Operation, Reduction};
pub use request::{Notice, Part};
pub use statistics::{Counter, Statistics};
pub use timeout::Timeout;
