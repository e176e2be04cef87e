//! The memory of a window: one range of addresses, part i at base + i * stride.

use ggas_device::{HostBuffer, PAGE, Place, Span};
use ggas_kernels::Processor;

use crate::{Mapping, WindowError};

/// Where the parts are.
#[derive(Debug)]
pub(crate) enum Parts {
    /// Memory of this process.
    Process(HostBuffer),
}

impl Parts {
    /// Zeroed parts for these processors, mapped for all of them where that is possible.
    pub(crate) fn new(processors: &[&Processor], bytes: usize) -> Result<(Parts, usize), WindowError> {
        let too_large = WindowError::TooLarge { members: processors.len(), bytes };
        let stride = bytes.checked_next_multiple_of(PAGE);
        let total = stride.and_then(|stride| stride.checked_mul(processors.len()));
        let (Some(stride), Some(total)) = (stride, total) else { return Err(too_large) };
        Ok((Parts::Process(HostBuffer::zeroed(total)?), stride))
    }

    /// How kernels reach all parts.
    pub(crate) fn mapping(&self) -> Result<Mapping, String> {
        match self {
            Parts::Process(_) => Ok(Mapping::Process),
        }
    }

    /// Address of the first part for kernels.
    pub(crate) fn base(&self) -> u64 {
        match self {
            Parts::Process(memory) => memory.address(),
        }
    }

    /// Part memory as the card sees it.
    pub(crate) fn span(&self, offset: usize, len: usize) -> Span {
        match self {
            Parts::Process(memory) => {
                Span { address: memory.address() + offset as u64, len, place: Place::Host }
            }
        }
    }

    /// Copies out; the range was checked.
    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), WindowError> {
        match self {
            Parts::Process(memory) => memory.read(offset, into),
        }
        Ok(())
    }

    /// Copies in; the range was checked.
    pub(crate) fn write(&self, offset: usize, from: &[u8]) -> Result<(), WindowError> {
        match self {
            Parts::Process(memory) => memory.write(offset, from),
        }
        Ok(())
    }

    /// Loads a word with acquire order; range and alignment were checked.
    pub(crate) fn load_u64(&self, offset: usize) -> Result<u64, WindowError> {
        match self {
            Parts::Process(memory) => Ok(memory.load_u64(offset)),
        }
    }

    /// Stores a word with release order; range and alignment were checked.
    pub(crate) fn store_u64(&self, offset: usize, value: u64) -> Result<(), WindowError> {
        match self {
            Parts::Process(memory) => memory.store_u64(offset, value),
        }
        Ok(())
    }
}
