//! Memory that a process passes to others: they map it, and their kernels load and store it.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use ggas::Processor;
use ggas::device::{HostBuffer, Place, SharedMemory, Span};
use ggas::kernels::{Mapped, MemoryError};
use ggas_gpu::{GpuPart, GpuWindow};
use serde::{Deserialize, Serialize};

use crate::GaspiError;
use crate::error::because;

/// What a process says of a segment that it passes on. The descriptors come with it: of the segment, and of the
/// notifications where these lie elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told {
    /// The program asked for GPU memory.
    pub is_gpu: bool,
    /// It is memory of a GPU, and no stand-in.
    pub on_device: bool,
    /// Bytes of the memory of the first descriptor.
    pub bytes: u64,
    /// Where the notifications are in it; `None`: in memory of their own.
    pub flags_at: Option<u64>,
    /// Bytes of the notifications.
    pub flag_bytes: u64,
}

/// Memory that several processes may map. Zero at first.
pub(crate) enum Memory {
    /// Host memory, of which kernels of this process know.
    Host { _pinned: Mapped, mapped: HostBuffer, shared: SharedMemory },
    /// GPU memory; the descriptor is of memory of this process.
    Device { window: GpuWindow, fd: Option<OwnedFd> },
}

/// Bytes that `bytes` of a GPU's memory take.
fn stride(gpu: &ggas_gpu::Gpu, bytes: usize) -> Result<usize, GaspiError> {
    let granularity = gpu.part_granularity().map_err(because(GaspiError::Memory))?;
    bytes.checked_next_multiple_of(granularity).ok_or(GaspiError::Memory)
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({:#x})", self.address())
    }
}

impl Memory {
    /// Host memory.
    pub(crate) fn on_host(processor: &Processor, bytes: usize) -> Result<Memory, GaspiError> {
        Memory::host(processor, SharedMemory::new(bytes).map_err(because(GaspiError::Memory))?)
    }

    /// Memory of the GPU that this processor is, or host memory in its place.
    pub(crate) fn on_device(processor: &Processor, bytes: usize) -> Result<Memory, GaspiError> {
        let Processor::Gpu(gpu) = processor else { return Memory::on_host(processor, bytes) };
        let gpu = gpu.device();
        let memory = because(GaspiError::Memory);
        let stride = stride(gpu, bytes)?;
        let make = || {
            let part = GpuPart::new(gpu, stride)?;
            let fd = part.export()?;
            Ok((part.window(0, &[None], bytes)?, fd))
        };
        let (window, fd) = make().map_err(|error: ggas_gpu::GpuError| memory(error))?;
        Ok(Memory::Device { window, fd: Some(fd) })
    }

    /// Memory of another process.
    pub(crate) fn received(
        processor: &Processor,
        fd: OwnedFd,
        bytes: usize,
        on_device: bool,
    ) -> Result<Memory, GaspiError> {
        match (processor, on_device) {
            (Processor::Gpu(gpu), true) => {
                let stride = stride(gpu.device(), bytes)?;
                let window = GpuWindow::received(gpu.device(), fd.as_fd(), stride, bytes);
                Ok(Memory::Device { window: window.map_err(because(GaspiError::Memory))?, fd: None })
            }
            (_, true) => Err(because(GaspiError::Memory)("memory of a GPU, where no GPU is")),
            (_, false) => {
                let shared = SharedMemory::received(fd, bytes).map_err(because(GaspiError::Memory))?;
                Memory::host(processor, shared)
            }
        }
    }

    fn host(processor: &Processor, shared: SharedMemory) -> Result<Memory, GaspiError> {
        let mapped = shared.map().map_err(because(GaspiError::Memory))?;
        // SAFETY: dropped before the memory, and accessed by copies and atomics only.
        let pinned = unsafe { processor.map_host(mapped.address() as *mut u8, mapped.len()) };
        let pinned = pinned.map_err(|error: MemoryError| because(GaspiError::Memory)(error))?;
        Ok(Memory::Host { _pinned: pinned, mapped, shared })
    }

    /// Address of the first byte, for kernels and copies.
    pub(crate) fn address(&self) -> u64 {
        match self {
            Memory::Host { mapped, .. } => mapped.address(),
            Memory::Device { window, .. } => window.base(),
        }
    }

    /// The same, where it is host memory.
    pub(crate) fn host_address(&self) -> Option<*mut u8> {
        match self {
            Memory::Host { mapped, .. } => Some(mapped.as_ptr()),
            Memory::Device { .. } => None,
        }
    }

    /// A part of it as a network device sees it.
    pub(crate) fn span(&self, offset: usize, len: usize) -> Span {
        let place = match self {
            Memory::Device { window, .. } => window.gpu(0).map_or(Place::Host, |gpu| Place::Gpu(gpu.clone())),
            Memory::Host { .. } => Place::Host,
        };
        Span { address: self.address() + offset as u64, len, place }
    }

    /// What other processes map; of memory of this process.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Memory::Host { shared, .. } => Some(shared.as_fd()),
            Memory::Device { fd, .. } => fd.as_ref().map(AsFd::as_fd),
        }
    }

    /// Copies out; the caller has checked the range.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), GaspiError> {
        match self {
            Memory::Host { mapped, .. } => mapped.read(offset as usize, into),
            Memory::Device { window, .. } => {
                window.read(0, offset, into).map_err(because(GaspiError::Failed))?;
            }
        }
        Ok(())
    }

    /// Copies in; the caller has checked the range.
    pub(crate) fn write(&self, offset: u64, from: &[u8]) -> Result<(), GaspiError> {
        match self {
            Memory::Host { mapped, .. } => mapped.write(offset as usize, from),
            Memory::Device { window, .. } => {
                window.write(0, offset, from).map_err(because(GaspiError::Failed))?;
            }
        }
        Ok(())
    }

    /// An aligned word, with acquire.
    pub(crate) fn load(&self, offset: u64) -> Result<u64, GaspiError> {
        match self {
            Memory::Host { mapped, .. } => Ok(mapped.load_u64(offset as usize)),
            Memory::Device { .. } => {
                let mut word = [0; 8];
                self.read(offset, &mut word)?;
                Ok(u64::from_ne_bytes(word))
            }
        }
    }

    /// Makes an aligned word 0 and gives what it was. In GPU memory not atomic with what others write meanwhile.
    pub(crate) fn take(&self, offset: u64) -> Result<u64, GaspiError> {
        match self {
            Memory::Host { mapped, .. } => Ok(mapped.word(offset as usize).swap(0, Ordering::AcqRel)),
            Memory::Device { .. } => {
                let old = self.load(offset)?;
                if old != 0 {
                    self.write(offset, &[0; 8])?;
                }
                Ok(old)
            }
        }
    }
}
