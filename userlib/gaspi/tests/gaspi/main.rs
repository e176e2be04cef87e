//! Jobs of processes on one host. One program: linking takes longer than compiling each of these.

#[path = "../jobs/mod.rs"]
mod jobs;
#[path = "../signals/mod.rs"]
mod signals;

mod failures;
mod gpu;
mod gpu_vectors;
mod processes;
mod stores;
mod timeouts;
