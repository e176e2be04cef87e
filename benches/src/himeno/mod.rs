//! The Himeno benchmark's grids, data and results as one processor computes them; `bench/himeno.rs` runs it.

mod data;
mod forms;
mod grid;
mod reference;
mod run;
mod slices;

pub use grid::Grid;

pub(crate) use data::Data;
pub(crate) use forms::Form;
pub(crate) use reference::{Reference, sum_of_planes};
pub(crate) use run::Run;
pub(crate) use slices::Slices;
