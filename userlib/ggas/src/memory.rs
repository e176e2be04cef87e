//! The memory of a window: one range of addresses, part i at base + i * stride, wherever that can be had.

use std::fmt;

use ggas_device::{HostBuffer, PAGE, Place, Span};
use ggas_gpu::{Gpu, GpuError, GpuWindow};
use ggas_kernels::{KernelMem, Processor};

use crate::{Mapping, WindowError};

/// Where the parts are.
pub(crate) enum Parts {
    /// Memory of this process, for kernels on the CPU executor.
    Process(HostBuffer),
    /// Memory of GPUs that reach each other.
    Gpus { window: GpuWindow, gpus: Vec<Gpu> },
    /// Each member has memory of its own that the others' kernels do not reach, and why.
    Apart { parts: Vec<KernelMem>, reason: String },
}

impl Parts {
    /// Zeroed parts for these processors and the bytes from part to part.
    pub(crate) fn new(processors: &[&Processor], bytes: usize) -> Result<(Parts, usize), WindowError> {
        let too_large = WindowError::TooLarge { members: processors.len(), bytes };
        let stride = bytes.checked_next_multiple_of(PAGE);
        let total = stride.and_then(|stride| stride.checked_mul(processors.len()));
        let (Some(stride), Some(total)) = (stride, total) else { return Err(too_large) };
        let gpus: Vec<Gpu> = processors.iter().filter_map(|processor| gpu_of(processor)).collect();
        if gpus.is_empty() {
            return Ok((Parts::Process(HostBuffer::zeroed(total)?), stride));
        }
        if gpus.len() < processors.len() {
            let reason = "some members are on the CPU and some on a GPU".to_owned();
            return Ok((Parts::apart(processors, bytes, reason)?, stride));
        }
        match GpuWindow::new(&gpus, bytes) {
            Ok(window) => {
                let stride = window.stride() as usize;
                Ok((Parts::Gpus { window, gpus }, stride))
            }
            Err(error @ (GpuError::NoPeerAccess { .. } | GpuError::Unsupported { .. })) => {
                Ok((Parts::apart(processors, bytes, error.to_string())?, stride))
            }
            Err(error) => Err(WindowError::Gpu(error)),
        }
    }

    fn apart(processors: &[&Processor], bytes: usize, reason: String) -> Result<Parts, WindowError> {
        let parts = processors.iter().map(|processor| processor.alloc(bytes)).collect::<Result<_, _>>()?;
        Ok(Parts::Apart { parts, reason })
    }

    /// How kernels reach all parts.
    pub(crate) fn mapping(&self) -> Result<Mapping, String> {
        match self {
            Parts::Process(_) => Ok(Mapping::Process),
            Parts::Gpus { .. } => Ok(Mapping::Peers),
            Parts::Apart { reason, .. } => Err(reason.clone()),
        }
    }

    /// Whether kernels may use atomics on all parts.
    pub(crate) fn atomics(&self) -> bool {
        match self {
            Parts::Process(_) => true,
            Parts::Gpus { gpus, .. } => {
                let native = |gpu: &Gpu, peer: &Gpu| {
                    gpu == peer || gpu.info().peers.get(peer.ordinal()).is_some_and(|to| to.atomics)
                };
                gpus.iter().all(|gpu| gpus.iter().all(|peer| native(gpu, peer)))
            }
            Parts::Apart { .. } => false,
        }
    }

    /// Address of part `rank` for its own kernels.
    pub(crate) fn local(&self, rank: usize, stride: usize) -> u64 {
        match self {
            Parts::Process(memory) => memory.address() + (rank * stride) as u64,
            Parts::Gpus { window, .. } => window.address(rank).unwrap_or_default(),
            Parts::Apart { parts, .. } => parts[rank].address(),
        }
    }

    /// Part `rank` as the card sees it.
    pub(crate) fn span(&self, rank: usize, stride: usize, len: usize) -> Span {
        let place = match self {
            Parts::Process(_) => Place::Host,
            Parts::Gpus { gpus, .. } => Place::Gpu(gpus[rank].clone()),
            Parts::Apart { parts, .. } => match parts[rank].device_buffer() {
                Some(buffer) => Place::Gpu(buffer.gpu().clone()),
                None => Place::Host,
            },
        };
        Span { address: self.local(rank, stride), len, place }
    }

    /// Copies out; the range was checked.
    pub(crate) fn read(&self, rank: usize, at: At, into: &mut [u8]) -> Result<(), WindowError> {
        match self {
            Parts::Process(memory) => memory.read(at.in_window(rank), into),
            Parts::Gpus { window, .. } => window.read(rank, at.offset as u64, into)?,
            Parts::Apart { parts, .. } => parts[rank].read(at.offset, into)?,
        }
        Ok(())
    }

    /// Copies in; the range was checked.
    pub(crate) fn write(&self, rank: usize, at: At, from: &[u8]) -> Result<(), WindowError> {
        match self {
            Parts::Process(memory) => memory.write(at.in_window(rank), from),
            Parts::Gpus { window, .. } => window.write(rank, at.offset as u64, from)?,
            Parts::Apart { parts, .. } => parts[rank].write(at.offset, from)?,
        }
        Ok(())
    }

    /// Loads a word with acquire order; range and alignment were checked.
    pub(crate) fn load_u64(&self, rank: usize, at: At) -> Result<u64, WindowError> {
        match self {
            Parts::Process(memory) => Ok(memory.load_u64(at.in_window(rank))),
            Parts::Apart { parts, .. } => Ok(parts[rank].load_u64(at.offset)?),
            Parts::Gpus { .. } => {
                let mut word = [0; 8];
                self.read(rank, at, &mut word)?;
                Ok(u64::from_le_bytes(word))
            }
        }
    }

    /// Stores a word with release order; range and alignment were checked.
    pub(crate) fn store_u64(&self, rank: usize, at: At, value: u64) -> Result<(), WindowError> {
        match self {
            Parts::Process(memory) => memory.store_u64(at.in_window(rank), value),
            Parts::Apart { parts, .. } => parts[rank].store_u64(at.offset, value)?,
            Parts::Gpus { .. } => self.write(rank, at, &value.to_le_bytes())?,
        }
        Ok(())
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Parts::Process(memory) => f.debug_tuple("Process").field(memory).finish(),
            Parts::Gpus { gpus, .. } => f.debug_tuple("Gpus").field(gpus).finish(),
            Parts::Apart { reason, .. } => f.debug_tuple("Apart").field(reason).finish(),
        }
    }
}

/// A place in a part, and how far the parts are from each other.
#[derive(Clone, Copy)]
pub(crate) struct At {
    pub(crate) offset: usize,
    pub(crate) stride: usize,
}

impl At {
    fn in_window(self, rank: usize) -> usize {
        rank * self.stride + self.offset
    }
}

/// The GPU that a processor is, if it is one.
fn gpu_of(processor: &Processor) -> Option<Gpu> {
    match processor {
        Processor::Gpu(gpu) => Some(gpu.device().clone()),
        _ => None,
    }
}
