//! CUDA's managed memory: pages that the driver moves to who touches them, host or GPU.

use crate::error::GpuError;
use crate::gpu::Gpu;
use crate::memory::out_of_memory;
use crate::sys::*;

/// Managed memory, not filled. The host and kernels use it at one address; its pages move by faults. Freed on drop.
#[derive(Debug)]
pub struct ManagedBuffer {
    gpu: Gpu,
    address: u64,
    bytes: usize,
}

impl ManagedBuffer {
    /// Allocates; `bytes` 0 allocates one byte.
    pub(crate) fn new(gpu: &Gpu, bytes: usize) -> Result<ManagedBuffer, GpuError> {
        gpu.enter()?;
        let (mut address, attach) = (0, Attach::CU_MEM_ATTACH_GLOBAL as u32);
        // SAFETY: `address` is written on success.
        let result = unsafe { cuMemAllocManaged(&mut address, bytes.max(1), attach) };
        gpu.check("cuMemAllocManaged", result).map_err(|error| out_of_memory(gpu, bytes, error))?;
        Ok(ManagedBuffer { gpu: gpu.clone(), address, bytes })
    }

    /// Where kernels find it, and the host: [`ManagedBuffer::start`].
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its first byte. Who touches it while work of the GPU uses it sees what a race gives.
    pub fn start(&self) -> *mut u8 {
        self.address as *mut u8
    }

    /// Its size in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for ManagedBuffer {
    fn drop(&mut self) {
        if self.gpu.enter().is_ok() {
            // SAFETY: the buffer is gone, so nobody uses the address; the driver waits for work that does.
            let _ = self.gpu.check("cuMemFree", unsafe { cuMemFree_v2(self.address) });
        }
    }
}
