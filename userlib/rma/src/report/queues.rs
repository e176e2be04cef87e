//! What waits and calls of queues (`ggas/queue.cuh`) report, in words.

use std::fmt::{self, Display};

use extoll_abi::Notification;
use extoll_abi::layout;

use super::KernelReport;

impl KernelReport {
    /// Whether a queue wrote it: it speaks of members, not of nodes.
    pub fn is_of_queues(&self) -> bool {
        ggas_kernels::QueueWait::is_one(self.wait)
    }

    pub(super) fn of_queues(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, block, thread, line, .. } = self;
        write!(f, "member {node} block {block} thread {thread}: ")?;
        match self.status {
            layout::GGAS_ERR_ARGUMENT => self.refused_by_queue(f),
            layout::GGAS_ERR_LOST => write!(
                f,
                "the process at the other end is gone: that of member {} (line {line}); open new queues without it",
                self.peer.unwrap_or(u32::MAX)
            ),
            layout::GGAS_ERR_NOTIFICATION => self.met_an_error(f),
            layout::GGAS_ERR_TIMEOUT => {
                write!(f, "waited {:?} for ", self.waited)?;
                self.waited_for(f)?;
                self.not_started(f)?;
                match self.port {
                    Some(port) if !port.armed => f.write_str(
                        "; the ports of its queues were not armed: if the network device is to carry anything, call \
                         Queues::arm before the launch, and keep what it returns until the kernels have ended",
                    ),
                    _ => Ok(()),
                }
            }
            status => {
                write!(f, "error {status} at a wait for {} (line {line})", ggas_kernels::wait_name(self.wait))
            }
        }
    }

    /// What a wait was for, and what it saw.
    fn waited_for(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wait, peer, address, expected, seen, line, .. } = *self;
        ggas_kernels::QueueWait { wait, peer, address, expected, seen, line }.fmt(f)
    }

    /// An operation ended with an error, which a notification tells: `seen` is its word with the header.
    fn met_an_error(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address: queue, seen, line, .. } = self;
        write!(
            f,
            "an operation of queue {queue}, or of one that shares its port, met an error (line {line}): "
        )?;
        match (Notification { word0: 0, word1: *seen }).header() {
            Ok(told) => {
                write!(
                    f,
                    "{} notification of {} with {}, error in {}",
                    told.kind, told.command, told.remote, told.error
                )?;
            }
            Err(_) => write!(f, "notification {seen:#x}")?,
        }
        f.write_str("; all waits of that port's queues fail from now on: open new queues")
    }

    /// What a queue cannot do: [`address`](Self::address) says which argument is meant.
    fn refused_by_queue(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, expected, seen, line, .. } = self;
        let member = self.peer.unwrap_or(u32::MAX);
        match *address as u32 {
            layout::GGAS_QUEUE_REFUSED_QUEUE => {
                write!(f, "there is no queue {seen} (line {line}): there are {expected}, numbered from 0")
            }
            layout::GGAS_QUEUE_REFUSED_NO_QUEUE => {
                write!(f, "no queue was named (line {line}): the mask is 0")
            }
            layout::GGAS_QUEUE_REFUSED_MEMBER => {
                write!(f, "there is no member {seen} (line {line}): there are {expected}, numbered from 0")
            }
            layout::GGAS_QUEUE_REFUSED_FLAG => write!(
                f,
                "there is no flag {seen} (line {line}): there are {expected}; ask for more (QueuesConfig::flags)"
            ),
            layout::GGAS_QUEUE_REFUSED_NO_FLAG => {
                write!(f, "no flag was named (line {line}): the count is 0")
            }
            layout::GGAS_QUEUE_REFUSED_WAY => write!(
                f,
                "no way leads to the memory of member {member} (line {line}): open the queues with ports, and share with them \
                 what the network device is to carry, not by Way::Stores"
            ),
            layout::GGAS_QUEUE_REFUSED_OWN => write!(
                f,
                "the memory of member {seen} was given (line {line}) where that of member {expected}, whose kernel this is, \
                 is read or written: exchange the two"
            ),
            layout::GGAS_QUEUE_REFUSED_REMOTE if *seen >= layout::GGAS_QUEUES.into() => write!(
                f,
                "this memory was made for a queue of other queues than those of queue {expected}, which it was used with (line {line}): \
                 make one ggas_remote for each queue, of memory that its queues share"
            ),
            layout::GGAS_QUEUE_REFUSED_REMOTE => write!(
                f,
                "this memory was made for queue {seen} and used with queue {expected} (line {line}): make one ggas_remote \
                 for each queue"
            ),
            _ => write!(
                f,
                "{seen} bytes at offset {} do not lie in member {member}'s {expected} (line {line})",
                self.waited.as_nanos()
            ),
        }
    }
}
