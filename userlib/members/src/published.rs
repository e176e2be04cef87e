//! Bytes that members publish for all members: small files in the network's directory, replaced atomically.

use std::io::Read;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;

use crate::JobError;
use crate::memory::check_file_size;
use crate::network::Network;

fn name(slot: u32, key: &str) -> String {
    format!("said.{slot}.{key}")
}

/// Publishes `bytes` under a key of this member's slot.
pub(crate) fn write(network: &Network, slot: u32, key: &str, bytes: &[u8]) -> Result<(), JobError> {
    let directory = &network.directory;
    let failed = |errno: Errno| match errno {
        Errno::ENOSPC | Errno::EDQUOT => JobError::Full { path: directory.path(), bytes: bytes.len() as u64 },
        errno => JobError::system("publish in the network's directory")(errno.into()),
    };
    check_file_size(bytes.len() as u64).map_err(JobError::system("publish in the network's directory"))?;
    let (last, next) = (name(slot, key), name(slot, &format!("{key}.next")));
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let fd = openat(directory.as_fd(), next.as_str(), flags, mode).map_err(failed)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        match nix::unistd::write(&fd, rest) {
            Ok(n) => rest = &rest[n..],
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    renameat(directory.as_fd(), next.as_str(), directory.as_fd(), last.as_str()).map_err(failed)
}

/// What a slot's member published under a key, at most `most` bytes; `None`: nothing.
pub(crate) fn read(
    network: &Network,
    slot: u32,
    key: &str,
    most: usize,
) -> Result<Option<Vec<u8>>, JobError> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let failed = JobError::system("read what a member published");
    let fd = match openat(network.directory.as_fd(), name(slot, key).as_str(), flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::ENOENT | Errno::ELOOP) => return Ok(None),
        Err(errno) => return Err(failed(errno.into())),
    };
    let mut bytes = Vec::new();
    std::fs::File::from(fd).take(most as u64).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(bytes))
}
