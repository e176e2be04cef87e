//! Devices, hosts, services and traces, from outside. One program: linking takes longer than compiling each of these.

#[path = "../../../../fpga-sim/tests/common/hosts.rs"]
mod places;
#[path = "../../../window/tests/common/mod.rs"]
mod processes;

mod devices;
mod hosts;
mod hosts_ends;
mod service;
mod traced;
