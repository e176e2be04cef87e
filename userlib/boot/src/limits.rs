//! Limits of this process that decide whether a job fits.

use std::fs::read_dir;

use nix::sys::resource::{Resource, getrlimit};

use crate::JobError;
use crate::hub::STRANGERS;
use crate::protocol::PEER_FDS;

/// Descriptors that a member has of its own, with some to spare for the program.
const OWN: u64 = 32;

/// Whether the descriptors of all peers fit; `hosting` those that rank 0 holds while it sets the job up.
pub(crate) fn check_descriptors(size: u32, hosting: bool) -> Result<(), JobError> {
    let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE)
        .map_err(|errno| JobError::System { what: "read the limit of open files", source: errno.into() })?;
    // The program's own; a directory that cannot be read tells nothing.
    let open = read_dir("/proc/self/fd").map_or(0, |list| list.count() as u64);
    let mut needed = open + OWN + u64::from(size) * PEER_FDS as u64;
    if hosting {
        // The members' once more, and connections: whoever else connects must not use up what members need.
        needed += u64::from(size) * (PEER_FDS as u64 + 1) + STRANGERS as u64;
    }
    if needed > limit { Err(JobError::Descriptors { size, needed, limit }) } else { Ok(()) }
}
