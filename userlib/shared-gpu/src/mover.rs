//! Copies of a rank between its vectors and memory of the host, beside those of the protocols.

use std::time::Duration;

use ggas_gpu::Stream;
use ggas_kernels::Processor;

use crate::SharedGpuError;

/// Bound of work that waits for nobody.
const WORK: Duration = Duration::from_secs(30);

/// Who copies.
pub(crate) enum Mover {
    /// The calling thread, at once.
    Cpu,
    Gpu(Stream),
}

impl Mover {
    pub(crate) fn new(processor: &Processor) -> Result<Mover, SharedGpuError> {
        Ok(match processor {
            Processor::Gpu(gpu) => Mover::Gpu(gpu.device().stream()?),
            _ => Mover::Cpu,
        })
    }

    /// Copies, or queues it; [`finish`](Self::finish) waits.
    ///
    /// # Safety
    /// So many bytes are at both addresses, which the processor knows, until that is finished; nobody else uses those at `to`, and nobody
    /// writes those at `from`.
    pub(crate) unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), SharedGpuError> {
        if bytes == 0 || to == from {
            return Ok(());
        }
        match self {
            // SAFETY: the caller's promise.
            Mover::Cpu => unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) },
            // SAFETY: likewise.
            Mover::Gpu(stream) => unsafe { stream.copy(to, from, bytes) }?,
        }
        Ok(())
    }

    /// Waits for all of them.
    pub(crate) fn finish(&self) -> Result<(), SharedGpuError> {
        match self {
            Mover::Cpu => Ok(()),
            Mover::Gpu(stream) => Ok(stream.wait("copies between vectors and the host", WORK)?),
        }
    }
}
