//! The adapter, from outside. One program: linking takes longer than compiling each of these.

#[path = "../common/mod.rs"]
mod common;

mod formats;
mod fuzz;
mod golden;
mod links;
mod lossy;
mod queues;
mod rules;
