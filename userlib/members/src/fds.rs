//! Long-lived file descriptors of the library: never 0, 1 or 2, even where the program has closed these, so that the
//! program's output never reaches a file of the library.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The same open file, at a descriptor above those of standard files, where there is one.
pub(crate) fn kept(fd: OwnedFd) -> OwnedFd {
    if fd.as_raw_fd() > libc::STDERR_FILENO {
        return fd;
    }
    // SAFETY: numbers only.
    let above = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, libc::STDERR_FILENO + 1) };
    // SAFETY: the kernel has just made it for us.
    if above < 0 { fd } else { unsafe { OwnedFd::from_raw_fd(above) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_above_the_standard_files() {
        let fd: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
        let number = fd.as_raw_fd();
        assert!(number > libc::STDERR_FILENO);
        assert_eq!(kept(fd).as_raw_fd(), number, "one that is well stays");
    }
}
