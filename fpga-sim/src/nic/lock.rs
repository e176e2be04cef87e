//! The core lock: who holds it also does the work of threads that found it held.
//!
//! One word says free, held, or held with a request to look again. So asking and leaving costs one atomic step each,
//! no request is lost, and nobody who drives cards ever waits.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use super::core::Core;

const FREE: u8 = 0;
const HELD: u8 = 1;
/// Held, and someone brought work meanwhile.
const ASKED: u8 = 2;

pub(super) struct CoreLock {
    state: AtomicU8,
    core: UnsafeCell<Core>,
}

// SAFETY: the core is reached only through a guard, and `state` admits one guard at a time.
unsafe impl Sync for CoreLock {}

pub(super) struct Guard<'a> {
    lock: &'a CoreLock,
}

impl CoreLock {
    pub(super) fn new(core: Core) -> CoreLock {
        CoreLock { state: AtomicU8::new(FREE), core: UnsafeCell::new(core) }
    }

    /// The core, or the holder's word to look again: what the caller wrote before is seen then.
    #[inline]
    pub(super) fn try_lock(&self) -> Option<Guard<'_>> {
        let mut seen = FREE;
        loop {
            // Writing even where nothing changes: the holder's next step reads it, and sees our work with it.
            let next = if seen == FREE { HELD } else { ASKED };
            match self.state.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(FREE) => return Some(Guard { lock: self }),
                Ok(_) => return None,
                Err(now) => seen = now,
            }
        }
    }

    /// Waits for the core: for register accesses and set-up.
    pub(super) fn lock(&self) -> Guard<'_> {
        let mut rounds = 0u32;
        loop {
            let free = self.state.compare_exchange(FREE, HELD, Ordering::AcqRel, Ordering::Relaxed);
            if free.is_ok() {
                return Guard { lock: self };
            }
            rounds += 1;
            match rounds {
                0..=32 => std::hint::spin_loop(),
                33..=256 => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(20)),
            }
        }
    }
}

impl<'a> Guard<'a> {
    /// Gives the core back; or not, where someone asked to look again.
    #[inline]
    pub(super) fn release(self) -> Option<Guard<'a>> {
        let free = self.lock.state.compare_exchange(HELD, FREE, Ordering::AcqRel, Ordering::Acquire);
        if free.is_ok() {
            std::mem::forget(self);
            return None;
        }
        self.lock.state.swap(HELD, Ordering::AcqRel);
        Some(self)
    }
}

impl Deref for Guard<'_> {
    type Target = Core;
    #[inline]
    fn deref(&self) -> &Core {
        // SAFETY: this guard is the only one.
        unsafe { &*self.lock.core.get() }
    }
}

impl DerefMut for Guard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Core {
        // SAFETY: this guard is the only one.
        unsafe { &mut *self.lock.core.get() }
    }
}

/// Only on the way of a panic: everybody else releases.
impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.lock.state.store(FREE, Ordering::Release);
    }
}
