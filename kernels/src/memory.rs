//! The memory that kernels see.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ggas_gpu::{DeviceBuffer, GpuError, HostMapping};

use crate::exec;

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
    /// A GPU sees host memory at another address than the host does.
    #[error(
        "this GPU sees host memory at addresses of its own; use one with unified addresses, or memory of the GPU"
    )]
    NotUnified,
    /// The operating system gave no thread for accesses that a GPU's kernels have the host make.
    #[error(
        "no thread for accesses of a GPU's kernels to other hosts: {error}; raise the limit of this process (`ulimit -u`)"
    )]
    NoThread {
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// A GPU refused.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

ggas_errors::debug_as_display!(MemoryError);

/// Memory that kernels of one processor use; the host copies in and out.
#[derive(Debug)]
pub struct KernelMem {
    memory: Memory,
}

#[derive(Debug)]
enum Memory {
    Host(HostMemory),
    /// Host memory that a GPU has mapped, for as long as the first is there.
    Mapped(#[expect(dead_code, reason = "ends with the memory")] Mapped, HostMemory),
    Gpu(DeviceBuffer),
}

impl From<HostMemory> for KernelMem {
    fn from(memory: HostMemory) -> KernelMem {
        KernelMem { memory: Memory::Host(memory) }
    }
}

impl From<DeviceBuffer> for KernelMem {
    fn from(memory: DeviceBuffer) -> KernelMem {
        KernelMem { memory: Memory::Gpu(memory) }
    }
}

impl KernelMem {
    /// Memory of somebody else's.
    ///
    /// # Safety
    /// As of [`Processor::borrow`](crate::Processor::borrow).
    pub(crate) unsafe fn borrow(start: *mut u8, bytes: usize) -> Result<KernelMem, MemoryError> {
        let layout = Layout::from_size_align(bytes, 8).map_err(|_| MemoryError::NoMemory { bytes })?;
        Ok(HostMemory { start, layout, owned: false }.into())
    }

    /// Host memory that a GPU has mapped.
    pub(crate) fn mapped(mapped: Mapped, memory: HostMemory) -> Result<KernelMem, MemoryError> {
        if mapped.address() != memory.start as u64 {
            return Err(MemoryError::NotUnified);
        }
        Ok(KernelMem { memory: Memory::Mapped(mapped, memory) })
    }

    /// The address that kernels use.
    pub fn address(&self) -> u64 {
        match &self.memory {
            Memory::Host(memory) | Memory::Mapped(_, memory) => memory.start as u64,
            Memory::Gpu(memory) => memory.address(),
        }
    }

    /// Its size in bytes.
    pub fn len(&self) -> usize {
        match &self.memory {
            Memory::Host(memory) | Memory::Mapped(_, memory) => memory.layout.size(),
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
            Memory::Host(memory) | Memory::Mapped(_, memory) => unsafe {
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
            Memory::Host(memory) | Memory::Mapped(_, memory) => unsafe {
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
            Memory::Host(_) | Memory::Mapped(..) => None,
            Memory::Gpu(memory) => Some(memory),
        }
    }

    /// One aligned word, read with acquire: pairs with a kernel's release store.
    pub fn load_u64(&self, offset: usize) -> Result<u64, MemoryError> {
        self.check(offset, 8)?;
        self.check_aligned(offset)?;
        match &self.memory {
            Memory::Host(memory) | Memory::Mapped(_, memory) => {
                Ok(memory.word(offset).load(Ordering::Acquire))
            }
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
            Memory::Host(memory) | Memory::Mapped(_, memory) => {
                memory.word(offset).store(value, Ordering::Release);
            }
            Memory::Gpu(_) => self.write(offset, &value.to_le_bytes())?,
        }
        Ok(())
    }

    /// One aligned word of 4 bytes of host memory, left as 0: what a kernel stores at the same moment is the result, or stays.
    ///
    /// # Errors
    /// [`MemoryError::OutOfRange`], also where it is a GPU's memory, of which the host takes nothing.
    pub fn take_u32(&self, offset: usize) -> Result<u32, MemoryError> {
        self.check(offset, 4)?;
        match &self.memory {
            Memory::Host(memory) | Memory::Mapped(_, memory) if offset.is_multiple_of(4) => {
                let word = memory.half(offset);
                // Looking is cheaper than taking.
                Ok(if word.load(Ordering::Relaxed) == 0 { 0 } else { word.swap(0, Ordering::AcqRel) })
            }
            _ => Err(MemoryError::OutOfRange { offset, len: 4, size: self.len() }),
        }
    }

    /// One aligned word of 4 bytes, written with release, while kernels run too.
    pub fn store_u32(&self, offset: usize, value: u32) -> Result<(), MemoryError> {
        self.check(offset, 4)?;
        if !offset.is_multiple_of(4) {
            return Err(MemoryError::OutOfRange { offset, len: 4, size: self.len() });
        }
        match &self.memory {
            Memory::Host(memory) | Memory::Mapped(_, memory) => {
                memory.half(offset).store(value, Ordering::Release);
            }
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
pub(crate) struct HostMemory {
    start: *mut u8,
    layout: Layout,
    /// Not somebody else's.
    owned: bool,
}

// SAFETY: raw memory; every access is by copy or atomic, and sharing it is the kernels' contract.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    const ALIGN: usize = 256;

    pub(crate) fn new(bytes: usize) -> Result<Self, MemoryError> {
        HostMemory::aligned(bytes, Self::ALIGN)
    }

    pub(crate) fn aligned(bytes: usize, align: usize) -> Result<Self, MemoryError> {
        let none = MemoryError::NoMemory { bytes };
        let Ok(layout) = Layout::from_size_align(bytes.max(1), align) else { return Err(none) };
        // SAFETY: the layout has a size above 0.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() { Err(none) } else { Ok(Self { start, layout, owned: true }) }
    }
}

impl HostMemory {
    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.layout.size()
    }

    /// The caller checked range and alignment.
    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: in range and aligned by the checks; atomics tolerate what kernels do to it.
        unsafe { AtomicU64::from_ptr(self.start.add(offset).cast()) }
    }

    /// The caller checked range and alignment.
    fn half(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.start.add(offset).cast()) }
    }
}

/// Memory that a kernel which could not be stopped may still use: kept for good.
static KEPT: Mutex<Vec<HostMemory>> = Mutex::new(Vec::new());

impl Drop for HostMemory {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        if exec::leaked() {
            let kept = HostMemory { start: self.start, layout: self.layout, owned: true };
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
    pub(crate) fn new(address: u64, len: usize, gpu: Option<HostMapping>) -> Mapped {
        Mapped { address, len, _gpu: gpu }
    }

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
