//! When kernels of benchmarks ran: what energy is counted over.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

static LONGEST: Mutex<Option<(Instant, Instant)>> = Mutex::new(None);

/// Kernels of a row run while it lives.
pub(crate) struct Span(Instant);

impl Span {
    pub fn begin() -> Span {
        Span(Instant::now())
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let own = (self.0, Instant::now());
        let mut longest = LONGEST.lock().unwrap_or_else(PoisonError::into_inner);
        let is_longer = |other: &(Instant, Instant)| length(&own) > length(other);
        if longest.as_ref().is_none_or(is_longer) {
            *longest = Some(own);
        }
    }
}

/// The longest that there was since the last call.
pub(super) fn take_longest() -> Option<(Instant, Instant)> {
    LONGEST.lock().unwrap_or_else(PoisonError::into_inner).take()
}

pub(super) fn length(span: &(Instant, Instant)) -> Duration {
    span.1.saturating_duration_since(span.0)
}
