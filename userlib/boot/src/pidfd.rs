//! Processes as file descriptors: their ids are never another's.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Opens a process (closed on exec). For others than this one and children not waited for, the id may be another's.
pub(crate) fn open(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: two numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}
