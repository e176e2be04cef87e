//! Streams and events, and bounded waits for them.

use std::sync::Arc;
use std::time::Duration;

use ggas_clock::{Backoff, Clock, Ladder};

use crate::error::GpuError;
use crate::gpu::{Gpu, Handle};
use crate::resident::gate;
use crate::sys::*;

/// `CU_STREAM_NON_BLOCKING`: no order with the default stream.
const NON_BLOCKING: u32 = 1;

/// `CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING`: who waits sleeps until an interrupt.
const SLEEPING: u32 = 1 | 2;

/// A queue of work on a GPU; its work runs in order and waits for no other stream.
///
/// Dropping it while work runs leaves the work running.
pub struct Stream {
    gpu: Gpu,
    raw: Handle<CUstream>,
    pooled: bool,
    /// Whether its work is known to be done.
    pub(crate) is_idle: bool,
}

impl Stream {
    /// A new stream; an `urgent` one has the highest priority and does not return to the pool.
    pub(crate) fn new(gpu: Gpu, urgent: bool) -> Result<Stream, GpuError> {
        gpu.enter()?;
        let (mut lowest, mut highest, mut raw) = (0, 0, std::ptr::null_mut());
        // SAFETY: both are ints to write to.
        let result = unsafe { cuCtxGetStreamPriorityRange(&mut lowest, &mut highest) };
        gpu.check("cuCtxGetStreamPriorityRange", result)?;
        let priority = if urgent { highest } else { lowest };
        // SAFETY: `raw` is written on success; the priority is one that the driver named.
        let result = unsafe { cuStreamCreateWithPriority(&mut raw, NON_BLOCKING, priority) };
        gpu.check("cuStreamCreateWithPriority", result)?;
        Ok(Stream { gpu, raw: Handle(raw), pooled: !urgent, is_idle: false })
    }

    pub(crate) fn from_pool(gpu: Gpu, raw: Handle<CUstream>) -> Stream {
        Stream { gpu, raw, pooled: true, is_idle: false }
    }

    pub(crate) fn raw(&self) -> CUstream {
        self.raw.0
    }

    /// The driver's `CUstream`, for kernels that are [enqueued](crate::Launch::enqueue). Not to be destroyed.
    pub fn as_raw(&self) -> *mut std::ffi::c_void {
        self.raw.0.cast()
    }

    /// The GPU of this stream.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Whether all work so far is done.
    ///
    /// # Errors
    /// The error of the work, which makes the GPU unusable.
    pub fn is_done(&self) -> Result<bool, GpuError> {
        self.gpu.enter()?;
        // SAFETY: the stream lives as long as `self`.
        match unsafe { cuStreamQuery(self.raw.0) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => self.gpu.check("cuStreamQuery", result).map(|()| true),
        }
    }

    /// Waits until all work so far is done.
    ///
    /// # Errors
    /// [`GpuError::Timeout`] naming `what`; errors of the work.
    pub fn wait(&self, what: &str, timeout: Duration) -> Result<(), GpuError> {
        let mut backoff = Backoff::on(Ladder::DEVICE, Clock::REAL, timeout);
        while !self.is_done()? {
            if backoff.pause().is_err() {
                return Err(GpuError::Timeout { what: what.to_owned(), waited: timeout });
            }
        }
        Ok(())
    }

    /// Gives its work up, which may still be under way: until that is done or the GPU is lost, memory that it may use is not freed, on the GPU
    /// or, where a [keeper](Gpu::map_kept) keeps it, on the host.
    pub fn give_up(self: &Arc<Stream>) {
        let stream = self.clone();
        gate().enter();
        gate().abandon(Box::new(move || !matches!(stream.is_done(), Ok(false))));
    }

    /// Drops it, by who has seen that its work is done: else the driver is asked once more.
    pub fn retire(mut self) {
        self.is_idle = true;
    }

