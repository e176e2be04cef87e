//! The directories through which members find each other: one for each network, in a parent directory that only the
//! user can enter.
//!
//! A network's directory has the table of its members, the transport's state of nodes, and a socket for each member.
//! A process that joins or leaves holds the lock on the directory meanwhile. Files are opened relative to descriptors
//! of verified directories, so that no other user can swap a directory in between.

use std::fs::DirBuilder;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ggas_clock::Clock;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, Flock, FlockArg, OFlag, open, openat};
use nix::sys::socket::UnixAddr;
use nix::sys::stat::{FileStat, Mode, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use crate::JobError;
use crate::fds::kept;

/// Between two looks at a lock that another process holds: first and longest.
const NAPS: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));
const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// The directory of this user's networks.
#[derive(Debug)]
pub(crate) struct Base {
    path: PathBuf,
    fd: OwnedFd,
}

/// Where this user's networks of this host are, unless `GGAS_RUNTIME_DIR` says otherwise. In memory, and the same from
/// every shell, session and container that shares it.
pub(crate) fn default_path() -> PathBuf {
    let user = geteuid();
    let shared = Path::new("/dev/shm");
    let base = if shared.is_dir() { shared } else { Path::new("/tmp") };
    base.join(format!("ggas-{user}"))
}

impl Base {
    /// Opens it, making it if it is not there.
    pub(crate) fn open(path: &Path) -> Result<Base, JobError> {
        let refuse = |why: String, advice| JobError::Directory { path: path.into(), why, advice };
        if let Err(error) = DirBuilder::new().recursive(true).mode(0o700).create(path) {
            let advice = "name another directory with GGAS_RUNTIME_DIR";
            return Err(refuse(format!("it cannot be made ({error})"), advice));
        }
        let fd = open(path, DIRECTORY, Mode::empty()).map_err(|errno| match errno {
            Errno::EMFILE => JobError::no_files(),
            Errno::ELOOP | Errno::ENOTDIR => refuse(
                "it is a symbolic link, or no directory".into(),
                "remove it, or name another directory with GGAS_RUNTIME_DIR",
            ),
            errno => refuse(format!("it cannot be opened ({})", errno.desc()), "check its permissions"),
        })?;
        check_private(path, &fd)?;
        Ok(Base { path: path.into(), fd: kept(fd) })
    }

    /// Names of the networks.
    pub(crate) fn names(&self) -> Result<Vec<String>, JobError> {
        let dir = Dir::openat(&self.fd, ".", DIRECTORY, Mode::empty());
        let mut dir = dir.map_err(|errno| JobError::system("list the networks")(errno.into()))?;
        let names =
            dir.iter().flatten().filter_map(|entry| Some(entry.file_name().to_str().ok()?.to_owned()));
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort_unstable();
        Ok(names)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// That a directory belongs to this user alone.
fn check_private(path: &Path, fd: &OwnedFd) -> Result<FileStat, JobError> {
    let refuse = |why: String, advice| JobError::Directory { path: path.into(), why, advice };
    let stat = fstat(fd).map_err(|errno| refuse(errno.desc().into(), "try again"))?;
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
    Ok(stat)
}

/// A network's directory.
#[derive(Debug)]
pub(crate) struct Directory {
    base: Arc<Base>,
    name: String,
    fd: OwnedFd,
}

/// The lock on a network's directory, which is still where its name leads.
pub(crate) struct Locked<'a> {
    directory: &'a Directory,
    _lock: Flock<OwnedFd>,
}

impl Directory {
    /// Opens the directory of network `name`; `make`: where it is not there, makes it.
    pub(crate) fn open(base: &Arc<Base>, name: &str, make: bool) -> Result<Option<Directory>, JobError> {
        let path = base.path.join(name);
        let refuse = |why: String, advice| JobError::Directory { path: path.clone(), why, advice };
        loop {
            match openat(&base.fd, name, DIRECTORY, Mode::empty()) {
                Ok(fd) => {
                    check_private(&path, &fd)?;
                    return Ok(Some(Directory { base: base.clone(), name: name.into(), fd: kept(fd) }));
                }
                Err(Errno::ENOENT) if make => match mkdirat(&base.fd, name, Mode::S_IRWXU) {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(errno) => {
                        let advice = "make room there, or name another directory with GGAS_RUNTIME_DIR";
                        return Err(refuse(format!("it cannot be made ({})", errno.desc()), advice));
                    }
                },
                Err(Errno::ENOENT) => return Ok(None),
                Err(Errno::ELOOP | Errno::ENOTDIR) => {
                    let advice = "remove what is there, or choose another name for the network";
                    return Err(refuse("it is no directory of a network".into(), advice));
                }
                Err(Errno::EMFILE) => return Err(JobError::no_files()),
                Err(errno) => {
                    return Err(refuse(
                        format!("it cannot be opened ({})", errno.desc()),
                        "check its permissions",
                    ));
                }
            }
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.base.path.join(&self.name)
    }

    /// A short path to `file` that means this very directory (a socket's path has at most 107 bytes).
    pub(crate) fn address(&self, file: &str) -> nix::Result<UnixAddr> {
        UnixAddr::new(format!("/proc/self/fd/{}/{file}", self.fd.as_raw_fd()).as_str())
    }

    pub(crate) fn remove(&self, file: &str) {
        // Whoever removed it before us did the same work.
        let _ = self.try_remove(file);
    }

    fn try_remove(&self, file: &str) -> nix::Result<()> {
        unlinkat(&self.fd, file, UnlinkatFlags::NoRemoveDir)
    }

    /// Locks it by `deadline`; `None` where it has been cleared away meanwhile.
    pub(crate) fn lock(&self, deadline: Instant) -> Result<Option<Locked<'_>>, JobError> {
        let system = |errno: Errno| JobError::system("lock the network's directory")(errno.into());
        // An open file of its own: a lock belongs to one.
        let mut fd = match openat(&self.fd, ".", DIRECTORY, Mode::empty()) {
            Err(Errno::ENOENT) => return Ok(None),
            other => other.map_err(system)?,
        };
        let mut nap = NAPS.0;
        loop {
            match Flock::lock(fd, FlockArg::LockExclusiveNonblock) {
                Ok(lock) if self.is_in_place().map_err(system)? => {
                    return Ok(Some(Locked { directory: self, _lock: lock }));
                }
                Ok(_) => return Ok(None),
                Err((_, Errno::EWOULDBLOCK)) if Clock::REAL.now() >= deadline => {
                    return Err(JobError::Busy { path: self.path() });
                }
                Err((unlocked, Errno::EWOULDBLOCK)) => fd = unlocked,
                Err((_, errno)) => return Err(system(errno)),
            }
            Clock::REAL.sleep(nap);
            nap = (nap * 2).min(NAPS.1);
        }
    }

