//! Steps of a collective set-up: all processes of a job succeed, or all fail.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ggas_clock::Clock;

use ggas_members::Job;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::WindowError;

/// Longest reason that is passed on to the others.
const REASON_MAX: usize = 1000;

/// Steps that all processes of a job take together, in the same order, to set something up: either all succeed, or
/// all fail and know why. Nobody waits much longer than the time given.
pub struct Setup<'a> {
    job: &'a Job,
    deadline: Instant,
    timeout: Duration,
}

impl<'a> Setup<'a> {
    /// Steps that take `timeout` together.
    pub fn new(job: &'a Job, timeout: Duration) -> Setup<'a> {
        Setup { job, deadline: Clock::REAL.deadline(timeout), timeout }
    }

    pub(crate) fn job(&self) -> &'a Job {
        self.job
    }

    /// Tells the descriptors of one set-up from those of others; rank 0's counts.
    pub(crate) fn next_tag(&self) -> u64 {
        static TAGS: AtomicU64 = AtomicU64::new(1);
        TAGS.fetch_add(1, Ordering::Relaxed)
    }

    /// Rank of this process.
    pub fn rank(&self) -> usize {
        self.job.rank() as usize
    }

    /// Time for the next step. Who used it all up still gives the others a moment, so that all fail alike.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Clock::REAL.now()).max(self.timeout / 8)
    }

    /// Everyone's value, by rank.
    ///
    /// # Errors
    /// [`WindowError::Job`] where a process does not come or died; [`WindowError::Peer`] for one of another version.
    pub fn exchange<Mine: Serialize, T: DeserializeOwned>(&self, mine: &Mine) -> Result<Vec<T>, WindowError> {
        let failed = |rank: usize, error: postcard::Error| WindowError::Peer {
            rank,
            what: format!("what it sent is no message of this version ({error}): build all processes alike"),
        };
        let bytes = postcard::to_stdvec(mine).map_err(|error| failed(self.rank(), error))?;
        let all = self.job.exchange(&bytes, self.left())?;
        let value = |(rank, bytes): (usize, &Vec<u8>)| {
            postcard::from_bytes(bytes).map_err(|error| failed(rank, error))
        };
        all.iter().enumerate().map(value).collect()
    }

    /// Succeeds if all did; otherwise all fail.
    ///
    /// # Errors
    /// `mine`, or [`WindowError::Peer`] with the reason of the first that failed; those of
    /// [`exchange`](Self::exchange).
    pub fn agree<T, E: Display + From<WindowError>>(&self, mine: Result<T, E>) -> Result<T, E> {
        let reason =
            mine.as_ref().err().map(|error| error.to_string().chars().take(REASON_MAX).collect::<String>());
        let all: Result<Vec<Option<String>>, _> = self.exchange(&reason);
        let mine = mine?;
        match all?.into_iter().enumerate().find_map(|(rank, reason)| Some((rank, reason?))) {
            Some((rank, what)) => Err(WindowError::Peer { rank, what }.into()),
            None => Ok(mine),
        }
    }
}
