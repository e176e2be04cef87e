//! InfiniBand verbs for kernels and the host (thesis 5.4, 5.5): contexts, protection domains, regions, completion queues and queue
//! pairs of reliable connections (table 5.1), their queues in host or kernel memory, and what kernels need of them as
//! structures in kernel memory (Listings 5.1, 5.2; `ggas/verbs.cuh`).
//!
//! The adapter is a software one, [`ggas_hca`]; [`network_across`] lets those of several processes reach each other. **No HCA has seen any of this**; kernels run on GPUs and on the CPU
//! executor.

#![deny(clippy::disallowed_methods)]

mod across;
mod context;
mod cq;
mod doorbells;
mod error;
mod exchange;
mod export;
#[rustfmt::skip]
#[allow(missing_docs, non_camel_case_types, clippy::undocumented_unsafe_blocks)] // as bindgen writes
pub mod layout;
mod memory;
mod qp;
mod region;

pub use across::network_across;
pub use context::{Context, Pd};
pub use cq::{Cq, CqAttributes};
pub use error::VerbsError;
pub use exchange::{Endpoint, RemoteRegion};
pub use memory::Placement;
pub use qp::{Connect, Qp, QpAttributes};
pub use region::Mr;

pub use extoll_sim::memory::HostMemory;
pub use ggas_hca::formats::Format;
pub use ggas_hca::{
    Access, Completion, CqId, Driver, Event, Kind, Mtu, Network, Operation, ReceiveWork, Reliability,
    SendWork, Sge, Sges, State, Status, Wire,
};
