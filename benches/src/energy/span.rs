//! When kernels of benchmarks ran: what energy is counted over.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

static LONGEST: Mutex<Option<Counted>> = Mutex::new(None);

/// Kernels of a row run while it lives.
pub(crate) struct Span {
    from: Instant,
    processor: Duration,
}

/// A span that is over.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    pub from: Instant,
    pub to: Instant,
    /// Processor time of this process meanwhile.
    pub processor: Duration,
}

impl Counted {
    pub fn length(&self) -> f64 {
        self.to.saturating_duration_since(self.from).as_secs_f64()
    }
}

impl Span {
    pub fn begin() -> Span {
        Span { from: Instant::now(), processor: used(ClockId::CLOCK_PROCESS_CPUTIME_ID) }
    }

    fn so_far(&self) -> Counted {
        let processor = used(ClockId::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(self.processor);
        Counted { from: self.from, to: Instant::now(), processor }
    }

    /// Of no kernels.
    pub(super) fn end(self) -> Counted {
        let counted = self.so_far();
        std::mem::forget(self);
        counted
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let own = self.so_far();
        let mut longest = LONGEST.lock().unwrap_or_else(PoisonError::into_inner);
        if longest.is_none_or(|other| own.length() > other.length()) {
            *longest = Some(own);
        }
    }
}

/// The longest that there was since the last call.
pub(super) fn take_longest() -> Option<Counted> {
    LONGEST.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Processor time so far, of this process or this thread.
pub(crate) fn used(clock: ClockId) -> Duration {
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}
