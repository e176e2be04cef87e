//! The core lock: who holds it also does the work of threads that found it held.
//!
//! One word says whether it is held, whether its holder is to look again, and how many wait for it. So asking and
//! leaving costs one atomic step each, no request is lost, and nobody who drives cards ever waits. Who waits goes
//! before those who would drive: a card that others keep busy answers register accesses all the same.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

use ggas_clock::{Backoff, Clock, Ladder};

/// Nobody holds it, asks or waits.
const FREE: u32 = 0;
const HELD: u32 = 1;
/// Someone brought work since the holder last looked. Free with this mark: whoever comes next sees to it.
const ASKED: u32 = 2;
/// Threads that wait, from here up.
const WAITER: u32 = 4;

pub(super) struct CoreLock<T> {
    state: AtomicU32,
    core: UnsafeCell<T>,
}

// SAFETY: the core is reached only through a guard, and `state` admits one guard at a time.
unsafe impl<T: Send> Sync for CoreLock<T> {}

pub(super) struct Guard<'a, T> {
    lock: &'a CoreLock<T>,
}

impl<T> CoreLock<T> {
    pub(super) fn new(core: T) -> CoreLock<T> {
        CoreLock { state: AtomicU32::new(FREE), core: UnsafeCell::new(core) }
    }

    /// The core, or the word of who holds it or waits for it to look again: what the caller wrote before is seen
    /// then. Who gets the core runs it, so whatever was asked for is done by that.
    #[inline]
    pub(super) fn try_lock(&self) -> Option<Guard<'_, T>> {
        let mut seen = FREE;
        loop {
            // Writing even where nothing changes: the holder's next step reads it, and sees our work with it.
            let free = seen & !ASKED == FREE;
            let next = if free { HELD } else { seen | ASKED };
            match self.state.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                // Made only where the core is ours: dropping a guard gives the core back.
                Ok(_) => return free.then(|| Guard { lock: self }),
                Err(now) => seen = now,
            }
        }
    }

    /// Waits for the core: for register accesses and set-up.
    pub(super) fn lock(&self) -> Guard<'_, T> {
        if self.state.compare_exchange(FREE, HELD, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Guard { lock: self };
        }
        let mut seen = self.state.fetch_add(WAITER, Ordering::Relaxed) + WAITER;
        let mut backoff = Backoff::endless(Ladder::NEIGHBOUR, Clock::REAL);
        loop {
            if seen & HELD == 0 {
                let ours = (seen - WAITER) | HELD;
                match self.state.compare_exchange(seen, ours, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => return Guard { lock: self },
                    Err(now) => seen = now,
                }
                continue;
            }
            let _ = backoff.pause();
            seen = self.state.load(Ordering::Relaxed);
        }
    }
}

impl<'a, T> Guard<'a, T> {
    /// Gives the core back, first of all to who waits for it; or not, where someone asked to look again.
    #[inline]
    pub(super) fn release(self) -> Option<Guard<'a, T>> {
        let free = self.lock.state.compare_exchange(HELD, FREE, Ordering::AcqRel, Ordering::Acquire);
        match free {
            Ok(_) => {
                std::mem::forget(self);
                None
            }
            Err(seen) => self.release_asked(seen),
        }
    }

    #[cold]
    fn release_asked(self, mut seen: u32) -> Option<Guard<'a, T>> {
        loop {
            let (next, leave) = if seen >= WAITER { (seen & !HELD, true) } else { (HELD, false) };
            match self.lock.state.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if leave => {
                    std::mem::forget(self);
                    return None;
                }
                Ok(_) => return Some(self),
                Err(now) => seen = now,
            }
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one.
        unsafe { &*self.lock.core.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one.
        unsafe { &mut *self.lock.core.get() }
    }
}

/// Gives the core back in any case: for who has seen to it that someone looks again, and on the way of a panic.
impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.lock.state.fetch_and(!HELD, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_waits_goes_before_who_would_drive() {
        let lock = CoreLock::new(());
        let held = lock.try_lock().unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| drop(lock.lock()));
            let mut wait = Backoff::new(Clock::REAL, Duration::from_secs(60));
            while lock.state.load(Ordering::Relaxed) < WAITER {
                wait.pause().expect("the thread says that it waits");
            }
            assert!(lock.try_lock().is_none(), "it is held");
            assert!(
                held.release().is_none(),
                "its holder was asked to look again, and leaves that to who waits"
            );
            // Who waits may not have seen yet that it is free.
            if let Some(free) = lock.try_lock() {
                assert!(free.lock.state.load(Ordering::Relaxed) < WAITER, "nobody goes before who waits");
            }
            waiter.join().unwrap();
        });
        // What was asked for before is still to be done by who comes next.
        assert_eq!(lock.state.load(Ordering::Relaxed) & !ASKED, FREE);
    }

    #[test]
    fn the_holder_looks_again_for_who_found_it_held() {
        let lock = CoreLock::new(());
        let held = lock.try_lock().unwrap();
        assert!(lock.try_lock().is_none());
        let held = held.release().expect("asked to look again");
        assert!(held.release().is_none());
        assert_eq!(lock.state.load(Ordering::Relaxed), FREE);
    }
}
