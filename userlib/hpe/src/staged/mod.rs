//! Copies between two devices through pinned memory: while blocks come from the source, those before go to the destination (digest 2.4).
//!
//! A pair of buffers is one range, which holds two blocks or more; a long copy takes a second pair where one is free, for longer blocks. The
//! more blocks, the less an engine waits for the other one's last; the shorter they are, the sooner the second engine begins and the first
//! one is not waited for, and the more calls there are. So the first blocks of a long copy are short, and the last ones: one engine alone is
//! at work for an eighth of a block only.

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
/// A copy of so many of the longest blocks is long.
const LONG: usize = 8;

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

/// How copies between two devices go through pairs of pinned buffers: through one, or, of at least eight blocks that are longer than fit in
/// one, through two, if a second one need not be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staging {
    /// Blocks that are there at a time, 2 to 16 (else the nearest of these).
    pub blocks: usize,
    /// Most bytes of a block, which are whole pages, no more than a buffer has, and no more than fit.
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
    /// In one pair of buffers of so many bytes each.
    fn shape(self, buffer: usize) -> Shape {
        // A page each, at least.
        let count = self.blocks.clamp(2, MOST).min(2 * buffer / PAGE);
        let bytes = self.bytes.min(2 * buffer / count) / PAGE * PAGE;
        Shape { count, bytes: bytes.max(PAGE), of_pair: count }
    }

    /// In two pairs, for a copy of `len` bytes: nothing where one does as well.
    fn long_shape(self, buffer: usize, len: usize) -> Option<Shape> {
        let one = self.shape(buffer);
        let of_pair = one.count.div_ceil(2);
        let bytes = self.bytes.min(2 * buffer / of_pair).min(buffer) / PAGE * PAGE;
        (bytes > one.bytes && len / bytes >= LONG).then_some(Shape { count: one.count, bytes, of_pair })
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
            let places = Places { pairs: [Some(&first), None], shape: self.staging.shape(buffer) };
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

/// Blocks of `len` bytes in order, as offsets and lengths, none longer than `block`: of eight or more the first are an eighth of it, a quarter
/// and a half, and the last ones a half, a quarter and an eighth. All but the last are whole pages, if blocks are.
fn ramped(len: usize, block: usize) -> impl Iterator<Item = (usize, usize)> {
    let (short, is_long) = ((block / 8).next_multiple_of(PAGE), len / block >= LONG && block > PAGE);
    let mut at = 0;
    std::iter::from_fn(move || {
        let left = len - at;
        let bytes = match is_long {
            true if at < short => short,
            true if at < 3 * short => 2 * short,
            true if at < 7 * short => 4 * short,
            // The end is what there was at the beginning, however much there is before.
            true if left > 7 * short => left - 7 * short,
            true if left > 3 * short => left - 3 * short,
            true if left > short => left - short,
            _ => left,
        };
        let part = (at, bytes.min(block));
        at += part.1;
        (part.1 > 0).then_some(part)
    })
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
            let Shape { count, bytes, .. } = staging(blocks, bytes).shape(buffer);
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
                let Shape { count, bytes, of_pair } = staging(blocks, usize::MAX).shape(buffer);
                assert!((2..=MOST).contains(&count) && of_pair == count && count * bytes <= 2 * buffer);
                if let Some(long) = staging(blocks, usize::MAX).long_shape(buffer, 1 << 30) {
                    assert!(long.bytes > bytes && long.of_pair * long.bytes <= 2 * buffer, "{long:?}");
                    assert!(long.count <= 2 * long.of_pair, "{long:?}");
                }
            }
        }
    }

    #[test]
    fn long_copies_have_longer_blocks_in_two_pairs() {
        let long = |blocks, bytes, len| staging(blocks, bytes).long_shape(4 * MIB, len);
        let four = Shape { count: 4, bytes: 4 * MIB, of_pair: 2 };
        assert_eq!((long(4, usize::MAX, 32 * MIB), long(4, usize::MAX, 32 * MIB - 1)), (Some(four), None));
        assert_eq!(long(3, usize::MAX, 64 * MIB), Some(Shape { count: 3, ..four }));
        // One pair has room for blocks of so many bytes.
        assert_eq!((long(4, 2 * MIB, 64 * MIB), long(2, usize::MAX, 64 * MIB)), (None, None));
    }

    #[test]
    fn long_copies_begin_and_end_with_short_blocks() {
        let of = |len, block| ramped(len, block).map(|(_, bytes)| bytes).collect::<Vec<_>>();
        assert_eq!(of(3 * MIB, 2 * MIB), [2 * MIB, MIB]);
        let long = of(64 * MIB + 5, 2 * MIB);
        assert_eq!((long.len(), long[..4].to_vec()), (37, vec![MIB / 4, MIB / 2, MIB, 2 * MIB]));
        assert_eq!(long[33..], [MIB / 2 + 5, MIB, MIB / 2, MIB / 4]);
        for block in [PAGE, 3 * PAGE, 100 * PAGE] {
            for len in (0..2000).map(|i| i * 1237) {
                let mut end = 0;
                for (at, bytes) in ramped(len, block) {
                    assert!(at == end && (1..=block).contains(&bytes), "{len} by {block}: {at}, {bytes}");
                    assert!(at % PAGE == 0 || len - at <= 7 * block, "{len} by {block}: {at}");
                    end += bytes;
                }
                assert_eq!(end, len);
            }
        }
    }
}
