//! Sleeping until a card has written a notification.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Default)]
pub(super) struct Event {
    sleepers: AtomicU32,
    /// Signals so far.
    count: Mutex<u64>,
    changed: Condvar,
}

impl Event {
    /// Wakes sleepers, if any. What the caller wrote before is seen by every `ready` that runs later: both sides
    /// change `sleepers`, so either this call sees the sleeper or the sleeper sees the write.
    pub(super) fn signal(&self) {
        if self.sleepers.fetch_add(0, Ordering::AcqRel) > 0 {
            *self.count() += 1;
            self.changed.notify_all();
        }
    }

    /// `ready` and `rest`, called before the first sleep, are called without a lock held: they may drive cards.
    pub(super) fn wait(
        &self,
        timeout: Duration,
        ready: &mut dyn FnMut() -> bool,
        rest: impl FnOnce(),
    ) -> bool {
        let mut rest = Some(rest);
        let deadline = Instant::now().checked_add(timeout);
        self.sleepers.fetch_add(1, Ordering::AcqRel);
        let answer = loop {
            let seen = *self.count();
            if ready() {
                break true;
            }
            let left = deadline.map_or(timeout, |d| d.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break false;
            }
            if let Some(rest) = rest.take() {
                rest();
            }
            let count = self.count();
            if *count == seen {
                drop(self.changed.wait_timeout(count, left).unwrap_or_else(PoisonError::into_inner));
            }
        };
        self.sleepers.fetch_sub(1, Ordering::AcqRel);
        answer
    }

    fn count(&self) -> MutexGuard<'_, u64> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
