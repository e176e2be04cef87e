//! What a thread does while those of the kernels that it runs wait.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use ggas_clock::Clock;

use super::block::Pass;
use crate::idle;

/// What a worker does while threads of it wait: work for the device model, give
/// the CPU to others, and nap once nothing of its own has moved for a while.
pub(super) struct Idle {
    clock: Clock,
    passes: u32,
    /// When the worker last let others run, or began to wait.
    yielded: Option<Instant>,
    /// Since when nothing has moved.
    still: Option<Instant>,
}

impl Idle {
    pub fn new(clock: Clock) -> Idle {
        Idle { clock, passes: 0, yielded: None, still: None }
    }

    fn begin_anew(&mut self) {
        (self.passes, self.yielded, self.still) = (0, None, None);
    }

    const PASSES: u32 = 4;
    const YIELD_EVERY: Duration = Duration::from_micros(50);
    const YIELD_FOR: Duration = Duration::from_micros(500);
    /// Naps are a sixteenth of the time that nothing has moved for: what comes is seen soon for how long it took,
    /// and processes that wait for each other, or for one that is stopped, leave the cores to who has work.
    const NAP: RangeInclusive<Duration> = Duration::from_micros(50)..=Duration::from_millis(1);

    pub fn after_pass(&mut self, pass: Pass) {
        if !pass.waited {
            // Neither: the warp operations between two rounds of a wait.
            if pass.moved {
                self.begin_anew();
            }
            return;
        }
        if idle::work(&self.clock) {
            self.begin_anew();
            return;
        }
        if !self.clock.is_real() && pass.moved {
            // Virtual time goes on where somebody waits, though others of the kernels have work.
            return self.clock.yield_now();
        }
        self.passes += 1;
        if self.passes < Self::PASSES {
            return;
        }
        let now = self.clock.now();
        if pass.moved {
            self.still = None;
            if now - *self.yielded.get_or_insert(now) >= Self::YIELD_EVERY {
                self.yielded = Some(now);
                self.clock.yield_now();
            }
            return;
        }
        let still = now - *self.still.get_or_insert(now);
        if still < Self::YIELD_FOR {
            self.clock.yield_now();
        } else {
            self.clock.sleep((still / 16).clamp(*Self::NAP.start(), *Self::NAP.end()));
        }
    }
}
