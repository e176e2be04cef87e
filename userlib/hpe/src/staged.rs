//! Copies between two devices through pinned memory: while blocks come from the source, those before go to the destination (digest 2.4).
//!
//! A pair of buffers is one range, which holds two blocks or more. The more blocks, the less an engine waits for the other one's last; the
//! shorter they are, the sooner the second engine begins and the first one is not waited for, and the more calls there are.

use ggas_gpu::{Event, Gpu, Stream};

use crate::context::{Context, Ticket};
use crate::copy::{Copier, blocks};
use crate::error::HpeError;
use crate::pinned::Pair;
use crate::segment::PAGE;

/// Most blocks that a pair of buffers holds.
const MOST: usize = 16;

/// How engines are told that a block is there, or has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The thread that copies polls one, and then queues for the other.
    ByThread,
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

/// A block on its way to the pair: its copy, where it is in the whole, and its bytes.
type Coming = Option<(Ticket, usize, usize)>;

impl Copier<'_> {
    /// # Safety
    /// As [`Copier::copy`].
    pub unsafe fn through(&self, pair: &Pair<'_>, ends: Ends<'_>) -> Result<(), HpeError> {
        let shape = self.staging.shape(self.pool.buffer());
        match (ends.from.device.gpu(), ends.to.device.gpu(), self.staging.told) {
            // SAFETY: the caller's contract.
            (Some(from), Some(to), Told::ByEvents) => unsafe { by_events(pair, shape, ends, (from, to)) },
            // SAFETY: the same.
            _ => unsafe { by_thread(pair, shape, ends) },
        }
    }
}

/// # Safety
/// As [`Copier::copy`].
unsafe fn by_thread(pair: &Pair<'_>, (count, size): (usize, usize), ends: Ends<'_>) -> Result<(), HpeError> {
    let Ends { to, dst, from, src, len } = ends;
    let at = |block: usize| pair.buffer(0) as u64 + (block % count * size) as u64;
    let mut coming: [Coming; MOST] = [None; MOST];
    let mut sending: [Option<Ticket>; MOST] = [None; MOST];
    let send = |block: usize, coming: &mut [Coming; MOST], sending: &mut [Option<Ticket>; MOST]| {
        let Some((ticket, offset, bytes)) = coming[block % count].take() else { return Ok(()) };
        from.finish(ticket)?;
        // SAFETY: the caller's contract; the block is there.
        sending[block % count] = Some(unsafe { to.submit(dst + offset as u64, at(block), bytes)? });
        Ok::<(), HpeError>(())
    };
    for (block, (offset, bytes)) in blocks(len, size).enumerate() {
        if let Some(ticket) = sending[block % count].take() {
            to.finish(ticket)?;
        }
        // SAFETY: the caller's contract; what was there has been sent.
        let ticket = unsafe { from.submit(at(block), src + offset as u64, bytes)? };
        coming[block % count] = Some((ticket, offset, bytes));
        // The block before, while this one comes.
        send(block + count - 1, &mut coming, &mut sending)?;
    }
    // No block is under way but the last one.
    (0..count).try_for_each(|block| send(block, &mut coming, &mut sending))?;
    // A device carries its copies out in order or not: all are looked at.
    sending.into_iter().flatten().try_for_each(|ticket| to.finish(ticket))
}

/// Work that is carried out in order, and waits for other such work by events: a stream.
trait Line {
    type Event;

    /// # Safety
    /// As [`Copier::copy`], until it is done.
    unsafe fn copy(&self, dst: u64, src: u64, len: usize) -> Result<(), HpeError>;

    /// The event is when all work so far is done.
    fn record(&self, event: &Self::Event) -> Result<(), HpeError>;

    /// What is queued from now on waits for what the event was recorded behind last.
    fn wait(&self, event: &Self::Event) -> Result<(), HpeError>;
}

impl Line for Stream {
    type Event = Event;

    unsafe fn copy(&self, dst: u64, src: u64, len: usize) -> Result<(), HpeError> {
        // SAFETY: the caller's contract.
        unsafe { Stream::copy(self, dst, src, len) }.map_err(HpeError::from)
    }

    fn record(&self, event: &Event) -> Result<(), HpeError> {
        event.record(self).map_err(HpeError::from)
    }

    fn wait(&self, event: &Event) -> Result<(), HpeError> {
        self.wait_event(event).map_err(HpeError::from)
    }
}

/// A stream of each GPU, and two events of each place.
///
/// # Safety
/// As [`Copier::copy`].
unsafe fn by_events(
    pair: &Pair<'_>,
    (count, size): (usize, usize),
    ends: Ends<'_>,
    (from, to): (&Gpu, &Gpu),
) -> Result<(), HpeError> {
    let events = |gpu: &Gpu| (0..count).map(|_| Event::sleeping(gpu)).collect::<Result<Vec<_>, _>>();
    let (out, into) = (from.stream()?, to.stream()?);
    let (lines, places) = ((&out, &into), (&events(from)?[..], &events(to)?[..]));
    // SAFETY: the caller's contract.
    unsafe { queue(lines, places, (pair.buffer(0) as u64, size), (ends.dst, ends.src, ends.len))? };
    // The last block has gone when the destination's stream is done.
    ends.to.until(|| Ok(into.is_done()?))
}

