//! Memory of a leader that is put from where it is, without a copy to a slot.
//!
//! A slot stays as it is until the round after the next one, but a vector is the program's again when its call is over. So a vector is put
//! from in rounds alone that are not the last of a call: who has the words of the round behind it knows that all others have got it.

use std::sync::Arc;

use ggas_kernels::KernelMem;
use ggas_rma::{Port, Region};

use crate::across::Through;

/// Where the bytes of a put are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// In a slot.
    Slot(usize),
    /// In attached memory: which, and from which byte on.
    Attached(usize, usize),
}

struct Memory {
    memory: Arc<KernelMem>,
    registered: Registered,
}

/// Whether the network reaches it: registered memory is pinned, so what nothing is put from is not registered.
enum Registered {
    NotYet,
    Is(Region),
    Refused,
}

impl Registered {
    fn by(&mut self, port: &Port, memory: &Arc<KernelMem>) -> bool {
        if let Registered::NotYet = self {
            *self = match port.register_kernel_memory(memory.clone()) {
                Ok(region) => Registered::Is(region),
                Err(error) => {
                    tracing::info!("vectors in {} bytes go to other hosts by slots: {error}", memory.len());
                    Registered::Refused
                }
            };
        }
        matches!(self, Registered::Is(_))
    }
}

/// What a program has attached.
#[derive(Default)]
pub(crate) struct Attached(Vec<Memory>);

impl Attached {
    pub(crate) fn add(&mut self, memory: &Arc<KernelMem>) {
        if !self.0.iter().any(|known| Arc::ptr_eq(&known.memory, memory)) {
            self.0.push(Memory { memory: memory.clone(), registered: Registered::NotYet });
        }
    }

    pub(crate) fn remove(&mut self, memory: &Arc<KernelMem>) {
        self.0.retain(|known| !Arc::ptr_eq(&known.memory, memory));
    }

    /// Of memory that a place is in.
    pub(crate) fn region(&self, which: usize) -> Option<&Region> {
        match &self.0.get(which)?.registered {
            Registered::Is(region) => Some(region),
            _ => None,
        }
    }

    /// Bytes that a put may be from, where slots are in such memory: GPU memory for host memory's slots would be read by the network in pieces.
    pub(crate) fn find(&mut self, port: &Port, at: u64, bytes: usize, through: Through) -> Option<Source> {
        let lies = |memory: &KernelMem| {
            let offset = at.checked_sub(memory.address())? as usize;
            (offset.checked_add(bytes)? <= memory.len()).then_some(offset)
        };
        self.0.iter_mut().enumerate().find_map(|(which, Memory { memory, registered })| {
            let suits = through == Through::Gpu || memory.device_buffer().is_none();
            let offset = lies(memory).filter(|_| suits && registered.by(port, memory))?;
            Some(Source::Attached(which, offset))
        })
    }
}
