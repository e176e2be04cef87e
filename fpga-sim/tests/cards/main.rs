//! Whole cards and their networks, from outside. One program: linking takes longer than compiling each of these.

#[path = "../common/mod.rs"]
mod common;

mod at_once;
mod busy;
mod commands;
mod congestion;
mod device;
mod device_ahead;
mod far;
mod faults;
mod fragments;
mod hosts;
mod hosts_gpu;
mod hosts_strangers;
mod interrupts;
mod order;
mod pages;
mod short;
mod simulation;
mod smfu;
mod systems;
mod threads;
mod timed_room;
