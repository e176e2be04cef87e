//! Put and get by queues that the blocks of a GPU share (thesis 5.7): the host's side of `ggas/queue.cuh`.
//!
//! Members are GPUs, or CPU executors in their place. [`Queues`] opens 1 to 32 queues on each, on ports of its own that they
//! share where VPIDs are short. Memory that all members [share](Queues::share) is reached as its [`Way`] says: by loads
//! and stores where it is mapped, else by the network device. Kernels get the addresses of a member's
//! [queues](Queues::address) and of its view of the [memory](Shared::address), and the calls are the same on both ways.
//!
//! ```
//! # use ggas_device::sim::SimNetwork;
//! # use ggas_rma::Node;
//! use std::sync::Arc;
//! use ggas_kernels::Processor;
//! use ggas_queues::{Memory, Queues, QueuesConfig, Way};
//! use ggas_window::Window;
//!
//! # let network = SimNetwork::builder().nodes(2).build()?;
//! # let nodes = [Node::new(network.device(0)?), Node::new(network.device(1)?)];
//! # let cpu = Processor::cpu();
//! let members = [(&nodes[0], &cpu), (&nodes[1], &cpu)];
//! let queues = Queues::new(&members, &QueuesConfig { queues: 4, ..QueuesConfig::default() })?;
//! let window = Arc::new(Window::new(&members, 4096)?);
//! // The window is mapped, so kernels store to it; by the network device they would if that were asked for.
//! let near = queues.share(window.clone())?;
//! assert_eq!(near.way(0, 1)?, Way::Stores);
//! let far = queues.share(Memory::from(window).by(Way::Device))?;
//! assert_eq!(far.way(0, 1)?, Way::Device);
//!
//! let arguments = (queues.address(0)?, far.address(0)?);
//! # assert!(arguments.0 != 0 && arguments.1 != 0);
//! let armed = queues.arm();
//! // ... kernels run ...
//! drop(armed);
//! queues.check()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Between processes [`Queues::across`] opens them for a job, and [`Queues::apart`] for members that exchange what there is
//! to say in some way of their own, such as those of a network without a job.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod config;
mod endpoint;
mod error;
mod exchange;
mod loss;
mod memory;
mod queues;

pub use config::{QueuesConfig, Way};
pub use error::QueuesError;
pub use exchange::Exchange;
pub use memory::{Memory, Shared};
pub use queues::Queues;
