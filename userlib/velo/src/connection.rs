//! Connections: what a port sends through.

use std::sync::Arc;

use extoll_abi::{Address, VELO_MAX_BYTES, VeloError, VeloHeader};

use crate::SendError;
use crate::core::Core;

/// A local object that stands for a remote port, or for a port number on all nodes of a group. Cheap to clone; any
/// thread may send through it.
#[derive(Clone, Debug)]
pub struct VeloConnection {
    core: Arc<Core>,
    remote: Address,
    group: bool,
}

impl VeloConnection {
    pub(crate) fn new(core: Arc<Core>, remote: Address, group: bool) -> VeloConnection {
        VeloConnection { core, remote, group }
    }

    /// The remote port; of a group, its node is the group's number.
    pub fn remote(&self) -> Address {
        self.remote
    }

    /// Sends up to 120 bytes with a tag, waiting for room up to the port's send timeout. Returns when the card has the
    /// message; messages of one port to one receiver arrive in order.
    ///
    /// # Errors
    /// [`SendError::Message`], [`SendError::Timeout`], [`SendError::PeerLost`],
    /// [`SendError::Closed`].
    #[inline]
    pub fn send(&self, bytes: &[u8], tag: u8) -> Result<(), SendError> {
        self.core.send(self.header(bytes.len(), tag, 0)?, bytes)
    }

    /// As [`send`](Self::send), without waiting.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when there is no room, else as for `send`.
    #[inline]
    pub fn try_send(&self, bytes: &[u8], tag: u8) -> Result<(), SendError> {
        self.core.try_send(self.header(bytes.len(), tag, 0)?, bytes)
    }

    /// As [`send`](Self::send), with a message type (0 to 3).
    ///
    /// # Errors
    /// As for `send`.
    #[inline]
    pub fn send_typed(&self, bytes: &[u8], tag: u8, mtt: u8) -> Result<(), SendError> {
        self.core.send(self.header(bytes.len(), tag, mtt)?, bytes)
    }

    /// As [`send_typed`](Self::send_typed), without waiting.
    ///
    /// # Errors
    /// As for [`try_send`](Self::try_send).
    #[inline]
    pub fn try_send_typed(&self, bytes: &[u8], tag: u8, mtt: u8) -> Result<(), SendError> {
        self.core.try_send(self.header(bytes.len(), tag, mtt)?, bytes)
    }

    #[inline]
    fn header(&self, length: usize, tag: u8, mtt: u8) -> Result<u64, VeloError> {
        if length > VELO_MAX_BYTES {
            return Err(VeloError::Length(length));
        }
        let (destination, multicast) = (self.remote, self.group);
        VeloHeader { destination, multicast, mtt, interrupt: false, tag, length: length as u8 }.encode()
    }
}
