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
struct Waiting {
    least: u64,
    task: u32,
    turn: u32,
    /// The first look.
    since: Ps,
    poll: Poll,
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
    fn sees(&self, since: Ps, at: Ps) -> Ps {
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

    /// Counts it up at `now`; `resume` is called with the programs that go on, and when.
    pub(super) fn raise(&self, by: u64, now: Ps, mut resume: impl FnMut(u32, u32, Ps)) {
        let mut word = self.word();
        word.value = word.value.saturating_add(by);
        let value = word.value;
        // In the order in which they began to wait.
        word.waiting.retain(|waiting| {
            let Waiting { least, task, turn, since, poll } = *waiting;
            if value >= least {
                resume(task, turn, poll.sees(since, now));
            }
            value < least
        });
    }

    pub(super) fn is_at_least(&self, least: u64) -> bool {
        self.word().value >= least
    }

    /// Notes that a program waits; `None`: what it waits for is there already.
    pub(super) fn await_at_least(&self, least: u64, task: (u32, u32), since: Ps, poll: Poll) -> Option<()> {
        let mut word = self.word();
        if word.value >= least {
            return None;
        }
        word.waiting.push(Waiting { least, task: task.0, turn: task.1, since, poll });
        Some(())
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
