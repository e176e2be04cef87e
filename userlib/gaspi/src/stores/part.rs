//! A member's part of a group's memory, as another member stores to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ggas::device::{copy_in, copy_out};
use ggas::members::memory::Mapping;
use serde::{Deserialize, Serialize};

use super::Stores;
use super::board::{Visit, room_of};
use crate::GaspiError;
use crate::collective::Arrival;

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

    /// A part of so many bytes of a rank, maybe this one. `None`: the rank has not said where its memory is.
    ///
    /// # Errors
    /// [`GaspiError::Memory`]: the system does not map it.
    pub(crate) fn part(
        &self,
        rank: usize,
        me: usize,
        group: u8,
        shown: ShownPart,
        bytes: usize,
    ) -> Option<Result<Part, GaspiError>> {
        let own = if rank == me { Some(self.own()) } else { None };
        let peer = match &own {
            Some(Ok(own)) => own,
            Some(Err(error)) => return Some(Err(*error)),
            None => self.peers.get(rank)?.get()?,
        };
        let (room, board, me) = (room_of(group), peer.board.clone(), (me, self.peers.len()));
        let memory = peer.map(shown.at, bytes as u64);
        Some(
            memory.map(|memory| Part { room, life: shown.life, memory, board, me }).ok_or(GaspiError::Memory),
        )
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
        if !self.has(at, 16 + value.len()) || !visit.finds(self.room, self.life) {
            return;
        }
        self.fetch_lines(at, 16 + value.len());
        // SAFETY: inside the mapping, which others access by atomics.
        unsafe { copy_in(value, self.memory.base().add(at + 16)) };
        self.word(at + 8).store(common, Ordering::Relaxed);
        self.word(at).store(flag, Ordering::Release);
    }

    /// Leaves what a member has at the hub, which this is, and counts it; `None` where the part is gone.
    pub(crate) fn arrive(&self, arrival: &Arrival<'_>) -> Option<u64> {
        let visit = Visit::new(&self.board, self.room, self.me);
        if !visit.finds(self.room, self.life) {
            return None;
        }
        if let Some((at, common, value)) = arrival.value {
            if !self.has(at, 8 + value.len()) {
                return None;
            }
            self.word(at).store(common, Ordering::Relaxed);
            // SAFETY: inside the mapping, which others access by atomics.
            unsafe { copy_in(value, self.memory.base().add(at + 8)) };
        }
        self.word(arrival.word).store(arrival.number, Ordering::Release);
        // What others left here is seen by who comes last.
        Some(self.word(arrival.count).fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Reads what members left here; nothing where the part is gone.
    pub(crate) fn read(&self, at: usize, into: &mut [u8]) {
        let visit = Visit::new(&self.board, self.room, self.me);
        if self.has(at, into.len()) && visit.finds(self.room, self.life) {
            // SAFETY: inside the mapping, which others access by atomics.
            unsafe { copy_out(self.memory.base().add(at), into) }
        }
    }

    /// Asks for the lines of a range that is inside, all at once: another core has them, and stores, which are done one after the
    /// other, ask for a few of them only.
    fn fetch_lines(&self, at: usize, bytes: usize) {
        #[cfg(target_arch = "x86_64")]
        for line in (at..at + bytes).step_by(64) {
            // SAFETY: changes nothing, and cannot fault.
            unsafe {
                std::arch::asm!("prefetchw [{}]", in(reg) self.memory.base().add(line), options(nostack, preserves_flags, readonly));
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (at, bytes);
    }

    fn has(&self, at: usize, bytes: usize) -> bool {
        at.checked_add(bytes).is_some_and(|end| end <= self.memory.len())
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: an atomic; the place is of the group's layout.
        unsafe { self.memory.at(at) }
    }
}
