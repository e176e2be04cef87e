//! CUDA's managed memory: one address for host and GPUs, whose pages the driver moves to whoever touches them.

use crate::error::GpuError;
use crate::gpu::Gpu;
use crate::memory::out_of_memory;
use crate::resident::gate;
use crate::sys::*;

/// Managed memory, which the host and kernels of all GPUs use at the same address. Freed on drop, as soon as no waiting kernel is
/// resident.
#[derive(Debug)]
pub struct ManagedBuffer {
    gpu: Gpu,
    address: u64,
}

impl ManagedBuffer {
    pub(crate) fn new(gpu: &Gpu, bytes: usize) -> Result<ManagedBuffer, GpuError> {
        gpu.enter()?;
        let mut address = 0;
        let flags = CUmemAttach_flags_enum::CU_MEM_ATTACH_GLOBAL as u32;
        // SAFETY: `address` is written on success.
        let result = unsafe { cuMemAllocManaged(&mut address, bytes.max(1), flags) };
        let result = gpu.check("cuMemAllocManaged", result);
        result.map_err(|error| out_of_memory(gpu, bytes, error))?;
        Ok(ManagedBuffer { gpu: gpu.clone(), address })
    }

    /// Its address, for the host and for kernels.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for ManagedBuffer {
    fn drop(&mut self) {
        let (gpu, address) = (self.gpu.clone(), self.address);
        gate().defer(move || {
            if gpu.enter().is_ok() {
                // SAFETY: the buffer is gone, so nobody on the host uses the address, and the gate says that no kernel runs that could.
                let _ = gpu.check("cuMemFree", unsafe { cuMemFree_v2(address) });
            }
        });
    }
}
