//! A software InfiniBand adapter (host channel adapter, HCA) with reliable connections, that speaks RoCEv2.
//!
//! No HCA has seen any of this: formats and rules are those of public standards and headers, and what judges the wire is
//! the Linux kernel's own software adapter, `rdma_rxe`.
//!
//! Sources are cited as IBTA 9.7 (InfiniBand Architecture Specification, volume 1, release 1.4) and IBTA A17 (its annex
//! RoCEv2).

#![deny(clippy::disallowed_methods)]

mod adapter;
mod cq;
pub mod formats;
mod links;
mod network;
mod numbers;
mod queues;
mod regions;
mod transport;
pub mod wire;
mod work;

pub use adapter::{CqId, Event, Hca, HcaError};
pub use cq::{CompletionQueue, Overrun, Queue};
pub use links::Links;
pub use network::{Driver, Network, Wire};
pub use queues::{Front, Ring, RingError};
pub use regions::{Access, Domain, RegionError};
pub use transport::{Attributes, Connection, Mtu, Nanos, QpError, QueuePair, Reliability, State};
pub use work::{Completion, Kind, Operation, ReceiveWork, SendWork, Sge, Sges, Status};
