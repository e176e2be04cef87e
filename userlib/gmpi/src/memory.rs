//! Memory that kernels may name in calls.

use std::sync::Arc;

use ggas::kernels::{KernelMem, MemoryError};

use crate::{Class, GmpiError};

/// Bytes of one attached memory.
#[derive(Clone, Debug)]
pub struct Span {
    /// Which one, in the order of attaching.
    pub index: usize,
    /// The memory.
    pub memory: Arc<KernelMem>,
    /// First byte.
    pub offset: usize,
    /// How many; 0 is a span of any memory.
    pub len: usize,
}

impl Span {
    /// Its address, as kernels and hosts of the executor know it.
    pub fn address(&self) -> u64 {
        self.memory.address() + self.offset as u64
    }

    /// Copies its bytes out.
    pub(crate) fn read(&self) -> Result<Vec<u8>, MemoryError> {
        let mut bytes = vec![0; self.len];
        if self.len > 0 {
            self.memory.read(self.offset, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Copies bytes in, as many as fit.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        let len = bytes.len().min(self.len.saturating_sub(at));
        if len == 0 { Ok(()) } else { self.memory.write(self.offset + at, &bytes[..len]) }
    }
}

/// Bytes that were received, and are not at their place yet.
#[derive(Debug)]
pub struct Landed {
    /// Their place, which may be longer.
    pub at: Span,
    /// They.
    pub bytes: Vec<u8>,
}

impl Landed {
    /// Puts them there.
    pub(crate) fn store(&self) -> Result<(), Class> {
        self.at.write(0, &self.bytes).map_err(|error| {
            tracing::error!("a message could not be stored: {error}");
            Class::INTERN
        })
    }
}

/// All that is attached, by address.
#[derive(Debug, Default)]
pub struct Attached {
    all: Vec<(u64, usize, Arc<KernelMem>)>,
    /// By index: whether kernels load and store there themselves.
    reached: Vec<bool>,
}

impl Attached {
    /// Adds memory, which kernels reach or not; its index.
    pub fn add(&mut self, memory: Arc<KernelMem>, reached: bool) -> Result<usize, GmpiError> {
        let (address, bytes) = (memory.address(), memory.len() as u64);
        let index = self.all.len();
        let place = self.all.partition_point(|(start, ..)| *start < address);
        let before = place.checked_sub(1).map(|i| self.all[i].0 + self.all[i].2.len() as u64);
        let after = self.all.get(place).map(|(start, ..)| *start);
        if before.is_some_and(|end| end > address) || after.is_some_and(|start| start < address + bytes) {
            return Err(GmpiError::Overlap { address, bytes });
        }
        self.all.insert(place, (address, index, memory));
        self.reached.push(reached);
        Ok(index)
    }

    /// Takes out what was added last.
    pub fn remove_last(&mut self) {
        self.reached.pop();
        self.all.retain(|(_, index, _)| *index < self.reached.len());
    }

    /// Whether kernels reach what a span is of.
    pub fn is_reached(&self, span: &Span) -> bool {
        self.reached.get(span.index).is_some_and(|reached| *reached)
    }

    /// The bytes at an address that a kernel gave.
    pub fn span(&self, address: u64, len: u64) -> Result<Span, Class> {
        let place = self.all.partition_point(|(start, ..)| *start <= address);
        let found = place.checked_sub(1).map(|i| &self.all[i]);
        match found {
            Some((start, index, memory)) => {
                let offset = address - start;
                if offset.checked_add(len).is_some_and(|end| end <= memory.len() as u64) {
                    let (offset, len) = (offset as usize, len as usize);
                    return Ok(Span { index: *index, memory: memory.clone(), offset, len });
                }
                self.nothing(len)
            }
            _ => self.nothing(len),
        }
    }

    /// No bytes may have any address.
    fn nothing(&self, len: u64) -> Result<Span, Class> {
        match self.all.first() {
            Some((_, index, memory)) if len == 0 => {
                Ok(Span { index: *index, memory: memory.clone(), offset: 0, len: 0 })
            }
            _ => Err(Class::BUFFER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ggas::Processor;

    #[test]
    fn only_bytes_of_one_attached_memory_are_found() {
        let memory = Arc::new(Processor::cpu().alloc(1000).expect("memory"));
        let mut attached = Attached::default();
        assert_eq!(attached.span(0, 0).err(), Some(Class::BUFFER), "nothing is attached");
        assert_eq!(attached.add(memory.clone(), true).expect("the first"), 0);
        assert!(matches!(attached.add(memory.clone(), true), Err(GmpiError::Overlap { .. })));
        let start = memory.address();
        assert_eq!(attached.span(start + 10, 990).map(|span| span.offset), Ok(10));
        for (address, len) in
            [(start + 10, 991), (start - 1, 2), (start + 1000, 1), (start, u64::MAX), (0, 1)]
        {
            assert_eq!(attached.span(address, len).err(), Some(Class::BUFFER), "{address:#x} {len}");
        }
        assert_eq!(attached.span(0, 0).map(|span| span.len), Ok(0));
    }
}
