//! Copies by the GPU's copy engines: long copies, copies of host memory that is not mapped, and all copies while the
//! copier's kernel does not run.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::GpuError;
use crate::gpu::Gpu;
use crate::memory::{DeviceBuffer, pinned};
use crate::stream::Stream;

/// Copies in order on a stream of their own, each followed by a store of its number to host memory.
pub(super) struct CopyEngine {
    stream: Stream,
    /// Number of the last copy that is done, modulo 2³².
    done: &'static AtomicU32,
    issued: u32,
    /// For copies whose ranges overlap.
    scratch: Option<DeviceBuffer>,
}

impl CopyEngine {
    pub fn new(gpu: &Gpu) -> Result<CopyEngine, GpuError> {
        let stream = Stream::new(gpu.clone(), true)?;
        let word = pinned(gpu, 64)?.as_mut_ptr();
        // SAFETY: 64 aligned bytes that live for good and are accessed as this atomic only.
        let done = unsafe { AtomicU32::from_ptr(word.cast()) };
        Ok(CopyEngine { stream, done, issued: 0, scratch: None })
    }

    /// The word that tells which copies are done; see [`is_done`].
    pub fn done_word(&self) -> &'static AtomicU32 {
        self.done
    }

    /// Queues a copy, its last aligned word behind the rest, and returns its number.
    ///
    /// # Safety
    /// Both ranges stay allocated until the copy is done.
    pub unsafe fn copy(&mut self, dst: u64, src: u64, len: usize) -> Result<u32, GpuError> {
        let overlap = dst < src.saturating_add(len as u64) && src < dst.saturating_add(len as u64);
        let src = if overlap { self.stage(src, len)? } else { src };
        let body = body_bytes(dst, len);
        // SAFETY: the caller vouches for the ranges; the word lives for good.
        unsafe {
            if body > 0 {
                self.stream.copy(dst, src, body)?;
            }
            self.stream.copy(dst + body as u64, src + body as u64, len - body)?;
            self.issued = self.issued.wrapping_add(1);
            self.stream.store_u32(self.done.as_ptr() as u64, self.issued)?;
        }
        Ok(self.issued)
    }

    /// Queues a copy of `src` to memory of its own, whose address it returns.
    fn stage(&mut self, src: u64, len: usize) -> Result<u64, GpuError> {
        let scratch = match self.scratch.take() {
            Some(scratch) if scratch.len() >= len => scratch,
            // The old one is freed when the gate allows, so behind the copies that use it.
            _ => self.stream.gpu().alloc(len.next_power_of_two())?,
        };
        let address = scratch.address();
        self.scratch = Some(scratch);
        // SAFETY: `copy`'s caller vouches for the source; the scratch memory is ours, and this stream's copies
        // use it one after another.
        unsafe { self.stream.copy(address, src, len)? };
        Ok(address)
    }

    /// The error of a copy that failed, if one did.
    pub fn health(&self) -> Result<(), GpuError> {
        self.stream.is_done().map(drop)
    }
}

/// Whether copy `number` is done, by the engine's word.
pub(super) fn is_done(done: &AtomicU32, number: u32) -> bool {
    done.load(Ordering::Acquire).wrapping_sub(number) as i32 >= 0
}

/// How many of `len` bytes lie before the last aligned word.
fn body_bytes(dst: u64, len: usize) -> usize {
    let last = (dst + len as u64 - 1) & !7;
    last.saturating_sub(dst) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_aligned_word_comes_last() {
        assert_eq!(body_bytes(0x1000, 8), 0);
        assert_eq!(body_bytes(0x1000, 16), 8);
        assert_eq!(body_bytes(0x1000, 17), 16);
        assert_eq!(body_bytes(0x1004, 4), 0);
        assert_eq!(body_bytes(0x1004, 8), 4);
        assert_eq!(body_bytes(0x1003, 2), 0);
        assert_eq!(body_bytes(0x1000, 1), 0);
    }

    #[test]
    fn numbers_wrap() {
        let done = AtomicU32::new(0);
        assert!(is_done(&done, 0) && !is_done(&done, 1));
        done.store(u32::MAX, Ordering::Relaxed);
        assert!(is_done(&done, u32::MAX) && !is_done(&done, 0));
        done.store(0, Ordering::Relaxed);
        assert!(is_done(&done, u32::MAX) && is_done(&done, 0));
    }
}