    /// Waits for all work so far as the driver does it, without a bound: for work that waits for nobody.
    ///
    /// # Errors
    /// Errors of the work.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.gpu.enter()?;
        // SAFETY: the stream lives as long as `self`.
        self.gpu.check("cuStreamSynchronize", unsafe { cuStreamSynchronize(self.raw.0) })
    }

    /// Queues a copy between any two addresses that the driver knows: memory of any GPU, or host memory (which
    /// should be registered: the driver copies other host memory through a buffer of its own and may wait for it).
    ///
    /// # Safety
    /// Both ranges must stay allocated until the copy is done, and nothing may write `src` or use `dst` meanwhile.
    ///
    /// # Errors
    /// Driver errors, at once or (for addresses that are no memory) when the copy runs.
    pub unsafe fn copy(&self, dst: u64, src: u64, len: usize) -> Result<(), GpuError> {
        self.gpu.enter()?;
        // SAFETY: the caller vouches for the ranges.
        self.gpu.check("cuMemcpyAsync", unsafe { cuMemcpyAsync(dst, src, len, self.raw.0) })
    }

    /// Queues filling GPU memory with one byte value.
    ///
    /// # Safety
    /// The range must be GPU memory that stays allocated until this is done.
    ///
    /// # Errors
    /// Driver errors.
    pub unsafe fn fill(&self, dst: u64, value: u8, len: usize) -> Result<(), GpuError> {
        self.gpu.enter()?;
        // SAFETY: the caller vouches for the range.
        self.gpu.check("cuMemsetD8Async", unsafe { cuMemsetD8Async(dst, value, len, self.raw.0) })
    }

    /// Queues a store of `value` to `address`, a word of registered host memory or GPU memory, visible after all
    /// earlier work of this stream.
    ///
    /// # Safety
    /// `address` must be a device address of 4 bytes that stay mapped until this is done.
    ///
    /// # Errors
    /// Driver errors.
    pub unsafe fn store_u32(&self, address: u64, value: u32) -> Result<(), GpuError> {
        self.gpu.enter()?;
        // SAFETY: the caller vouches for the address; flags 0 put a fence before the store.
        let result = unsafe { cuStreamWriteValue32_v2(self.raw.0, address, value, 0) };
        self.gpu.check("cuStreamWriteValue32", result)
    }

    /// The same with a word of 8 bytes, which may be another GPU's.
    ///
    /// # Safety
    /// As for [`store_u32`](Self::store_u32), of 8 bytes.
    ///
    /// # Errors
    /// Driver errors.
    pub unsafe fn store_u64(&self, address: u64, value: u64) -> Result<(), GpuError> {
        self.gpu.enter()?;
        // SAFETY: the caller vouches for the address; flags 0 put a fence before the store.
        let result = unsafe { cuStreamWriteValue64_v2(self.raw.0, address, value, 0) };
        self.gpu.check("cuStreamWriteValue64", result)
    }

    /// Has later work of this stream begin once the work before an event's last mark is done, which may be another GPU's; at once where
    /// it marked nothing.
    ///
    /// # Errors
    /// Driver errors.
    pub fn wait_event(&self, event: &Event) -> Result<(), GpuError> {
        self.gpu.enter()?;
        // SAFETY: both live as long as their owners, which are borrowed here; the driver keeps the mark.
        self.gpu.check("cuStreamWaitEvent", unsafe { cuStreamWaitEvent(self.raw.0, event.raw.0, 0) })
    }

    /// Has later work of this stream begin once the word at `address` has reached `value`; what was written before
    /// that word was is visible to it. Without a bound: see [`Queue`](crate::Queue).
    ///
    /// # Safety
    /// As for [`store_u64`](Self::store_u64).
    ///
    /// # Errors
    /// Driver errors.
    pub unsafe fn wait_u64(&self, address: u64, value: u64) -> Result<(), GpuError> {
        self.gpu.enter()?;
        // SAFETY: the caller vouches for the address; flags 0 compare by "at least".
        let result = unsafe { cuStreamWaitValue64_v2(self.raw.0, address, value, 0) };
        self.gpu.check("cuStreamWaitValue64", result)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.pooled && (self.is_idle || matches!(self.is_done(), Ok(true))) {
            self.gpu.recycle(self.raw);
        } else if self.gpu.enter().is_ok() {
            // SAFETY: nobody uses the stream any more. The call returns at once; the driver frees the stream when
            // its work is done.
            let _ = unsafe { cuStreamDestroy_v2(self.raw.0) };
        }
    }
}

/// A mark in a stream, with a time.
pub struct Event {
    gpu: Gpu,
    raw: Handle<CUevent>,
}

impl Event {
    /// A new event on `gpu`.
    ///
    /// # Errors
    /// Driver errors.
    pub fn new(gpu: &Gpu) -> Result<Event, GpuError> {
        Event::with_flags(gpu, 0)
    }

    /// One without a time, whose [`synchronize`](Self::synchronize) sleeps instead of spinning.
    ///
    /// # Errors
    /// Driver errors.
    pub fn sleeping(gpu: &Gpu) -> Result<Event, GpuError> {
        Event::with_flags(gpu, SLEEPING)
    }

    fn with_flags(gpu: &Gpu, flags: u32) -> Result<Event, GpuError> {
        gpu.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is written on success; the flags are ones that there are.
        gpu.check("cuEventCreate", unsafe { cuEventCreate(&mut raw, flags) })?;
        Ok(Event { gpu: gpu.clone(), raw: Handle(raw) })
    }

    /// Waits for the work before the mark as the driver does it, without a bound: for work that waits for nobody.
    ///
    /// # Errors
    /// Errors of that work.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.gpu.enter()?;
        // SAFETY: the event lives as long as `self`.
        self.gpu.check("cuEventSynchronize", unsafe { cuEventSynchronize(self.raw.0) })
    }

    /// The GPU of this event.
    pub(crate) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Marks the present end of `stream`.
    ///
    /// # Errors
    /// Driver errors; [`GpuError::Invalid`] for a stream of another GPU.
    pub fn record(&self, stream: &Stream) -> Result<(), GpuError> {
        if self.gpu != *stream.gpu() {
            return Err(GpuError::Invalid("an event can only be recorded on its own GPU".into()));
        }
        self.gpu.enter()?;
        // SAFETY: both live as long as their owners, which are borrowed here.
        self.gpu.check("cuEventRecord", unsafe { cuEventRecord(self.raw.0, stream.raw()) })
    }

    /// Whether the work before the mark is done.
    ///
    /// # Errors
    /// Errors of that work.
    pub fn is_done(&self) -> Result<bool, GpuError> {
        self.gpu.enter()?;
        // SAFETY: the event lives as long as `self`.
        match unsafe { cuEventQuery(self.raw.0) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => self.gpu.check("cuEventQuery", result).map(|()| true),
        }
    }

    /// GPU time from `earlier` to this mark; both must be done.
    ///
    /// # Errors
    /// Driver errors, for instance for marks that are not done.
    pub fn since(&self, earlier: &Event) -> Result<Duration, GpuError> {
        self.gpu.enter()?;
        let mut milliseconds = 0.0f32;
        // SAFETY: both events live; `milliseconds` is a float to write to.
        let result = unsafe { cuEventElapsedTime_v2(&mut milliseconds, earlier.raw.0, self.raw.0) };
        self.gpu.check("cuEventElapsedTime", result)?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.gpu.enter().is_ok() {
            // SAFETY: nobody uses the event any more; the call does not wait for it.
            let _ = unsafe { cuEventDestroy_v2(self.raw.0) };
        }
    }
}
