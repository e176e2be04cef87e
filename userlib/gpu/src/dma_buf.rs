//! GPU memory as a dma-buf: today's way for other devices of the host to reach it.

use std::os::fd::{FromRawFd, OwnedFd};

use crate::error::GpuError;
use crate::gpu::Gpu;
use crate::sys::*;

/// Buffers are whole pages of the host.
const PAGE: u64 = 4096;

impl Gpu {
    /// Exports the pages around `bytes` of this GPU's memory at `address`, and gives the descriptor and the offset of the
    /// first byte in it. The pages, what else lies in them included, are those of one allocation. The memory may be freed
    /// while others have the buffer: the driver then ends their access.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] where GPU or driver cannot; [`GpuError::Invalid`] for an empty range; driver errors.
    pub fn dma_buf(&self, address: u64, bytes: usize) -> Result<(OwnedFd, u64), GpuError> {
        if !self.info().dma_buf {
            return Err(GpuError::Unsupported { gpu: self.ordinal(), what: "memory as a dma-buf" });
        }
        let start = address / PAGE * PAGE;
        let end = address.checked_add(bytes as u64).and_then(|end| end.checked_next_multiple_of(PAGE));
        let Some(end) = end.filter(|_| bytes > 0) else {
            return Err(GpuError::Invalid(format!("{bytes} bytes at {address:#x} as a dma-buf")));
        };
        self.enter()?;
        let mut fd: std::ffi::c_int = -1;
        let kind = CUmemRangeHandleType_enum::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
        // SAFETY: for this type of handle the driver writes an int.
        let result = unsafe {
            cuMemGetHandleForAddressRange((&raw mut fd).cast(), start, (end - start) as usize, kind, 0)
        };
        self.check("cuMemGetHandleForAddressRange", result)?;
        // SAFETY: the driver opened it for us, and nobody else closes it.
        let buffer = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: our own descriptor; programs started meanwhile have no use for it.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        Ok((buffer, address - start))
    }
}
