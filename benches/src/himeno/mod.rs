//! The Himeno benchmark's grids, data and results as one processor computes them; `bench/himeno.rs` runs it.

mod by_gmpi;
mod by_host;
mod by_queues;
mod data;
mod forms;
mod grid;
mod parts;
mod problem;
mod reference;
mod run;
mod shape;
mod sides;
mod split;

pub use grid::Grid;
pub use split::Split;

pub(crate) use by_gmpi::{ByGmpi, Way};
pub(crate) use data::Data;
pub(crate) use forms::Form;
pub(crate) use parts::{Edge, Parts};
pub(crate) use problem::Problem;
pub(crate) use reference::{Reference, sum_of_planes};
pub(crate) use run::Run;
