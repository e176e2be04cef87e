//! Virtual time that only its owner advances.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::{Clock, Time};

/// Virtual time that passes when its owner advances it, and when a user of its clock waits. Nothing else runs meanwhile,
/// so a wait returns at once and advances the time.
#[derive(Debug)]
pub struct Manual {
    begin: Instant,
    nanoseconds: AtomicU64,
}

impl Manual {
    /// New virtual time: a clock that reads it, and the owner's handle that advances it.
    #[allow(clippy::new_ret_no_self, reason = "nobody wants one without the other")]
    pub fn new() -> (Clock, Arc<Manual>) {
        let time = Arc::new(Manual { begin: Clock::REAL.now(), nanoseconds: AtomicU64::new(0) });
        (Clock::of(time.clone()), time)
    }

    /// Advances the time.
    pub fn advance(&self, by: Duration) {
        self.nanoseconds.fetch_add(by.as_nanos() as u64, Ordering::AcqRel);
    }
}

impl Time for Manual {
    fn began(&self) -> Instant {
        self.begin
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Acquire))
    }

    fn pass(&self, until: Instant) {
        let since = until.saturating_duration_since(self.begin).as_nanos();
        self.nanoseconds.fetch_max(u64::try_from(since).unwrap_or(u64::MAX), Ordering::AcqRel);
    }
}
