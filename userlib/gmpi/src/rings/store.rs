//! The memory of rings.

use ggas::kernels::{KernelMem, Mapped};
use ggas::{HostBuffer, Processor};

use super::gdrcopy::{self, Across};
use crate::{GmpiError, Placement};

/// Memory that a kernel and the daemon share.
#[derive(Debug)]
pub(crate) enum Store {
    None,
    /// Host memory that kernels reach. The mapping goes first.
    Host(Mapped, HostBuffer),
    /// Kernels' memory, which the daemon copies from and to.
    Kernel(KernelMem),
    /// The same, which the daemon reaches across the bus.
    Across(Across),
}

impl Store {
    pub fn new(processor: &Processor, placement: Placement, bytes: usize) -> Result<Store, GmpiError> {
        match placement {
            Placement::Copied => return Ok(Store::Kernel(processor.alloc(bytes)?)),
            Placement::Gdrcopy => {
                return Ok(Store::Across(Across::new(processor, bytes, &gdrcopy::library())?));
            }
            Placement::Mapped | Placement::Tagged => {}
        }
        let memory = HostBuffer::unshared(bytes)?;
        // SAFETY: the mapping is dropped before the memory, and both sides access it atomically.
        let mapped = unsafe { processor.map_host(memory.as_ptr(), memory.len())? };
        Ok(Store::Host(mapped, memory))
    }

    /// Where kernels find it.
    pub fn address(&self) -> u64 {
        match self {
            Store::None => 0,
            Store::Host(mapped, _) => mapped.address(),
            Store::Kernel(memory) => memory.address(),
            Store::Across(memory) => memory.address(),
        }
    }

    /// A word, with acquire.
    pub fn load(&self, at: usize) -> Result<u64, GmpiError> {
        match self {
            Store::None => Ok(0),
            Store::Host(_, memory) => Ok(memory.load_u64(at)),
            Store::Kernel(memory) => Ok(memory.load_u64(at)?),
            Store::Across(memory) => Ok(memory.load(at)),
        }
    }

    /// A word, with release.
    pub fn store(&self, at: usize, value: u64) -> Result<(), GmpiError> {
        match self {
            Store::None => {}
            Store::Host(_, memory) => memory.store_u64(at, value),
            Store::Kernel(memory) => memory.store_u64(at, value)?,
            Store::Across(memory) => memory.store(at, value),
        }
        Ok(())
    }

    /// Words that nobody writes meanwhile.
    pub fn read(&self, at: usize, words: &mut [u64]) -> Result<(), GmpiError> {
        match self {
            Store::Kernel(memory) if !words.is_empty() => {
                words.copy_from_slice(&memory.read_u64s(at, words.len())?);
            }
            Store::Across(memory) => memory.read(at, words),
            _ => {
                for (i, word) in words.iter_mut().enumerate() {
                    *word = self.load(at + 8 * i)?;
                }
            }
        }
        Ok(())
    }

    /// Words that nobody reads meanwhile.
    pub fn write(&self, at: usize, words: &[u64]) -> Result<(), GmpiError> {
        match self {
            Store::Kernel(memory) => Ok(memory.write_u64s(at, words)?),
            Store::Across(memory) => {
                memory.write(at, words);
                Ok(())
            }
            _ => words.iter().enumerate().try_for_each(|(i, word)| self.store(at + 8 * i, *word)),
        }
    }
}
