//! Groups of nodes for collectives (thesis 6.7, 6.8).
//!
//! The host creates a [`Group`] in a byte range of a window; kernels call the collectives of `coll.cuh` with their
//! member's `struct ggas_group`. [`Group::collective`] starts collectives on vectors in the window from the host.
//!
//! ```
//! # use ggas_device::sim::SimNetwork;
//! # use ggas_rma::Node;
//! use std::sync::Arc;
//! use ggas_coll::{Group, GroupConfig};
//! use ggas_kernels::Processor;
//! use ggas_window::Window;
//!
//! # let network = SimNetwork::builder().nodes(2).build()?;
//! # let nodes = [Node::new(network.device(0)?), Node::new(network.device(1)?)];
//! # let cpu = Processor::cpu();
//! // The user's part first, then the group's.
//! let config = GroupConfig { offset: 4096, ..GroupConfig::default() };
//! let bytes = config.end(2)?;
//! let window = Arc::new(Window::new(&[(&nodes[0], &cpu), (&nodes[1], &cpu)], bytes)?);
//! let group = Group::new(window, &config)?;
//! let argument = group.member(0)?.address();
//! # assert_ne!(argument, 0);
//! // ... kernels run ...
//! group.check()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where several algorithms exist, a table that `ggas tune` writes selects one by the vector's size ([`Tuning`]); the
//! caller can force another choice.
//!
//! Between the processes of a job, each of which is one member, [`Group::across`] creates the group in a window
//! [across](ggas_window::Window::across) these processes.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod area;
mod error;
mod group;
mod loss;
mod members;
mod run;
mod started;
mod tuning;

pub use error::GroupError;
pub use group::{Group, GroupConfig, GroupMember};
pub use run::{BetweenHosts, RunBy};
pub use started::{Collective, Element, Op, Vectors};
pub use tuning::{Choices, GaspiLimits, SumChoice, SumShape, TunedBy, Tuning, device_of};
