//! The inbox: where a process gets packets from the others.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::segment::{self, Mapping};
use super::shape::Shape;

/// Shared memory of one process: its doorbell, and rings for every sender.
pub struct Inbox {
    fd: OwnedFd,
    #[allow(dead_code, reason = "read by the fabric")]
    pub(super) map: Mapping,
}

impl Inbox {
    /// An empty inbox for a process of such a job.
    ///
    /// # Errors
    /// No memory, or no file descriptor.
    pub fn create(_shape: Shape) -> io::Result<Inbox> {
        let len = segment::PAGE as u64;
        let fd = segment::create(c"extoll-inbox", len)?;
        let map = Mapping::whole(&fd, "an inbox", len).map_err(io::Error::other)?;
        Ok(Inbox { fd, map })
    }

    /// The memfd, to hand to peers.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
