//! Where the processes of a job find rank 0 without a launcher: a socket in a directory that nobody else can enter.
//!
//! Files are there only while the job is being started: `NAME.lock`, locked by rank 0, and `NAME.sock`. What a killed
//! job left behind is not locked, and the next job of that name takes it over. All paths go through the descriptor
//! of the verified directory, so that nobody can swap it in between.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, Flock, FlockArg, OFlag, open, openat};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, accept4, bind, connect, getsockopt, listen, socket,
};
use nix::sys::stat::{Mode, fchmod, fstat, fstatat};
use nix::unistd::{Uid, UnlinkatFlags, geteuid, unlinkat};

use crate::JobError;
use crate::channel::Channel;

/// Between two looks for rank 0: first and longest.
const NAPS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// A directory that belongs to this user alone.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    fd: OwnedFd,
}

impl Directory {
    /// Opens it, making it if it is not there.
    pub(crate) fn open(path: &Path) -> Result<Directory, JobError> {
        let refuse = |why: String, advice| JobError::Directory { path: path.into(), why, advice };
        if let Err(error) = DirBuilder::new().recursive(true).mode(0o700).create(path) {
            let advice = "name another directory with GGAS_RUNTIME_DIR";
            return Err(refuse(format!("it cannot be made ({error})"), advice));
        }
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd = open(path, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::ELOOP | Errno::ENOTDIR => refuse(
                "it is a symbolic link, or no directory".into(),
                "set GGAS_RUNTIME_DIR to the directory itself",
            ),
            errno => refuse(format!("it cannot be opened ({})", errno.desc()), "check its permissions"),
        })?;
        let stat = fstat(&fd).map_err(|errno| refuse(errno.desc().into(), "try again"))?;
        if stat.st_uid != geteuid().as_raw() {
            return Err(refuse(
                format!("it belongs to user {}, this process runs as {}", stat.st_uid, geteuid()),
                "name a directory of your own with GGAS_RUNTIME_DIR",
            ));
        }
        if stat.st_mode & 0o077 != 0 {
            return Err(refuse(
                format!("others may enter it (mode {:04o})", stat.st_mode & 0o7777),
                "chmod 700 it, or name a private directory with GGAS_RUNTIME_DIR",
            ));
        }
        Ok(Directory { path: path.into(), fd })
    }

    /// A short path to `file` that means this very directory (a socket's path has at most 107 bytes).
    fn address(&self, file: &str) -> nix::Result<UnixAddr> {
        UnixAddr::new(format!("/proc/self/fd/{}/{file}", self.fd.as_raw_fd()).as_str())
    }

    fn remove(&self, file: &str) {
        // Whoever removed it before us did the same work.
        let _ = unlinkat(&self.fd, file, UnlinkatFlags::NoRemoveDir);
    }
}

/// Rank 0's side. Dropped as soon as all have joined: nothing stays behind.
#[derive(Debug)]
pub(crate) struct Listener {
    directory: Directory,
    name: String,
    socket: OwnedFd,
    _lock: Flock<OwnedFd>,
}

impl Listener {
    /// Opens the job `name`, taking over what a dead job left.
    pub(crate) fn open(directory: Directory, name: &str, backlog: u32) -> Result<Listener, JobError> {
        let lock = lock(&directory, name)?;
        let file = format!("{name}.sock");
        directory.remove(&file);
        let socket = (|| {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let fd = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
            // Before bind: the file then never has another mode.
            fchmod(&fd, Mode::S_IRUSR | Mode::S_IWUSR)?;
            bind(fd.as_raw_fd(), &directory.address(&file)?)?;
            listen(&fd, Backlog::new(i32::try_from(backlog).unwrap_or(128).clamp(1, 4096))?)?;
            Ok(fd)
        })()
        .map_err(|errno: Errno| JobError::System { what: "open the job's socket", source: errno.into() })?;
        Ok(Listener { directory, name: name.into(), socket, _lock: lock })
    }

