//! Libraries that carry messages, with each that this machine has. One program: linking takes longer than compiling each of these.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod environment;
mod gpu;
mod grants;
mod strangers;
mod two_processes;
