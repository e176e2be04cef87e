//! What can go wrong.

use std::time::Duration;

use ggas_gpu::GpuError;

use crate::address::DeviceId;

/// An operation on devices' memory failed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum HpeError {
    /// No device has memory there.
    #[error(
        "{address:#x} is in the segment of {}, but nothing is allocated there: it was freed, or never given out", whose(*.device)
    )]
    Unknown {
        /// The address.
        address: u64,
        /// Whose segment it lies in; `None`: in that of distributed objects.
        device: Option<DeviceId>,
    },
    /// The range passes the end of its object.
    #[error(
        "{len} bytes at {address:#x} pass the end of their object, which has {left} bytes left: copy each object by itself"
    )]
    AcrossObjects {
        /// Where the range begins.
        address: u64,
        /// Its length in bytes.
        len: usize,
        /// Bytes of the object from there.
        left: usize,
    },
    /// Source and destination share bytes.
    #[error("{len} bytes at {src:#x} and at {dst:#x} overlap: copy by way of a third buffer")]
    Overlap {
        /// The source.
        src: u64,
        /// The destination.
        dst: u64,
        /// The length in bytes.
        len: usize,
    },
    /// A null pointer, a range beyond the end of the address space, an address that no process has and no rank's pointer is, or, where there are GPUs, memory that is not there (as what was
    /// freed on one).
    #[error("{len} bytes at {address:#x} are no memory: pass what an allocation returned")]
    NoMemory {
        /// The address.
        address: u64,
        /// The length in bytes.
        len: usize,
    },
    /// Not the start of an object.
    #[error(
        "{address:#x} is not where an allocation begins: free what `alloc`, `alloc_shared` or `alloc_spread` returned"
    )]
    NotAllocated {
        /// The address.
        address: u64,
    },
    /// The runtime has no such device.
    #[error("this runtime has no {device}: it has {count} devices")]
    NoDevice {
        /// The device.
        device: DeviceId,
        /// Devices of the runtime.
        count: usize,
    },
    /// A C program has no device of such a number.
    #[error(
        "there is no device {number}: C counts the {count} that there are from 0, and GGAS_HPE_DEVICES says how many the CPU executor has"
    )]
    NoNumber {
        /// The number.
        number: i64,
        /// Devices of the runtime.
        count: usize,
    },
    /// No device was asked for, or more than there are segments.
    #[error(
        "{asked} devices were asked for and {free} of 31 segments are free: drop a runtime, or ask for fewer"
    )]
    Devices {
        /// Devices asked for.
        asked: usize,
        /// Segments that are free.
        free: usize,
    },
    /// A segment could not be reserved.
    #[error(
        "1 TiB at {address:#x} cannot be reserved ({error}): run without address sanitizer and without a limit of address space (ulimit -v)"
    )]
    Reserve {
        /// Where.
        address: u64,
        /// Why.
        error: std::io::Error,
    },
    /// A device has no room left.
    #[error("{device} has no room for {bytes} bytes: free something, or ask for less")]
    Full {
        /// The device.
        device: DeviceId,
        /// Bytes asked for.
        bytes: usize,
    },
    /// There are as many shared objects as the table holds.
    #[error("{most} shared objects exist, the most there can be: free one, or make fewer and larger ones")]
    Objects {
        /// The most there can be.
        most: usize,
    },
    /// Not a shared object.
    #[error("{address:#x} is not in a shared object: make it with `alloc_shared`")]
    NotShared {
        /// The address.
        address: u64,
    },
    /// Accesses of kernels there cannot be told apart by device.
    #[error(
        "whose memory around {address:#x} is cannot be told in kernels: name an object of `alloc` or `alloc_spread`, each of whose devices was named once"
    )]
    Unmapped {
        /// The address; 0 for all memory of a GPU.
        address: u64,
    },
    /// A distributed object cannot lie on these devices.
    #[error(
        "a distributed object needs one device or more: GPUs that reach each other, or devices of the executor"
    )]
    Apart,
    /// The operating system refused.
    #[error("{what}: {error}{}", way_out(.error))]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        error: std::io::Error,
    },
    /// The process is a child of the one that made the runtime.
    #[error(
        "the runtime belongs to the process that forked this one: exec, or make a runtime of your own here"
    )]
    Forked,
    /// A copy did not end.
    #[error(
        "a copy on {device} was not done within {waited:?}; its memory may still be written: do not free it"
    )]
    Timeout {
        /// Whose copy.
        device: DeviceId,
        /// How long it was waited for.
        waited: Duration,
    },
    /// A copy failed on its device, whose engine is gone.
    #[error("{device} ended while a copy waited for it: the destination is not complete; make a new runtime")]
    Lost {
        /// The device.
        device: DeviceId,
    },
    /// The object is in use by a launch, or exported memory by a copy.
    #[error(
        "the object at {address:#x} is in use: name it once in a launch, and copy, free or unexport it when that, or the copy, has returned"
    )]
    InUse {
        /// Where the object begins.
        address: u64,
    },
    /// A bound that leaves no room for a copy.
    #[error(
        "{bound} bytes of pinned memory are too few pairs of buffers of {buffer} (a copy takes one, `join` three): raise the bound, or take smaller buffers"
    )]
    Pinned {
        /// The bound in bytes.
        bound: usize,
        /// Bytes of a buffer.
        buffer: usize,
    },
    /// The pointer names a rank that there is not.
    #[error(
        "{pointer:#x} names rank {rank}, which is none of the {size} ranks that share pointers here: name another, or call `join` in all of them first"
    )]
    NoRank {
        /// The pointer.
        pointer: u64,
        /// The rank.
        rank: u32,
        /// Ranks that joined; 0 before this one did.
        size: u32,
    },
    /// Memory of another rank, for what is done with own memory only.
    #[error("{address:#x} is memory of rank {rank}: `copy` it to memory of this one first")]
    Elsewhere {
        /// Whose.
        rank: u32,
        /// What that rank calls it.
        address: u64,
    },
    /// Another rank did not carry out a copy.
    #[error("rank {rank} refused {len} bytes at {address:#x}: {why}")]
    Refused {
        /// Whose memory it would have been.
        rank: u32,
        /// What that rank calls it.
        address: u64,
        /// Bytes of the block.
        len: usize,
        /// Why.
        why: Refusal,
    },
    /// Another rank ended.
    #[error("rank {rank} is gone: what was copied to or from it is not complete; go on without it")]
    PeerLost {
        /// The rank.
        rank: u32,
    },
    /// Another rank did not answer.
    #[error(
        "rank {rank} did not answer within {waited:?}: it is stopped, or in a kernel that has the object; the memory may still be \
         written: do not free it"
    )]
    PeerLate {
        /// The rank.
        rank: u32,
        /// How long it was waited for.
        waited: Duration,
    },
    /// A rank could not join, or the ranks do not agree.
    #[error("ranks do not share pointers: {reason}")]
    Join {
        /// Why.
        reason: String,
    },
    /// The network refused.
    #[error("{what}: {error}")]
    Network {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A GPU refused.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

ggas_errors::debug_as_display!(HpeError);

/// Whose a segment is.
fn whose(device: Option<DeviceId>) -> String {
    device.map_or_else(|| "distributed objects".to_owned(), |device| device.to_string())
}

/// What to change where a limit of the process was reached.
fn way_out(error: &std::io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE) => ": raise the limit of open files (ulimit -n)",
        Some(libc::EFBIG) => ": raise the limit of file sizes (ulimit -f)",
        Some(libc::ENOMEM) => {
            ": raise the limit of address space (ulimit -v) or of mappings (vm.max_map_count), or ask for less"
        }
        _ => "",
    }
}

