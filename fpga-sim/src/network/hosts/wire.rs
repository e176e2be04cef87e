//! What carries messages between processes: an endpoint, or what stands for it in a simulation.

use std::os::fd::RawFd;

use ggas_wire::{Endpoint, Event, Peer, Taken, WireError};

pub(super) trait Wire {
    /// Another process, as the wire knows it.
    type Peer: Copy;
    fn insert(&mut self, address: &[u8]) -> Result<Self::Peer, WireError>;
    fn remove(&mut self, peer: Self::Peer) -> Result<(), WireError>;
    fn send(&mut self, peer: Self::Peer, bytes: &[u8]) -> Result<Taken, WireError>;
    /// Moves it on; how many things happened.
    fn poll(&mut self, message: impl FnMut(&[u8])) -> Result<usize, WireError>;
    /// A descriptor to sleep on; whether that may begin.
    fn arm(&mut self) -> Option<(RawFd, bool)>;
}

impl Wire for Endpoint {
    type Peer = Peer;

    fn insert(&mut self, address: &[u8]) -> Result<Peer, WireError> {
        self.insert(address)
    }

    fn remove(&mut self, peer: Peer) -> Result<(), WireError> {
        self.remove(peer)
    }

    #[inline]
    fn send(&mut self, peer: Peer, bytes: &[u8]) -> Result<Taken, WireError> {
        self.send(peer, bytes)
    }

    #[inline]
    fn poll(&mut self, mut message: impl FnMut(&[u8])) -> Result<usize, WireError> {
        self.poll(|event| match event {
            Event::Message(bytes) => message(bytes),
            // That a peer is gone, the connection of its meeting says.
            other => tracing::debug!("{other:?}"),
        })
    }

    fn arm(&mut self) -> Option<(RawFd, bool)> {
        let descriptor = self.descriptor()?;
        Some((descriptor, Endpoint::arm(self).unwrap_or(false)))
    }
}
