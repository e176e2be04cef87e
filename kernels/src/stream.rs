//! Kernels, copies, stores and waits of one processor, one after the other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ggas_clock::{Backoff, Clock, Ladder};
use ggas_gpu::Queue;

use crate::launch::{Launch, LaunchError, start};
use crate::processor::Processor;
use crate::proxy::Attended;

/// An ordered stream: each piece of work begins when the one before is done.
///
/// On a GPU the host posts and goes on; the GPU's front end carries out stores and waits between kernels (CUDA stream
/// memory operations), and its copy engines the copies. On the CPU executor the posting thread carries each piece out
/// itself, so that a call returns when it is done: streams that wait for each other need a thread each.
pub struct Stream<'a> {
    kernels: &'a [Launch<'a>],
    queue: Option<Queue<'a>>,
    attended: Attended,
    timeout: Duration,
}

impl<'a> Stream<'a> {
    /// A stream for these kernels of one processor. `timeout` bounds [`wait`](Self::wait), and each piece of work on the
    /// CPU.
    ///
    /// # Errors
    /// A launch that cannot run, as for [`start`]; kernels of two GPUs.
    pub fn new(kernels: &'a [Launch<'a>], timeout: Duration) -> Result<Stream<'a>, LaunchError> {
        let mut on_gpu = Vec::new();
        for launch in kernels {
            launch.check()?;
            if let Processor::Gpu(processor) = launch.processor {
                on_gpu.push(launch.on(processor)?);
            }
        }
        let queue = match on_gpu.len() {
            0 => None,
            _ => Some(Queue::new(&on_gpu).map_err(LaunchError::Gpu)?),
        };
        Ok(Stream { kernels, queue, attended: Attended::new(kernels.iter()), timeout })
    }

    /// Posts a kernel, by its place among those that the stream was made for.
    ///
    /// # Errors
    /// [`LaunchError::UnknownKernel`] for a place that there is not; what the GPU's driver refuses; on the CPU, all that
    /// can happen to a kernel.
    pub fn launch(&self, kernel: usize) -> Result<(), LaunchError> {
        match (&self.queue, self.kernels.get(kernel)) {
            (_, None) => Err(LaunchError::UnknownKernel { kernel: format!("number {kernel} of a stream") }),
            (Some(queue), _) => queue.launch(kernel).map_err(LaunchError::Gpu),
            (None, Some(launch)) => start(std::slice::from_ref(launch))?.wait(self.timeout),
        }
    }

    /// Posts a copy between addresses of this processor's kernels; also other nodes' memory, where that is mapped.
    ///
    /// # Safety
    /// Both ranges are memory until the copy is done; meanwhile nobody writes the source or uses the destination.
    ///
    /// # Errors
    /// What the GPU's driver refuses.
    pub unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), LaunchError> {
        let Some(queue) = &self.queue else {
            // SAFETY: the caller vouches for both ranges.
            unsafe { (to as *mut u8).copy_from_nonoverlapping(from as *const u8, bytes) };
            return Ok(());
        };
        // SAFETY: the caller's contract.
        unsafe { queue.stream().copy(to, from, bytes) }.map_err(LaunchError::Gpu)
    }

    /// Posts the store of an aligned word; whoever sees it with acquire sees what was done before in this stream.
    ///
    /// # Safety
    /// The word is memory until the store is done, and is accessed by atomics only.
    ///
    /// # Errors
    /// What the GPU's driver refuses.
    pub unsafe fn store(&self, at: u64, value: u64) -> Result<(), LaunchError> {
        let Some(queue) = &self.queue else {
            // SAFETY: the caller vouches for the word.
            unsafe { AtomicU64::from_ptr(at as *mut u64) }.store(value, Ordering::Release);
            return Ok(());
        };
        // SAFETY: the caller's contract.
        unsafe { queue.stream().store_u64(at, value) }.map_err(LaunchError::Gpu)
    }

    /// Posts a wait until an aligned word has reached `value`; what comes behind sees what was done before that store.
    ///
    /// # Safety
    /// As for [`store`](Self::store).
    ///
    /// # Errors
    /// What the GPU's driver refuses; on the CPU [`LaunchError::Timeout`].
    pub unsafe fn wait_for(&self, at: u64, value: u64) -> Result<(), LaunchError> {
        if let Some(queue) = &self.queue {
            // SAFETY: the caller's contract.
            return unsafe { queue.stream().wait_u64(at, value) }.map_err(LaunchError::Gpu);
        }
        // SAFETY: the caller vouches for the word.
        let word = unsafe { AtomicU64::from_ptr(at as *mut u64) };
        let mut backoff = Backoff::on(Ladder::NEIGHBOUR, Clock::REAL, self.timeout);
        while word.load(Ordering::Acquire) < value {
            if let Err(after) = backoff.pause() {
                let waits =
                    format!("a stream waits for {value}, the word is {}", word.load(Ordering::Relaxed));
                return Err(LaunchError::Timeout { after, waits });
            }
        }
        Ok(())
    }

    /// The stream of the GPU, where its processor is one: for what only GPUs have.
    pub fn on_gpu(&self) -> Option<&ggas_gpu::Stream> {
        self.queue.as_ref().map(Queue::stream)
    }

    /// Waits until all that was posted is done.
    ///
    /// # Errors
    /// [`LaunchError::Gpu`]: errors of the work, or that it is not done in time.
    pub fn wait(&self) -> Result<(), LaunchError> {
        let Some(queue) = &self.queue else { return Ok(()) };
        queue
            .wait(self.timeout)
            .map_err(|error| self.attended.failure().unwrap_or(LaunchError::Gpu(error)))?;
        self.attended.finish()
    }
}
