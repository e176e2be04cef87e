//! Copies between two devices through pinned memory: while blocks come from the source, those before go to the destination (digest 2.4).
//!
//! An engine copies block after block, and the other one is a block behind it: so a copy takes as long as one direction, a block, and the
//! gaps between blocks, and blocks are as long as makes the sum of the last two least (`GAP`). A pair of buffers is one range, which holds
//! two blocks or more; a long copy takes a second pair where one is free.

mod events;
mod thread;

use crate::context::Context;
use crate::copy::{Copier, settle};
use crate::error::HpeError;
use crate::pinned::Pair;
use crate::segment::PAGE;
use thread::{Free, Row};

/// Most blocks that there are at a time.
const MOST: usize = 16;
/// What an engine could copy in the gap between two blocks: 3.4 µs at 55 GB/s, on an H200. `len / block` gaps and a block are least where
/// `block² = len · GAP`.
const GAP: usize = 187_000;

/// How engines are told that a block is there, or has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The thread that copies polls one, and then queues for the other. Each block has a stream of its own.
    ByThread,
    /// The same, with all blocks of an engine in one stream, and an event behind each; of devices of the executor as `ByThread`.
    InLine,
    /// All blocks are queued at once, and engines wait for each other by CUDA's events; of devices of the executor as `ByThread`.
    ByEvents,
}

/// How copies between two devices go through pairs of pinned buffers: through one, or, where blocks are longer than fit in one, through two,
/// if a second one need not be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staging {
    /// Blocks that are there at a time, 2 to 16 (else the nearest of these).
    pub blocks: usize,
    /// Bytes of a block, which are whole pages, no more than a buffer has, and no more than fit. `usize::MAX`: by the length of a copy.
    pub bytes: usize,
    /// How engines hear of blocks.
    pub told: Told,
}

impl Default for Staging {
    /// Four blocks, so that each engine has the next one queued before one ends.
    fn default() -> Staging {
        Staging { blocks: 4, bytes: usize::MAX, told: Told::ByThread }
    }
}

/// Blocks in pinned memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    count: usize,
    /// Of each, whole pages.
    bytes: usize,
    /// Blocks of a pair.
    of_pair: usize,
}

impl Staging {
    /// In one pair of buffers of so many bytes each, for a copy of `len` bytes.
    fn shape(self, buffer: usize, len: usize) -> Shape {
        // A page each, at least.
        let count = self.blocks.clamp(2, MOST).min(2 * buffer / PAGE);
        let bytes = self.wanted(len).min(2 * buffer / count) / PAGE * PAGE;
        Shape { count, bytes: bytes.max(PAGE), of_pair: count }
    }

    /// In two pairs: nothing where one does as well.
    fn long_shape(self, buffer: usize, len: usize) -> Option<Shape> {
        let one = self.shape(buffer, len);
        let of_pair = one.count.div_ceil(2);
        let bytes = self.wanted(len).min(2 * buffer / of_pair).min(buffer) / PAGE * PAGE;
        (bytes > one.bytes && len > bytes).then_some(Shape { count: one.count, bytes, of_pair })
    }

    /// Bytes of a block, if they fit.
    fn wanted(self, len: usize) -> usize {
        match self.bytes {
            usize::MAX => len.saturating_mul(GAP).isqrt().next_multiple_of(PAGE),
            bytes => bytes,
        }
    }
}

/// Where blocks are.
struct Places<'a> {
    pairs: [Option<&'a Pair<'a>>; 2],
    shape: Shape,
}

impl Places<'_> {
    /// Where a block's place begins.
    fn at(&self, place: usize) -> u64 {
        let Shape { bytes, of_pair, .. } = self.shape;
        let pair = self.pairs[place / of_pair].map_or(std::ptr::null_mut(), |pair| pair.buffer(0));
        pair as u64 + (place % of_pair * bytes) as u64
    }
}

/// Between which memories.
#[derive(Clone, Copy)]
pub(crate) struct Ends<'a> {
    pub to: &'a Context,
    pub dst: u64,
    pub from: &'a Context,
    pub src: u64,
    pub len: usize,
}

