//! What can go wrong when a job is started and held together, and what to do about it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use extoll_sim::process::{SegmentError, ShapeError};

use crate::protocol::Refusal;
use crate::ranks::ranks;

/// Errors of joining a job and of what its processes do together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// A variable of the environment has no sensible value.
    #[error("{name}={value}: {advice}")]
    Setting {
        /// Name of the variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What to write instead.
        advice: String,
    },
    /// Some variables of a job are there, others are not.
    #[error("{present} is set and {missing} is not: {advice}")]
    Incomplete {
        /// A variable that is set.
        present: &'static str,
        /// One that must be set with it.
        missing: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// So many processes do not make a job.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// More processes on a node than it has VPIDs.
    #[error(
        "{per_node} processes on a node are too many: a node has VPIDs for at most {most}; spread them over nodes"
    )]
    Crowded {
        /// Asked for.
        per_node: u32,
        /// The most.
        most: u32,
    },
    /// A process can be a rank of a job once.
    #[error(
        "this process has joined its job already: join once, and hand the Job on (a rank that has left cannot come \
         back)"
    )]
    JoinedAlready,
    /// Called in a child that a member made with fork.
    #[error(
        "process {child} is a fork of process {member}, which is the member of the job: only the member may use it. \
         Join after forking, or start programs with exec"
    )]
    Forked {
        /// The process that joined.
        member: u32,
        /// The caller.
        child: u32,
    },
    /// `GGAS_JOB_FD` does not lead to a launcher.
    #[error(
        "GGAS_JOB_FD={fd} is no connection to a launcher ({why}): a program between launcher and this one closed it \
         or joined in its place. Let inherited file descriptors pass, or unset GGAS_JOB_FD, GGAS_RANK and GGAS_SIZE"
    )]
    NoLauncher {
        /// The descriptor.
        fd: i32,
        /// What is wrong with it.
        why: String,
    },
    /// The directory for the rendezvous does not belong to this user alone.
    #[error("{} cannot be used to find the other processes: {why}; {advice}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
        /// What to change.
        advice: &'static str,
    },
    /// Another job of this name is being started.
    #[error(
        "another job named {name} is being started in {}: choose another GGAS_JOB, or wait until all processes of \
         that one have joined",
        directory.display()
    )]
    NameTaken {
        /// The name.
        name: String,
        /// Where.
        directory: PathBuf,
    },
    /// Rank 0 has not opened the job.
    #[error(
        "rank 0 of job {name} was not found in {} in {waited:?}: start it with the same GGAS_JOB and the same \
         GGAS_RUNTIME_DIR, on this host; GGAS_JOIN_TIMEOUT gives it more time",
        directory.display()
    )]
    NotOpened {
        /// The name.
        name: String,
        /// Where it was looked for.
        directory: PathBuf,
        /// How long.
        waited: Duration,
    },
    /// Whoever sets the job up refused this process, or gave up.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Whoever sets the job up is gone.
    #[error(
        "the process that sets the job up ({who}) went away before the job was complete: look at its own message"
    )]
    HostGone {
        /// Launcher, or rank 0.
        who: &'static str,
    },
    /// Whoever sets the job up does not answer.
    #[error(
        "the process that sets the job up ({who}) did not answer in {waited:?}: see whether it is stopped; \
         GGAS_JOIN_TIMEOUT gives it more time"
    )]
    HostSilent {
        /// Launcher, or rank 0.
        who: &'static str,
        /// How long was waited.
        waited: Duration,
    },
    /// What came over the connection is no message of ours.
    #[error("{who} sent something that is no message of job start ({what}): is it of the same version?")]
    Malformed {
        /// Who.
        who: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The limit of open files is too low for so many processes.
    #[error(
        "a job of {size} processes needs {needed} file descriptors in this process, its limit is {limit}: \
         `ulimit -n {needed}` before the start, or fewer processes"
    )]
    Descriptors {
        /// Processes of the job.
        size: u32,
        /// Needed, with those that are open now.
        needed: u64,
        /// The soft limit.
        limit: u64,
    },
    /// There is no room for the memory of this process that its peers reach.
    #[error(
        "no room for {bytes} bytes of shared address space ({source}): raise `ulimit -v` (RLIMIT_AS) and `ulimit -f` \
         (RLIMIT_FSIZE), both `unlimited` if possible"
    )]
    Memory {
        /// The least that was tried.
        bytes: u64,
        /// The last refusal.
        source: io::Error,
    },
    /// Memory shared with the others is not as it should be.
    #[error("the job's shared memory: {0}")]
    Segment(#[from] SegmentError),
    /// A peer died or left.
    #[error("rank {rank} is gone: it ended, was killed, or left the job; go on without it or end")]
    PeerLost {
        /// The peer.
        rank: u32,
    },
    /// Peers did not come in time.
    #[error(
        "{} did not come in {waited:?}: they are busy, stopped, or took another way; call again to go on waiting",
        ranks(waiting_for)
    )]
    Timeout {
        /// Who is missing.
        waiting_for: Vec<u32>,
        /// How long was waited.
        waited: Duration,
    },
    /// There is no such rank.
    #[error("there is no rank {rank} in a job of {size}")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// Processes of the job.
        size: u32,
    },
    /// More bytes than an exchange carries.
    #[error(
        "{len} bytes are too many for an exchange: at most {most} from each process; put the rest with RMA"
    )]
    TooLong {
        /// Bytes given.
        len: usize,
        /// The most.
        most: usize,
    },
    /// More descriptors than a message carries.
    #[error("{count} file descriptors are too many for one message: at most {most}, send them in parts")]
    TooManyDescriptors {
        /// Descriptors given.
        count: usize,
        /// The most.
        most: usize,
    },
    /// Peers are in different collective calls.
    #[error(
        "rank {rank} is in another call (barrier here, exchange there): all ranks make the same calls in order"
    )]
    Mismatch {
        /// The peer.
        rank: u32,
    },
    /// The system refused.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl JobError {
    pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> JobError {
        move |source| JobError::System { what, source }
    }
}
