//! Memories, pointers and objects, from outside. One program: linking takes longer than compiling each of these. Tests of what a process has
//! once, such as handlers of signals, are programs of their own.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../window/tests/common/mod.rs"]
mod ranks;
#[path = "../../../window/tests/common/wire.rs"]
mod wire;

mod copies;
mod direct;
mod maps;
mod network;
mod shared;
mod sharing;
mod spread;
mod stand_in;
mod tracking;
