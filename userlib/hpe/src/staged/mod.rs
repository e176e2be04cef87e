//! Copies between two devices through pinned memory: while blocks come from the source, those before go to the destination (digest 2.4).
//!
//! A pair of buffers is one range, which holds two blocks or more. The more blocks, the less an engine waits for the other one's last; the
//! shorter they are, the sooner the second engine begins and the first one is not waited for, and the more calls there are. So the first
//! blocks of a long copy are short, and the last ones: one engine alone is at work for a quarter of a block only.

mod events;
mod thread;

use crate::context::Context;
use crate::copy::Copier;
use crate::error::HpeError;
use crate::pinned::Pair;
use crate::segment::PAGE;
use thread::{Free, Row};

/// Most blocks that a pair of buffers holds.
const MOST: usize = 16;

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

/// How copies between two devices go through a pair of pinned buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staging {
    /// Blocks that the pair holds, 2 to 16 (else the nearest of these).
    pub blocks: usize,
    /// Most bytes of a block, which are whole pages, and no more than fit.
    pub bytes: usize,
    /// How engines hear of blocks.
    pub told: Told,
}

impl Default for Staging {
    /// Four halves of buffers, so that each engine has the next block queued before one ends.
    fn default() -> Staging {
        Staging { blocks: 4, bytes: usize::MAX, told: Told::ByThread }
    }
}

impl Staging {
    /// Blocks and their bytes, of two buffers of so many bytes.
    fn shape(self, buffer: usize) -> (usize, usize) {
        // A page each, at least.
        let count = self.blocks.clamp(2, MOST).min(2 * buffer / PAGE);
        let bytes = self.bytes.min(2 * buffer / count) / PAGE * PAGE;
        (count, bytes.max(PAGE))
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
    pub unsafe fn through(&self, pair: &Pair<'_>, ends: Ends<'_>) -> Result<(), HpeError> {
        let shape = self.staging.shape(self.pool.buffer());
        match (ends.from.device.gpu(), ends.to.device.gpu(), self.staging.told) {
            // SAFETY: the caller's contract.
            (Some(from), Some(to), Told::ByEvents) => unsafe {
                events::by_events(pair, shape, ends, (from, to))
            },
            (Some(from), Some(to), Told::InLine) => {
                let out = Row::new(ends.from, from, shape.0)?;
                let into = Row::new(ends.to, to, shape.0)?;
                // SAFETY: the same.
                unsafe { thread::by_thread(pair, shape, ends, (out, into)) }
            }
            // SAFETY: the same.
            _ => unsafe { thread::by_thread(pair, shape, ends, (Free::new(ends.from), Free::new(ends.to))) },
        }
    }
}

/// Blocks of `len` bytes in order, as offsets and lengths, none longer than `block`: of eight or more the first are a quarter of it and a half,
/// and the last ones a half and a quarter. All but the last are whole pages, if blocks are.
fn ramped(len: usize, block: usize) -> impl Iterator<Item = (usize, usize)> {
    let (short, is_long) = ((block / 4).next_multiple_of(PAGE), len / block >= 8 && block > PAGE);
    let mut at = 0;
    std::iter::from_fn(move || {
        let left = len - at;
        let bytes = match is_long {
            true if at < short => short,
            true if at < 3 * short => 2 * short,
            // The end is a half and a quarter, however much there is before.
            true if left > 3 * short => block.min(left - 3 * short),
            true if left > short => left - short,
            true => left,
            false => block.min(left),
        };
        let part = (at, bytes);
        at += bytes;
        (bytes > 0).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fit_their_pair() {
        let shape = |blocks, bytes, buffer| Staging { blocks, bytes, told: Told::ByThread }.shape(buffer);
        assert_eq!(Staging::default().shape(4 << 20), (4, 2 << 20));
        assert_eq!(shape(2, usize::MAX, 4 << 20), (2, 4 << 20));
        assert_eq!(shape(8, 512 << 10, 4 << 20), (8, 512 << 10));
        assert_eq!(shape(3, usize::MAX, 4 << 20), (3, (8 << 20) / 3 / PAGE * PAGE));
        // What there cannot be: the nearest.
        assert_eq!(shape(0, 0, 4 << 20), (2, PAGE));
        assert_eq!(shape(99, usize::MAX, 4 << 20), (16, 512 << 10));
        assert_eq!(shape(16, usize::MAX, PAGE), (2, PAGE));
        for buffer in [PAGE, 3 * PAGE, 4 << 20] {
            for blocks in 0..20 {
                let (count, bytes) = shape(blocks, usize::MAX, buffer);
                assert!((2..=MOST).contains(&count) && count * bytes <= 2 * buffer);
            }
        }
    }

    #[test]
    fn long_copies_begin_and_end_with_short_blocks() {
        const MIB: usize = 1 << 20;
        let of = |len, block| ramped(len, block).map(|(_, bytes)| bytes).collect::<Vec<_>>();
        assert_eq!(of(3 * MIB, 2 * MIB), [2 * MIB, MIB]);
        let long = of(64 * MIB + 5, 2 * MIB);
        assert_eq!((long.len(), long[..3].to_vec()), (35, vec![MIB / 2, MIB, 2 * MIB]));
        assert_eq!(long[32..], [MIB + 5, MIB, MIB / 2]);
        for block in [PAGE, 3 * PAGE, 100 * PAGE] {
            for len in (0..2000).map(|i| i * 1237) {
                let mut end = 0;
                for (at, bytes) in ramped(len, block) {
                    assert!(at == end && (1..=block).contains(&bytes), "{len} by {block}: {at}, {bytes}");
                    assert!(at % PAGE == 0 || len - at <= 3 * block, "{len} by {block}: {at}");
                    end += bytes;
                }
                assert_eq!(end, len);
            }
        }
    }
}
