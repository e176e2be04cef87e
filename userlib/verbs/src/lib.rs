//! InfiniBand verbs for kernels and the host (thesis 5.4, 5.5): contexts, protection domains, regions, completion queues and queue
//! pairs of reliable connections (table 5.1), their queues in host or kernel memory, and what kernels need of them as
//! structures in kernel memory (Listings 5.1, 5.2; `ggas/verbs.cuh`).
//!
//! The adapter is a software one, [`ggas_hca`]; [`network_across`] lets those of several processes reach each other. **No HCA has
//! seen any of this**; kernels run on GPUs and on the CPU executor.
//!
//! Two adapters in one process, and a write from one to the other:
//!
//! ```
//! use ggas_kernels::Processor;
//! use ggas_verbs::*;
//! use std::sync::Arc;
//!
//! let (memory, processor) = (HostMemory::new(), Processor::cpu());
//! let network = Network::new(memory.clone(), ggas_clock::Clock::real(), Wire::Packets);
//! // The adapters work on a thread; where kernels of the executor wait, they do it, too.
//! let _running = network.start()?;
//! let stepped = network.clone();
//! let _idle = processor.on_idle(ggas_clock::Clock::REAL, move || stepped.step());
//! let open = || -> Result<_, Box<dyn std::error::Error>> {
//!     let context = Context::open(&network, &memory, &processor, Format::Mlx5)?;
//!     let (pd, cq) = (context.pd(), context.cq(CqAttributes::default())?);
//!     let qp = pd.qp(QpAttributes::default(), &cq, &cq)?;
//!     let mr = pd.register(Arc::new(processor.alloc(4096)?), Access::ALL)?;
//!     Ok((qp, cq, mr))
//! };
//! let ((near, cq, from), (far, _cq, to)) = (open()?, open()?);
//! near.connect(&far.endpoint(), Connect::default())?;
//! far.connect(&near.endpoint(), Connect::default())?;
//!
//! from.buffer().write(0, b"written")?;
//! let RemoteRegion { address, rkey, .. } = to.remote();
//! let write = Operation::Write { address, rkey, immediate: None };
//! near.post_send(&SendWork::new(1, write, Sges::one(from.address(), 7, from.lkey())))?;
//! let done = loop {
//!     match cq.poll()? {
//!         Some(done) => break done,
//!         None => std::thread::yield_now(),
//!     }
//! };
//! assert_eq!((done.id, done.status), (1, Status::Success));
//! let mut bytes = [0; 7];
//! to.buffer().read(0, &mut bytes)?;
//! assert_eq!(&bytes, b"written");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Kernels get a queue pair by [`Qp::export`], a completion queue by [`Cq::export`] and a region by [`Mr::export`]. Keys of a request
//! of kernels are big-endian from step 2 on, the usual one: `lkey_be` of the exported region, and of a peer's `rkey.to_be()`.
//! Every so many requests one has to be signaled, as completions tell which places of a queue are free.

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
