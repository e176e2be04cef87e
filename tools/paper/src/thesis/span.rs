use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use extoll_sim::timed::Ps;

/// The time that node 0's rounds take.
#[derive(Clone, Default)]
pub(super) struct Span(Arc<AtomicU64>);

impl Span {
    /// Runs the rounds of a node; those of node 0 are timed.
    pub(super) fn over(&self, node: usize, now: impl Fn() -> Ps, rounds: impl FnOnce()) {
        let from = now();
        rounds();
        if node == 0 {
            // One thread runs all programs.
            self.0.store((now() - from).0, Ordering::Relaxed);
        }
    }

    /// What was timed.
    pub(super) fn length(&self) -> Ps {
        Ps(self.0.load(Ordering::Relaxed))
    }
}
