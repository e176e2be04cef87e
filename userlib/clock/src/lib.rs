//! The clock that all crates of the suite use: the system's, or virtual time that a test or a simulation advances.
//!
//! A card or a network gets its [`Clock`] when it is created; its links, ports and waits read no other clock. Points in
//! time are [`Instant`]s for both kinds of clock; only differences between [`Instant`]s of the same clock have a meaning.
//! The system's clocks and sleeps are called in this file only. Waits for real processes or devices use [`Clock::REAL`].
//!
//! ```
//! use ggas_clock::{Clock, Manual};
//! use std::time::Duration;
//!
//! let (clock, time) = Manual::new();
//! let began = clock.now();
//! clock.sleep(Duration::from_secs(60)); // returns at once: nothing else uses this clock
//! time.advance(Duration::from_secs(1));
//! assert_eq!(clock.now() - began, Duration::from_secs(61));
//! ```

mod backoff;
mod event;
mod manual;

use std::sync::{Arc, Condvar, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use backoff::{Backoff, Ladder, Step};
pub use event::Event;
pub use manual::Manual;

/// A source of virtual time. All users of this clock run on one thread at a time: a call that waits runs the other
/// users meanwhile.
pub trait Time: Send + Sync {
    /// The instant at which virtual time began; only differences to it have a meaning.
    fn began(&self) -> Instant;
    /// The virtual time since [`began`](Self::began).
    fn elapsed(&self) -> Duration;
    /// The caller has nothing to do before `until`.
    fn pass(&self, until: Instant);
    /// As [`pass`](Self::pass), but ends as soon as anything happened that the caller may wait for.
    fn pass_or_news(&self, until: Instant) {
        self.pass(until);
    }
    /// What [`Clock::spin`] and [`Clock::yield_now`] take: the time between two looks of who polls memory. Above zero.
    fn look(&self) -> Duration {
        LOOK
    }
    /// As [`pass`](Self::pass), for a [look](Self::look): what most who wait call most of the time.
    fn pass_look(&self) {
        self.pass(self.began() + self.elapsed() + self.look());
    }
    /// Whether a call that also does work for other users of the clock (stepping cards, for example) should stop doing
    /// so now. With a real clock the caller decides by the time that the work took.
    fn preempts(&self) -> bool {
        false
    }
}

/// A clock; copies are the same clock.
#[derive(Clone, Default)]
pub struct Clock(Option<Arc<dyn Time>>);

/// Virtual time that a look takes unless the source of time says otherwise, so that a loop that only looks ends.
const LOOK: Duration = Duration::from_micros(1);

impl Clock {
    /// The clock of the system.
    pub const REAL: &'static Clock = &Clock(None);

    /// The clock of the system.
    pub const fn real() -> Clock {
        Clock(None)
    }

    /// A clock that reads this virtual time.
    pub fn of(time: Arc<dyn Time>) -> Clock {
        Clock(Some(time))
    }

    /// Whether it is the clock of the system.
    pub fn is_real(&self) -> bool {
        self.0.is_none()
    }

    /// Whether both show the same time.
    pub fn is_same(&self, other: &Clock) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(another)) => std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(another)),
            _ => false,
        }
    }

    /// The time now.
    #[inline]
    pub fn now(&self) -> Instant {
        match &self.0 {
            None => Instant::now(),
            Some(time) => time.began() + time.elapsed(),
        }
    }

    /// A moment that all copies of the clock have in common, not after any that they show.
    pub fn origin(&self) -> Instant {
        static REAL: OnceLock<Instant> = OnceLock::new();
        match &self.0 {
            None => *REAL.get_or_init(Instant::now),
            Some(time) => time.began(),
        }
    }

    /// Milliseconds since some moment, at a resolution of a few, for next to nothing.
    #[inline]
    pub fn coarse_millis(&self) -> u64 {
        match &self.0 {
            None => coarse_millis(),
            Some(time) => time.elapsed().as_millis() as u64,
        }
    }

    /// The time of day, as time since 1970 began; virtual time began then.
    pub fn time_of_day(&self) -> Duration {
        match &self.0 {
            None => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            Some(time) => time.elapsed(),
        }
    }

    /// How long ago `then` was.
    #[inline]
    pub fn since(&self, then: Instant) -> Duration {
        self.now().saturating_duration_since(then)
    }

    /// How long it is until `then`; zero if it is over.
    #[inline]
    pub fn until(&self, then: Instant) -> Duration {
        then.saturating_duration_since(self.now())
    }

    /// Sleeps.
    pub fn sleep(&self, time: Duration) {
        match &self.0 {
            None => std::thread::sleep(time),
            Some(virtual_time) => virtual_time.pass(self.deadline(time)),
        }
    }

    /// Yields: the core to other threads, or, in virtual time, the turn to other users of the clock.
    #[inline]
    pub fn yield_now(&self) {
        match &self.0 {
            None => std::thread::yield_now(),
            Some(time) => time.pass_look(),
        }
    }

    /// A moment between two looks at memory that another core or device changes.
    #[inline]
    pub fn spin(&self) {
        match &self.0 {
            None => std::hint::spin_loop(),
            Some(time) => time.pass_look(),
        }
    }

    /// Waits on a condition, at most for `time`; may return early. For virtual clocks the lock is given back meanwhile,
    /// and nobody need signal the condition.
    pub fn wait<'a, T>(
        &self,
        condition: &Condvar,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> Option<MutexGuard<'a, T>> {
        match &self.0 {
            None => Some(condition.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0),
            Some(virtual_time) => {
                drop(guard);
                virtual_time.pass_or_news(self.deadline(time));
                None
            }
        }
    }

    /// In virtual time, whether a call should stop doing work for other users of the clock; `None` with a real clock:
    /// the caller measures the time that the work takes.
    #[inline]
    pub fn preempts(&self) -> Option<bool> {
        self.0.as_ref().map(|time| time.preempts())
    }

    /// `time` from now; a century if that is beyond what can be said, for who waits for ever.
    pub fn deadline(&self, time: Duration) -> Instant {
        let now = self.now();
        now.checked_add(time).unwrap_or(now + Duration::from_secs(100 * 365 * 24 * 3600))
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_real() { "real" } else { "virtual" })
    }
}

fn coarse_millis() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours; the call cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_ever_has_a_deadline() {
        let (clock, _time) = Manual::new();
        for clock in [Clock::REAL, &clock] {
            let now = clock.now();
            assert!(clock.deadline(Duration::MAX) >= now + Duration::from_secs(99 * 365 * 24 * 3600));
            let soon = clock.deadline(Duration::from_secs(7));
            assert!(soon >= now + Duration::from_secs(7) && clock.deadline(Duration::ZERO) >= now);
        }
    }
}
