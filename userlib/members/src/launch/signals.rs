//! Signals that a launcher passes on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use ggas_clock::Clock;
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::channel::poll_until;

const PASSED_ON: [Signal; 8] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// INT, TERM, HUP, QUIT, USR1, USR2, TSTP and CONT, kept from this process so that a launch can pass them on.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl Signals {
    /// Blocks these signals in the calling thread and the threads that it starts from now on: call it before
    /// others are started, since any thread that does not block them would still get them.
    ///
    /// # Errors
    /// What the system says.
    pub fn catch() -> io::Result<Signals> {
        let set: SigSet = PASSED_ON.into_iter().collect();
        set.thread_block()?;
        Ok(Signals(SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?))
    }

    /// The next one's number, for whoever passes signals on without a launch; `None`: none comes in this time.
    pub fn wait(&self, time: Duration) -> Option<i32> {
        let until = Clock::REAL.deadline(time);
        let came = poll_until(&mut [PollFd::new(self.as_fd(), PollFlags::POLLIN)], Some(until));
        came.is_ok_and(|came| came > 0).then(|| self.next()).flatten().map(|signal| signal as i32)
    }

    /// The next one that came.
    pub(super) fn next(&self) -> Option<Signal> {
        let info = self.0.read_signal().ok().flatten()?;
        Signal::try_from(info.ssi_signo as i32).ok()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
