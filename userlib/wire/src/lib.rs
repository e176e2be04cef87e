//! Messages and memory between hosts, by libraries that sites run already.
//!
//! An [`Endpoint`] sends messages to other endpoints, wherever they are, and reads and writes memory that they registered. The
//! wire, its reliability and its congestion are the library's: *libfabric* or *UCX*, opened when it is first asked for. A
//! program without them starts and runs, and hears from [`choose`] what is missing.
//!
//! ```no_run
//! use ggas_wire::{Endpoint, Event, Taken, choose};
//!
//! let mut endpoint = Endpoint::open(&choose()?)?;
//! println!("{:02x?}", endpoint.address()?); // to be carried to the others
//! # let address = vec![];
//! let peer = endpoint.insert(&address)?;
//! while endpoint.send(peer, b"hello")? == Taken::Later {
//!     endpoint.poll(|event| println!("{event:?}"))?;
//! }
//! # Ok::<(), ggas_wire::WireError>(())
//! ```
//!
//! This crate knows nothing of packets, members and cards, and trusts no peer: a message is bytes, from anyone. No call waits.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod choice;
mod endpoint;
mod error;
mod event;
mod gpu;
mod key;
mod library;
mod offer;
mod slots;
mod table;
mod taker;

pub use choice::{Choice, Reason, choose, choose_of};
pub use endpoint::{
    Endpoint, HEAD_MAX, MESSAGE_MAX, MESSAGE_MOST, Peer, Place, Region, Remote, Taken, Transfer,
};
pub use error::WireError;
pub use event::{Event, Led};
pub use gpu::{GpuChoice, GpuReason, GpuWay};
pub use key::Key;
pub use library::{Library, Version};
pub use offer::Offer;
