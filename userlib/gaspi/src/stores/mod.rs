//! Short requests between processes of a host: the poster stores to the target's segment itself, which it has mapped.
//!
//! The host memory of segments lies in the process's arena, whose descriptor all others get at the start. The poster maps the
//! segment, its notifications and the target's [`Board`], which says at each post whether the segment is still there.

mod board;
mod copy;
mod order;
mod part;
mod post;

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ggas::Job;
use ggas::members::memory::{Arena, Mapping, PAGE, sealed_len};
use serde::{Deserialize, Serialize};

pub(crate) use self::order::Order;
pub(crate) use self::part::{Part, ShownPart};
pub(crate) use self::post::Target;
use crate::error::because;
use crate::segment::{Segment, flag_bytes};
use crate::shared::Shared;
use crate::wire::{Message, Place};
use crate::{GaspiError, Timeout};
use board::Board;

/// How long processes that have begun may take to greet each other.
const GREETING: Duration = Duration::from_secs(10);

/// Where in the arena of its process a segment lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shown {
    data: u64,
    flags: u64,
    /// What the board has for it as long as it is there.
    life: u64,
}

/// Memory of another process, which came with its first message.
struct Peer {
    arena: OwnedFd,
    bytes: u64,
    board: Arc<Mapping>,
}

impl Peer {
    /// `None`: the system refuses, or it is not inside.
    fn map(&self, offset: u64, bytes: u64) -> Option<Mapping> {
        map(&self.arena, self.bytes, offset, bytes)
    }
}

fn map(arena: &OwnedFd, all: u64, offset: u64, bytes: u64) -> Option<Mapping> {
    let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= all);
    let bytes = usize::try_from(bytes).ok().filter(|_| is_inside && offset.is_multiple_of(PAGE as u64))?;
    let mapped = Mapping::new(arena.as_fd(), offset, bytes, true);
    mapped
        .inspect_err(|error| tracing::info!("what another process shows goes through the card: {error}"))
        .ok()
}

/// What of this process others store to, and what it knows of theirs.
pub(crate) struct Stores {
    /// `None`: other processes do not map this one's memory.
    arena: Option<Arc<Arena>>,
    board: Board,
    lives: AtomicU64,
    /// By rank.
    peers: Vec<OnceLock<Peer>>,
}

impl Stores {
    pub(crate) fn new(job: &Job) -> Result<Stores, GaspiError> {
        let fabrics = job.network().map(|network| network.process_fabrics()).unwrap_or_default();
        let arena = match fabrics {
            [fabric] => Some(fabric.arena().clone()),
            _ => None,
        };
        let size = job.size() as usize;
        let peers = (0..size).map(|_| OnceLock::new()).collect();
        Ok(Stores { arena, board: Board::new(size)?, lives: AtomicU64::new(1), peers })
    }

    /// What the others are told first, with [`fd`](Self::fd).
    pub(crate) fn greeting(&self) -> Option<Message> {
        let (address, bytes) = self.board.memory();
        Some(Message::Arena { board: self.offset(address, bytes)? })
    }

    /// This process as others see it.
    fn own(&self) -> Result<Peer, GaspiError> {
        let arena = self.arena.as_ref().ok_or(GaspiError::Memory)?;
        let (address, bytes) = self.board.memory();
        let board = self.offset(address, bytes).ok_or(GaspiError::Memory)?;
        let fd = arena.fd().try_clone_to_owned().map_err(because(GaspiError::Memory))?;
        let board = map(&fd, arena.len() as u64, board, bytes as u64).ok_or(GaspiError::Memory)?;
        Ok(Peer { arena: fd, bytes: arena.len() as u64, board: Arc::new(board) })
    }

    /// The descriptor of the arena.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.arena.as_ref().map(|arena| arena.fd())
    }

    /// A rank has told where its memory is. What cannot be mapped is reached through the card.
    pub(crate) fn met(&self, rank: usize, board: u64, fds: Vec<OwnedFd>) {
        let (Some(peer), Some(arena)) = (self.peers.get(rank), fds.into_iter().next()) else { return };
        let bytes = match sealed_len(arena.as_fd(), "an arena") {
            Ok(bytes) => bytes,
            Err(error) => return tracing::warn!("rank {rank} is reached through the card only: {error}"),
        };
        if let Some(board) = map(&arena, bytes, board, self.board.memory().1 as u64) {
            // The first one holds.
            let _ = peer.set(Peer { arena, bytes, board: Arc::new(board) });
        }
    }

    /// Lets others store to a new segment; `None`: they cannot.
    pub(crate) fn show(&self, id: u8, segment: &Segment) -> Option<Shown> {
        let ((data, data_bytes), (flags, flag_bytes)) = segment.own_memory()?;
        let (data, flags) = (self.offset(data, data_bytes)?, self.offset(flags, flag_bytes)?);
        let life = self.lives.fetch_add(1, Ordering::Relaxed);
        self.board.begin(id.into(), life);
        Some(Shown { data, flags, life })
    }

    /// Where in the arena this lies; others map whole pages.
    fn offset(&self, address: u64, bytes: usize) -> Option<u64> {
        let offset = self.arena.as_ref()?.offset_of(address, bytes)?;
        offset.is_multiple_of(PAGE as u64).then_some(offset)
    }

    /// Nobody stores to the segment any more when this returns. `is_gone` says which ranks never will.
    ///
    /// # Errors
    /// [`GaspiError::Timeout`]: a process has stopped in the midst of a store.
    pub(crate) fn end(&self, id: u8, is_gone: impl Fn(usize) -> bool) -> Result<(), GaspiError> {
        self.board.end(id.into(), is_gone)
    }
}

/// A segment of another process, as this one stores to it.
pub(crate) struct There {
    id: u8,
    life: u64,
    data: Mapping,
    flags: Mapping,
    board: Arc<Mapping>,
}

impl fmt::Debug for There {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "There {{ id: {}, life: {} }}", self.id, self.life)
    }
}

impl Shared {
    /// Tells all others of this host where this process's memory is, and waits until they have told theirs: from then on it is
    /// known who is reached by stores. All processes have the same device.
    pub(crate) fn greet(&self) {
        let others = || (0..self.size()).filter(|rank| *rank != self.me && !self.is_far(*rank));
        for rank in others() {
            let Some(message) = self.stores.greeting() else { return };
            self.post_message(rank, message);
        }
        let has_met = |rank: usize| self.stores.peers[rank].get().is_some() || self.is_gone(rank);
        let met = Timeout::Within(GREETING).wait(self.clock(), || Ok(others().all(has_met).then_some(())));
        if met.is_err() {
            tracing::warn!(
                "not all processes have said where their memory is: they are reached through the card"
            );
        }
    }

    /// A rank has told of a segment, which is sound.
    pub(crate) fn learn(&self, rank: usize, id: u8, place: Place) {
        let map = |Shown { data, flags, life }| {
            let peer = self.stores.peers.get(rank)?.get()?;
            let (data, flags) = (peer.map(data, place.size)?, peer.map(flags, flag_bytes(&self.config))?);
            Some(There { id, life, data, flags, board: peer.board.clone() })
        };
        self.segments.learn(rank, id, Some(place), place.shown.and_then(map));
    }
}
