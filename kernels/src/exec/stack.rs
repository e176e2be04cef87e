//! Stacks of fibers: mapped lazily, with a guard page, used again by later launches.

use std::io;
use std::sync::{Mutex, PoisonError};

use corosensei::stack::{DefaultStack, Stack, StackPointer};

/// Bytes of a fiber's stack; pages are touched on first use.
const SIZE: usize = 64 << 10;
/// Stacks kept for the next launch.
const KEEP: usize = 2048;

static POOL: Mutex<Vec<DefaultStack>> = Mutex::new(Vec::new());

/// A stack that goes back to the pool when dropped.
pub(super) struct PooledStack(Option<DefaultStack>);

impl PooledStack {
    pub fn take(count: usize) -> io::Result<Vec<Self>> {
        let mut stacks = Vec::with_capacity(count);
        {
            let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = pool.len().saturating_sub(count);
            stacks.extend(pool.drain(kept..).map(|stack| Self(Some(stack))));
        }
        // Without the lock: those taken so far go back to the pool where the system refuses one.
        while stacks.len() < count {
            stacks.push(Self(Some(DefaultStack::new(SIZE)?)));
        }
        Ok(stacks)
    }

    /// How many stacks this process may map: each takes two of the kernel's `max_map_count`.
    pub fn limit() -> usize {
        let maps = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
        let maps: usize = maps.and_then(|text| text.trim().parse().ok()).unwrap_or(65_530);
        maps.saturating_sub(4096) / 2
    }
}

impl Drop for PooledStack {
    fn drop(&mut self) {
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.len() < KEEP {
            pool.extend(self.0.take());
        }
    }
}

// SAFETY: forwards to DefaultStack, which has a guard page; `0` is Some until drop.
unsafe impl Stack for PooledStack {
    fn base(&self) -> StackPointer {
        self.0.as_ref().map_or(StackPointer::MIN, Stack::base)
    }

    fn limit(&self) -> StackPointer {
        self.0.as_ref().map_or(StackPointer::MIN, Stack::limit)
    }
}
