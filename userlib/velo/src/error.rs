//! What can go wrong when sending and receiving, and what to do about it.

use std::time::Duration;

use extoll_abi::{Address, VeloError};
use ggas_device::{DeviceError, LostPeer};

use crate::MessageMatch;

/// Errors of sending a message.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// A `try_` form found no room: the receiver's mailbox is full, or the network busy.
    #[error("the card takes no further message of this port now: receive what there is and try again")]
    WouldBlock,
    /// A blocking form found no room within the port's send timeout.
    #[error(
        "no room for a message of port {port} in {waited:?} ({outstanding} are not on their way yet): a receiver does \
         not empty its mailbox; receive there, or give the port a longer send_timeout"
    )]
    Timeout {
        /// The port.
        port: Address,
        /// Messages that the card has not taken yet.
        outstanding: u32,
        /// How long was waited.
        waited: Duration,
    },
    /// A message of more than 120 bytes, or a type above 3.
    #[error(transparent)]
    Message(#[from] VeloError),
    /// The process that served the receiver is gone.
    #[error("{0}")]
    PeerLost(LostPeer),
    /// The port was closed.
    #[error("the port is closed: open a new one")]
    Closed,
}

ggas_errors::debug_as_display!(SendError);

/// Errors of waiting for a message.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// Nothing that matches arrived in time.
    #[error(
        "waited {waited:?} at port {port} for {wanted}: nothing; {others} other messages are in the mailbox. Check that \
         the peer sent, and the counters of both nodes"
    )]
    Timeout {
        /// The port.
        port: Address,
        /// What was waited for.
        wanted: MessageMatch,
        /// How long.
        waited: Duration,
        /// Messages in the mailbox that do not match.
        others: u32,
    },
    /// The process of the only port that could send what was wanted is gone, and all that it had sent was looked at.
    #[error("waiting at port {port} for {wanted}: {peer}")]
    PeerLost {
        /// The port.
        port: Address,
        /// What was waited for.
        wanted: MessageMatch,
        /// Who is gone.
        peer: LostPeer,
    },
    /// The port was closed.
    #[error("the port is closed: open a new one")]
    Closed,
}

ggas_errors::debug_as_display!(ReceiveError);

/// Errors of opening and closing ports.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum VeloPortError {
    /// The device refused.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The port was closed with messages that the card had not taken.
    #[error(
        "port {port} closed, but {outstanding} messages were not on their way after {waited:?}: they are lost; the \
         receiver did not empty its mailbox"
    )]
    Undrained {
        /// The port.
        port: Address,
        /// Messages that were lost.
        outstanding: u32,
        /// How long was waited.
        waited: Duration,
    },
}

ggas_errors::debug_as_display!(VeloPortError);
