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
        "{address:#x} is in the segment of {device}, but nothing is allocated there: it was freed, or never given out"
    )]
    Unknown {
        /// The address.
        address: u64,
        /// Whose segment it lies in.
        device: DeviceId,
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
    /// A null pointer, or a range beyond the end of the address space.
    #[error("{len} bytes at {address:#x} are no memory: pass what an allocation returned")]
    NoMemory {
        /// The address.
        address: u64,
        /// The length in bytes.
        len: usize,
    },
    /// Not the start of an object.
    #[error("{address:#x} is not where an allocation begins: free what `alloc` or `alloc_shared` returned")]
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
    #[error("{what}: {error}")]
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
    /// The object is in use by a launch.
    #[error("the object at {address:#x} is used by a kernel: free it when the launch has returned")]
    InUse {
        /// Where the object begins.
        address: u64,
    },
    /// A bound that leaves no room for a copy.
    #[error(
        "{bound} bytes of pinned memory are fewer than two buffers of {buffer}: raise the bound, or take smaller buffers"
    )]
    Pinned {
        /// The bound in bytes.
        bound: usize,
        /// Bytes of a buffer.
        buffer: usize,
    },
    /// A GPU refused.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

ggas_errors::debug_as_display!(HpeError);

impl HpeError {
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
            HpeError::NoDevice { .. } | HpeError::Lost { .. } | HpeError::Gpu(_) => libc::ENODEV,
            HpeError::Timeout { .. } => libc::ETIMEDOUT,
            HpeError::Forked => libc::ECHILD,
            HpeError::InUse { .. } => libc::EBUSY,
            HpeError::System { error, .. } => error.raw_os_error().unwrap_or(libc::EIO),
            _ => libc::EINVAL,
        }
    }
}
