//! Sleeping until something happened.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Clock;

/// An event that can be signalled repeatedly. A signal costs next to nothing while no thread sleeps on the event.
#[derive(Default)]
pub struct Event {
    sleepers: AtomicU32,
    /// Signals so far.
    count: Mutex<u64>,
    changed: Condvar,
}

impl Event {
    /// Wakes sleepers, if any. What the caller wrote before is seen by every `ready` that runs later: both sides
    /// change `sleepers`, so either this call sees the sleeper or the sleeper sees the write.
    pub fn signal(&self) {
        if self.sleepers.fetch_add(0, Ordering::AcqRel) > 0 {
            *self.count() += 1;
            self.changed.notify_all();
        }
    }

    /// Sleeps until `ready` holds or `timeout` is over; `ready`'s last answer. `ready`, and `rest`, called before the
    /// first sleep, are called without a lock held.
    pub fn wait(
        &self,
        clock: &Clock,
        timeout: Duration,
        ready: &mut dyn FnMut() -> bool,
        rest: impl FnOnce(),
    ) -> bool {
        let mut rest = Some(rest);
        let deadline = clock.now().checked_add(timeout);
        self.sleepers.fetch_add(1, Ordering::AcqRel);
        let answer = loop {
            let seen = *self.count();
            if ready() {
                break true;
            }
            let left = deadline.map_or(timeout, |deadline| clock.until(deadline));
            if left.is_zero() {
                break false;
            }
            if let Some(rest) = rest.take() {
                rest();
            }
            let count = self.count();
            if *count == seen {
                drop(clock.wait(&self.changed, count, left));
            }
        };
        self.sleepers.fetch_sub(1, Ordering::AcqRel);
        answer
    }

    fn count(&self) -> MutexGuard<'_, u64> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
