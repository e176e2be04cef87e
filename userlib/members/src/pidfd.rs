//! Processes as file descriptors (pidfds), which never refer to a later process with the same id.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;

/// SO_PEERPIDFD of asm-generic/socket.h, from Linux 6.5.
const SO_PEERPIDFD: libc::c_int = 77;

/// Opens a process (closed on exec). For others than this one and children not waited for, the id may be another's.
pub(crate) fn open(pid: u32) -> nix::Result<OwnedFd> {
    // SAFETY: two numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: the kernel has just made it for us.
    Ok(crate::fds::kept(unsafe { OwnedFd::from_raw_fd(fd as RawFd) }))
}

/// The process that made the other end of a connection, whatever its namespace. `ESRCH`: it is over.
pub(crate) fn of_peer(socket: BorrowedFd<'_>) -> nix::Result<OwnedFd> {
    let mut fd: RawFd = -1;
    let mut len = size_of::<RawFd>() as libc::socklen_t;
    // SAFETY: the kernel writes one descriptor to `fd`, whose size `len` says.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut fd).cast(),
            &raw mut len,
        )
    };
    match (done, Errno::last()) {
        // SAFETY: the kernel has just made it for us.
        (0, _) if fd >= 0 => Ok(crate::fds::kept(unsafe { OwnedFd::from_raw_fd(fd) })),
        // What kernels say of one that was reaped.
        (0, _) | (_, Errno::EINVAL) => Err(Errno::ESRCH),
        (_, errno) => Err(errno),
    }
}
