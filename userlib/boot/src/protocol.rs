//! Messages of job start. Every member says [`Hello`] to the host (the launcher, or rank 0's process) and gets
//! [`FromHost`] messages: where the job segment is and how to reach each peer, or why there is no job.
//!
//! A message is `GGAS`, a version of 16 bits, and a postcard body; descriptors travel with it. The version comes
//! before anything whose layout could change.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ranks::ranks;

pub(crate) const MAGIC: [u8; 4] = *b"GGAS";
/// Counted up with every change to a message, and to the shared memory that the messages hand over.
pub(crate) const VERSION: u16 = 1;
/// Longest message. The longest sensible one lists all ranks of a job.
pub(crate) const MAX_MESSAGE: usize = 8192;
/// Descriptors of one peer: pidfd, inbox, arena, sending end of the mailbox.
pub(crate) const PEER_FDS: usize = 4;
/// Peers in one message: the kernel carries 253 descriptors in one (SCM_MAX_FD).
pub(crate) const PEERS_PER_MESSAGE: usize = 60;

/// A process wants to be a rank. Comes with [`PEER_FDS`] descriptors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) per_node: u32,
}

/// What the host says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FromHost {
    /// The job begins. Comes with the job segment, and with the host's pidfd if members shall not outlive it.
    Start { name: String, guarded: bool },
    /// Peers, with [`PEER_FDS`] descriptors each, in this order.
    Peers(Vec<u32>),
    /// There is no job for this process.
    Refused(Refusal),
}

/// Why the host of a job has no place for a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The two sides were built from different versions of the library.
    #[error(
        "job start speaks version {ours} here, this process sent version {theirs}: build all programs of a job with the same ggas"
    )]
    Version {
        /// The host's.
        ours: u16,
        /// The member's.
        theirs: u16,
    },
    /// No message of job start.
    #[error("what this process sent is no message of job start: {what}")]
    Malformed {
        /// What is wrong with it.
        what: String,
    },
    /// Sizes differ.
    #[error(
        "this process says that the job has {its_size} processes, {its_per_node} on each node, and the job was started \
         with {size}, {per_node} on each: give all processes the same GGAS_SIZE and GGAS_PER_NODE"
    )]
    Shape {
        /// Processes of the job.
        size: u32,
        /// On each node.
        per_node: u32,
        /// What the process says.
        its_size: u32,
        /// What the process says.
        its_per_node: u32,
    },
    /// No such rank.
    #[error("there is no rank {rank} in a job of {size} processes: ranks count from 0")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// Processes of the job.
        size: u32,
    },
    /// A rank given twice.
    #[error("rank {rank} has joined already: give every process a GGAS_RANK of its own")]
    RankTaken {
        /// The rank.
        rank: u32,
    },
    /// The launcher started this process as another rank.
    #[error(
        "the launcher started this process as rank {started_as}, it says rank {says}: leave GGAS_RANK as it is"
    )]
    OtherRank {
        /// What the launcher set.
        started_as: u32,
        /// What the process says.
        says: u32,
    },
    /// Some never came.
    #[error(
        "{} did not join in {waited:?}: see why, or give them more time with GGAS_JOIN_TIMEOUT (seconds)",
        ranks(ranks_missing)
    )]
    Missing {
        /// Who.
        ranks_missing: Vec<u32>,
        /// How long they were waited for.
        waited: Duration,
    },
    /// One ended before all had joined.
    #[error("rank {rank} {how}: the job cannot begin without it")]
    Gone {
        /// Who.
        rank: u32,
        /// What became of it.
        how: String,
    },
    /// The host itself failed.
    #[error("the process that sets the job up failed: {what}")]
    Host {
        /// Why.
        what: String,
    },
}
