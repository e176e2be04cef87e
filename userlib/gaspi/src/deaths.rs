//! Which deaths the program has heard of: what may wait for ever, and cannot know for whom, ends once for each of the others.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct Deaths {
    /// Processes that have ended, died or not.
    departed: AtomicU32,
    /// Deaths that were news, and how many of them were told.
    news: AtomicU32,
    heard: AtomicU32,
    /// Ranks whose state the program has seen to be bad.
    known: Mutex<Vec<bool>>,
}

impl Deaths {
    pub(crate) fn new(ranks: usize) -> Deaths {
        Deaths {
            departed: AtomicU32::new(0),
            news: AtomicU32::new(0),
            heard: AtomicU32::new(0),
            known: Mutex::new(vec![false; ranks]),
        }
    }

    fn known(&self) -> MutexGuard<'_, Vec<bool>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process has ended; where it has died, `mark` makes its state bad.
    pub(crate) fn departed(&self, rank: usize, is_dead: bool, mark: impl FnOnce()) {
        if is_dead {
            // With the lock: who reads the states sees that of this one, or has not heard of it.
            let known = self.known();
            mark();
            if known.get(rank).is_some_and(|is_known| !is_known) {
                self.news.fetch_add(1, Ordering::AcqRel);
            }
        }
        self.departed.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether any process has ended.
    pub(crate) fn has_any_departed(&self) -> bool {
        self.departed.load(Ordering::Acquire) > 0
    }

    /// What the program knows when a call begins.
    pub(crate) fn heard(&self) -> u32 {
        self.heard.load(Ordering::Acquire)
    }

    /// Whether there is more than that, which the program hears now.
    pub(crate) fn are_news(&self, known: u32) -> bool {
        let news = self.news.load(Ordering::Acquire);
        if news > known {
            self.heard.fetch_max(news, Ordering::AcqRel);
        }
        news > known
    }

    /// The states of all ranks, `true`: bad, which the program gets to know.
    pub(crate) fn look(&self, is_bad: impl Fn(usize) -> bool) -> Vec<bool> {
        let mut known = self.known();
        let states: Vec<bool> = (0..known.len()).map(is_bad).collect();
        known.iter_mut().zip(&states).for_each(|(known, state)| *known |= state);
        self.heard.fetch_max(self.news.load(Ordering::Acquire), Ordering::AcqRel);
        states
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn each_waiting_call_hears_of_a_death_and_no_later_one() {
        let (deaths, bad) = (Deaths::new(3), Cell::new([false; 3]));
        let mark = |rank: usize| {
            let mut states = bad.get();
            states[rank] = true;
            bad.set(states);
        };
        let (one, two) = (deaths.heard(), deaths.heard());
        assert!(!deaths.are_news(one) && !deaths.has_any_departed());
        deaths.departed(0, false, || mark(0));
        assert!(!deaths.are_news(one) && deaths.has_any_departed(), "it has left in order");
        deaths.departed(1, true, || mark(1));
        assert!(deaths.are_news(one) && deaths.are_news(two));
        assert!(!deaths.are_news(deaths.heard()));
        // The program sees that a rank is bad before its end is noticed.
        mark(2);
        let known = deaths.heard();
        assert_eq!(deaths.look(|rank| bad.get()[rank]), [false, true, true]);
        deaths.departed(2, true, || mark(2));
        assert!(!deaths.are_news(known));
    }

    #[test]
    fn a_state_that_is_seen_is_no_news() {
        let deaths = Deaths::new(2);
        deaths.departed(1, true, || ());
        assert_eq!(deaths.look(|rank| rank == 1), [false, true]);
        assert!(!deaths.are_news(deaths.heard()));
    }
}
