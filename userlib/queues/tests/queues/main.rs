//! Queues of kernels, in one process and between several. One program: linking takes longer than compiling each of these.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../window/tests/common/mod.rs"]
mod processes;
#[path = "../../../window/tests/common/wire.rs"]
mod wire;

mod across;
mod queues;
mod room;
mod traced;
