//! Collectives of processes that share a GPU (I. Faraji, *Improving Communication Performance in GPU-Accelerated HPC Clusters*,
//! 2018, chapters 3 and 5; comments name its sections).
//!
//! [`SharedGpu`] has the calls. What ranks do is written once, over [`Station`]: [`SharedGpu`] runs it in processes, the
//! [`model`] in virtual time.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod across;
mod attached;
mod btb;
mod call;
mod choosing;
mod circle;
mod config;
mod direct;
mod elements;
mod error;
mod gathered;
mod gsb;
mod hierarchy;
mod host;
mod hyper_q;
mod kernel;
mod lanes;
mod layout;
mod leaders;
mod learning;
mod levels;
mod memory;
pub mod model;
mod mover;
mod mps;
mod one_host;
mod over_hosts;
mod peers;
mod pieces;
mod places;
mod plan;
mod process;
mod rules;
mod shared_gpu;
mod station;
mod status;
#[cfg(test)]
mod tests;
mod tuning;
mod vector;

pub use across::{Across, ChosenBy, HostChoice, HostChoices, HostTable, Through};
pub use choosing::{Copier, Copies};
pub use config::{Config, Directory};
pub use elements::{Element, Op};
pub use error::SharedGpuError;
pub use hierarchy::{Hierarchy, HierarchyConfig};
pub use hyper_q::Mix;
pub use layout::Layout;
pub use learning::LEARNING_CALLS;
pub use levels::Levels;
pub use mps::Mps;
pub use plan::{Algorithm, Collective, Stamp, collective_on};
pub use shared_gpu::SharedGpu;
pub use station::{Lane, Place, Slots, Station, Waiting, Word};
pub use tuning::{Choice, Choices, Table};
pub use vector::Vector;
