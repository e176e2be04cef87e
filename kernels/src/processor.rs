//! Where kernels run, and the memory that they see.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ggas_clock::Clock;
use ggas_gpu::{DeviceBuffer, GpuError, HostMapping, Module};

use crate::exec::{self, CpuConfig};
use crate::idle::{IdleGuard, on_idle};
use crate::image;

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

    /// The module that holds a kernel; `None` for one that was [added](crate::add) after the GPU was opened.
    pub(crate) fn module_of(&self, kernel: &str) -> Option<&Module> {
        self.modules.iter().find(|module| module.has(kernel))
    }
}

/// Memory for kernels could not be had.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// No memory left, or a size that no machine has.
    #[error("no {bytes} bytes of memory for kernels; ask for less")]
    NoMemory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// An access beyond the end.
    #[error("{len} bytes at offset {offset} do not lie in {size} bytes of kernel memory")]
    OutOfRange {
        /// First byte of the access.
        offset: usize,
        /// Bytes of the access.
        len: usize,
        /// Bytes of the memory.
        size: usize,
    },
    /// A GPU refused.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

ggas_errors::debug_as_display!(MemoryError);

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
            Self::Cpu(_) => Ok(KernelMem { memory: Memory::Host(HostMemory::new(bytes)?) }),
            Self::Gpu(gpu) => Ok(KernelMem { memory: Memory::Gpu(gpu.device().alloc(bytes)?) }),
        }
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
            Self::Cpu(_) => Ok(Mapped { address: start as u64, len, _gpu: None }),
            Self::Gpu(gpu) => {
                // SAFETY: passed on.
                let mapping = unsafe { gpu.device().map_host(start, len)? };
                Ok(Mapped { address: mapping.address(), len, _gpu: Some(mapping) })
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
            Self::Cpu(_) => Ok(Mapped { address: start as u64, len, _gpu: None }),
            Self::Gpu(gpu) => {
                // SAFETY: passed on.
                let mapping = unsafe { gpu.device().map_device(start, len)? };
                Ok(Mapped { address: mapping.address(), len, _gpu: Some(mapping) })
            }
        }
    }
}

/// Memory that kernels of one processor use; the host copies in and out.
#[derive(Debug)]
pub struct KernelMem {
    memory: Memory,
}

#[derive(Debug)]
enum Memory {
    Host(HostMemory),
    Gpu(DeviceBuffer),
}

impl KernelMem {
    /// The address that kernels use.
    pub fn address(&self) -> u64 {
        match &self.memory {
            Memory::Host(memory) => memory.start as u64,
            Memory::Gpu(memory) => memory.address(),
        }
    }

    /// Its size in bytes.
    pub fn len(&self) -> usize {
        match &self.memory {
            Memory::Host(memory) => memory.layout.size(),
            Memory::Gpu(memory) => memory.len(),
        }
    }

