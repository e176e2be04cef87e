//! Where kernels run, and where they get memory.

use std::sync::Arc;

use ggas_clock::Clock;
use ggas_gpu::{GpuError, Module};

use crate::exec::CpuConfig;
use crate::idle::{IdleGuard, on_idle};
use crate::image;
use crate::memory::{HostMemory, KernelMem, Mapped, MemoryError};
use crate::proxy;

/// Bytes of a page of the host.
const PAGE: usize = 4096;

/// Where kernels run. Cheap to clone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Processor {
    /// The CPU executor.
    Cpu(Cpu),
    /// A GPU.
    Gpu(Gpu),
}

/// The CPU executor as a [`Processor`].
#[derive(Clone, Debug)]
pub struct Cpu {
    config: Arc<CpuConfig>,
}

impl Cpu {
    pub(crate) fn config(&self) -> &CpuConfig {
        &self.config
    }
}

/// A GPU as a [`Processor`]: opened, with all kernels loaded.
#[derive(Clone, Debug)]
pub struct Gpu {
    device: ggas_gpu::Gpu,
    /// One for each crate with kernels.
    modules: Arc<[Module]>,
}

impl Gpu {
    /// The GPU.
    pub fn device(&self) -> &ggas_gpu::Gpu {
        &self.device
    }

    /// The module that holds a kernel, as compiled for trapped ranges where the GPU has some; `None` for one that was
    /// [added](crate::add) after the GPU was opened.
    pub(crate) fn module_of(&self, kernel: &str) -> Option<&Module> {
        let looking = proxy::modules_of(&self.device).unwrap_or_default();
        looking.iter().chain(self.modules.iter()).find(|module| module.has(kernel))
    }
}

impl Processor {
    /// The CPU executor with default settings.
    pub fn cpu() -> Self {
        Self::cpu_with(CpuConfig::default())
    }

    /// The CPU executor.
    pub fn cpu_with(config: CpuConfig) -> Self {
        Self::Cpu(Cpu { config: Arc::new(config) })
    }

    /// GPU `ordinal`, from 0, with all kernels loaded: the library's, and those [added](crate::add) so far. Open all
    /// GPUs before kernels run on one.
    ///
    /// # Errors
    /// [`GpuError::NoGpu`] and [`GpuError::NoSuchDevice`], [`GpuError::NoImage`] where the build had no nvcc,
    /// [`GpuError::NotLoadable`], [`GpuError::Busy`] while kernels wait on another GPU, driver errors.
    pub fn gpu(ordinal: usize) -> Result<Self, GpuError> {
        let device = ggas_gpu::Gpu::open(ordinal)?;
        let modules =
            image::fatbins().into_iter().map(|fatbin| device.load(fatbin)).collect::<Result<_, _>>()?;
        Ok(Self::Gpu(Gpu { device, modules }))
    }

    /// GPU 0 if it can be used, the CPU executor otherwise, with a line that says why.
    pub fn best() -> (Self, Option<String>) {
        match Self::gpu(0) {
            Ok(gpu) => (gpu, None),
            Err(GpuError::NoGpu(reason)) => (Self::cpu(), Some(reason.fallback_note())),
            Err(error) => (Self::cpu(), Some(format!("{error}, using the CPU executor"))),
        }
    }

    /// "cpu", or "gpu" and which.
    pub fn name(&self) -> String {
        match self {
            Self::Cpu(_) => "cpu".to_owned(),
            Self::Gpu(gpu) => format!("gpu {}", gpu.device().ordinal()),
        }
    }

    /// Has executor threads of this processor do `work` when they only wait, as [`on_idle`] says. `None` on a GPU: its
    /// threads run nothing of the host's.
    pub fn on_idle(
        &self,
        clock: &Clock,
        work: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Option<IdleGuard> {
        matches!(self, Self::Cpu(_)).then(|| on_idle(clock, work))
    }

    /// `bytes` of zeroed memory that kernels on this processor use, aligned to 256 bytes.
    pub fn alloc(&self, bytes: usize) -> Result<KernelMem, MemoryError> {
        match self {
            Self::Cpu(_) => Ok(HostMemory::new(bytes)?.into()),
            Self::Gpu(gpu) => Ok(gpu.device().alloc(bytes)?.into()),
        }
    }

    /// Memory that the program has allocated where kernels on this processor use it: by `cudaMalloc` on a GPU, anyhow on the CPU.
    ///
    /// # Safety
    /// `start` is a multiple of 8. The memory is valid for reads and writes until the result is dropped, and no Rust reference to it is
    /// used while kernels write to it.
    ///
    /// # Errors
    /// [`MemoryError::Gpu`]: it is not in this GPU's memory.
    pub unsafe fn borrow(&self, start: *mut u8, bytes: usize) -> Result<KernelMem, MemoryError> {
        match self {
            // SAFETY: passed on.
            Self::Cpu(_) => unsafe { KernelMem::borrow(start, bytes) },
            Self::Gpu(gpu) => {
                // SAFETY: passed on.
                Ok(unsafe { ggas_gpu::DeviceBuffer::borrow(gpu.device(), start as u64, bytes)? }.into())
            }
        }
    }

    /// `bytes` of zeroed host memory that kernels on this processor use at the same address, aligned to a page.
    ///
    /// # Errors
    /// [`MemoryError::NotUnified`] for a GPU that has another address for it.
    pub fn alloc_host(&self, bytes: usize) -> Result<KernelMem, MemoryError> {
        // Whole pages: a GPU maps those, and no page twice.
        let memory = HostMemory::aligned(bytes.max(1).next_multiple_of(PAGE), PAGE)?;
        if matches!(self, Self::Cpu(_)) {
            return Ok(memory.into());
        }
        // SAFETY: the mapping goes first; raw memory, to which there are no references.
        let mapped = unsafe { self.map_host(memory.start(), memory.len())? };
        KernelMem::mapped(mapped, memory)
    }

    /// Lets kernels on this processor use `len` bytes of host memory at `start`.
    ///
    /// # Safety
    /// The memory is valid for reads and writes until the result is dropped (on a GPU: and kernels that run then
    /// have ended), and no Rust reference to it is used while kernels write to it.
    ///
    /// # Errors
    /// [`MemoryError::Gpu`] where a GPU cannot map it.
    pub unsafe fn map_host(&self, start: *mut u8, len: usize) -> Result<Mapped, MemoryError> {
        match self {
            Self::Cpu(_) => Ok(Mapped::new(start as u64, len, None)),
            Self::Gpu(gpu) => {
                // SAFETY: passed on.
                let mapping = unsafe { gpu.device().map_host(start, len)? };
                Ok(Mapped::new(mapping.address(), len, Some(mapping)))
            }
        }
    }

    /// Lets kernels on this processor use what the driver of another device mapped for this process: its registers, or memory
    /// that it gave.
    ///
    /// # Safety
    /// As [`map_host`](Self::map_host).
    ///
    /// # Errors
    /// [`MemoryError::Gpu`] where a GPU cannot reach it.
    pub unsafe fn map_device(&self, start: *mut u8, len: usize) -> Result<Mapped, MemoryError> {
        match self {
            Self::Cpu(_) => Ok(Mapped::new(start as u64, len, None)),
            Self::Gpu(gpu) => {
                // SAFETY: passed on.
                let mapping = unsafe { gpu.device().map_device(start, len)? };
                Ok(Mapped::new(mapping.address(), len, Some(mapping)))
            }
        }
    }
}
