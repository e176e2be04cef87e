//! Page-locked host memory, which copies between it and GPU memory reach without a buffer in between.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::GpuError;
use crate::gpu::Gpu;
use crate::memory::{COPY_TIMEOUT, DeviceBuffer, check_range, lock_pages};
use crate::resident::gate;
use crate::stream::{Event, Stream};
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

/// Copies between page-locked memory and memory of one GPU that are begun now and done later, one behind the other: the host goes on
/// meanwhile. Those of another value of this type wait for none of these.
pub struct LateCopies {
    stream: Arc<Stream>,
    /// Events that nobody waits for.
    spare: Vec<Event>,
}

/// A copy that was begun.
pub struct LateCopy(Event);

impl LateCopies {
    /// None yet.
    ///
    /// # Errors
    /// [`GpuError::Lost`], driver errors.
    pub fn new(gpu: &Gpu) -> Result<LateCopies, GpuError> {
        Ok(LateCopies { stream: Arc::new(gpu.stream()?), spare: Vec::new() })
    }

    /// Begins what [`PinnedBuffer::gather`] does.
    ///
    /// # Safety
    /// Until the copy [is done](Self::is_done), or [`wait`](Self::wait) has returned without an error, the GPU's memory stays allocated, nobody
    /// writes what is copied, and nobody uses where it goes.
    ///
    /// # Errors
    /// [`GpuError::OutOfRange`], driver errors. Parts of it may be under way then.
    pub unsafe fn gather(
        &mut self,
        to: &PinnedBuffer,
        at: usize,
        from: &DeviceBuffer,
        parts: impl Iterator<Item = (usize, usize)>,
    ) -> Result<LateCopy, GpuError> {
        // SAFETY: passed on.
        unsafe { self.begin(to, at, from, parts, |here, there| (here, there)) }
    }

    /// Begins what [`PinnedBuffer::scatter`] does.
    ///
    /// # Safety
    /// As of [`gather`](Self::gather).
    ///
    /// # Errors
    /// As of [`gather`](Self::gather).
    pub unsafe fn scatter(
        &mut self,
        from: &PinnedBuffer,
        at: usize,
        to: &DeviceBuffer,
        parts: impl Iterator<Item = (usize, usize)>,
    ) -> Result<LateCopy, GpuError> {
        // SAFETY: passed on.
        unsafe { self.begin(from, at, to, parts, |here, there| (there, here)) }
    }

    /// # Safety
    /// As of [`gather`](Self::gather).
    unsafe fn begin(
        &mut self,
        pinned: &PinnedBuffer,
        at: usize,
        gpu: &DeviceBuffer,
        parts: impl Iterator<Item = (usize, usize)>,
        way: impl Fn(u64, u64) -> (u64, u64),
    ) -> Result<LateCopy, GpuError> {
        let mark = match self.spare.pop() {
            Some(mark) => mark,
            None => Event::sleeping(self.stream.gpu())?,
        };
        let mut next = at as u64;
        for (offset, len) in parts {
            check_range(offset as u64, len, gpu.len() as u64)?;
            check_range(next, len, pinned.bytes as u64)?;
            let (dst, src) = way(pinned.as_ptr() as u64 + next, gpu.address() + offset as u64);
            // SAFETY: both ranges were checked, and the caller keeps them.
            unsafe { self.stream.copy(dst, src, len)? };
            next += len as u64;
        }
        mark.record(&self.stream)?;
        Ok(LateCopy(mark))
    }

    /// Whether a copy is done, and with it those that were begun before.
    ///
    /// # Errors
    /// Errors of the copies.
    pub fn is_done(&self, copy: &LateCopy) -> Result<bool, GpuError> {
        copy.0.is_done()
    }

    /// Takes back what nobody asks about any more.
    pub fn forget(&mut self, copy: LateCopy) {
        self.spare.push(copy.0);
    }

    /// Waits for all of them.
    ///
    /// # Errors
    /// [`GpuError::Timeout`]; errors of the copies.
    pub fn wait(&self) -> Result<(), GpuError> {
        self.stream.wait("copies between host and GPU memory", COPY_TIMEOUT)
    }
}

impl Drop for LateCopies {
    /// What is under way goes on, and until it is done no memory that it may use is freed.
    fn drop(&mut self) {
        if matches!(self.stream.is_done(), Ok(false)) {
            self.stream.give_up();
        }
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
