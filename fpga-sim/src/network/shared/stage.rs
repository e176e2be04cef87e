//! Buffers in the arena for payloads that lie elsewhere: copied there by the sender, from there by the receiver.

use std::sync::{Arc, Mutex, PoisonError};

use ggas_members::memory::{Arena, ArenaBlock};

use crate::memory::{Lender, Lent};

/// Bytes of a buffer: small enough for both copies to stay in the cache, and to overlap.
pub(super) const STAGE_BYTES: usize = 128 << 10;
/// Buffers of a process.
const BUFFERS: usize = 32;

/// The buffers of a process.
pub(super) struct Stages {
    block: ArenaBlock,
    free: Mutex<Vec<u32>>,
}

impl Stages {
    /// Takes buffers from an arena; `None` where it has no room.
    pub fn new(arena: &Arc<Arena>) -> Option<Arc<Stages>> {
        let fewer = [BUFFERS, BUFFERS / 4, 1];
        let block = fewer.iter().find_map(|n| Some((arena.alloc(n * STAGE_BYTES, 4096).ok()?, *n as u32)));
        block.map(|(block, n)| Arc::new(Stages { block, free: Mutex::new((0..n).collect()) }))
    }

    /// A buffer of `len` bytes, at most [`STAGE_BYTES`]; `None` while all are in use.
    pub fn take(self: &Arc<Stages>, len: usize) -> Option<Lent> {
        let index = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        // SAFETY: inside the block.
        let address = unsafe { self.block.ptr().add(index as usize * STAGE_BYTES) };
        // SAFETY: the block lives as long as this value; the buffer was free, and is again once it is given back.
        Some(unsafe { Lent::new(address, len.min(STAGE_BYTES) as u32, index, self.clone()) })
    }

    /// No buffer is emptied any more, not even when all are gone.
    pub fn keep(&self) {
        self.block.keep();
    }
}

impl Lender for Stages {
    fn give_back(&self, token: u32) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(token);
    }
}
