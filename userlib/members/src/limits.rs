//! Limits of this process that decide whether a job fits.

use std::fs::read_dir;

use nix::sys::resource::{Resource, getrlimit};

use crate::JobError;

/// Descriptors that a member has of its own, with some to spare for the program.
const OWN: u64 = 32;
/// Of each other member that it has to do with: connection, process, and two of the transport.
const PEER_FDS: u64 = 4;

/// Whether the descriptors of all peers fit.
pub(crate) fn check_descriptors(size: u32) -> Result<(), JobError> {
    let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE)
        .map_err(|errno| JobError::System { what: "read the limit of open files", source: errno.into() })?;
    // The program's own; a directory that cannot be read tells nothing.
    let open = read_dir("/proc/self/fd").map_or(0, |list| list.count() as u64);
    let needed = open + OWN + u64::from(size) * PEER_FDS;
    if needed > limit { Err(JobError::Descriptors { size, needed, limit }) } else { Ok(()) }
}