    /// The next connection of this user; those of others are closed.
    pub(crate) fn accept(&self) -> io::Result<Option<Channel>> {
        let fd = match accept4(self.socket.as_raw_fd(), SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK) {
            // SAFETY: the kernel has just made this descriptor for us.
            Ok(fd) => unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd) },
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNABORTED) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        match check_peer(fd.as_fd(), geteuid()) {
            Ok(()) => Ok(Some(Channel::new(fd))),
            Err(why) => {
                tracing::warn!("job {}: connection refused: {why}", self.name);
                Ok(None)
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.directory.remove(&format!("{}.sock", self.name));
        self.directory.remove(&format!("{}.lock", self.name));
    }
}

/// The lock of a name, on the file that the name leads to now.
fn lock(directory: &Directory, name: &str) -> Result<Flock<OwnedFd>, JobError> {
    let file = format!("{name}.lock");
    let system = |errno: Errno| JobError::System { what: "lock the job's name", source: errno.into() };
    let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    loop {
        let fd =
            openat(&directory.fd, file.as_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR).map_err(system)?;
        let lock = match Flock::lock(fd, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((_, Errno::EWOULDBLOCK)) => {
                return Err(JobError::NameTaken { name: name.into(), directory: directory.path.clone() });
            }
            Err((_, errno)) => return Err(system(errno)),
        };
        // The job before may have removed the file between our open and our lock: then it locks nothing.
        let ours = fstat(&*lock).map_err(system)?;
        match fstatat(&directory.fd, file.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(named) if (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino) => return Ok(lock),
            Ok(_) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(system(errno)),
        }
    }
}

/// Connects to rank 0, waiting until it is there.
pub(crate) fn find(directory: &Directory, name: &str, timeout: Duration) -> Result<Channel, JobError> {
    let started = Instant::now();
    let mut nap = NAPS.0;
    loop {
        match try_connect(directory, name) {
            Ok(channel) => return Ok(channel),
            // Not there yet, not listening yet (or left by a dead job), or its queue is full.
            Err(Errno::ENOENT | Errno::ECONNREFUSED | Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(JobError::System { what: "connect to rank 0", source: errno.into() }),
        }
        let waited = started.elapsed();
        if waited >= timeout {
            return Err(JobError::NotOpened {
                name: name.into(),
                directory: directory.path.clone(),
                waited: timeout,
            });
        }
        std::thread::sleep(nap.min(timeout - waited));
        nap = (nap * 2).min(NAPS.1);
    }
}

fn try_connect(directory: &Directory, name: &str) -> nix::Result<Channel> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    connect(fd.as_raw_fd(), &directory.address(&format!("{name}.sock"))?)?;
    check_peer(fd.as_fd(), geteuid()).map_err(|why| {
        tracing::warn!("job {name}: {why}");
        Errno::EACCES
    })?;
    Ok(Channel::new(fd))
}

/// Both sides of a connection belong to the same user. The directory alone ensures it, except from root.
fn check_peer(fd: BorrowedFd<'_>, me: Uid) -> Result<(), String> {
    let peer = getsockopt(&fd, PeerCredentials).map_err(|errno| errno.desc().to_string())?;
    check_user(Uid::from_raw(peer.uid()), me).map_err(|why| format!("process {}: {why}", peer.pid()))
}

fn check_user(peer: Uid, me: Uid) -> Result<(), String> {
    if peer == me { Ok(()) } else { Err(format!("it runs as user {peer}, this job belongs to user {me}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_user_is_served() {
        assert!(check_user(Uid::from_raw(1000), Uid::from_raw(1000)).is_ok());
        assert!(check_user(Uid::from_raw(1001), Uid::from_raw(1000)).unwrap_err().contains("1001"));
        assert!(check_user(Uid::from_raw(0), Uid::from_raw(1000)).is_err());
        let (a, _b) = Channel::pair().unwrap();
        assert!(check_peer(a.as_fd(), geteuid()).is_ok());
        let other = Uid::from_raw(geteuid().as_raw() + 1);
        assert!(check_peer(a.as_fd(), other).unwrap_err().contains("belongs to user"));
    }
}