    /// True when it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies `bytes` in at `offset`. Kernels that read the same bytes meanwhile may see a mix.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        self.check(offset, bytes.len())?;
        match &self.memory {
            // SAFETY: in range by the check; raw memory of ours, no references to it exist.
            Memory::Host(memory) => unsafe {
                memory.start.add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            },
            Memory::Gpu(memory) => memory.write(offset as u64, bytes)?,
        }
        Ok(())
    }

    /// Copies out from `offset`. Bytes that kernels write meanwhile may be old or new.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), MemoryError> {
        self.check(offset, bytes.len())?;
        match &self.memory {
            // SAFETY: in range by the check; raw memory of ours, no references to it exist.
            Memory::Host(memory) => unsafe {
                memory.start.add(offset).copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len());
            },
            Memory::Gpu(memory) => memory.read(offset as u64, bytes)?,
        }
        Ok(())
    }

    /// Reads `count` little-endian words of 8 bytes from `offset`.
    pub fn read_u64s(&self, offset: usize, count: usize) -> Result<Vec<u64>, MemoryError> {
        let mut bytes = vec![0; count.saturating_mul(8)];
        self.read(offset, &mut bytes)?;
        Ok(bytes.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap_or_default())).collect())
    }

    /// Writes little-endian words of 8 bytes at `offset`.
    pub fn write_u64s(&self, offset: usize, words: &[u64]) -> Result<(), MemoryError> {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.write(offset, &bytes)
    }

    /// The GPU memory that this is, on a GPU.
    pub fn device_buffer(&self) -> Option<&DeviceBuffer> {
        match &self.memory {
            Memory::Host(_) => None,
            Memory::Gpu(memory) => Some(memory),
        }
    }

    /// One aligned word, read with acquire: pairs with a kernel's release store.
    pub fn load_u64(&self, offset: usize) -> Result<u64, MemoryError> {
        self.check(offset, 8)?;
        self.check_aligned(offset)?;
        match &self.memory {
            Memory::Host(memory) => Ok(memory.word(offset).load(Ordering::Acquire)),
            Memory::Gpu(_) => {
                let mut word = [0; 8];
                self.read(offset, &mut word)?;
                Ok(u64::from_le_bytes(word))
            }
        }
    }

    /// One aligned word, written with release.
    pub fn store_u64(&self, offset: usize, value: u64) -> Result<(), MemoryError> {
        self.check(offset, 8)?;
        self.check_aligned(offset)?;
        match &self.memory {
            Memory::Host(memory) => memory.word(offset).store(value, Ordering::Release),
            Memory::Gpu(_) => self.write(offset, &value.to_le_bytes())?,
        }
        Ok(())
    }

    /// One aligned word of 4 bytes, written with release, while kernels run too.
    pub fn store_u32(&self, offset: usize, value: u32) -> Result<(), MemoryError> {
        self.check(offset, 4)?;
        if !offset.is_multiple_of(4) {
            return Err(MemoryError::OutOfRange { offset, len: 4, size: self.len() });
        }
        match &self.memory {
            // SAFETY: in range and aligned by the checks; atomics tolerate what kernels do to it.
            Memory::Host(memory) => unsafe { AtomicU32::from_ptr(memory.start.add(offset).cast()) }
                .store(value, Ordering::Release),
            Memory::Gpu(_) => self.write(offset, &value.to_le_bytes())?,
        }
        Ok(())
    }

    fn check(&self, offset: usize, len: usize) -> Result<(), MemoryError> {
        let size = self.len();
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(()),
            _ => Err(MemoryError::OutOfRange { offset, len, size }),
        }
    }

    fn check_aligned(&self, offset: usize) -> Result<(), MemoryError> {
        if offset.is_multiple_of(8) {
            Ok(())
        } else {
            Err(MemoryError::OutOfRange { offset, len: 8, size: self.len() })
        }
    }
}

#[derive(Debug)]
struct HostMemory {
    start: *mut u8,
    layout: Layout,
}

// SAFETY: raw memory; every access is by copy or atomic, and sharing it is the kernels' contract.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    const ALIGN: usize = 256;

    fn new(bytes: usize) -> Result<Self, MemoryError> {
        let none = MemoryError::NoMemory { bytes };
        let Ok(layout) = Layout::from_size_align(bytes.max(1), Self::ALIGN) else { return Err(none) };
        // SAFETY: the layout has a size above 0.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() { Err(none) } else { Ok(Self { start, layout }) }
    }
}

impl HostMemory {
    /// The caller checked range and alignment.
    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: in range and aligned by the checks; atomics tolerate what kernels do to it.
        unsafe { AtomicU64::from_ptr(self.start.add(offset).cast()) }
    }
}

/// Memory that a kernel which could not be stopped may still use: kept for good.
static KEPT: Mutex<Vec<HostMemory>> = Mutex::new(Vec::new());

impl Drop for HostMemory {
    fn drop(&mut self) {
        if exec::leaked() {
            let kept = HostMemory { start: self.start, layout: self.layout };
            KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
        } else {
            // SAFETY: allocated in `new` with this layout.
            unsafe { dealloc(self.start, self.layout) };
        }
    }
}

/// Host memory that kernels of a processor may use; dropping it ends that.
#[derive(Debug)]
pub struct Mapped {
    address: u64,
    len: usize,
    _gpu: Option<HostMapping>,
}

impl Mapped {
    /// The address that kernels use.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
