//! A message that was received.

use std::fmt;
use std::ops::Deref;

use extoll_abi::{Address, VELO_MAX_BYTES, VeloStatus};

/// A received message; dereferences to its bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Status word of its slot.
    pub(crate) status: VeloStatus,
    /// Payload; the first `len` count.
    pub(crate) bytes: [u8; VELO_MAX_BYTES],
    pub(crate) len: u8,
}

impl Message {
    /// Port that sent it.
    #[inline]
    pub fn source(&self) -> Address {
        self.status.source()
    }

    /// The sender's tag.
    #[inline]
    pub fn tag(&self) -> u8 {
        self.status.tag()
    }

    /// The sender's message type, 0 to 3.
    #[inline]
    pub fn mtt(&self) -> u8 {
        self.status.mtt()
    }

    /// The card says that it was damaged on its way: do not trust its bytes.
    #[inline]
    pub fn is_damaged(&self) -> bool {
        self.status.is_error()
    }

    /// The payload, at most 120 bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl Deref for Message {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes()
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("source", &self.source())
            .field("tag", &self.tag())
            .field("mtt", &self.mtt())
            .field("damaged", &self.is_damaged())
            .field("bytes", &self.bytes())
            .finish()
    }
}
