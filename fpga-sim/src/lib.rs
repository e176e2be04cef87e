//! A software model of the EXTOLL network card.
//!
//! [`Nic`] is one card with the card's own interface: registers, requester pages, queues and translation tables in
//! memory. It reaches memory through [`Memory`] ([`HostMemory`]: declared ranges of this process, and of devices
//! through a [`DeviceCopier`]) and other cards through a [`Fabric`] ([`network::Network`]: a torus in this process,
//! with faults if wanted). A [`Driver`] ([`NicThreads`], a [`Simulation`], or [`timed::Timed`]) runs cards that nobody else
//! runs. The units
//! are state machines in modules of their own, without threads, clocks or sockets. `README.md` lists them, and what was
//! chosen where the specification of the card is silent.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

#[macro_use]
mod trace;

mod card;
pub mod drivers;
mod keep;
pub mod memory;
pub mod network;
mod node;
pub mod packet;
pub mod short_put;
pub mod units;
mod wake;

pub use card::{Driver, MAPPED_REGISTERS, Nic, NicConfig, NicError, SlotRing, VELO_SLOT_WORDS, VeloSlotRing};
pub use drivers::deterministic::Simulation;
pub use drivers::real_time::NicThreads;
pub use drivers::timed;
pub use memory::runs;
pub use memory::{DeviceCopier, HostMemory, Memory, RangeKind};
pub use network::across;
pub use network::fabric::{self, Fabric};
pub use network::hosts;
pub use network::in_process::world;
pub use network::links::{faults, link, routing, torus, xbar};
pub use network::shared;
pub use units::{counters, smfu};
pub use wake::Wake;
