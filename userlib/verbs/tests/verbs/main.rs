//! Verbs, in one process and between several. One program: linking takes longer than compiling each of these.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../window/tests/common/mod.rs"]
mod processes;
#[path = "../common/world.rs"]
mod world;

mod across;
mod ends;
mod verbs;
