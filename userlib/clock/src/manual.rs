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
    ///
    /// # Panics
    /// Beyond 584 years, where virtual time ends.
    pub fn advance(&self, by: Duration) {
        let further = |now: u64| now.checked_add(u64::try_from(by.as_nanos()).ok()?);
        let moved = self.nanoseconds.fetch_update(Ordering::AcqRel, Ordering::Acquire, further);
        assert!(moved.is_ok(), "{END}");
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
        self.nanoseconds.fetch_max(u64::try_from(since).expect(END), Ordering::AcqRel);
    }
}

/// A century at a time (see [`Clock::sleep`]), a wait without a time limit comes to this: it would never end.
const END: &str = "virtual time ends after 584 years: nothing ends this wait";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;

    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

    #[test]
    fn time_never_goes_back() {
        let (clock, time) = Manual::new();
        time.advance(5 * CENTURY);
        let before = clock.now();
        let beyond = std::panic::AssertUnwindSafe(|| time.advance(CENTURY));
        assert!(std::panic::catch_unwind(beyond).is_err(), "it is told");
        let beyond = std::panic::AssertUnwindSafe(|| time.advance(Duration::MAX));
        assert!(std::panic::catch_unwind(beyond).is_err());
        assert_eq!(clock.now(), before);
    }

    #[test]
    #[should_panic(expected = "nothing ends this wait")]
    fn a_wait_that_nothing_ends_is_no_hang() {
        let (clock, _time) = Manual::new();
        Event::default().wait(&clock, Duration::MAX, &mut || false, || ());
    }
}
