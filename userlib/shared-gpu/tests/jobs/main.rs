//! Collectives of processes that share GPUs, in jobs of real processes. One program: linking takes longer than compiling each of
//! these.

#[path = "../../../window/tests/common/mod.rs"]
mod common;
#[path = "../ranks/mod.rs"]
mod ranks;
#[path = "../../../window/tests/common/wire.rs"]
mod wire;

mod across;
mod among;
mod failures;
mod hierarchy;
mod hosts;
mod mps;
mod processes;
mod types;
