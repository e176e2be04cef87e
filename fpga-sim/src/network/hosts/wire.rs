//! What carries messages between processes: endpoints, or what stands for them in a simulation.

use std::os::fd::RawFd;

use ggas_wire::{Event, Key, Place, Taken, WireError};

/// Bytes of what a peer grants, and where they go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// First byte of what the key is of.
    pub offset: u64,
    pub to: u64,
    pub place: Place,
    pub len: usize,
}

/// What a peer is to have at a place that it opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write<'a> {
    pub key: &'a Key,
    /// First byte of what the key is of.
    pub at: u64,
    pub head: &'a [u8],
    /// What is behind it.
    pub from: u64,
    pub len: usize,
    pub immediate: u32,
    pub token: u64,
}

pub(super) trait Wire {
    /// Another process, as the wire knows it.
    type Peer: Copy;
    /// Memory that who has its key may read.
    type Grant: Copy;
    /// Bytes of a message, at most.
    fn message_max(&self) -> usize;
    fn insert(&mut self, address: &[u8]) -> Result<Self::Peer, WireError>;
    /// Reads of the peer fail, as [`poll`](Self::poll) tells. Writes to it, and by it, may go on until they end.
    fn remove(&mut self, peer: Self::Peer) -> Result<(), WireError>;
    /// As if a peer were removed and inserted, but what is read of it goes on. Messages to it may be lost.
    fn renew(&mut self, peer: Self::Peer, address: &[u8]) -> Result<Self::Peer, WireError>;
    fn send(&mut self, peer: Self::Peer, bytes: &[u8]) -> Result<Taken, WireError>;
    /// Where a message may be written that [`send_room`](Self::send_room) then sends without a copy; `None`: not now.
    fn room(&mut self) -> Option<&mut [u8]>;
    /// Sends so many bytes of the room, which was asked for right before.
    fn send_room(&mut self, peer: Self::Peer, len: usize) -> Result<Taken, WireError>;
    /// # Safety
    /// Mapped until it is revoked, and until the peers that have the key read no more, or are removed.
    unsafe fn grant(
        &mut self,
        address: u64,
        len: usize,
        place: Place,
    ) -> Result<(Self::Grant, Key), WireError>;
    /// No read begins any more. False: the wire is still reading there for peers, and has to be asked again.
    #[must_use]
    fn revoke(&mut self, grant: Self::Grant) -> bool;
    /// Whether memory that is granted, or read to, may be a GPU's.
    fn reaches_gpus(&self) -> bool;
    /// Bytes of a read, at most.
    fn most(&self) -> usize;
    /// Begins to read what a peer grants; [`Event::Done`] or [`Event::Failed`] says that it is over.
    ///
    /// # Safety
    /// Memory of the process or of its GPU, mapped writable until then, which tolerates access by others.
    unsafe fn fetch(
        &mut self,
        peer: Self::Peer,
        key: &Key,
        piece: Piece,
        token: u64,
    ) -> Result<Taken, WireError>;
    /// Whether there is [`write`](Self::write), and what it tells of comes in order with messages.
    fn writes(&self) -> bool;
    /// # Safety
    /// As [`grant`](Self::grant), and it tolerates that peers write there at any time, those too that were removed, until the wire
    /// is dropped.
    unsafe fn open(&mut self, address: u64, len: usize) -> Result<(Self::Grant, Key), WireError>;
    /// Writes what is led by `head`, which is copied, to where a peer [lets](Self::open) it; the peer gets [`Event::Written`] in order with
    /// messages. [`Event::Done`] or [`Event::Failed`] says that the memory is not read any more.
    ///
    /// # Safety
    /// Memory of the process, mapped until then.
    unsafe fn write(&mut self, peer: Self::Peer, write: &Write<'_>) -> Result<Taken, WireError>;
    /// Whether [`Event::Unsent`] or [`Event::Gone`] was told of a peer; once.
    fn has_failed(&mut self, peer: Self::Peer) -> bool;
    /// Moves it on; how many things happened.
    fn poll(&mut self, each: impl FnMut(Event<'_>)) -> Result<usize, WireError>;
    /// A descriptor to sleep on; whether that may begin.
    fn arm(&mut self) -> Option<(RawFd, bool)>;
}
