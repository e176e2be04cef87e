//! Staged copies whose engines tell each other of blocks by events: all is queued at once.

use ggas_gpu::{Event, Gpu, Stream};

use super::{Ends, Places, Shape};
use crate::copy::blocks;
use crate::error::HpeError;

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
pub(super) unsafe fn by_events(
    places: &Places<'_>,
    ends: Ends<'_>,
    (from, to): (&Gpu, &Gpu),
) -> Result<(), HpeError> {
    let Shape { count, bytes: size, .. } = places.shape;
    let events = |gpu: &Gpu| (0..count).map(|_| Event::sleeping(gpu)).collect::<Result<Vec<_>, _>>();
    let (out, into) = (from.stream()?, to.stream()?);
    let (lines, marks) = ((&out, &into), (&events(from)?[..], &events(to)?[..]));
    // SAFETY: the caller's contract.
    unsafe { queue(lines, marks, (|place| places.at(place), size), (ends.dst, ends.src, ends.len))? };
    // The last block has gone when the destination's stream is done.
    ends.to.until(|| Ok(into.is_done()?))
}

/// Queues all blocks on the source's line and the destination's. Of each place of the buffer there are two events: its block is there, and
/// has gone.
///
/// # Safety
/// As [`Copier::copy`], until the destination's line is done; `at` says where the places are, which have room for `size` bytes each.
unsafe fn queue<L: Line>(
    (out, into): (&L, &L),
    (there, gone): (&[L::Event], &[L::Event]),
    (at, size): (impl Fn(usize) -> u64, usize),
    (dst, src, len): (u64, u64, usize),
) -> Result<(), HpeError> {
    let count = there.len();
    for (block, (offset, bytes)) in blocks(len, size).enumerate() {
        let place = block % count;
        let at = at(place);
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
            let start = buffer.as_mut_ptr() as u64;
            let room = (|place| start + (place * size) as u64, size);
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
