//! Networks of cards on several hosts: one process and one node on each, joined by a [wire](ggas_wire).
//!
//! Which nodes there are, and where, stands in a [file](HostsFile) that all have. When a node first sends to another, the
//! two processes *meet* over TCP: each proves that it has the secret of the file, and they exchange the addresses of their
//! wires and *tickets*. Packets then go over the wire, each with the ticket that its receiver gave the sender, which says who
//! sent it; anything else is thrown away. The connection of the meeting stays open, and both say on it now and then that they
//! live: when it breaks, or stays silent, the other process is gone, and stays so. Credits per peer and class bound what waits
//! at a receiver, and keep requests from blocking responses.
//!
//! The processes of a job know each other by rank 0, and meet only where one does not hear the other.
//!
//! In a job over hosts a node may have several processes, its ranks. Meetings and links are between processes, and what they call
//! a node is a process there, numbered by its rank; `places.rs` says which of them an address is of.

mod asks;
mod complaints;
mod core;
mod desk;
mod error;
mod events;
mod fabric;
mod file;
mod for_card;
mod grants;
mod known;
mod landing;
mod lines;
mod link;
mod lives;
mod lobby;
mod meeting;
mod message;
mod places;
mod proof;
mod seen;
mod shared;
mod silent;
#[cfg(test)]
mod sim;
mod sleep;
mod stream;
mod wire;
mod wired;

pub use error::HostsError;
pub use events::End;
pub use fabric::HostsFabric;
pub use file::{HostsFile, HostsFileError};
pub(crate) use places::Places;
