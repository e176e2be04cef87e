//! Host memory that stands for kernels' memory in calls of the library: where the library may not have that, or its bytes do not lie
//! together.

use std::ops::Range;

use ggas::kernels::{KernelMem, MemoryError, PinnedBuffer, Processor};

use super::Staging;
use crate::memory::Span;

/// Bytes of the pool: what is sent and received at once of messages of 4 MiB, twice.
const ROOM: usize = 16 << 20;
/// Pieces of it begin at multiples of this, lines of the host's cache and of its bus.
const GRAIN: usize = 256;

/// Bytes that stand for a span.
#[derive(Debug)]
pub(super) enum Copied {
    /// Where the pool has no room, and of short messages, which no copy of a driver has part in.
    Own(Vec<u8>),
    /// A piece of the pool.
    Piece(Range<usize>),
}

impl Copied {
    pub fn none() -> Copied {
        Copied::Own(Vec::new())
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Copied::Own(bytes) => bytes.is_empty(),
            Copied::Piece(piece) => piece.is_empty(),
        }
    }
}

#[derive(Debug)]
enum Pool {
    /// A GPU's copies reach it by themselves: through memory of a program they go by another copy, and the system clears such memory
    /// each time it is taken, page by page.
    Locked(PinnedBuffer),
    Plain(KernelMem),
}

/// The pool. Used by the daemon's thread alone.
#[derive(Debug, Default)]
pub(super) struct Stage {
    pool: Option<Pool>,
    /// What is free, in order; no two touch.
    holes: Vec<Range<usize>>,
}

impl Stage {
    /// Memory is attached that may need copies. Without a pool copies are of memory that is taken as they begin.
    pub fn attach(&mut self, memory: &KernelMem, staging: Staging) {
        if self.pool.is_some() {
            return;
        }
        let made = match memory.device_buffer() {
            Some(buffer) => buffer.gpu().alloc_pinned(ROOM).map(Pool::Locked).map_err(MemoryError::from),
            None if staging == Staging::Always => Processor::cpu().alloc(ROOM).map(Pool::Plain),
            None => return,
        };
        match made {
            Ok(pool) => {
                self.pool = Some(pool);
                self.holes = std::iter::once(0..ROOM).collect();
            }
            Err(error) => tracing::warn!("messages through host memory will take longer: {error}"),
        }
    }

    /// Room for so many bytes, which may hold anything.
    pub fn room(&mut self, len: usize) -> Copied {
        if len == 0 {
            return Copied::none();
        }
        let taken = len.next_multiple_of(GRAIN);
        match self.holes.iter().position(|hole| hole.len() >= taken) {
            Some(found) => {
                let start = self.holes[found].start;
                self.holes[found].start += taken;
                if self.holes[found].is_empty() {
                    self.holes.remove(found);
                }
                Copied::Piece(start..start + len)
            }
            None => Copied::Own(vec![0; len]),
        }
    }

    /// A span's bytes.
    pub fn read(&mut self, span: &Span) -> Result<Copied, MemoryError> {
        let mut copied = self.room(span.len);
        // A copy that fails may still be under way: then the piece is nobody's any more.
        self.fill(&mut copied, span).map(|()| copied)
    }

    fn fill(&self, copied: &mut Copied, span: &Span) -> Result<(), MemoryError> {
        match (copied, &self.pool, span.memory.device_buffer()) {
            (Copied::Own(bytes), ..) => span.read_into(bytes),
            (Copied::Piece(piece), Some(Pool::Locked(pool)), Some(buffer)) => {
                Ok(pool.gather(piece.start, buffer, span.parts(0, span.len))?)
            }
            (Copied::Piece(piece), ..) => {
                // SAFETY: the piece was taken, and the library has not got it yet.
                span.read_into(unsafe {
                    std::slice::from_raw_parts_mut(self.start().add(piece.start), piece.len())
                })
            }
        }
    }

    /// Stores the first `len` bytes in a span.
    pub fn write(&self, copied: &Copied, span: &Span, len: usize) -> Result<(), MemoryError> {
        let len = len.min(span.len);
        match (copied, &self.pool, span.memory.device_buffer()) {
            (Copied::Own(bytes), ..) => span.write(0, &bytes[..len.min(bytes.len())]),
            (Copied::Piece(piece), Some(Pool::Locked(pool)), Some(buffer)) => {
                Ok(pool.scatter(piece.start, buffer, span.parts(0, len.min(piece.len())))?)
            }
            (Copied::Piece(piece), ..) => {
                // SAFETY: the piece was taken, and the library is done with it.
                span.write(0, unsafe {
                    std::slice::from_raw_parts(self.start().add(piece.start), len.min(piece.len()))
                })
            }
        }
    }

    /// Where the library reads and writes; it stays there while it is not given back.
    pub fn address(&self, copied: &mut Copied) -> *mut u8 {
        match copied {
            Copied::Own(bytes) => bytes.as_mut_ptr(),
            Copied::Piece(piece) => self.start().wrapping_add(piece.start),
        }
    }

