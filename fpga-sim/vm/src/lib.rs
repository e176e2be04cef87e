//! The model of the card as a PCI device of virtual machines, over the vfio-user protocol (QEMU 11 is a client).
//!
//! One [`Card`] is one device on one socket. The guest's accesses to the card's BARs call the same entry points of
//! [`extoll_sim::Nic`] as a process that uses the model: stores to requester pages trap and reach the requester in order.
//! The pages that drivers poll are memory that the guest maps. DMA reaches the guest memory that the VMM registered, while
//! the device is a bus master. [`Gpu`] is a stand-in for a GPU: a device whose BAR is memory, source and target of the
//! card's peer-to-peer transfers.

mod bar;
mod card;
mod config;
mod cut;
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
