//! A software model of the EXTOLL network card.
//!
//! [`Nic`] is one card with the card's own interface: registers, requester pages, queues and translation tables in
//! memory. It reaches memory through [`Memory`] ([`HostMemory`]: declared ranges of this process, and of devices
//! through a [`DeviceCopier`]) and other cards through a [`Fabric`] ([`network::Network`]: a torus in this process,
//! with faults if wanted). A [`Driver`] runs: [`NicThreads`], or a [`Simulation`], cards that nobody else runs. The units are state machines in
//! modules of their own, without threads, clocks or sockets. `README.md` lists them, and what was chosen where the
//! specification of the card is silent.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod atu;
pub mod bits;
pub mod bq;
pub mod completer;
pub mod counters;
mod direct;
pub mod drivers;
pub mod fabric;
pub mod faults;
pub mod fragment;
mod keep;
pub mod link;
pub mod lock;
pub mod memory;
pub mod network;
pub mod nic;
pub mod notify;
pub mod packet;
pub mod process;
pub mod report;
pub mod requester;
pub mod responder;
pub mod routing;
pub mod runs;
pub mod smfu;
pub mod snq;
mod timer;
pub mod torus;
pub mod velo;
pub mod vpid;
mod wake;
pub mod wcb;
pub mod world;
pub mod xbar;

pub use drivers::deterministic::Simulation;
pub use drivers::real_time::NicThreads;
pub use fabric::Fabric;
pub use memory::{DeviceCopier, HostMemory, Memory, RangeKind};
pub use nic::{Driver, MAPPED_REGISTERS, Nic, NicConfig, NicError, SlotRing, VELO_SLOT_WORDS, VeloSlotRing};
pub use wake::Wake;