    fn start(&self) -> *mut u8 {
        match &self.pool {
            Some(Pool::Locked(pool)) => pool.as_ptr(),
            Some(Pool::Plain(pool)) => pool.address() as *mut u8,
            None => std::ptr::null_mut(),
        }
    }

    /// The library is done with it.
    pub fn give_back(&mut self, copied: Copied) {
        let Copied::Piece(piece) = copied else { return };
        let (start, end) = (piece.start, piece.start + piece.len().next_multiple_of(GRAIN));
        let at = self.holes.partition_point(|hole| hole.start < start);
        self.holes.insert(at, start..end);
        if at + 1 < self.holes.len() && self.holes[at + 1].start == end {
            self.holes[at].end = self.holes.remove(at + 1).end;
        }
        if at > 0 && self.holes[at - 1].end == start {
            self.holes[at - 1].end = self.holes.remove(at).end;
        }
    }
}

impl Drop for Stage {
    /// The library may go on reading and writing pieces that it has not given back: then the pool stays.
    fn drop(&mut self) {
        let is_whole = matches!(&self.holes[..], [hole] if hole.len() == ROOM);
        if !is_whole {
            std::mem::forget(self.pool.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::Shape;

    fn stage() -> Stage {
        let mut stage = Stage::default();
        let memory = Processor::cpu().alloc(8).expect("memory");
        stage.attach(&memory, Staging::Needed);
        assert!(stage.pool.is_none(), "the library takes the executor's memory");
        stage.attach(&memory, Staging::Always);
        stage
    }

    fn piece(copied: &Copied) -> Range<usize> {
        match copied {
            Copied::Piece(piece) => piece.clone(),
            Copied::Own(_) => panic!("not of the pool"),
        }
    }

    #[test]
    fn pieces_of_the_pool_are_apart_and_come_back_whole() {
        let mut stage = stage();
        let mut rng = fastrand::Rng::with_seed(7);
        let mut taken: Vec<Copied> = Vec::new();
        let mut own = 0;
        let (nothing, first) = (stage.room(0), stage.room(1));
        [nothing, first].into_iter().for_each(|copied| stage.give_back(copied));
        assert_eq!((stage.holes.len(), &stage.holes[0]), (1, &(0..ROOM)));
        for _ in 0..5000 {
            if taken.len() > rng.usize(0..40) {
                let copied = taken.swap_remove(rng.usize(0..taken.len()));
                stage.give_back(copied);
            }
            let copied = stage.room(1 << rng.u32(0..22) | rng.usize(0..2000));
            if let Copied::Own(_) = copied {
                own += 1;
                continue;
            }
            let new = piece(&copied);
            assert!(new.start.is_multiple_of(GRAIN) && new.end <= ROOM && !new.is_empty());
            let apart = |old: &Copied| piece(old).end <= new.start || new.end <= piece(old).start;
            assert!(taken.iter().all(apart), "{new:?} was taken");
            taken.push(copied);
        }
        assert!(own > 0, "it was full at times");
        taken.into_iter().for_each(|copied| stage.give_back(copied));
        assert_eq!((stage.holes.len(), &stage.holes[0]), (1, &(0..ROOM)), "in one piece");
        let all = stage.room(ROOM);
        assert_eq!(piece(&all), 0..ROOM);
        assert!(matches!(stage.room(1), Copied::Own(_)));
        stage.give_back(all);
    }

    #[test]
    fn only_what_came_is_stored_where_the_bytes_lie() {
        let mut stage = stage();
        let memory = Arc::new(Processor::cpu().alloc(100).expect("memory"));
        memory.write(0, &(0..100).collect::<Vec<u8>>()).expect("in range");
        let shape = Some(Shape { block: 2, count: 3, rows: 1, stride: 10, pitch: 0 });
        let together = Span { index: 0, memory: memory.clone(), offset: 50, len: 6, shape: None };
        let apart = Span { offset: 0, shape, ..together.clone() };
        let full = stage.room(ROOM);
        for pooled in [false, true] {
            if pooled {
                stage.give_back(Copied::Piece(piece(&full)));
            }
            let copied = stage.read(&apart).expect("in range");
            assert_eq!(matches!(copied, Copied::Piece(_)), pooled);
            stage.write(&copied, &together, 5).expect("in range");
            let mut came = [0; 6];
            memory.read(50, &mut came).expect("in range");
            assert_eq!(came, [0, 1, 10, 11, 20, 55]);
            stage.write(&copied, &Span { offset: 30, ..apart.clone() }, 3).expect("in range");
            let mut came = [0; 24];
            memory.read(30, &mut came).expect("in range");
            assert_eq!((&came[..2], &came[10..12], &came[20..22]), (&[0, 1][..], &[10, 41][..], &[0, 1][..]));
            stage.give_back(copied);
            memory.write(0, &(0..100).collect::<Vec<u8>>()).expect("in range");
        }
    }
}
