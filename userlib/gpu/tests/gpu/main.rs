//! GPUs that are not there, and such whose memory is the host's. One program: linking takes longer than compiling each of these.

#[path = "../fake/mod.rs"]
mod fake;

mod copier;
mod no_gpu;
mod pinned;
mod share;
