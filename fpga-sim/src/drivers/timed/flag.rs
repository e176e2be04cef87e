//! Words that others count up and programs wait for.
//!
//! Nobody polls in the model: who waits for a word is told when it changes, and goes on when its next look would have
//! seen that. So a wait costs one event, however long it is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::{Ps, Timed};

/// A word that counts up, 0 at first. Copies are the same word. It lies nowhere: who waits says what a look costs
/// ([`Node::wait`](super::Node::wait), [`Block::wait`](super::Block::wait)).
#[derive(Clone)]
pub struct Flag {
    word: Arc<Mutex<Word>>,
    timed: Weak<Timed>,
}

#[derive(Default)]
struct Word {
    value: u64,
    waiting: Vec<Waiting>,
}

/// A program that waits until the word is `least` or more.
pub(super) struct Waiting {
    least: u64,
    pub task: u32,
    pub turn: u32,
    /// The first look.
    pub since: Ps,
    pub poll: Poll,
}

/// How a program looks at a word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Poll {
    /// Between two looks.
    pub period: Ps,
    /// From the look that sees it until the program goes on.
    pub look: Ps,
}

impl Poll {
    /// When a program that looks from `since` on goes on, where the word changes at `at`.
    pub(super) fn sees(&self, since: Ps, at: Ps) -> Ps {
        let looks = at.saturating_sub(since).0.div_ceil(self.period.0.max(1));
        since + self.period * looks + self.look
    }
}

impl Flag {
    pub(super) fn new(timed: Weak<Timed>) -> Flag {
        Flag { word: Arc::default(), timed }
    }

    fn word(&self) -> MutexGuard<'_, Word> {
        self.word.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its value now, for the program that asks; a look costs nothing here.
    pub fn value(&self) -> u64 {
        if let Some(timed) = self.timed.upgrade() {
            timed.settle();
        }
        self.word().value
    }

    /// Counts it up now; the store costs nothing here. From a program, or as something [arrives](super::Put::then).
    pub fn add(&self, by: u64) {
        if let Some(timed) = self.timed.upgrade() {
            timed.raise(self, by);
        }
    }

    /// Counts it up at `now`; `resume` is called with each program that goes on, and how it polled.
    pub(super) fn raise(&self, by: u64, mut resume: impl FnMut(&Waiting)) {
        let mut word = self.word();
        word.value = word.value.saturating_add(by);
        let value = word.value;
        // In the order in which they began to wait.
        word.waiting.retain(|waiting| {
            if value >= waiting.least {
                resume(waiting);
            }
            value < waiting.least
        });
    }

    pub(super) fn is_at_least(&self, least: u64) -> bool {
        self.word().value >= least
    }

    /// Notes that a program, of this turn, waits for what is not there yet.
    pub(super) fn await_at_least(&self, least: u64, (task, turn): (u32, u32), since: Ps, poll: Poll) {
        self.word().waiting.push(Waiting { least, task, turn, since, poll });
    }
}

impl std::fmt::Debug for Flag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Flag").field(&self.word().value).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_sees_a_change_at_its_next_look() {
        let poll = Poll { period: Ps(10), look: Ps(3) };
        for (since, at, sees) in [(0, 0, 3), (0, 1, 13), (0, 10, 13), (0, 11, 23), (7, 3, 10), (7, 18, 30)] {
            assert_eq!(poll.sees(Ps(since), Ps(at)), Ps(sees), "since {since}, changed at {at}");
        }
    }
}
