//! What can go wrong with windows, and what to do about it.

use ggas_device::DeviceError;
use ggas_device::engine::EngineBuildError;
use ggas_kernels::MemoryError;
use ggas_rma::ReportError;

/// Errors of setting up and using a window.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum WindowError {
    /// A window has members.
    #[error("a window of no members: give at least one node")]
    NoMembers,
    /// A window has at least one byte.
    #[error("a window of 0 bytes: ask for at least one byte of each member")]
    Empty,
    /// A node may have one part.
    #[error("node {0} is in the window twice: each node has one part")]
    Twice(u16),
    /// A window is made on each of its nodes.
    #[error("node {node} is none of the window's nodes {nodes:?}: make the window on those")]
    NotHere {
        /// The node that the window was to be made on.
        node: u16,
        /// Those of the window.
        nodes: Vec<u16>,
    },
    /// More memory than addresses.
    #[error("{members} parts of {bytes} bytes exceed the address space: ask for less")]
    TooLarge {
        /// Members.
        members: usize,
        /// Bytes of each part.
        bytes: usize,
    },
    /// More host memory than the machine has.
    #[error(
        "{members} parts of {bytes} bytes are {} MiB of host memory, and there are at most {} MiB here: ask for fewer \
         or smaller parts (of groups for collectives: GroupConfig::for_nodes)",
        total >> 20, most >> 20
    )]
    MoreThanMachine {
        /// Members.
        members: usize,
        /// Bytes of each part.
        bytes: usize,
        /// Bytes of all parts, in whole pages.
        total: usize,
        /// What the machine has, or this process's control group allows.
        most: u64,
    },
    /// Processes ask for parts of different sizes.
    #[error(
        "rank {rank} asks for parts of {bytes} bytes and rank 0 of {first}: give the same size in all processes"
    )]
    Unequal {
        /// First rank that differs from rank 0.
        rank: usize,
        /// What it asks for.
        bytes: u64,
        /// What rank 0 asks for.
        first: u64,
    },
    /// Several processes have their kernels on one GPU.
    #[error(
        "ranks {} and {} are both on {uuid}: kernels of two processes do not run on a GPU at the same time, and \
         engines wait for each other; give each process a GPU of its own, or run all nodes in one \
         process",
        ranks.0, ranks.1
    )]
    SharedGpu {
        /// The first two.
        ranks: (usize, usize),
        /// Id of the GPU.
        uuid: String,
    },
    /// Engines need memory that all of them reach.
    #[error(
        "no engines across these processes: {reason}; give all of them GPUs with peer access (`ggas info` shows it), or \
         the CPU executor, or let the software EXTOLL carry the traffic"
    )]
    NoEngines {
        /// Why there is none.
        reason: String,
    },
    /// The engines themselves were refused.
    #[error(transparent)]
    Engine(Box<EngineBuildError>),
    /// Another process of the job could not set the window up.
    #[error("rank {rank} could not set the window up: {what}")]
    Peer {
        /// Its rank.
        rank: usize,
        /// Its reason.
        what: String,
    },
    /// A process of the job died, or did not make the call in time.
    #[error("setting the window up together: {0}")]
    Job(#[from] ggas_members::JobError),
    /// There is no such member.
    #[error("no member {member}: this window has members 0 to {last}")]
    NoSuchMember {
        /// Member asked for.
        member: usize,
        /// Last member.
        last: usize,
    },
    /// The member is in another process.
    #[error(
        "member {member} is in another process, this one has {}: reach its part by read, write, pointers, or store \
         and load of an own member",
        own.start
    )]
    Elsewhere {
        /// Member asked for.
        member: usize,
        /// Members of this process.
        own: std::ops::Range<usize>,
    },
    /// A range outside the part of a member.
    #[error("{len} bytes at offset {offset} leave the {bytes} bytes of each part")]
    Range {
        /// First byte.
        offset: usize,
        /// Bytes.
        len: usize,
        /// Bytes of each part.
        bytes: usize,
    },
    /// A word that is not aligned to 8 bytes.
    #[error("a word at offset {0} is not aligned to 8 bytes: use read and write")]
    Unaligned(usize),
    /// Rings of an impossible shape.
    #[error(
        "{0:?}: use at least one lane, a power of two of lines from 8 on, and an offset that is a multiple of 64"
    )]
    Rings(crate::Rings),
    /// Plain pointers do not exist in this window.
    #[error("the window is not mapped for kernels: {reason}; use the store and load calls")]
    NotMapped {
        /// Why.
        reason: String,
    },
    /// The window cannot be accessed through the SMFU.
    #[error("no access through the SMFU: {reason}")]
    NotTrapped {
        /// Why, and what would help.
        reason: String,
    },
    /// The device refused.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Kernel memory could not be had or reached.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A GPU could not be used.
    #[error(transparent)]
    Gpu(#[from] ggas_gpu::GpuError),
}

ggas_errors::debug_as_display!(WindowError);

impl From<EngineBuildError> for WindowError {
    fn from(error: EngineBuildError) -> WindowError {
        WindowError::Engine(Box::new(error))
    }
}

impl From<ReportError> for WindowError {
    fn from(error: ReportError) -> WindowError {
        match error {
            ReportError::Host(error) => error.into(),
            ReportError::Processor(error) => error.into(),
        }
    }
}
