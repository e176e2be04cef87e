//! Buffers in the arena for payloads that lie elsewhere: copied there by the sender, from there by the receiver.

use std::sync::{Arc, Mutex, PoisonError};

use super::arena::{Arena, ArenaBlock};

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
    pub fn take(self: &Arc<Stages>, len: usize) -> Option<Staged> {
        let index = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(Staged { stages: self.clone(), index, len: len.min(STAGE_BYTES) as u32 })
    }

    /// No buffer is emptied any more, not even when all are gone.
    pub fn keep(&self) {
        self.block.keep();
    }
}

/// A buffer that peers can copy from, this process's until it is dropped.
pub struct Staged {
    stages: Arc<Stages>,
    index: u32,
    len: u32,
}

impl Staged {
    fn ptr(&self) -> *mut u8 {
        // SAFETY: inside the block.
        unsafe { self.stages.block.ptr().add(self.index as usize * STAGE_BYTES) }
    }

    /// Where in the arena it lies.
    pub(super) fn offset(&self) -> u64 {
        self.stages.block.offset() + u64::from(self.index) * STAGE_BYTES as u64
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: our part of the block, written by this process only, through `bytes_mut`.
        unsafe { std::slice::from_raw_parts(self.ptr(), self.len as usize) }
    }

    /// The bytes, to be filled before the buffer is sent.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; nobody else has the buffer.
        unsafe { std::slice::from_raw_parts_mut(self.ptr(), self.len as usize) }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        self.stages.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.index);
    }
}

impl std::fmt::Debug for Staged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Staged").field("offset", &self.offset()).field("len", &self.len).finish()
    }
}
