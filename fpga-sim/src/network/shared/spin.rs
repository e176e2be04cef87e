//! A lock for a few instructions: one locked step, where a mutex takes two.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

use ggas_clock::Clock;

pub(super) struct Spin<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a guard only, one at a time.
unsafe impl<T: Send> Sync for Spin<T> {}

pub(super) struct Guard<'a, T>(&'a Spin<T>);

impl<T> Spin<T> {
    pub fn new(value: T) -> Spin<T> {
        Spin { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        let mut rounds = 0u32;
        while self.held.swap(true, Ordering::Acquire) {
            rounds += 1;
            // The holder may have lost its core.
            if rounds < 64 { Clock::REAL.spin() } else { Clock::REAL.yield_now() }
        }
        Guard(self)
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::Release);
    }
}
