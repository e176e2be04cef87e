//! Which rank of a job should have which GPU.
//!
//! A [`Pattern`] says who sends how much to whom, a [`Topology`] over which channel any two GPUs reach each other. [`map`] gives
//! each rank a GPU so that those that send much to each other are near, by one of three [`Metric`]s: the best mapping there is
//! up to eight GPUs, a good one beyond. [`Links`] tells how loaded the links are before and after, [`flows`] how long an
//! exchange takes. For several nodes [`Cluster::map`] first chooses the node of each rank, then its core, then its GPU.
//!
//! (thesis n) is I. Faraji, *Improving Communication Performance in GPU-Accelerated HPC Clusters*, Queen's University 2018.
//!
//! ```
//! use ggas_mapping::{map, Links, Mapping, Metric, Pattern, Search, Topology};
//!
//! let helios = Topology::named("helios")?;
//! let pattern = Pattern::stencil(&[2, 2, 4], false, 3, 1 << 20)?;
//! let mapping = map(&helios, &pattern, Metric::Bandwidth, Search::default())?;
//!
//! let links = Links::of(&helios)?;
//! let far = |mapping: &Mapping| links.congestion(&pattern, mapping).map(|links| links.worst(3));
//! assert_eq!(far(&Mapping::default_of(&helios, &pattern)?)?, 6.0 * far(&mapping)?);
//! # Ok::<(), ggas_mapping::MapError>(())
//! ```

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod discover;
mod error;
mod exact;
pub mod files;
pub mod flows;
mod heuristic;
mod links;
mod mapping;
mod measure;
mod metric;
mod pattern;
mod phases;
mod problem;
mod topology;
mod trace;

pub use discover::{nvml, sysfs};
pub use error::{MapError, counted};
pub use links::{Congestion, Link, Links};
pub use mapping::{Mapping, Search, map};
pub use metric::Metric;
pub use pattern::Pattern;
pub use phases::{Assignment, Cluster};
pub use topology::{Channel, Topology};
