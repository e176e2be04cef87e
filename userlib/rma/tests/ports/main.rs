//! Ports: every command, order, limits, engines, kernels, words of strangers. One program: linking takes longer than compiling
//! each of these.

#[path = "../common/mod.rs"]
mod common;

mod carriage;
mod concurrency;
mod engine;
mod engine_again;
mod engine_apart;
mod engine_full;
mod engine_runs;
mod engine_traffic;
mod hostile;
mod kernel_calls;
mod kernel_port;
mod kernel_rubbish;
mod limits;
mod timed;
mod transfer;
