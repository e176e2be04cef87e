//! This crate's words in the job segment, four of each process.

use std::sync::atomic::{AtomicU64, Ordering};

use extoll_sim::process::{JobSegment, PeerState};

/// What each process shows the others. All are written by the process itself, but for the sleepers.
pub(crate) struct Words<'a> {
    /// Collective calls that it has entered.
    pub(crate) entered: &'a AtomicU64,
    /// Processes asleep until that changes.
    pub(crate) sleepers: &'a AtomicU64,
    /// Where what it gave to exchanges lies: for odd and for even calls.
    pub(crate) given: [&'a AtomicU64; 2],
}

/// The words of a rank of the job.
pub(crate) fn of(job: &JobSegment, rank: u32) -> Words<'_> {
    static NOWHERE: AtomicU64 = AtomicU64::new(0);
    let word = |i| job.barrier_word(rank, i).unwrap_or(&NOWHERE);
    Words { entered: word(0), sleepers: word(1), given: [word(2), word(3)] }
}

/// Ranks that have not entered call `epoch`.
pub(crate) fn missing(job: &JobSegment, epoch: u64) -> impl Iterator<Item = u32> {
    (0..job.shape().processes()).filter(move |rank| of(job, *rank).entered.load(Ordering::Acquire) < epoch)
}

/// The first rank that has not entered call `epoch` and never will.
pub(crate) fn gone(job: &JobSegment, epoch: u64) -> Option<u32> {
    missing(job, epoch).find(|rank| {
        matches!(job.state(*rank), PeerState::Left | PeerState::Lost)
            // It may have entered, then left, since we looked.
            && of(job, *rank).entered.load(Ordering::Acquire) < epoch
    })
}
