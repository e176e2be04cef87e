//! Devices: what the runtime asks of one. The CPU executor's, and GPUs.

mod cuda;
mod executor;
mod late;

use crate::error::HpeError;

pub(crate) use cuda::CudaDevice;
pub(crate) use executor::ExecutorDevice;

/// Memory of a device behind an address of its segment, or behind one of CUDA's own.
pub(crate) struct Memory {
    /// What the host calls it; owners are read off its bits.
    pub address: u64,
    /// What the device calls it: for kernels and copy engines.
    pub inside: u64,
    /// What keeps a GPU's memory.
    pub buffer: Option<ggas_gpu::DeviceBuffer>,
}

/// Where a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Device,
    Host,
}

/// What a copy's side on the host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// Memory that the device's driver knows: the copy engine takes it as it is.
    Pinned,
    Pageable,
}

/// What can be seen of a copy.
pub(crate) enum Look {
    Done,
    /// Or it failed: then the device says so when it is asked.
    UnderWay,
    /// Only the device knows.
    Nothing,
}

/// One device.
pub(crate) trait Device: Send + Sync {
    /// Zeroed memory. `address`: `size` bytes that are taken of the device's segment.
    fn map(&self, address: u64, size: usize) -> Result<Memory, HpeError>;

    /// Takes back what `map` gave.
    fn unmap(&self, memory: &Memory, size: usize);

    /// Queues a copy that is carried out behind this call; returns what names it.
    ///
    /// # Safety
    /// Both ranges are memory that this device reaches until the copy is done; nobody writes the source or uses the
    /// destination meanwhile.
    unsafe fn submit(&self, queue: &mut Queue, dst: u64, src: u64, len: usize) -> Result<u64, HpeError>;

    /// What can be seen of a copy without a lock.
    fn look(&self, ticket: u64) -> Look;

    /// Whether a copy is done.
    fn is_done(&self, queue: &mut Queue, ticket: u64) -> Result<bool, HpeError>;

    /// Copies at once, beside all queues, between the host and this device: for shared objects.
    ///
    /// # Safety
    /// As [`submit`](Self::submit). [`Host::Pinned`]: it is.
    unsafe fn copy_now(&self, dst: u64, src: u64, len: usize, to: Side, host: Host) -> Result<(), HpeError>;

    /// Whether [`copy_now`](Self::copy_now) may be called in a signal handler.
    fn is_signal_safe(&self) -> bool;

    /// Whether the copy engine wants the host's side in pinned memory.
    fn wants_pinned(&self) -> bool;

    /// The GPU, if it is one.
    fn gpu(&self) -> Option<&ggas_gpu::Gpu>;

    /// Ends it, as if it had been taken out of the host.
    fn end(&self);
}

/// What a device's context holds under its lock: work that was queued.
#[derive(Default)]
pub(crate) struct Queue {
    /// Number of the last copy.
    last: u64,
    /// A GPU's streams, which take short copies by turns.
    streams: Vec<ggas_gpu::Stream>,
    /// Those of long copies, by number.
    own: std::collections::HashMap<u64, ggas_gpu::Stream>,
}
