//! Polling for a condition that nothing signals: spin briefly, then yield, then sleep.

use std::time::{Duration, Instant};

use crate::Clock;

/// How a wait backs off: from spinning to yielding to ever longer naps (short sleeps).
#[derive(Clone, Copy, Debug)]
pub struct Ladder {
    /// Rounds of pure spinning.
    pub spins: u32,
    /// Rounds after the spinning ones that yield the core.
    pub yields: u32,
    /// The first nap after the yielding rounds, and the longest nap.
    pub naps: (Duration, Duration),
    /// A nap is at most this part of the time waited so far, so that it adds little to the wait; 0: each is twice the
    /// last one.
    pub part: u32,
}

impl Ladder {
    /// For waits that mostly take microseconds: about a microsecond of spinning, naps up to a millisecond.
    pub const SHORT: Ladder = Ladder {
        spins: 64,
        yields: 256,
        naps: (Duration::from_micros(20), Duration::from_millis(1)),
        part: 0,
    };
    /// For waits for a process that cannot run while this one spins: leaves the core at once.
    pub const CROWDED: Ladder = Ladder { spins: 1, yields: 4096, ..Ladder::SHORT };
    /// For waits for another thread of this process: naps of 50 µs.
    pub const NEIGHBOUR: Ladder = Ladder {
        spins: 64,
        yields: 256,
        naps: (Duration::from_micros(50), Duration::from_micros(50)),
        part: 0,
    };
    /// For timing a GPU or another device by waiting for it.
    pub const DEVICE: Ladder = Ladder {
        spins: 200,
        yields: 2000,
        naps: (Duration::from_micros(20), Duration::from_millis(2)),
        part: 40,
    };

    /// What a round asks for.
    fn pause(&self, clock: &Clock, round: u32) -> bool {
        if round < self.spins {
            clock.spin();
        } else if round < self.spins + self.yields {
            clock.yield_now();
        } else {
            return false;
        }
        true
    }
}

/// One wait, bounded or not.
#[derive(Debug)]
pub struct Backoff<'a> {
    clock: &'a Clock,
    ladder: Ladder,
    round: u32,
    started: Option<Instant>,
    timeout: Duration,
    nap: Duration,
}

/// What to do before looking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look again at once (the caller was delayed as the round asks).
    Again,
    /// Long without success: sleep, at most this long.
    Sleep(Duration),
    /// Time is over; this long was waited.
    Over(Duration),
}

impl<'a> Backoff<'a> {
    /// A wait of at most `timeout` on the [short ladder](Ladder::SHORT).
    pub fn new(clock: &'a Clock, timeout: Duration) -> Backoff<'a> {
        Backoff::on(Ladder::SHORT, clock, timeout)
    }

    /// A wait of at most `timeout`.
    pub fn on(ladder: Ladder, clock: &'a Clock, timeout: Duration) -> Backoff<'a> {
        Backoff { clock, ladder, round: 0, started: None, timeout, nap: ladder.naps.0 }
    }

    /// A wait without a time limit, for a condition that is certain to become true.
    pub fn endless(ladder: Ladder, clock: &'a Clock) -> Backoff<'a> {
        Backoff::on(ladder, clock, Duration::MAX)
    }

    /// The next step. The clock is first read after the spinning, so short waits do not pay for it.
    #[inline]
    pub fn step(&mut self) -> Step {
        self.round = self.round.saturating_add(1);
        if self.round < self.ladder.spins && !self.timeout.is_zero() {
            self.clock.spin();
            return Step::Again;
        }
        let waited = self.waited();
        if waited >= self.timeout {
            return Step::Over(waited);
        }
        if self.ladder.pause(self.clock, self.round) {
            return Step::Again;
        }
        Step::Sleep(self.timeout - waited)
    }

    /// Naps a little longer each time, for waits that nothing announces.
    pub fn nap(&mut self, left: Duration) {
        let (first, longest) = self.ladder.naps;
        if let Some(part) = self.waited().checked_div(self.ladder.part) {
            self.nap = part.clamp(first, longest);
        }
        self.clock.sleep(self.nap.min(left));
        self.nap = (self.nap * 2).min(longest);
    }

    /// One step and its nap. How long was waited, where time is over.
    #[inline]
    pub fn pause(&mut self) -> Result<(), Duration> {
        match self.step() {
            Step::Again => {}
            Step::Sleep(left) => self.nap(left),
            Step::Over(waited) => return Err(waited),
        }
        Ok(())
    }

    /// How long it has been since the clock was first read.
    pub fn waited(&mut self) -> Duration {
        let started = *self.started.get_or_insert_with(|| self.clock.now());
        self.clock.since(started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Manual;

    #[test]
    fn a_wait_ends_when_its_time_is_over_and_naps_grow_to_their_bound() {
        let (clock, _time) = Manual::new();
        let mut wait = Backoff::new(&clock, Duration::from_millis(50));
        let (mut naps, begin) = (Vec::new(), clock.now());
        let waited = loop {
            match wait.step() {
                Step::Again => {}
                Step::Sleep(left) => {
                    let before = clock.now();
                    wait.nap(left);
                    naps.push(clock.since(before));
                }
                Step::Over(waited) => break waited,
            }
        };
        assert_eq!(waited, Duration::from_millis(50));
        assert!(clock.since(begin) < Duration::from_millis(51), "spinning takes little");
        assert_eq!(naps[..3], [20, 40, 80].map(Duration::from_micros));
        assert!(naps.iter().all(|nap| *nap <= Duration::from_millis(1)));
    }

    #[test]
    fn who_may_not_wait_is_told_so_at_once() {
        let (clock, _time) = Manual::new();
        assert_eq!(Backoff::new(&clock, Duration::ZERO).step(), Step::Over(Duration::ZERO));
    }
}
