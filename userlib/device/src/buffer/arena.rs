//! Buffers in the arena, which the other processes of a network can read.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ggas_members::memory::{Arena, ArenaBlock};

/// The arena that new buffers come from.
struct Current {
    arena: Weak<Arena>,
    /// Process that joined: a forked child has not.
    process: u32,
}

static CURRENT: Mutex<Option<Current>> = Mutex::new(None);

/// From now on new buffers come from `arena`, until its job is gone or another one is joined.
pub(crate) fn use_arena(arena: &Arc<Arena>) {
    *lock() = Some(Current { arena: Arc::downgrade(arena), process: std::process::id() });
}

/// The arena that buffers come from now.
pub(super) fn current() -> Option<Arc<Arena>> {
    lock().as_ref().filter(|current| current.process == std::process::id())?.arena.upgrade()
}

fn lock() -> MutexGuard<'static, Option<Current>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A block of an arena.
#[derive(Debug)]
pub(super) struct Block {
    start: NonNull<u8>,
    block: ManuallyDrop<ArenaBlock>,
    /// Process that took it.
    owner: u32,
}

impl Block {
    pub(super) fn new(block: ArenaBlock) -> Block {
        // SAFETY: blocks lie inside a mapping, which does not begin at address 0.
        let start = unsafe { NonNull::new_unchecked(block.ptr()) };
        Block { start, block: ManuallyDrop::new(block), owner: std::process::id() }
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // A forked child has a copy of the arena's books, but not the arena.
        if self.owner == std::process::id() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.block) };
        }
    }
}
