//! Groups and their collectives, from outside. One program: linking takes longer than compiling each of these.

#[path = "../common/mod.rs"]
mod common;
mod element;
#[path = "../../../window/tests/common/mod.rs"]
mod jobs;
#[path = "../../../window/tests/common/wire.rs"]
mod wire;

mod across;
mod collectives;
mod example;
mod hosts;
mod run;
mod started;
mod trapped;
mod values;
