//! The model of the card as a PCI device of virtual machines, over the vfio-user protocol (QEMU 11 is a client).
//!
//! One [`Card`] is one device on one socket. What the guest does to its BARs goes into the same entry points of
//! [`extoll_sim::Nic`] that a process uses: requester stores are trapped and reach the requester in order. The pages
//! that drivers poll are memory that the guest maps. DMA goes to the guest's memory, as far as its machine declared
//! it and the device may master the bus. [`Gpu`] stands in for a GPU: a device whose BAR is memory, source and
//! target of the card's peer-to-peer transfers.

mod bar;
mod card;
mod config;
mod dma;
mod gpu;
mod interrupts;
mod joined;
mod message;
mod parts;
mod patience;
mod protocol;
mod server;

pub use bar::{PeerBar, SharedFile};
pub use card::{Card, CardError, CardSetup};
pub use config::{Change, ConfigSpace, Trouble};
pub use dma::{DmaError, GuestMemory};
pub use gpu::Gpu;
pub use interrupts::Interrupts;
pub use joined::Joined;
pub use protocol::Server;
pub use server::{Backend, Device, Region, listen, serve};