impl Copier<'_> {
    /// # Safety
    /// As [`Copier::copy`].
    pub unsafe fn stage(&self, ends: Ends<'_>) -> Result<(), HpeError> {
        let buffer = self.pool.buffer();
        let first = self.pool.take()?;
        let long = self.staging.long_shape(buffer, ends.len);
        // Who waited for a second one would keep the first from others.
        let second = long.and_then(|shape| Some((self.pool.take_if_free()?, shape)));
        let Some((second, shape)) = second else {
            let places = Places { pairs: [Some(&first), None], shape: self.staging.shape(buffer, ends.len) };
            // SAFETY: the caller's contract.
            let staged = unsafe { self.through(&places, ends) };
            return settle(first, staged);
        };
        let places = Places { pairs: [Some(&first), Some(&second)], shape };
        // SAFETY: the caller's contract.
        let staged = unsafe { self.through(&places, ends) };
        settle(first, settle(second, staged))
    }

    /// # Safety
    /// As [`Copier::copy`].
    unsafe fn through(&self, places: &Places<'_>, ends: Ends<'_>) -> Result<(), HpeError> {
        let count = places.shape.count;
        match (ends.from.device.gpu(), ends.to.device.gpu(), self.staging.told) {
            // SAFETY: the caller's contract.
            (Some(from), Some(to), Told::ByEvents) => unsafe { events::by_events(places, ends, (from, to)) },
            (Some(from), Some(to), Told::InLine) => {
                let out = Row::new(ends.from, from, count)?;
                let into = Row::new(ends.to, to, count)?;
                // SAFETY: the same.
                unsafe { thread::by_thread(places, ends, (out, into)) }
            }
            // SAFETY: the same.
            _ => unsafe { thread::by_thread(places, ends, (Free::new(ends.from), Free::new(ends.to))) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn staging(blocks: usize, bytes: usize) -> Staging {
        Staging { blocks, bytes, told: Told::ByThread }
    }

    #[test]
    fn blocks_fit_their_pair() {
        let shape = |blocks, bytes, buffer| {
            let Shape { count, bytes, .. } = staging(blocks, bytes).shape(buffer, 1 << 30);
            (count, bytes)
        };
        assert_eq!(shape(4, usize::MAX, 4 * MIB), (4, 2 * MIB));
        assert_eq!(shape(2, usize::MAX, 4 * MIB), (2, 4 * MIB));
        assert_eq!(shape(8, 512 << 10, 4 * MIB), (8, 512 << 10));
        assert_eq!(shape(3, usize::MAX, 4 * MIB), (3, 8 * MIB / 3 / PAGE * PAGE));
        // What there cannot be: the nearest.
        assert_eq!(shape(0, 0, 4 * MIB), (2, PAGE));
        assert_eq!(shape(99, usize::MAX, 4 * MIB), (16, 512 << 10));
        assert_eq!(shape(16, usize::MAX, PAGE), (2, PAGE));
        for buffer in [PAGE, 3 * PAGE, 4 * MIB] {
            for blocks in 0..20 {
                let Shape { count, bytes, of_pair } = staging(blocks, usize::MAX).shape(buffer, 1 << 30);
                assert!((2..=MOST).contains(&count) && of_pair == count && count * bytes <= 2 * buffer);
                if let Some(long) = staging(blocks, usize::MAX).long_shape(buffer, 1 << 30) {
                    assert!(long.bytes > bytes && long.of_pair * long.bytes <= 2 * buffer, "{long:?}");
                    assert!(long.count <= 2 * long.of_pair, "{long:?}");
                }
            }
        }
    }

    #[test]
    fn longer_copies_have_longer_blocks_and_two_pairs() {
        let long = |blocks, bytes, len| staging(blocks, bytes).long_shape(4 * MIB, len);
        let four = Shape { count: 4, bytes: 4 * MIB, of_pair: 2 };
        assert_eq!(long(4, usize::MAX, 256 * MIB), Some(four));
        assert_eq!(long(3, usize::MAX, 256 * MIB), Some(Shape { count: 3, ..four }));
        // One pair has room for blocks of so many bytes.
        assert_eq!((long(4, 2 * MIB, 64 * MIB), long(2, usize::MAX, 64 * MIB)), (None, None));
        assert_eq!(long(4, usize::MAX, 16 * MIB), None);
        // By the length: half as long for a fourth of it.
        let block = |len| staging(4, usize::MAX).shape(4 * MIB, len).bytes;
        assert!(
            block(MIB).abs_diff(2 * block(MIB / 4)) <= 2 * PAGE
                && block(MIB) == 445_000_usize.next_multiple_of(PAGE)
        );
        assert_eq!((block(0), block(1), block(usize::MAX)), (PAGE, PAGE, 2 * MIB));
    }
}
