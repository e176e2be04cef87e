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
struct Turns {
    /// `None`: no call drives cards on this thread.
    taken: Cell<Option<u32>>,
    since: Cell<Option<Instant>>,
}

thread_local! {
    static TURNS: Turns = const { Turns { taken: Cell::new(None), since: Cell::new(None) } };
}

/// A call begins to drive cards on this thread.
#[inline]
pub(super) fn begin() {
    TURNS.with(|turns| {
        turns.taken.set(Some(0));
        turns.since.set(None);
    });
}

/// It drives no more.
#[inline]
pub(super) fn end() {
    TURNS.with(|turns| turns.taken.set(None));
}

/// Counts a turn of the call that drives cards on this thread; whether it has driven for long enough.
#[inline]
pub(super) fn is_over(clock: &Clock) -> bool {
    TURNS.with(|turns| {
        let Some(taken) = turns.taken.get() else { return false };
        turns.taken.set(Some(taken.wrapping_add(1)));
        taken >= UNTIMED && turns.is_late(clock)
    })
}

impl Turns {
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
