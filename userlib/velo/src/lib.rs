//! VELO: messages of up to 120 bytes from port to port, into mailboxes in memory (spec 7).
//!
//! A [`VeloPort`] has a mailbox and sends through [`VeloConnection`]s. Each message carries its sender, an 8-bit tag and
//! a 2-bit type (MTT). Messages of one port to another arrive once and in order. The card has no credits from end to
//! end: a full mailbox holds back what comes after, up to the sender, whose sends then wait, or say
//! [`SendError::WouldBlock`]. A mailbox that nobody reads for longer than the card's timeout (3.2 s on the model) loses
//! what waits for it; the card counts that ([`VeloHandle::dropped`]).

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod connection;
mod core;
mod error;
#[cfg(feature = "kernels")]
mod kernel;
mod mailbox;
mod matching;
mod message;
mod port;
mod sender;

pub use connection::VeloConnection;
pub use error::{ReceiveError, SendError, VeloPortError};
pub use extoll_abi::{Address, VELO_MAX_BYTES};
pub use ggas_device::{DeviceError, MailboxSlots};
#[cfg(feature = "kernels")]
pub use kernel::{KernelVelo, KernelVeloError};
pub use matching::MessageMatch;
pub use message::Message;
pub use port::{VeloConfig, VeloHandle, VeloPort};
