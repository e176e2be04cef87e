//! Windows, from outside: in one process, between processes, between hosts. One program: linking takes longer than compiling each of these.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/wire.rs"]
mod wire;

mod across;
mod engines;
mod hosts;
mod puts;
mod several;
mod traced;
mod windows;
