//! What can go wrong.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ggas_gpu::GpuError;
use ggas_kernels::{ImageError, LaunchError, MemoryError};
use ggas_members::JobError;
use ggas_members::memory::SegmentError;
use ggas_rma::{PortError, PostError, RegionError};

use crate::station::Waiting;

/// Errors of ranks that share a GPU. After any error of a call the ranks cannot be used together any more: make a new
/// [`SharedGpu`](crate::SharedGpu). Vectors and results of other ranks are as they were, but for results that were complete.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SharedGpuError {
    /// Ranks of several hosts share no GPU, and have no network.
    #[error(
        "the ranks are on several hosts, which share no GPU: make a Hierarchy, with the node of the network that each process has"
    )]
    OtherHost,
    /// More ranks than words of the directory are made for.
    #[error("{ranks} ranks are too many for one GPU; use at most {most}")]
    TooMany {
        /// Asked for.
        ranks: usize,
        /// The most.
        most: usize,
    },
    /// Ranks gave different settings.
    #[error(
        "rank {rank} has {theirs} and the first rank beside it {ours}: give the same Config, and GPU, in all processes"
    )]
    Unequal {
        /// The first rank that differs from the first.
        rank: usize,
        /// What it has.
        theirs: String,
        /// What the first has.
        ours: String,
    },
    /// The buffer is too small for so many ranks.
    #[error("a shared buffer of {bytes} bytes is too small for {ranks} ranks; use at least {least}")]
    SmallBuffer {
        /// Asked for.
        bytes: usize,
        /// Ranks.
        ranks: usize,
        /// 256 bytes for each, and for the result; more for vectors from each to each.
        least: usize,
    },
    /// The buffer is larger than any memory.
    #[error("no memory has a shared buffer of {bytes} bytes; use at most {most}")]
    LargeBuffer {
        /// Asked for.
        bytes: usize,
        /// The most.
        most: usize,
    },
    /// Another rank could not be set up.
    #[error("rank {rank}: {what}")]
    Peer {
        /// Which.
        rank: usize,
        /// What it said.
        what: String,
    },
    /// A rank calls something else.
    #[error(
        "rank {rank} calls another collective, or one of another size, type, operation or root, than the ranks beside it"
    )]
    Mismatch {
        /// Which.
        rank: usize,
    },
    /// A rank was waited for in vain.
    #[error("rank {rank} did not do its part within {waited:?} (waited for: {what})")]
    Timeout {
        /// Which.
        rank: usize,
        /// What it should have done.
        what: &'static str,
        /// How long.
        waited: Duration,
    },
    /// Another rank waited for one in vain, or failed.
    #[error("the call failed at another rank: rank {rank} {how}")]
    Elsewhere {
        /// Which is to blame.
        rank: usize,
        /// In words.
        how: &'static str,
    },
    /// A rank died.
    #[error("rank {rank} died: start a new job")]
    PeerLost {
        /// Which.
        rank: u32,
    },
    /// A rank left the job, and this one waits for it.
    #[error(
        "rank {rank} left the job, and others wait for it: have all ranks make the same calls before one leaves; start a new job"
    )]
    PeerLeft {
        /// Which.
        rank: u32,
    },
    /// The daemon of MPS, or its server, ended while ranks used the GPU through it, at this rank or another.
    #[error(
        "MPS ended, by which rank {rank} used the GPU ({what}): start it by `nvidia-cuda-mps-control -d` if it does not run ({}), and a \
         new job",
        place(folder.as_deref())
    )]
    MpsEnded {
        /// Whose it was: this rank, or one that found it; as the job numbers them.
        rank: usize,
        /// Where its files are or were; `None`: it was another rank's.
        folder: Option<PathBuf>,
        /// What failed.
        what: String,
    },
    /// An earlier call failed.
    #[error("an earlier call failed: make a new SharedGpu or Hierarchy, in a Group by Group::reset_across")]
    Broken,
    /// No such rank.
    #[error(
        "root {root} is none of the {ranks} ranks that make the call: name one of them, by its number in the job"
    )]
    Root {
        /// Asked for.
        root: usize,
        /// Ranks that make the call.
        ranks: usize,
    },
    /// A vector that does not lie in its memory.
    #[error(
        "{count} elements at byte {offset} do not lie in {bytes} bytes of memory, or not at a multiple of their size"
    )]
    Range {
        /// First byte.
        offset: usize,
        /// Elements.
        count: usize,
        /// Of the memory.
        bytes: usize,
    },
    /// Input and result share bytes where the call does not say that they may.
    #[error(
        "{input} bytes of input and {output} bytes of the result share some: put them beside each other, or in the same place where the \
         call says so"
    )]
    Overlap {
        /// Bytes of the input.
        input: usize,
        /// Bytes of the result.
        output: usize,
    },
    /// States of copies are in the host's memory only.
    #[error("static, dynamic and host algorithms need the directory in host memory: use Directory::Host")]
    NoStates,
    /// Bits of numbers that have none to speak of.
    #[error("bitwise operations are of whole numbers only")]
    Bits,
    /// The network between hosts.
    #[error("between hosts: {0}")]
    Network(#[source] Box<PortError>),
    /// What was posted to it.
    #[error("between hosts: {0}")]
    Post(#[source] Box<PostError>),
    /// Memory for it.
    #[error("memory that other hosts put to: {0}")]
    Region(#[source] Box<RegionError>),
    /// The job.
    #[error(transparent)]
    Job(#[from] JobError),
    /// Shared host memory.
    #[error("shared memory: {0}")]
    Shared(#[from] std::io::Error),
    /// Shared host memory of another process.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The GPU; [`GpuError::Unsupported`] where its memory cannot be passed to other processes.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// Memory of this rank.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The reduction.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The reduction's kernel.
    #[error(transparent)]
    Image(#[from] ImageError),
}

ggas_errors::debug_as_display!(SharedGpuError);

fn place(folder: Option<&Path>) -> String {
    match folder {
        Some(folder) => format!("its files are in {}", folder.display()),
        None => "on the host of that rank".to_owned(),
    }
}

impl From<PortError> for SharedGpuError {
    fn from(error: PortError) -> SharedGpuError {
        SharedGpuError::Network(Box::new(error))
    }
}

impl From<RegionError> for SharedGpuError {
    fn from(error: RegionError) -> SharedGpuError {
        SharedGpuError::Region(Box::new(error))
    }
}

impl From<PostError> for SharedGpuError {
    fn from(error: PostError) -> SharedGpuError {
        SharedGpuError::Post(Box::new(error))
    }
}

impl SharedGpuError {
    /// Whether the ranks cannot be used together any more: others may wait.
    pub(crate) fn ends_use(&self) -> bool {
        !matches!(
            self,
            Self::Range { .. }
                | Self::Overlap { .. }
                | Self::Bits
                | Self::Root { .. }
                | Self::SmallBuffer { .. }
                | Self::Broken
        )
    }

    /// With ranks of a job, of which these are members.
    pub(crate) fn of_job(mut self, members: &[u32]) -> SharedGpuError {
        let named = match &mut self {
            Self::Mismatch { rank } | Self::Timeout { rank, .. } | Self::Elsewhere { rank, .. } => rank,
            _ => return self,
        };
        *named = members.get(*named).map_or(*named, |rank| *rank as usize);
        self
    }

    pub(crate) fn late(waiting: Option<Waiting>, waited: Duration) -> SharedGpuError {
        match waiting {
            Some(Waiting { what, rank }) => SharedGpuError::Timeout { rank, what, waited },
            None => SharedGpuError::Timeout { rank: 0, what: "the GPU", waited },
        }
    }
}
