//! A member's part of a group's memory, as another member stores to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ggas::device::copy_in;
use ggas::members::memory::Mapping;
use serde::{Deserialize, Serialize};

use super::Stores;
use super::board::{Visit, room_of};
use crate::GaspiError;

/// Where in the arena of its process a part lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShownPart {
    at: u64,
    life: u64,
}

/// The part of another process.
pub(crate) struct Part {
    room: usize,
    life: u64,
    memory: Mapping,
    board: Arc<Mapping>,
    /// This process, of so many.
    me: (usize, usize),
}

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Part {{ room: {}, life: {} }}", self.room, self.life)
    }
}

impl Stores {
    /// Lets others store to this process's part of a group; `None`: they cannot.
    pub(crate) fn show_part(&self, group: u8, address: u64, bytes: usize) -> Option<ShownPart> {
        let at = self.offset(address, bytes)?;
        let life = self.lives.fetch_add(1, Ordering::Relaxed);
        self.board.begin(room_of(group), life);
        Some(ShownPart { at, life })
    }

    /// Nobody stores to it any more when this returns.
    ///
    /// # Errors
    /// As of [`end`](Self::end).
    pub(crate) fn end_part(&self, group: u8, is_gone: impl Fn(usize) -> bool) -> Result<(), GaspiError> {
        self.board.end(room_of(group), is_gone)
    }

    /// A part of so many bytes of another rank; `None`: it is reached through the card.
    pub(crate) fn part(
        &self,
        rank: usize,
        me: usize,
        group: u8,
        shown: ShownPart,
        bytes: usize,
    ) -> Option<Part> {
        let peer = self.peers.get(rank)?.get()?;
        let memory = peer.map(shown.at, bytes as u64)?;
        let me = (me, self.peers.len());
        Some(Part { room: room_of(group), life: shown.life, memory, board: peer.board.clone(), me })
    }
}

impl Part {
    /// Writes a word; nothing where the part is gone.
    pub(crate) fn tell(&self, at: usize, value: u64) {
        let visit = Visit::new(&self.board, self.room, self.me);
        if visit.finds(self.room, self.life) {
            self.word(at).store(value, Ordering::Release);
        }
    }

    /// Fills a slot: a word and a value behind the flag, then the flag.
    pub(crate) fn give(&self, at: usize, [flag, common]: [u64; 2], value: &[u8]) {
        let visit = Visit::new(&self.board, self.room, self.me);
        let is_inside = (at + 16).checked_add(value.len()).is_some_and(|end| end <= self.memory.len());
        if !is_inside || !visit.finds(self.room, self.life) {
            return;
        }
        // SAFETY: inside the mapping, which others access by atomics.
        unsafe { copy_in(value, self.memory.base().add(at + 16)) };
        self.word(at + 8).store(common, Ordering::Relaxed);
        self.word(at).store(flag, Ordering::Release);
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: an atomic; the place is of the group's layout.
        unsafe { self.memory.at(at) }
    }
}
