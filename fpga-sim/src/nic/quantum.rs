//! How long a call goes on driving cards for others.

use std::cell::Cell;
use std::time::{Duration, Instant};

use ggas_clock::Clock;

/// Then the driver goes on. Longer than nearly everything that one post or poll leads to, short for who only wanted
/// to write a register.
const QUANTUM: Duration = Duration::from_micros(200);
/// Turns that are not timed: most calls need fewer, and a look at the clock costs as much as a small put.
const UNTIMED: u32 = 4;

/// The turns of one call: rounds of cards, and cards.
#[derive(Default)]
pub(super) struct Quantum {
    turns: Cell<u32>,
    since: Cell<Option<Instant>>,
}

impl Quantum {
    /// Counts a turn; whether it is time to leave the rest to others.
    #[inline]
    pub(super) fn is_over(&self, clock: &Clock) -> bool {
        self.turns.set(self.turns.get().wrapping_add(1));
        self.turns.get() > UNTIMED && self.is_late(clock)
    }

    #[cold]
    fn is_late(&self, clock: &Clock) -> bool {
        if let Some(preempts) = clock.preempts() {
            return preempts;
        }
        let since = self.since.get().unwrap_or_else(|| clock.now());
        self.since.set(Some(since));
        clock.since(since) >= QUANTUM
    }
}
