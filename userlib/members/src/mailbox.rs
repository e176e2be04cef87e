//! File descriptors passed from rank to rank, as windows in GPU memory need. A *letter* is a message with file
//! descriptors; it is kept here until `recv_fds` takes it.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ggas_clock::Clock;

use crate::channel::MAX_FDS;

/// Most file descriptors of one letter.
pub const LETTER_FDS_MAX: usize = MAX_FDS;
/// Letters kept for who has not asked for them; while there are more, connections are not read, and senders wait.
const KEPT_MAX: usize = 1024;

/// What a letter says; the descriptors come with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) from: u32,
    pub(crate) tag: u64,
}

/// Letters that came and were not asked for yet.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    kept: Mutex<VecDeque<(Letter, Vec<OwnedFd>)>>,
    news: Condvar,
}

impl Mailbox {
    fn kept(&self) -> MutexGuard<'_, VecDeque<(Letter, Vec<OwnedFd>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has_room(&self) -> bool {
        self.kept().len() < KEPT_MAX
    }

    /// Keeps a letter for whoever asks for it.
    pub(crate) fn put(&self, letter: Letter, fds: Vec<OwnedFd>) {
        self.kept().push_back((letter, fds));
        self.news.notify_all();
    }

    /// Wakes who waits, to look whether the sender is gone.
    pub(crate) fn look_again(&self) {
        // Under the lock: who has looked and not yet slept would miss it.
        let _kept = self.kept();
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
    ) -> Option<Vec<OwnedFd>> {
        let deadline = Clock::REAL.deadline(timeout);
        let mut kept = self.kept();
        loop {
            // Asked before looking: a letter that came before that is kept. While there is no room some may be behind.
            let gone = gone() && kept.len() < KEPT_MAX;
            if let Some(at) = kept.iter().position(|(letter, _)| *letter == Letter { from, tag }) {
                return kept.remove(at).map(|(_, fds)| fds);
            }
            let left = deadline.saturating_duration_since(Clock::REAL.now());
            if gone || left.is_zero() {
                return None;
            }
            kept = Clock::REAL.wait(&self.news, kept, left).unwrap_or_else(|| self.kept());
        }
    }
}
