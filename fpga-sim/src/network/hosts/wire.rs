//! What carries messages between processes: endpoints, or what stands for them in a simulation.

use std::os::fd::RawFd;

use ggas_wire::{Event, Key, Taken, WireError};

/// Bytes of what a peer grants, and where they go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// First byte of what the key is of.
    pub offset: u64,
    pub to: u64,
    pub len: usize,
}

pub(super) trait Wire {
    /// Another process, as the wire knows it.
    type Peer: Copy;
    /// Memory that who has its key may read.
    type Grant: Copy;
    fn insert(&mut self, address: &[u8]) -> Result<Self::Peer, WireError>;
    /// What is under way to and from the peer fails, as [`poll`](Self::poll) tells.
    fn remove(&mut self, peer: Self::Peer) -> Result<(), WireError>;
    fn send(&mut self, peer: Self::Peer, bytes: &[u8]) -> Result<Taken, WireError>;
    /// # Safety
    /// Mapped until it is revoked, and until the peers that have the key read no more, or are removed.
    unsafe fn grant(&mut self, address: u64, len: usize) -> Result<(Self::Grant, Key), WireError>;
    fn revoke(&mut self, grant: Self::Grant);
    /// Bytes of a read, at most.
    fn most(&self) -> usize;
    /// Begins to read what a peer grants; [`Event::Done`] or [`Event::Failed`] says that it is over.
    ///
    /// # Safety
    /// Memory of the process, mapped writable until then, which tolerates access by others.
    unsafe fn fetch(
        &mut self,
        peer: Self::Peer,
        key: &Key,
        piece: Piece,
        token: u64,
    ) -> Result<Taken, WireError>;
    /// Moves it on; how many things happened.
    fn poll(&mut self, each: impl FnMut(Event<'_>)) -> Result<usize, WireError>;
    /// A descriptor to sleep on; whether that may begin.
    fn arm(&mut self) -> Option<(RawFd, bool)>;
}
