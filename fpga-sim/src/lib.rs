//! A software model of the EXTOLL network card.

mod direct;
pub mod engine;
pub mod fabric;
pub mod faults;
pub mod link;
pub mod memory;
pub mod network;
pub mod nic;
pub mod packet;
pub mod routing;
pub mod smfu;
pub mod torus;
pub mod world;
pub mod xbar;

pub use engine::Engine;
pub use fabric::{Fabric, Wake};
pub use memory::{DeviceCopier, HostMemory, Memory, RangeKind};
pub use nic::{Nic, NicConfig, NicError, SlotRing};