/// Why a rank did not carry out a copy of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// None of its devices has memory there, and no range of its host that it exported.
    #[error(
        "nothing is there: it was freed, never given out, or is memory of the host that was not exported"
    )]
    Unknown,
    /// The range passes the end of its object.
    #[error("its object ends before: copy each object by itself")]
    AcrossObjects,
    /// It failed there.
    #[error("it failed there ({}): the destination may have a part", std::io::Error::from_raw_os_error(*.0))]
    Failed(i32),
}

impl HpeError {
    /// What the network said in doing `what`.
    pub(crate) fn network<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        what: &'static str,
    ) -> impl FnOnce(E) -> HpeError {
        move |error| HpeError::Network { what, error: error.into() }
    }

    /// The last error of the operating system, in doing `what`.
    pub(crate) fn system(what: &'static str) -> HpeError {
        HpeError::System { what, error: std::io::Error::last_os_error() }
    }

    /// What a C function sets `errno` to.
    pub fn errno(&self) -> i32 {
        match self {
            HpeError::Unknown { .. } | HpeError::AcrossObjects { .. } | HpeError::NoMemory { .. } => {
                libc::EFAULT
            }
            HpeError::Full { .. } | HpeError::Objects { .. } | HpeError::Reserve { .. } => libc::ENOMEM,
            HpeError::NoDevice { .. }
            | HpeError::NoNumber { .. }
            | HpeError::Devices { .. }
            | HpeError::Lost { .. }
            | HpeError::Gpu(_) => libc::ENODEV,
            HpeError::Timeout { .. } | HpeError::PeerLate { .. } => libc::ETIMEDOUT,
            HpeError::PeerLost { .. } => libc::ECONNRESET,
            HpeError::NoRank { .. } | HpeError::Elsewhere { .. } => libc::EFAULT,
            HpeError::Refused { why, .. } => match why {
                Refusal::Unknown | Refusal::AcrossObjects => libc::EFAULT,
                Refusal::Failed(errno) => *errno,
            },
            HpeError::Join { .. } | HpeError::Network { .. } => libc::EIO,
            HpeError::Forked => libc::ECHILD,
            HpeError::InUse { .. } => libc::EBUSY,
            HpeError::System { error, .. } => error.raw_os_error().unwrap_or(libc::EIO),
            _ => libc::EINVAL,
        }
    }
}
