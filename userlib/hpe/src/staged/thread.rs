//! Staged copies whose thread tells engines of blocks: it polls one, and then queues for the other.

use ggas_gpu::{Event, Gpu, Stream};

use super::{Ends, MOST, Places, Shape};
use crate::context::{Context, Ticket};
use crate::copy::{also, blocks};
use crate::error::HpeError;

/// Blocks on their way to the pair, by place: where they are in the whole, and their bytes.
type Coming = [Option<(usize, usize)>; MOST];

/// What copies blocks of one device, by places of the buffer: one of a place at a time.
pub(super) trait Engine {
    /// # Safety
    /// As [`Copier::copy`], until it is finished.
    unsafe fn submit(&mut self, place: usize, dst: u64, src: u64, len: usize) -> Result<(), HpeError>;

    /// Waits for what is under way there, if something is.
    fn finish(&mut self, place: usize) -> Result<(), HpeError>;
}

/// Copies by the device's context, as any others.
pub(super) struct Free<'a> {
    context: &'a Context,
    tickets: [Option<Ticket>; MOST],
}

impl<'a> Free<'a> {
    pub fn new(context: &'a Context) -> Free<'a> {
        Free { context, tickets: [None; MOST] }
    }
}

impl Engine for Free<'_> {
    unsafe fn submit(&mut self, place: usize, dst: u64, src: u64, len: usize) -> Result<(), HpeError> {
        // SAFETY: the caller's contract.
        self.tickets[place] = Some(unsafe { self.context.submit(dst, src, len)? });
        Ok(())
    }

    fn finish(&mut self, place: usize) -> Result<(), HpeError> {
        self.tickets[place].take().map_or(Ok(()), |ticket| self.context.finish(ticket))
    }
}

/// Copies in a stream of their own: an engine goes from one to the next without another stream between them.
pub(super) struct Row<'a> {
    context: &'a Context,
    stream: Stream,
    /// Behind the last block of each place, and whether it has not been waited for.
    ends: Vec<(Event, bool)>,
}

impl<'a> Row<'a> {
    pub fn new(context: &'a Context, gpu: &Gpu, places: usize) -> Result<Row<'a>, HpeError> {
        let end = |_| Ok((Event::sleeping(gpu)?, false));
        let ends = (0..places).map(end).collect::<Result<_, HpeError>>()?;
        Ok(Row { context, stream: gpu.stream()?, ends })
    }
}

impl Engine for Row<'_> {
    unsafe fn submit(&mut self, place: usize, dst: u64, src: u64, len: usize) -> Result<(), HpeError> {
        let (end, waits) = &mut self.ends[place];
        // SAFETY: the caller's contract.
        unsafe { self.stream.copy(dst, src, len)? };
        end.record(&self.stream)?;
        *waits = true;
        Ok(())
    }

    fn finish(&mut self, place: usize) -> Result<(), HpeError> {
        let (end, waits) = &mut self.ends[place];
        match std::mem::take(waits) {
            true => self.context.until(|| Ok(end.is_done()?)),
            false => Ok(()),
        }
    }
}

/// # Safety
/// As [`Copier::copy`].
pub(super) unsafe fn by_thread(
    places: &Places<'_>,
    ends: Ends<'_>,
    (mut out, mut into): (impl Engine, impl Engine),
) -> Result<(), HpeError> {
    // SAFETY: the caller's contract.
    let mut copied = unsafe { all_blocks(places, ends, (&mut out, &mut into)) };
    // Behind an error, too: buffers are given back when no block is under way.
    for place in 0..places.shape.count {
        copied = also(also(copied, || out.finish(place)), || into.finish(place));
    }
    copied
}

/// Returns when all that is under way are last blocks to the destination, or with an error.
///
/// # Safety
/// As [`Copier::copy`], until all places are finished.
unsafe fn all_blocks(
    places: &Places<'_>,
    ends: Ends<'_>,
    (out, into): (&mut dyn Engine, &mut dyn Engine),
) -> Result<(), HpeError> {
    let Shape { count, bytes: size, .. } = places.shape;
    let mut coming: Coming = [None; MOST];
    let send = |place: usize, coming: &mut Coming, (out, into): (&mut dyn Engine, &mut dyn Engine)| {
        let Some((offset, bytes)) = coming[place].take() else { return Ok(()) };
        out.finish(place)?;
        // SAFETY: the caller's contract; the block is there.
        unsafe { into.submit(place, ends.dst + offset as u64, places.at(place), bytes) }
    };
    for (block, (offset, bytes)) in blocks(ends.len, size).enumerate() {
        let place = block % count;
        into.finish(place)?;
        // SAFETY: the caller's contract; what was there has been sent.
        unsafe { out.submit(place, places.at(place), ends.src + offset as u64, bytes)? };
        coming[place] = Some((offset, bytes));
        // The block before, while this one comes.
        send((block + count - 1) % count, &mut coming, (out, into))?;
    }
    // No block is under way but the last one.
    (0..count).try_for_each(|place| send(place, &mut coming, (out, into)))
}
