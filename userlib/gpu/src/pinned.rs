//! Page-locked host memory, which copies between it and GPU memory reach without a buffer in between.

use std::ptr::NonNull;

use crate::error::GpuError;
use crate::gpu::Gpu;
use crate::memory::{DeviceBuffer, check_range, lock_pages};
use crate::resident::gate;
use crate::sys::*;

/// Host memory whose pages are locked, for all GPUs of this process; zeroed at first. Freed on drop, as soon as no waiting kernel is
/// resident.
///
/// Its bytes are raw memory: whoever uses them by [`as_ptr`](Self::as_ptr) sees to it that no copy does meanwhile.
#[derive(Debug)]
pub struct PinnedBuffer {
    gpu: Gpu,
    memory: NonNull<u8>,
    bytes: usize,
}

// SAFETY: raw memory, used by copies and pointers alone.
unsafe impl Send for PinnedBuffer {}
// SAFETY: as above.
unsafe impl Sync for PinnedBuffer {}

impl Gpu {
    /// Allocates host memory whose pages are locked.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`], [`GpuError::Lost`], driver errors.
    pub fn alloc_pinned(&self, bytes: usize) -> Result<PinnedBuffer, GpuError> {
        Ok(PinnedBuffer { gpu: self.clone(), memory: lock_pages(self, bytes.max(1))?, bytes })
    }
}

impl PinnedBuffer {
    /// Its first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.memory.as_ptr()
    }

    /// Its size in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Copies parts of GPU memory, each by its offset and bytes, to `at` and behind it, and returns when they are there. Does not wait for
    /// running kernels.
    ///
    /// # Errors
    /// As of [`DeviceBuffer::read`]; a copy may then still be under way.
    pub fn gather(
        &self,
        at: usize,
        from: &DeviceBuffer,
        parts: impl Iterator<Item = (usize, usize)>,
    ) -> Result<(), GpuError> {
        self.copy(at, from, parts, |here, there| (here, there))
    }

    /// The other way: bytes from `at` on go to parts of GPU memory.
    ///
    /// # Errors
    /// As of [`gather`](Self::gather).
    pub fn scatter(
        &self,
        at: usize,
        to: &DeviceBuffer,
        parts: impl Iterator<Item = (usize, usize)>,
    ) -> Result<(), GpuError> {
        self.copy(at, to, parts, |here, there| (there, here))
    }

    /// `way`: target and source of an address here and one there.
    fn copy(
        &self,
        at: usize,
        gpu: &DeviceBuffer,
        parts: impl Iterator<Item = (usize, usize)>,
        way: impl Fn(u64, u64) -> (u64, u64),
    ) -> Result<(), GpuError> {
        gpu.gpu().with_staging(|staging| {
            let mut next = at as u64;
            for (offset, len) in parts {
                check_range(offset as u64, len, gpu.len() as u64)?;
                check_range(next, len, self.bytes as u64)?;
                let (dst, src) = way(self.as_ptr() as u64 + next, gpu.address() + offset as u64);
                // SAFETY: both ranges were checked. The GPU's is borrowed, and this one is freed only when no work that was given
                // up is under way.
                unsafe { staging.queue(dst, src, len)? };
                next += len as u64;
            }
            staging.wait()
        })
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        let (gpu, memory) = (self.gpu.clone(), self.memory.as_ptr() as usize);
        gate().defer(move || {
            if gpu.enter().is_ok() {
                // SAFETY: the buffer is gone, so nobody uses the memory, and the gate says that no kernel or copy does.
                let _ = gpu.check("cuMemFreeHost", unsafe { cuMemFreeHost(memory as *mut _) });
            }
        });
    }
}
