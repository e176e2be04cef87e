//! Errors of groups.

use std::io;
use std::path::PathBuf;

use extoll_abi::layout::GGAS_ERR_POISONED;
use ggas_kernels::{LaunchError, MemoryError};
use ggas_rma::{KernelReport, ReportError};
use ggas_shared_gpu::SharedGpuError;
use ggas_window::WindowError;

/// Errors of setting up or using a [`Group`](crate::Group).
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// Staging slots are cut in lines.
    #[error("staging slots of {0} bytes; use a multiple of 256")]
    SlotBytes(usize),
    /// Packet buffers are cut in lines.
    #[error("packet buffers of {0} bytes; use a multiple of 256 below 4 GiB")]
    PackedBytes(usize),
    /// Too many or too few blocks have packet buffers.
    #[error("packet buffers for {channels} blocks; use 1 to {most}")]
    PackedChannels {
        /// Blocks asked for.
        channels: usize,
        /// Most of them.
        most: usize,
    },
    /// No window can be so large.
    #[error(
        "a group of {nodes} nodes with slots of {slot_bytes} bytes is larger than memory; use smaller slots"
    )]
    TooLarge {
        /// Members.
        nodes: usize,
        /// Bytes of a slot.
        slot_bytes: usize,
    },
    /// The window is too small.
    #[error(
        "the group needs bytes {offset} to {end} of each part, the window has {bytes}; \
         make the window of GroupConfig::end bytes"
    )]
    NoRoom {
        /// First byte of the group's area.
        offset: usize,
        /// End of the area.
        end: usize,
        /// Bytes of each part.
        bytes: usize,
    },
    /// The area must be aligned.
    #[error("the group's area begins at byte {0} of the window; use a multiple of 256")]
    Offset(usize),
    /// The collecting node is none of the group.
    #[error("node {master} cannot collect for a group of {nodes}; use 0 to {}", nodes - 1)]
    Master {
        /// Rank asked for.
        master: usize,
        /// Members.
        nodes: usize,
    },
    /// Kernels cannot reach all parts by pointers.
    #[error("collectives of kernels need a window that they can map: {reason}")]
    NotMapped {
        /// Why not.
        reason: String,
    },
    /// No such member.
    #[error("the group has no member {member}; use 0 to {last}")]
    NoSuchMember {
        /// Rank asked for.
        member: usize,
        /// Highest rank.
        last: usize,
    },
    /// A collective failed; all fail until [`Group::reset`](crate::Group::reset).
    #[error(
        "member {member}: {report}; end all kernels of the group and call Group::reset (between processes reset_across, which names one that has left the job)"
    )]
    Failed {
        /// Rank of the member that reported.
        member: usize,
        /// Its report.
        report: KernelReport,
    },
    /// A collective failed in a member that left no report.
    #[error(
        "member {member} is poisoned; end all kernels of the group and call Group::reset (between processes reset_across)"
    )]
    Poisoned {
        /// Its rank.
        member: usize,
    },
    /// A process of the group died.
    #[error("rank {rank} died: the group stays poisoned; end its kernels and start a new job")]
    PeerLost {
        /// The first that died.
        rank: u32,
    },
    /// A process of the group left, and others wait for it.
    #[error(
        "rank {rank} left the job, and collectives of the group wait for it: have all ranks make the same collectives before one leaves; \
         end the group's kernels and start a new job"
    )]
    PeerLeft {
        /// The one that was waited for, if this process did that itself; else the first that left.
        rank: u32,
    },
    /// Processes run on GPUs of different models, or some on GPUs and some on the CPU.
    #[error(
        "rank {rank} runs on {device} and rank 0 on {first}: a group across processes chooses algorithms for one model; \
         give all of them the same, or put all nodes into one process"
    )]
    MixedModels {
        /// First rank that differs from rank 0.
        rank: usize,
        /// What it runs on.
        device: String,
        /// What rank 0 runs on.
        first: String,
    },
    /// Processes lay the group out differently.
    #[error(
        "rank {rank} lays the group out otherwise than rank 0: give the same GroupConfig in all processes"
    )]
    Unequal {
        /// First rank that differs from rank 0.
        rank: usize,
    },
    /// The group's window has members in several processes.
    #[error("the group is one of several processes: use {call}, which all of them call")]
    Across {
        /// The call for such groups.
        call: &'static str,
    },
    /// A table of choices that is damaged, or of another version.
    #[error("the table of choices {path} is damaged: {reason}; `ggas tune --output {path}` writes it anew", path = path.display())]
    Tuning {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A table of choices that cannot be read.
    #[error("cannot read the table of choices {path}: {source}; `ggas tune --output {path}` writes one", path = path.display())]
    TuningUnread {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A table of choices that cannot be written.
    #[error(
        "cannot write the table of choices {}, because of {}: {source}; choose another place with GGAS_TUNING (a file) \
         or XDG_CONFIG_HOME (a folder)", path.display(), place.display()
    )]
    TuningUnwritten {
        /// The file.
        path: PathBuf,
        /// The folder that cannot be written to, or what stands in its place.
        place: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Choices that cannot be.
    #[error("{0}")]
    Choices(String),
    /// A collective of the host that cannot be.
    #[error("no collective of these vectors: {0}")]
    Vectors(String),
    /// Processes that make collectives without kernels: in their set-up, or in a collective, after which the group is
    /// [reset](crate::Group::reset_across).
    #[error(transparent)]
    Shared(#[from] SharedGpuError),
    /// A kernel that the host started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Access to the window.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// Kernel memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Memory for reports.
    #[error(transparent)]
    Report(#[from] ReportError),
}

ggas_errors::debug_as_display!(GroupError);

impl GroupError {
    /// The failure of another member, of which this one heard by its poison only.
    pub(crate) fn is_consequence(&self) -> bool {
        match self {
            GroupError::Failed { report, .. } => report.status == GGAS_ERR_POISONED,
            GroupError::Poisoned { .. } => true,
            _ => false,
        }
    }
}
