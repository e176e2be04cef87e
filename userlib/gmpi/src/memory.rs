//! Memory that kernels may name in calls.

use std::sync::Arc;

use ggas::kernels::{KernelMem, MemoryError};

use crate::{Class, GmpiError};

/// Where the bytes of a message lie that do not lie together: rows of blocks (`struct gmpi_shape`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a block.
    pub block: u64,
    /// Blocks of a row.
    pub count: u32,
    /// Rows.
    pub rows: u32,
    /// Bytes from a block to the next one.
    pub stride: i64,
    /// Bytes from a row to the next one.
    pub pitch: i64,
}

impl Shape {
    /// Words of one in an attribute.
    pub(crate) const WORDS: usize = 4;

    /// As a kernel wrote it, which may be anything.
    pub(crate) fn of(words: [u64; Shape::WORDS]) -> Shape {
        let [block, counts, stride, pitch] = words;
        let (count, rows) = (counts as u32, (counts >> 32) as u32);
        Shape { block, count, rows, stride: stride as i64, pitch: pitch as i64 }
    }

    /// Bytes in all; `None`: more than there can be.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.block.checked_mul(self.count.into())?.checked_mul(self.rows.into())
    }

    /// The first and the last byte plus one, seen from the first block on.
    fn reach(&self) -> (i128, i128) {
        let last = |count: u32, apart: i64| i128::from(count.saturating_sub(1)) * i128::from(apart);
        let ends = [last(self.count, self.stride), last(self.rows, self.pitch)];
        let below: i128 = ends.iter().map(|end| (*end).min(0)).sum();
        let above: i128 = ends.iter().map(|end| (*end).max(0)).sum();
        (below, above + i128::from(self.block))
    }

    /// Parts of bytes `at` to `at + len` of a message: where each lies from the first block on, and how many bytes it has.
    fn parts(self, at: usize, len: usize) -> impl Iterator<Item = (i64, usize)> {
        let (block, end) = (self.block as usize, at + len);
        let mut next = at;
        std::iter::from_fn(move || {
            let (number, inside) = (next / block.max(1), next % block.max(1));
            let (row, column) = (number / self.count.max(1) as usize, number % self.count.max(1) as usize);
            let offset = row as i64 * self.pitch + column as i64 * self.stride + inside as i64;
            let bytes = (block - inside).min(end - next);
            next += bytes;
            (bytes > 0).then_some((offset, bytes))
        })
    }
}

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
    /// How they lie from the first one on, all of them in the memory; `None`: together.
    pub shape: Option<Shape>,
}

impl Span {
    /// Its address, as kernels and hosts of the executor know it.
    pub fn address(&self) -> u64 {
        self.memory.address() + self.offset as u64
    }

    /// Copies its bytes out.
    pub(crate) fn read(&self) -> Result<Vec<u8>, MemoryError> {
        let mut bytes = vec![0; self.len];
        self.read_into(&mut bytes).map(|()| bytes)
    }

    /// The same into as many bytes as it has.
    pub(crate) fn read_into(&self, bytes: &mut [u8]) -> Result<(), MemoryError> {
        let mut rest = bytes;
        for (offset, len) in self.parts(0, self.len) {
            let (part, behind) = rest.split_at_mut(len);
            self.memory.read(offset, part)?;
            rest = behind;
        }
        Ok(())
    }

    /// Where its bytes `at` to `at + len` lie in the memory, in their order.
    pub(crate) fn parts(&self, at: usize, len: usize) -> Box<dyn Iterator<Item = (usize, usize)>> {
        let first = self.offset;
        match self.shape {
            Some(shape) => Box::new(
                shape
                    .parts(at, len)
                    .map(move |(offset, len)| (first.wrapping_add_signed(offset as isize), len)),
            ),
            None => Box::new((len > 0).then_some((first + at, len)).into_iter()),
        }
    }

    /// Copies bytes in, as many as fit.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        let len = bytes.len().min(self.len.saturating_sub(at));
        let mut rest = &bytes[..len];
        for (offset, len) in self.parts(at, len) {
            let (part, behind) = rest.split_at(len);
            self.memory.write(offset, part)?;
            rest = behind;
        }
        Ok(())
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
                    return Ok(Span { index: *index, memory: memory.clone(), offset, len, shape: None });
                }
                self.nothing(len)
            }
            _ => self.nothing(len),
        }
    }

    /// The bytes of a shape at the address of its first block.
    pub fn shaped(&self, address: u64, shape: Shape) -> Result<Span, Class> {
        let len = shape.bytes().ok_or(Class::COUNT)?;
        if len == 0 {
            return self.nothing(0);
        }
        let (below, above) = shape.reach();
        let begin = u64::try_from(i128::from(address) + below).map_err(|_| Class::BUFFER)?;
        let all = self.span(begin, u64::try_from(above - below).map_err(|_| Class::BUFFER)?)?;
        // Blocks may overlap, and the daemon has a copy of them.
        if len > all.memory.len() as u64 {
            return Err(Class::COUNT);
        }
        let offset = all.offset + (address - begin) as usize;
        let len = usize::try_from(len).map_err(|_| Class::COUNT)?;
        Ok(Span { offset, len, shape: Some(shape), ..all })
    }

    /// No bytes may have any address.
    fn nothing(&self, len: u64) -> Result<Span, Class> {
        match self.all.first() {
            Some((_, index, memory)) if len == 0 => {
                Ok(Span { index: *index, memory: memory.clone(), offset: 0, len: 0, shape: None })
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

    #[test]
    fn shapes_are_read_and_written_block_by_block_in_their_memory() {
        let memory = Arc::new(Processor::cpu().alloc(1000).expect("memory"));
        memory.write(0, &(0..250).cycle().take(1000).collect::<Vec<u8>>()).expect("in range");
        let mut attached = Attached::default();
        attached.add(memory.clone(), true).expect("the first");
        let start = memory.address();
        // Two rows of three blocks of two bytes: blocks go down, rows up.
        let shape = Shape { block: 2, count: 3, rows: 2, stride: -5, pitch: 100 };
        let span = attached.shaped(start + 10, shape).expect("all of it is there");
        assert_eq!(span.read().expect("in range"), [10, 11, 5, 6, 0, 1, 110, 111, 105, 106, 100, 101]);
        span.write(3, &[0xf1, 0xf2, 0xf3, 0xf4, 0xf5]).expect("in range");
        assert_eq!(
            span.read().expect("in range"),
            [10, 11, 5, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 105, 106, 100, 101]
        );
        assert_eq!(attached.shaped(start + 9, shape).err(), Some(Class::BUFFER), "the last block of a row");
        assert_eq!(attached.shaped(start + 899, shape).err(), Some(Class::BUFFER), "the last row");
        assert!(attached.shaped(start + 898, shape).is_ok());
        let many = Shape { block: 1, count: u32::MAX, rows: u32::MAX, stride: 0, pitch: 0 };
        assert_eq!(attached.shaped(start, many).err(), Some(Class::COUNT), "more than there is memory");
        let far = Shape { stride: i64::MIN, pitch: i64::MIN, ..many };
        assert_eq!(attached.shaped(start, far).err(), Some(Class::BUFFER));
    }
}
