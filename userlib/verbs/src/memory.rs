//! Memory that kernels and the adapter use.

use std::sync::Arc;

use extoll_sim::memory::{HostMemory, RangeKind};
use ggas_device::sim;
use ggas_kernels::{KernelMem, MemoryError, Processor};

use crate::VerbsError;

/// Where queues lie (thesis 5.5.3, Figures 5.9 and 5.10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// In host memory that is mapped for kernels.
    Host,
    /// In the kernels' own memory.
    #[default]
    Kernel,
}

/// Kernel memory that the adapter reaches, as long as this lives.
pub(crate) struct Declared {
    memory: Arc<HostMemory>,
    pub buffer: Arc<KernelMem>,
}

impl Declared {
    pub fn new(memory: &Arc<HostMemory>, buffer: Arc<KernelMem>) -> Result<Declared, VerbsError> {
        let kind = match buffer.device_buffer() {
            None => RangeKind::Host,
            Some(buffer) => sim::device_range(buffer.gpu()).map_err(MemoryError::from)?,
        };
        // SAFETY: the buffer lives in the result, which takes the range back before it goes; it is raw memory.
        unsafe { memory.add_range(kind, buffer.address(), buffer.len())? };
        Ok(Declared { memory: memory.clone(), buffer })
    }

    /// `bytes` of zeroes.
    pub fn alloc(
        memory: &Arc<HostMemory>,
        processor: &Processor,
        bytes: usize,
        placement: Placement,
    ) -> Result<Declared, VerbsError> {
        let buffer = match placement {
            Placement::Kernel => processor.alloc(bytes)?,
            Placement::Host => processor.alloc_host(bytes)?,
        };
        Declared::new(memory, Arc::new(buffer))
    }

    pub fn address(&self) -> u64 {
        self.buffer.address()
    }
}

impl Drop for Declared {
    fn drop(&mut self) {
        if self.memory.remove_range(self.buffer.address(), self.buffer.len()).is_err() {
            // The adapter may still touch it.
            std::mem::forget(self.buffer.clone());
        }
    }
}
