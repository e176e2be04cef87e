//! A terminal's input, forwarded to rank 0, since rank 0 is not in the terminal's foreground process group.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use ggas_clock::Clock;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};

use crate::channel::poll_until;

/// How often a launcher in the background looks whether the terminal is its own now.
const LOOK: Duration = Duration::from_millis(500);

/// Passes on until the input ends, rank 0 reads no more, or `ended` hangs up.
pub(super) fn pass_on(to: OwnedFd, ended: &OwnedFd) {
    let _ = try_pass_on(io::stdin().as_fd(), to.as_fd(), ended);
}

fn try_pass_on(from: BorrowedFd<'_>, to: BorrowedFd<'_>, ended: &OwnedFd) -> io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        // Reading a terminal from the background would stop us.
        if nix::unistd::tcgetpgrp(from).is_ok_and(|group| group != nix::unistd::getpgrp()) {
            let mut fds = [PollFd::new(ended.as_fd(), PollFlags::POLLIN)];
            if poll_until(&mut fds, Some(Clock::REAL.now() + LOOK))? > 0 {
                return Ok(());
            }
            continue;
        }
        let mut fds = [PollFd::new(from, PollFlags::POLLIN), PollFd::new(ended.as_fd(), PollFlags::POLLIN)];
        poll_until(&mut fds, None)?;
        if fds[1].any() != Some(false) {
            return Ok(());
        }
        let n = match nix::unistd::read(from, &mut bytes) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(Errno::EINTR) => continue,
            Err(errno) => return Err(errno.into()),
        };
        if !write(to, &bytes[..n], ended)? {
            return Ok(());
        }
    }
}

/// `false` if all has ended before it was taken.
fn write(to: BorrowedFd<'_>, mut bytes: &[u8], ended: &OwnedFd) -> io::Result<bool> {
    while !bytes.is_empty() {
        let mut fds = [PollFd::new(to, PollFlags::POLLOUT), PollFd::new(ended.as_fd(), PollFlags::POLLIN)];
        poll_until(&mut fds, None)?;
        if fds[1].any() != Some(false) {
            return Ok(false);
        }
        match nix::unistd::write(to, bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(true)
}
