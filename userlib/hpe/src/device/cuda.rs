//! A GPU. Its plain memory has CUDA's unified addresses, whose owner the driver knows; its shared objects have an address in the
//! segment, where the host's side is.

use ggas_gpu::{Gpu, GpuError};

use super::{Device, Memory, Queue};
use crate::error::HpeError;

pub(crate) struct CudaDevice(pub Gpu);

impl Device for CudaDevice {
    fn map(&self, _: u64, size: usize) -> Result<Memory, HpeError> {
        let buffer = self.0.alloc(size)?;
        Ok(Memory { address: buffer.address(), inside: buffer.address(), _buffer: Some(buffer) })
    }

    fn unmap(&self, _: &Memory, _: usize) {
        // The buffer frees itself.
    }

    unsafe fn submit(&self, queue: &mut Queue, dst: u64, src: u64, len: usize) -> Result<u64, HpeError> {
        let stream = self.0.stream()?;
        // SAFETY: the caller's contract.
        unsafe { stream.copy(dst, src, len)? };
        queue.last += 1;
        queue.streams.insert(queue.last, stream);
        Ok(queue.last)
    }

    fn is_done(&self, queue: &mut Queue, number: u64) -> Result<bool, HpeError> {
        let done = match queue.streams.get(&number) {
            Some(stream) => stream.is_done(),
            None => Ok(true),
        };
        if !matches!(done, Ok(false)) {
            queue.streams.remove(&number);
        }
        Ok(done?)
    }

    unsafe fn copy_now(&self, dst: u64, src: u64, len: usize, to_device: bool) -> Result<(), HpeError> {
        let copied: Result<(), GpuError> = if to_device {
            // SAFETY: the caller's contract; the host's side is written by nobody meanwhile.
            unsafe { self.0.write_at(dst, std::slice::from_raw_parts(src as *const u8, len)) }
        } else {
            // SAFETY: the same; the host's side is used by nobody meanwhile.
            unsafe { self.0.read_at(src, std::slice::from_raw_parts_mut(dst as *mut u8, len)) }
        };
        Ok(copied?)
    }

    fn is_signal_safe(&self) -> bool {
        false
    }

    fn wants_pinned(&self) -> bool {
        true
    }

    fn gpu(&self) -> Option<&Gpu> {
        Some(&self.0)
    }

    fn end(&self) {
        // GPUs stay open until the process ends.
    }
}
