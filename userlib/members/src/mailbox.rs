//! File descriptors and bytes passed from rank to rank, as set-ups of some ranks need. A *letter* is a message with some; it is kept
//! here until `recv_fds` or `recv_bytes` takes it.

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ggas_clock::Clock;

use crate::channel::{MAX_FDS, MAX_MESSAGE};

/// Most file descriptors of one letter.
pub const LETTER_FDS_MAX: usize = MAX_FDS;
/// Most bytes of one letter: a message has the tag, and what the post adds, too.
pub const LETTER_BYTES_MAX: usize = MAX_MESSAGE - 192;
/// Letters kept for who has not asked for them; while there are more, connections are not read, and senders wait.
const KEPT_MAX: usize = 1024;

/// Whose a letter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Letter {
    pub(crate) from: u32,
    pub(crate) tag: u64,
}

/// What is in it.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) bytes: Vec<u8>,
    pub(crate) fds: Vec<OwnedFd>,
}

/// Letters that came and were not asked for yet.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    letters: Mutex<Letters>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Letters {
    /// The oldest first.
    kept: VecDeque<(Letter, Contents)>,
    /// What nobody will ask for.
    unwanted: BTreeSet<Letter>,
}

impl Mailbox {
    fn letters(&self) -> MutexGuard<'_, Letters> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has_room(&self) -> bool {
        self.letters().kept.len() < KEPT_MAX
    }

    /// Keeps a letter for whoever asks for it, if anybody may.
    pub(crate) fn put(&self, letter: Letter, contents: Contents) {
        let mut letters = self.letters();
        if letters.unwanted.contains(&letter) {
            return;
        }
        letters.kept.push_back((letter, contents));
        self.news.notify_all();
    }

    /// Drops letters that came, and those that come until their sender is gone.
    pub(crate) fn forget(&self, letter: Letter) {
        let mut letters = self.letters();
        letters.unwanted.insert(letter);
        letters.kept.retain(|(kept, _)| *kept != letter);
    }

    /// A member is gone: another one of its number may begin to count tags anew.
    pub(crate) fn went(&self, from: u32) {
        self.letters().unwanted.retain(|letter| letter.from != from);
    }

    /// Wakes who waits, to look whether the sender is gone.
    pub(crate) fn look_again(&self) {
        // Under the lock: who has looked and not yet slept would miss it.
        let _letters = self.letters();
        self.news.notify_all();
    }

    /// The oldest letter of a sender with this tag. `None`: time is over, or `gone` says that no letter is left in the
    /// socket and none will come.
    pub(crate) fn take(
        &self,
        from: u32,
        tag: u64,
        timeout: Duration,
        gone: impl Fn() -> bool,
    ) -> Option<Contents> {
        let deadline = Clock::REAL.deadline(timeout);
        let mut letters = self.letters();
        loop {
            // Asked before looking: a letter that came before that is kept. While there is no room some may be behind.
            let gone = gone() && letters.kept.len() < KEPT_MAX;
            let place = letters.kept.iter().position(|(letter, _)| *letter == Letter { from, tag });
            if let Some(at) = place {
                return letters.kept.remove(at).map(|(_, contents)| contents);
            }
            let left = deadline.saturating_duration_since(Clock::REAL.now());
            if gone || left.is_zero() {
                return None;
            }
            letters = Clock::REAL.wait(&self.news, letters, left).unwrap_or_else(|| self.letters());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Contents {
        Contents { fds: vec![std::fs::File::open("/dev/null").unwrap().into()], ..Contents::default() }
    }

    #[test]
    fn letters_that_nobody_wants_are_not_kept() {
        let mailbox = Mailbox::default();
        let has = |from, tag| mailbox.take(from, tag, Duration::ZERO, || false).is_some();
        let [unwanted, of_another, with_another] =
            [(1, 5), (2, 5), (1, 6)].map(|(from, tag)| Letter { from, tag });
        for letter in [unwanted, of_another, with_another, unwanted] {
            mailbox.put(letter, file());
        }
        mailbox.forget(unwanted);
        // Late ones, more than there is room for.
        (0..=KEPT_MAX).for_each(|_| mailbox.put(unwanted, file()));
        assert!(mailbox.has_room(), "connections would not be read any more");
        assert!(!has(1, 5) && has(2, 5) && has(1, 6));
        mailbox.went(2);
        mailbox.put(unwanted, file());
        assert!(!has(1, 5), "another one went");
        mailbox.went(1);
        mailbox.put(unwanted, file());
        assert!(has(1, 5), "a new member's");
    }
}
