//! Errors.

use extoll_sim::memory::MemoryError as BusError;
use ggas_hca::{HcaError, RegionError, RingError};
use ggas_kernels::MemoryError;
use ggas_members::JobError;

/// Why a call failed.
#[derive(thiserror::Error)]
pub enum VerbsError {
    /// A queue of a size that does not exist.
    #[error("a queue of {0} entries does not exist: ask for 1 to {1}")]
    Depth(u32, u32),
    /// More pieces of local memory than requests have.
    #[error("{0} pieces of local memory for a request: ask for 1 to {1}")]
    Pieces(u32, u32),
    /// Objects of different contexts.
    #[error("the {0} belongs to another context")]
    Context(&'static str),
    /// The queue is a kernel's.
    #[error("the {0} was exported to kernels: the host may not use it any more")]
    Exported(&'static str),
    /// The table that kernels look into is full.
    #[error(
        "{0} queue pairs of the context are exported, which is all that kernels can find: drop some, or open another context"
    )]
    Exports(u32),
    /// A place for a structure that is not aligned.
    #[error("a structure for kernels cannot lie at offset {0}: take a multiple of 8")]
    Offset(usize),
    /// The send or receive queue is full.
    #[error("the queue is full: poll its completion queue first")]
    Full,
    /// No queue pair or region lies in the bytes.
    #[error("these are not the bytes of {0}: pass on what the peer's to_bytes() gave, whole")]
    Bytes(&'static str),
    /// A page of doorbells lies where another is registered.
    #[error("the page of doorbells is registered already")]
    Doorbells,
    /// The system gives no thread that watches the page of doorbells.
    #[error("no thread to watch doorbells: {0}; allow more processes")]
    Thread(std::io::Error),
    /// The system gives no socket by which other processes reach this one's adapters.
    #[error("no sockets between adapters of processes: {0}; allow more open files")]
    Socket(std::io::Error),
    /// Another process has failed.
    #[error(
        "rank {0} did not give a socket to reach its adapters by: see what it says itself, and build all processes alike"
    )]
    Peer(u32),
    /// The job's processes do not come together.
    #[error(transparent)]
    Job(#[from] JobError),
    /// Memory for kernels.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Memory of the adapter.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The adapter refuses.
    #[error(transparent)]
    Hca(#[from] HcaError),
    /// The adapter refuses a region.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// The adapter refuses a queue.
    #[error(transparent)]
    Ring(#[from] RingError),
}

ggas_errors::debug_as_display!(VerbsError);
