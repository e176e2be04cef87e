//! What can go wrong when a job is started and held together, and what to do about it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};

use crate::memory::SegmentError;
use crate::ranks::ranks;
use crate::shape::ShapeError;

/// Errors of joining a job and of what its processes do together.
#[derive(thiserror::Error)]
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
    /// The number of processes, or another part of the job's shape, is invalid.
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
    /// This process has already joined as a rank.
    #[error("this process has joined its job already: join once, and hand the Job on")]
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
    /// Another process has held the lock of a network's directory beyond the time limit.
    #[error(
        "{} is held by a process that is stopped or stuck in the middle of joining: end it (fuser {})",
        path.display(), path.display()
    )]
    Busy {
        /// The network's directory.
        path: PathBuf,
    },
    /// Another version of the library made the network.
    #[error(
        "network {name} was made by another version of ggas ({}, {} here), or is damaged. Programs of one network need the same: build ggas and \
         the programs from the same version; or end the programs that made it (remove {} if it stays); or name a network of its own \
         for this version with GGAS_NETWORK", of_version(*theirs), of_version(crate::table::VERSION), path.display()
    )]
    Version {
        /// The network.
        name: String,
        /// Its directory.
        path: PathBuf,
        /// The version in the network's table; 0: not readable.
        theirs: u32,
    },
    /// No room for a network's files.
    #[error(
        "no room for a network's files in {}: make room there, or name another directory with GGAS_RUNTIME_DIR",
        path.display()
    )]
    Full {
        /// The network's directory.
        path: PathBuf,
        /// Bytes that were wanted, where that is known.
        bytes: u64,
    },
    /// The network has another shape than is asked for.
    #[error(
        "network {name} is there with another shape: it is a {has}, and not a {asked}; choose another name, or take it \
         down first (`ggas net down`; ranks of a job have the same GGAS_SIZE and GGAS_PER_NODE)"
    )]
    OtherShape {
        /// The network.
        name: String,
        /// Its shape.
        has: String,
        /// What was asked for.
        asked: String,
    },
    /// There is no such network.
    #[error("there is no network {name} in {}: `ggas net list` says which there are", path.display())]
    NoNetwork {
        /// The name.
        name: String,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The name is no valid name of a network.
    #[error(
        "no network can be called `{name}`: use 1 to {most} letters, digits, dots, underscores and hyphens, the first \
         no dot"
    )]
    NetworkName {
        /// The name.
        name: String,
        /// Bytes of the longest one.
        most: usize,
    },
    /// The network has no such node.
    #[error(
        "network {network} has nodes 0 to {}, not {node}: set GGAS_NODE to one of them, or GGAS_NETWORK to a larger \
         network (`ggas net up NAME --torus 4x4x4`)", nodes.saturating_sub(1)
    )]
    NoSuchNode {
        /// The network.
        network: String,
        /// The node asked for.
        node: u16,
        /// Its nodes.
        nodes: u32,
    },
    /// The network has no room for another member.
    #[error(
        "network {network} is full: it has room for {members} processes at a time; \
         `ggas net up --members` makes one with more"
    )]
    NetworkFull {
        /// The network.
        network: String,
        /// Its room.
        members: u32,
    },
    /// A process that lives has this rank.
    #[error("rank {rank} has joined already (process {pid}): give every process a GGAS_RANK of its own")]
    RankTaken {
        /// The rank.
        rank: u32,
        /// Who has it.
        pid: u32,
    },
    /// Some ranks did not join in time.
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
    /// A call that only ranks of a job make.
    #[error(
        "this process is in a network of no job: barrier and exchange are for ranks; start them with `ggas run`"
    )]
    NoJob,
    /// A rank ended before all had joined.
    #[error("rank {rank} {how} before all had joined: the job cannot begin without it")]
    Gone {
        /// Who.
        rank: u32,
        /// What became of it.
        how: String,
    },
    /// Rank 0 does not let this rank take part, or the ranks of several hosts cannot be one job.
    #[error("this rank cannot take part in its job: {why}")]
    Refused {
        /// What rank 0 said.
        why: String,
    },
    /// PMIx, under which the process was started, fails.
    #[error(transparent)]
    Pmix(#[from] ggas_pmix::PmixError),
    /// Rank 0 is not reached.
    #[error(
        "rank 0 is not met at {place} in {waited:?} ({source}): see whether it runs, whether this host reaches that place, and \
         whether firewalls let TCP through to that port"
    )]
    Unmet {
        /// Where it is met.
        place: String,
        /// How long it was tried, at most.
        waited: Duration,
        /// What happened last.
        source: io::Error,
    },
    /// Rank 0 cannot listen where others are to meet it.
    #[error(
        "rank 0 is to be met at {place}, where it cannot listen: {source}; choose another port (GGAS_MEET)"
    )]
    Listen {
        /// Where.
        place: String,
        /// What the system said.
        source: io::Error,
    },
    /// Between hosts there are no file descriptors, mappings, nor messages of members.
    #[error(
        "rank {rank} is on another host ({host}): file descriptors and shared memory do not reach there; use exchange, puts \
         and gets"
    )]
    OtherHost {
        /// The rank.
        rank: u32,
        /// Its host.
        host: String,
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
    /// This process has as many files open as it may.
    #[error(
        "this process may have {limit} files open, and has: raise that (`ulimit -n`, RLIMIT_NOFILE), or close some"
    )]
    Files {
        /// The soft limit.
        limit: u64,
    },
    /// There is not enough memory for the part of this process's memory that peers copy from.
    #[error(
        "no room for shared address space ({source}): raise `ulimit -v` (RLIMIT_AS) and `ulimit -f` (RLIMIT_FSIZE), \
         both `unlimited` if possible"
    )]
    Memory {
        /// The refusal.
        source: io::Error,
    },
    /// Memory shared with other processes has invalid contents.
    #[error("the job's shared memory: {0}")]
    Segment(#[from] SegmentError),
    /// A peer died or left.
    #[error("rank {rank} is gone: it ended, was killed, or left the job; go on without it or end")]
    PeerLost {
        /// The peer.
        rank: u32,
    },
    /// Peers did not make the call in time.
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
    /// More bytes than a letter carries.
    #[error("{len} bytes are too many for one letter: at most {most}, send them in parts")]
    LongLetter {
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

ggas_errors::debug_as_display!(JobError);

impl JobError {
    pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> JobError {
        move |source| match source.raw_os_error() {
            Some(libc::EMFILE) => JobError::no_files(),
            Some(libc::ENOMEM) => JobError::Memory { source },
            _ => JobError::System { what, source },
        }
    }

    pub(crate) fn no_files() -> JobError {
        JobError::Files { limit: getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft) }
    }
}

/// A version of networks, for people.
fn of_version(version: u32) -> String {
    if version == 0 { "one that cannot be told".to_owned() } else { format!("networks of version {version}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_that_returns_an_error_shows_its_text() {
        let error =
            JobError::Setting { name: "GGAS_RANK", value: "x".into(), advice: "write a number".into() };
        let returned: Box<dyn std::error::Error> = Box::new(error);
        assert_eq!(format!("{returned:?}"), "GGAS_RANK=x: write a number");
    }
}