/// Queues all blocks on the source's line and the destination's. Of each place of the buffer there are two events: its block is there, and
/// has gone.
///
/// # Safety
/// As [`Copier::copy`], until the destination's line is done; the buffer has room for so many blocks of `size` bytes as there are places.
unsafe fn queue<L: Line>(
    (out, into): (&L, &L),
    (there, gone): (&[L::Event], &[L::Event]),
    (buffer, size): (u64, usize),
    (dst, src, len): (u64, u64, usize),
) -> Result<(), HpeError> {
    let count = there.len();
    for (block, (offset, bytes)) in blocks(len, size).enumerate() {
        let place = block % count;
        let at = buffer + (place * size) as u64;
        if block >= count {
            out.wait(&gone[place])?;
        }
        // SAFETY: the caller's contract; what was there has gone by then.
        unsafe { out.copy(at, src + offset as u64, bytes)? };
        out.record(&there[place])?;
        into.wait(&there[place])?;
        // SAFETY: the caller's contract; the block is there by then.
        unsafe { into.copy(dst + offset as u64, at, bytes)? };
        into.record(&gone[place])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::{HashSet, VecDeque};
    use std::rc::Rc;

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

    enum Op {
        Copy(u64, u64, usize),
        Record(usize),
        Wait(usize),
    }

    /// Work that is queued, and carried out later in any order that its events allow.
    #[derive(Default)]
    struct Queued {
        ops: RefCell<VecDeque<Op>>,
        records: Rc<Cell<usize>>,
    }

    impl Line for Queued {
        /// The number of its last record; 0 before.
        type Event = Cell<usize>;

        unsafe fn copy(&self, dst: u64, src: u64, len: usize) -> Result<(), HpeError> {
            self.ops.borrow_mut().push_back(Op::Copy(dst, src, len));
            Ok(())
        }

        fn record(&self, event: &Cell<usize>) -> Result<(), HpeError> {
            self.records.set(self.records.get() + 1);
            event.set(self.records.get());
            self.ops.borrow_mut().push_back(Op::Record(event.get()));
            Ok(())
        }

        fn wait(&self, event: &Cell<usize>) -> Result<(), HpeError> {
            self.ops.borrow_mut().push_back(Op::Wait(event.get()));
            Ok(())
        }
    }

    impl Queued {
        /// Carries the next work out, unless it waits for a record that was not.
        fn step(&self, recorded: &mut HashSet<usize>) {
            let mut ops = self.ops.borrow_mut();
            match ops.pop_front() {
                // SAFETY: memory of the test, which it uses when all is done.
                Some(Op::Copy(dst, src, len)) => unsafe {
                    (dst as *mut u8).copy_from_nonoverlapping(src as *const u8, len);
                },
                Some(Op::Record(number)) => {
                    recorded.insert(number);
                }
                Some(Op::Wait(number)) if number != 0 && !recorded.contains(&number) => {
                    ops.push_front(Op::Wait(number));
                }
                Some(Op::Wait(_)) | None => {}
            }
        }
    }

    /// Whichever of two engines is the quicker one, and for how long.
    #[test]
    fn blocks_keep_their_order_by_events_whatever_engine_is_quicker() {
        for seed in 0..400u64 {
            let (count, size, len) = (2 + seed as usize % 3, 8, 8 * (seed as usize % 11) + seed as usize % 7);
            let out = Queued::default();
            let into = Queued { records: out.records.clone(), ..Queued::default() };
            let (there, gone) = (vec![Cell::new(0); count], vec![Cell::new(0); count]);
            let source: Vec<u8> = (1..=len as u8).collect();
            let (mut buffer, mut target) = (vec![0u8; count * size], vec![0u8; len]);
            let ends = (target.as_mut_ptr() as u64, source.as_ptr() as u64, len);
            let room = (buffer.as_mut_ptr() as u64, size);
            // SAFETY: memory of this test, which lives until all is done.
            unsafe { queue((&out, &into), (&there, &gone), room, ends).unwrap() };
            let (mut recorded, mut random) = (HashSet::new(), seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            while !(out.ops.borrow().is_empty() && into.ops.borrow().is_empty()) {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let line = if random >> 63 == 0 { &out } else { &into };
                (0..1 + (random >> 40) % 8).for_each(|_| line.step(&mut recorded));
            }
            assert_eq!(target, source, "seed {seed}: {count} places, {len} bytes");
        }
    }
}