    /// Whether its name still leads to it.
    fn is_in_place(&self) -> nix::Result<bool> {
        let ours = fstat(&self.fd)?;
        match fstatat(&self.base.fd, self.name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(named) => Ok((named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino)),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => Err(errno),
        }
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Locked<'_> {
    pub(crate) fn directory(&self) -> &Directory {
        self.directory
    }

    /// Clears the network away: nobody is in it.
    ///
    /// # Errors
    /// Its table cannot be removed.
    pub(crate) fn clear(self) -> Result<(), JobError> {
        let Directory { name, .. } = self.directory;
        self.empty().map_err(|errno| JobError::Directory {
            path: self.directory.path(),
            why: format!("what ended programs have left there cannot be removed ({})", errno.desc()),
            advice: "remove it, or choose another name for the network",
        })?;
        self.unlink().unwrap_or_else(|errno| tracing::warn!("{name} cannot be removed: {}", errno.desc()));
        Ok(())
    }

    /// Removes what members and transports leave there, and nothing else, whatever directory somebody names as the
    /// one of networks. The table goes last: a directory without one never holds what another network left.
    pub(crate) fn empty(&self) -> nix::Result<()> {
        let mut dir = Dir::openat(&self.directory.fd, ".", DIRECTORY, Mode::empty())?;
        let names =
            dir.iter().flatten().filter_map(|entry| Some(entry.file_name().to_str().ok()?.to_owned()));
        let names: Vec<String> = names.filter(|name| is_ours(name) && name != TABLE).collect();
        names.iter().for_each(|file| self.directory.remove(file));
        match self.directory.try_remove(TABLE) {
            Err(Errno::ENOENT) => Ok(()),
            other => other,
        }
    }

    /// Removes the directory, if nothing is in it.
    pub(crate) fn unlink(&self) -> nix::Result<()> {
        unlinkat(&self.directory.base.fd, self.directory.name.as_str(), UnlinkatFlags::RemoveDir)
    }
}

/// File of the table of a network's members.
pub(crate) const TABLE: &str = "members";
/// File of what transports keep of the network as a whole.
pub(crate) const WHOLE: &str = "whole";

/// Whether a file of this name is one of a network's: `members`, `whole`, `node.3`, `socket.7`, `said.7.key.mine`, or one of
/// them on its way (`node.3.4711.0`).
fn is_ours(name: &str) -> bool {
    let (kind, rest) = name.split_once('.').unwrap_or((name, ""));
    let is_numbers = |rest: &str| rest.split('.').all(|part| part.parse::<u64>().is_ok());
    match kind {
        "members" | "whole" => rest.is_empty() || is_numbers(rest),
        "node" => is_numbers(rest),
        "socket" => rest == "keeper" || is_numbers(rest),
        "said" => rest.split_once('.').is_some_and(|(slot, key)| is_numbers(slot) && !key.is_empty()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_ours;

    #[test]
    fn only_files_of_networks_are_removed() {
        let ours = [
            "members",
            "members.12.0",
            "whole",
            "whole.12.0",
            "node.3",
            "node.3.12.0",
            "socket.0",
            "socket.keeper",
            "said.7.odd",
        ];
        assert_eq!(ours.into_iter().find(|name| !is_ours(name)), None);
        let foreign =
            ["", ".", "..", "members.txt", "node", "node.js", "socket.x", "said.7", "said.x.y", "thesis.tex"];
        assert_eq!(foreign.into_iter().find(|name| is_ours(name)), None);
    }
}
