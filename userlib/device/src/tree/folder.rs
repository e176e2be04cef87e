//! Putting the tree into a folder.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, readlinkat, renameat};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{UnlinkatFlags, geteuid, symlinkat, unlinkat};

use super::{File, PREFIX};

/// A link to the folder itself: whether the variable names the folder of the files or the one above it is not told,
/// so both ways lead to them.
const SELF: &str = "extoll_rf";
/// What names of files begin with while they are written.
const NEW: &str = ".extoll_rf_";

/// Why a tree was not written.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// What is there is no folder, or a link, which is not followed.
    #[error("{} is a link, or no folder: name a folder of yours, or one that is not there yet", .path.display())]
    NoFolder {
        /// Where the tree was to be.
        path: PathBuf,
    },
    /// The folder is somebody else's.
    #[error(
        "{} belongs to user {owner}: name a folder of yours, or one that is not there yet", .path.display()
    )]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// Its owner's user id.
        owner: u32,
    },
    /// The folder holds something else.
    #[error(
        "{} holds {entry}, which is no part of a register tree: name an empty folder, or one that is not there yet",
        .path.display()
    )]
    NotEmpty {
        /// The folder.
        path: PathBuf,
        /// What is there.
        entry: String,
    },
    /// The operating system refused.
    #[error("cannot write {}: {source}", .path.display())]
    Refused {
        /// What was to be written.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

ggas_errors::debug_as_display!(TreeError);

/// Writes the files into `folder`, which is made if it is not there. Whoever reads meanwhile finds each file as it was
/// or as it is now, never a part of it.
///
/// # Errors
/// [`TreeError`]. A folder that is a link, belongs to somebody else, or holds anything but a tree of before, is left
/// as it is.
pub fn write(files: &[File], folder: &Path) -> Result<(), TreeError> {
    // Without a slash at the end, which would have a link followed.
    let path: PathBuf = folder.components().collect();
    let refused = |source| TreeError::Refused { path: path.clone(), source };
    match fs::create_dir(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(refused(error)),
        _ => {}
    }
    let folder = open_folder(&path)?;
    inspect(&folder, &path)?;
    for file in files {
        replace(&folder, file)
            .map_err(|source| TreeError::Refused { path: path.join(&file.name), source })?;
    }
    match symlinkat(".", &folder, SELF) {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(TreeError::Refused { path: path.join(SELF), source: errno.into() }),
    }
}

fn open_folder(path: &Path) -> Result<OwnedFd, TreeError> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let path = path.to_owned();
    let folder = open(&path, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::ENOTDIR | Errno::ELOOP => TreeError::NoFolder { path: path.clone() },
        errno => TreeError::Refused { path: path.clone(), source: errno.into() },
    })?;
    let owner =
        fstat(&folder).map_err(|e| TreeError::Refused { path: path.clone(), source: e.into() })?.st_uid;
    if owner != geteuid().as_raw() {
        return Err(TreeError::NotOurs { path, owner });
    }
    Ok(folder)
}

/// Whether there is nothing in the folder but a tree.
fn inspect(folder: &OwnedFd, path: &Path) -> Result<(), TreeError> {
    let refused = |source| TreeError::Refused { path: path.to_owned(), source };
    // The folder that is open, whatever has its name by now.
    let entries = fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd())).map_err(refused)?;
    for entry in entries {
        let entry = entry.map_err(refused)?;
        let (name, is_file) = (entry.file_name(), entry.file_type().map_err(refused)?.is_file());
        let ours = match name.as_bytes() {
            bytes if bytes == SELF.as_bytes() => {
                readlinkat(folder, SELF).is_ok_and(|target| target == OsStr::new("."))
            }
            bytes => is_file && (bytes.starts_with(PREFIX.as_bytes()) || bytes.starts_with(NEW.as_bytes())),
        };
        if !ours {
            let entry = name.to_string_lossy().into_owned();
            return Err(TreeError::NotEmpty { path: path.to_owned(), entry });
        }
    }
    Ok(())
}

/// Writes a file beside its place, and puts it there at once.
fn replace(folder: &OwnedFd, file: &File) -> io::Result<()> {
    /// Writers in this process differ in it.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let new = format!("{NEW}{}.{count}", std::process::id());
    let fill = || {
        create(folder, &new)?.write_all(file.text.as_bytes())?;
        renameat(folder, new.as_str(), folder, file.name.as_str()).map_err(io::Error::from)
    };
    fill().inspect_err(|_| {
        let _ = unlinkat(folder, new.as_str(), UnlinkatFlags::NoRemoveDir);
    })
}

/// A file of our own, which clients only read: a register cannot be written there.
fn create(folder: impl AsFd, name: &str) -> io::Result<fs::File> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mode = Mode::S_IRUSR | Mode::S_IRGRP | Mode::S_IROTH;
    let create = || openat(&folder, name, flags, mode);
    let file = match create() {
        // What a process with our number left.
        Err(Errno::EEXIST) => {
            unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir)?;
            create()
        }
        result => result,
    };
    Ok(file?.into())
}
