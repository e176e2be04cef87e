//! Sockets in a network's directory: each member listens on one.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use ggas_clock::Clock;

use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, bind, connect, getsockopt, listen, socket,
};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{Uid, geteuid};

use crate::channel::wait;
use crate::directory::Directory;
use crate::fds::kept;
use crate::{JobError, pidfd};

/// File of a member's socket.
pub(crate) fn socket_name(slot: u32) -> String {
    format!("socket.{slot}")
}

/// Whether the process that made a socket listens there. One that cannot be asked is taken for alive.
pub(crate) fn is_open(directory: &Directory, file: &str) -> bool {
    match try_connect(directory, file) {
        // A fork of the process may have the socket still.
        Ok(fd) => match pidfd::of_peer(fd.as_fd()) {
            Ok(process) => !has_ended(process.as_fd()),
            Err(errno) => errno != Errno::ESRCH,
        },
        Err(errno) => !matches!(errno, Errno::ENOENT | Errno::ECONNREFUSED),
    }
}

/// Whether a process is over.
pub(crate) fn has_ended(process: BorrowedFd<'_>) -> bool {
    wait(process, PollFlags::POLLIN, Clock::REAL.now()).unwrap_or(false)
}

pub(crate) fn try_connect(directory: &Directory, file: &str) -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    connect(fd.as_raw_fd(), &directory.address(file)?)?;
    Ok(kept(fd))
}

/// Opens a socket, in the place of what its last owner left.
pub(crate) fn open_socket(directory: &Directory, file: &str) -> Result<OwnedFd, JobError> {
    directory.remove(file);
    let open = || {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
        // Before bind: the file then never has another mode.
        fchmod(&fd, Mode::S_IRUSR | Mode::S_IWUSR)?;
        bind(fd.as_raw_fd(), &directory.address(file)?)?;
        listen(&fd, Backlog::new(1024)?)?;
        Ok(kept(fd))
    };
    open().map_err(|errno: Errno| match errno {
        Errno::ENOSPC | Errno::EDQUOT => JobError::Full { path: directory.path(), bytes: 0 },
        Errno::EADDRINUSE => JobError::Directory {
            path: directory.path().join(file),
            why: "something is there that is no socket and cannot be removed".into(),
            advice: "remove it",
        },
        errno => JobError::system("open this member's socket")(errno.into()),
    })
}

/// The process at the other end of a connection (0: of a namespace that is not seen from here). Both sides belong to
/// the same user: the directory alone ensures it, except from root.
pub(crate) fn check_peer(fd: BorrowedFd<'_>, me: Uid) -> Result<u32, String> {
    let peer = getsockopt(&fd, PeerCredentials).map_err(|errno| errno.desc().to_string())?;
    check_user(Uid::from_raw(peer.uid()), me).map_err(|why| format!("process {}: {why}", peer.pid()))?;
    Ok(u32::try_from(peer.pid()).unwrap_or(0))
}

/// As [`check_peer`], with this process's user.
pub(crate) fn peer_of(fd: BorrowedFd<'_>) -> Result<u32, String> {
    check_peer(fd, geteuid())
}

fn check_user(peer: Uid, me: Uid) -> Result<(), String> {
    if peer == me {
        Ok(())
    } else {
        Err(format!("it runs as user {peer}, this network belongs to user {me}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Channel;

    #[test]
    fn only_the_same_user_is_served() {
        assert!(check_user(Uid::from_raw(1000), Uid::from_raw(1000)).is_ok());
        assert!(check_user(Uid::from_raw(1001), Uid::from_raw(1000)).unwrap_err().contains("1001"));
        assert!(check_user(Uid::from_raw(0), Uid::from_raw(1000)).is_err());
        let (a, _b) = Channel::pair().unwrap();
        assert_eq!(peer_of(a.as_fd()), Ok(std::process::id()));
        let other = Uid::from_raw(geteuid().as_raw() + 1);
        assert!(check_peer(a.as_fd(), other).unwrap_err().contains("belongs to user"));
    }

    #[test]
    fn a_process_that_was_reaped_has_ended() {
        let (a, b) = Channel::pair().unwrap();
        // The other end is this process's own, which lives.
        match pidfd::of_peer(a.as_fd()) {
            Ok(process) => assert!(!has_ended(process.as_fd())),
            Err(errno) => assert_eq!(errno, Errno::ENOPROTOOPT, "a kernel before 6.5"),
        }
        drop(b);
    }
}
