//! Host memory of queues and slot rings.

use std::ptr::NonNull;

use ggas_kernels::{Mapped, Processor};

use super::refused;
use crate::{DeviceError, HostBuffer, PAGE};

/// Host memory that an engine uses, at its address there.
pub(super) struct Shared {
    // Gone before the memory.
    pub mapped: Mapped,
    pub buffer: HostBuffer,
}

impl Shared {
    pub fn new(processor: &Processor, bytes: usize, what: &'static str) -> Result<Shared, DeviceError> {
        let buffer = HostBuffer::private(bytes, PAGE, what)?;
        // SAFETY: the buffer outlives the mapping; all access to it is atomic.
        let mapped = unsafe { processor.map_host(buffer.as_ptr(), buffer.len()) }.map_err(refused(what))?;
        Ok(Shared { mapped, buffer })
    }

    pub fn pointer<T>(&self, offset: usize) -> NonNull<T> {
        // SAFETY: the callers stay inside the buffer, which is not at address 0.
        unsafe { NonNull::new_unchecked(self.buffer.as_ptr().add(offset)) }.cast()
    }
}
