//! Windows, from outside: in one process, between processes, between hosts. One program: linking takes longer than compiling each of these.

#[path = "../common/mod.rs"]
mod common;

mod across;
mod engines;
mod hosts;
mod puts;
mod traced;
mod windows;
