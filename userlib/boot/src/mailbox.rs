//! File descriptors from process to process, after the start: windows in GPU memory travel this way.
//!
//! Every process has a mailbox, a socket that keeps messages apart, whose sending end all others have. The watcher
//! takes letters out as they come, so that no sender waits for a process that does not look.

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::channel::{Channel, MAX_FDS, WireError};

/// Most file descriptors of one letter.
pub const LETTER_FDS_MAX: usize = MAX_FDS;
/// Letters kept for who has not asked for them; further ones stay in the socket, and senders wait.
const KEPT_MAX: usize = 1024;

/// What a letter says; the descriptors come with it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Letter {
    pub(crate) from: u32,
    pub(crate) tag: u64,
    pub(crate) fds: u32,
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

    /// Takes what has come out of the socket: `false` once nobody can send any more.
    pub(crate) fn collect(&self, socket: &Channel, size: u32) -> bool {
        while self.has_room() {
            match socket.try_receive::<Letter>() {
                Ok((letter, fds)) if letter.from < size && letter.fds as usize == fds.len() => {
                    self.put(letter, fds)
                }
                Ok((letter, fds)) => {
                    tracing::warn!("a letter with {} descriptors dropped: {letter:?}", fds.len())
                }
                Err(WireError::Timeout) => return true,
                Err(WireError::Closed) => return false,
                Err(error @ WireError::System(_)) => {
                    tracing::warn!("the mailbox is given up: {error}");
                    return false;
                }
                Err(error) => tracing::warn!("a letter dropped: {error}"),
            }
        }
        true
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
        let deadline = Instant::now() + timeout;
        let mut kept = self.kept();
        loop {
            // Asked before looking: a letter that came before that is kept. While there is no room some may be behind.
            let gone = gone() && kept.len() < KEPT_MAX;
            if let Some(at) = kept.iter().position(|(letter, _)| (letter.from, letter.tag) == (from, tag)) {
                return kept.remove(at).map(|(_, fds)| fds);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if gone || left.is_zero() {
                return None;
            }
            kept = self.news.wait_timeout(kept, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Sends one letter by `deadline`, looking now and then whether the receiver is gone.
pub(crate) fn send(
    to: &Channel,
    letter: &Letter,
    fds: &[BorrowedFd<'_>],
    deadline: Instant,
    gone: impl Fn() -> bool,
) -> Result<(), WireError> {
    const LOOK: Duration = Duration::from_millis(20);
    loop {
        if gone() {
            return Err(WireError::Closed);
        }
        match to.send(letter, fds, deadline.min(Instant::now() + LOOK)) {
            Err(WireError::Timeout) if Instant::now() < deadline => {}
            other => return other,
        }
    }
}
