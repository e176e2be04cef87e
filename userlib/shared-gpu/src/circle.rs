//! Ranks of a job that share a GPU, or lead those that do: all ranks of the job set theirs up at once, and fail together.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ggas_clock::Clock;
use ggas_members::Job;

use crate::SharedGpuError;

/// Longest reason that is passed on.
const REASON_MAX: usize = 500;

/// Some ranks of a job, numbered anew from 0.
#[derive(Clone)]
pub(crate) struct Circle<'a> {
    job: &'a Job,
    /// As the job numbers them, in that order.
    members: Vec<u32>,
    /// `None`: this rank is none of them, and takes part in what all ranks of the job do only.
    rank: Option<usize>,
    deadline: Instant,
    timeout: Duration,
}

impl<'a> Circle<'a> {
    /// All ranks. Their set-up has so long.
    pub(crate) fn all(job: &'a Job, timeout: Duration) -> Circle<'a> {
        Circle::of(job, (0..job.size()).collect(), timeout)
    }

    /// These.
    pub(crate) fn of(job: &'a Job, members: Vec<u32>, timeout: Duration) -> Circle<'a> {
        let rank = members.iter().position(|member| *member == job.rank());
        Circle { job, members, rank, deadline: Clock::REAL.deadline(timeout), timeout }
    }

    pub(crate) fn job(&self) -> &'a Job {
        self.job
    }

    pub(crate) fn members(&self) -> &[u32] {
        &self.members
    }

    pub(crate) fn ranks(&self) -> usize {
        self.members.len()
    }

    /// This one's.
    pub(crate) fn rank(&self) -> Option<usize> {
        self.rank
    }

    /// Time for the next step; who used all of it up still gives the others a moment, so that all fail alike.
    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Clock::REAL.now()).max(self.timeout / 8)
    }

    /// What each member says, of which all ranks of the job say something.
    pub(crate) fn exchange(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, SharedGpuError> {
        let all = self.job.exchange(mine, self.left())?;
        Ok(self.members.iter().filter_map(|member| all.get(*member as usize).cloned()).collect())
    }

    /// Descriptors of member 0, to all others.
    pub(crate) fn send(&self, tag: u64, fds: &[BorrowedFd<'_>]) -> Result<(), SharedGpuError> {
        let others = self.members.iter().skip(1);
        Ok(others.into_iter().try_for_each(|rank| self.job.send_fds(*rank, tag, fds, self.left()))?)
    }

    /// Those.
    pub(crate) fn receive(&self, tag: u64) -> Result<Vec<OwnedFd>, SharedGpuError> {
        Ok(self.job.recv_fds(self.members[0], tag, self.left())?)
    }

    /// Succeeds if all ranks of the job did.
    pub(crate) fn agree<T>(&self, mine: Result<T, SharedGpuError>) -> Result<T, SharedGpuError> {
        let reason = mine.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let reason: String = reason.chars().take(REASON_MAX).collect();
        let all = self.job.exchange(reason.as_bytes(), self.left());
        let mine = mine?;
        match all?.iter().enumerate().find(|(_, said)| !said.is_empty()) {
            Some((rank, said)) => {
                Err(SharedGpuError::Peer { rank, what: String::from_utf8_lossy(said).into_owned() })
            }
            None => Ok(mine),
        }
    }
}
