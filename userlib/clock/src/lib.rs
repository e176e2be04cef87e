//! The one clock of the suite: real, or virtual and driven by whoever holds it.
//!
//! A [`Clock`] is handed in where a card or a network is made; cards, links, ports and waits read it and nothing else.
//! Points in time are [`Instant`]s of either kind, of which only differences mean anything. The clocks of the system
//! and its sleeps are called in this file alone; what waits for real processes or devices uses [`Clock::REAL`].
//!
//! ```
//! use ggas_clock::{Clock, Manual};
//! use std::time::Duration;
//!
//! let (clock, time) = Manual::new();
//! let began = clock.now();
//! clock.sleep(Duration::from_secs(60)); // returns at once: nobody else shares this time
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

/// Virtual time, and what goes on in it. Everything that shares it runs on one thread at a time: who waits lets the
/// others go on inside the call.
pub trait Time: Send + Sync {
    /// When it began. Nothing may depend on this but differences to it.
    fn began(&self) -> Instant;
    /// The time since then.
    fn elapsed(&self) -> Duration;
    /// The caller has nothing to do before `until`.
    fn pass(&self, until: Instant);
    /// As [`pass`](Self::pass), but ends as soon as anything happened that the caller may wait for.
    fn pass_or_news(&self, until: Instant) {
        self.pass(until);
    }
    /// Whether a call that does work for others on the way leaves the rest of it to them now. Real clocks say so by how
    /// long it took.
    fn preempts(&self) -> bool {
        false
    }
}

/// A clock; copies are the same clock.
#[derive(Clone, Default)]
pub struct Clock(Option<Arc<dyn Time>>);

/// What looking at a virtual clock again takes, so that who only looks sees it move.
const LOOK: Duration = Duration::from_micros(1);

impl Clock {
    /// The clock of the system.
    pub const REAL: &'static Clock = &Clock(None);

    /// The clock of the system.
    pub const fn real() -> Clock {
        Clock(None)
    }

    /// A clock that shows virtual time.
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
            Some(virtual_time) => virtual_time.pass(self.later(time)),
        }
    }

    /// Gives the core, or the turn, to others.
    #[inline]
    pub fn yield_now(&self) {
        match &self.0 {
            None => std::thread::yield_now(),
            Some(time) => time.pass(self.later(LOOK)),
        }
    }

    /// A moment between two looks at memory that another core or device changes.
    #[inline]
    pub fn spin(&self) {
        match &self.0 {
            None => std::hint::spin_loop(),
            Some(time) => time.pass(self.later(LOOK)),
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
                virtual_time.pass_or_news(self.later(time));
                None
            }
        }
    }

    /// Whether work for others is to be left to them, where time is virtual; `None`: measure it.
    #[inline]
    pub fn preempts(&self) -> Option<bool> {
        self.0.as_ref().map(|time| time.preempts())
    }

    /// `time` from now; a century if that is beyond what can be said.
    fn later(&self, time: Duration) -> Instant {
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
