//! Files of a network's directory that its members map: the table of members, and what a transport keeps of a node.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, FallocateFlags, OFlag, fallocate, openat};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};

use super::{Mapping, check_file_size};
use crate::fds::kept;

/// Why a file could not be had.
#[derive(Debug)]
pub(crate) enum FileError {
    /// No room where the directory is: memory is reserved before it is used, so nobody is killed later.
    Full { bytes: u64 },
    /// It has another size than this version of the library gives it.
    Size,
    /// The limit on this process's files forbids it; the error says which.
    Limit(std::io::Error),
    /// The system's word.
    System(Errno),
}

impl From<Errno> for FileError {
    fn from(errno: Errno) -> FileError {
        match errno {
            Errno::ENOSPC | Errno::EDQUOT => FileError::Full { bytes: 0 },
            errno => FileError::System(errno),
        }
    }
}

/// A file that is mapped in whole.
pub(crate) struct File {
    fd: OwnedFd,
    pub(crate) map: Mapping,
}

impl File {
    /// Opens `name`, or makes it: `bytes` of zeros, the first `reserved` of which have memory, and then whatever
    /// `fill` writes, all before anybody else can find it.
    pub(crate) fn open_or_make(
        directory: BorrowedFd<'_>,
        name: &str,
        (bytes, reserved): (u64, u64),
        fill: impl FnOnce(&Mapping),
    ) -> Result<File, FileError> {
        // What is there may have holes, if it was not made here.
        let open =
            || File::open(directory, name, |size| size == bytes).and_then(|file| file.reserved(reserved));
        match open() {
            Err(FileError::System(Errno::ENOENT)) => {}
            other => return other,
        }
        check_file_size(bytes).map_err(FileError::Limit)?;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        // Without a name until it is complete; where the file system has no such files, under a name of this process.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let temporary = format!("{name}.{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let nameless = openat(directory, ".", OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_CLOEXEC, mode);
        let (fd, named) = match nameless {
            Ok(fd) => (fd, false),
            Err(Errno::EOPNOTSUPP | Errno::EISDIR) => {
                let flags =
                    OFlag::O_CREAT | OFlag::O_TRUNC | OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
                (openat(directory, temporary.as_str(), flags, mode)?, true)
            }
            Err(errno) => return Err(errno.into()),
        };
        let made = File::fill(&fd, bytes, reserved, fill).and_then(|map| {
            let linked = if named {
                linkat(directory, temporary.as_str(), directory, name, AtFlags::empty())
            } else {
                let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
                linkat(nix::fcntl::AT_FDCWD, path.as_str(), directory, name, AtFlags::AT_SYMLINK_FOLLOW)
            };
            match linked {
                Ok(()) => Ok(Some(map)),
                Err(Errno::EEXIST) => Ok(None),
                Err(errno) => Err(errno.into()),
            }
        });
        if named {
            let _ = unlinkat(directory, temporary.as_str(), UnlinkatFlags::NoRemoveDir);
        }
        match made? {
            Some(map) => Ok(File { fd: kept(fd), map }),
            // Another process was first: its file counts.
            None => open(),
        }
    }

    fn reserved(self, bytes: u64) -> Result<File, FileError> {
        reserve(self.fd.as_fd(), 0, bytes)?;
        Ok(self)
    }

    fn fill(
        fd: &OwnedFd,
        bytes: u64,
        reserved: u64,
        fill: impl FnOnce(&Mapping),
    ) -> Result<Mapping, FileError> {
        nix::unistd::ftruncate(fd, bytes as i64)?;
        reserve(fd.as_fd(), 0, reserved)?;
        let map = map(fd.as_fd(), bytes)?;
        fill(&map);
        Ok(map)
    }

    /// Opens `name`, if its size fits.
    pub(crate) fn open(
        directory: BorrowedFd<'_>,
        name: &str,
        fits: impl FnOnce(u64) -> bool,
    ) -> Result<File, FileError> {
        let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd = openat(directory, name, flags, Mode::empty())?;
        let bytes = fstat(&fd)?.st_size.max(0) as u64;
        if !fits(bytes) {
            return Err(FileError::Size);
        }
        let map = map(fd.as_fd(), bytes)?;
        Ok(File { fd: kept(fd), map })
    }

    /// Has memory for a part of it, or says that there is none. To be called before the part is written first.
    pub(crate) fn reserve(&self, offset: usize, bytes: usize) -> Result<(), FileError> {
        reserve(self.fd.as_fd(), offset as u64, bytes as u64)
    }
}

fn map(fd: BorrowedFd<'_>, bytes: u64) -> Result<Mapping, FileError> {
    Mapping::new(fd, 0, bytes as usize, true)
        .map_err(|error| FileError::System(Errno::from_raw(error.raw_os_error().unwrap_or(libc::ENOMEM))))
}

fn reserve(fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<(), FileError> {
    loop {
        match fallocate(fd, FallocateFlags::empty(), offset as i64, bytes as i64) {
            Ok(()) => return Ok(()),
            Err(Errno::EINTR) => {}
            // A file system that cannot promise: what it has not got shows later.
            Err(Errno::EOPNOTSUPP) => return Ok(()),
            Err(Errno::ENOSPC | Errno::EDQUOT) => return Err(FileError::Full { bytes }),
            Err(errno) => return Err(errno.into()),
        }
    }
}
