//! Bytes that come from or go to somewhere else block by block, through two pinned buffers, so that a disk and copy engines work at a time.

use crate::context::{Context, Ticket};
use crate::copy::{Copier, also, blocks, settle};
use crate::error::HpeError;
use crate::spread::Spread;

/// Bytes of one device, or of a distributed object, of which a block may lie on several.
pub(crate) enum Range<'a> {
    /// From this address of a device on.
    One(&'a Context, u64),
    /// From this byte of the object on.
    Spread(&'a [Context], &'a Spread, usize),
}

/// Copies of a block that are under way.
type Tickets<'a> = Vec<(&'a Context, Ticket)>;

impl<'a> Range<'a> {
    /// Queues copies of `len` bytes from `offset` on to or from a buffer. An error leaves copies in `tickets` that are under way.
    ///
    /// # Safety
    /// As [`Copier::copy`], until the tickets are finished.
    unsafe fn submit(
        &self,
        tickets: &mut Tickets<'a>,
        (offset, len): (usize, usize),
        buffer: *mut u8,
        to_device: bool,
    ) -> Result<(), HpeError> {
        let mut one = |context: &'a Context, address: u64, at: usize, len: usize| {
            let host = buffer.wrapping_add(at) as u64;
            let (dst, src) = if to_device { (address, host) } else { (host, address) };
            // SAFETY: the caller's contract.
            tickets.push((context, unsafe { context.submit(dst, src, len)? }));
            Ok(())
        };
        match *self {
            Range::One(context, address) => one(context, address + offset as u64, 0, len),
            Range::Spread(contexts, object, start) => object
                .pieces(start + offset, len)
                .try_for_each(|piece| one(&contexts[piece.index], piece.address, piece.at, piece.len)),
        }
    }
}

/// Waits for all copies, also behind one that failed: buffers are given back when none is under way.
fn finish(tickets: &mut Tickets<'_>) -> Result<(), HpeError> {
    let mut result = Ok(());
    for (context, ticket) in tickets.drain(..) {
        result = also(result, || context.finish(ticket));
    }
    result
}

/// Behind a copy that ended so: waits for what is under way of both buffers.
fn finish_both(ended: Result<(), HpeError>, [one, two]: &mut [Tickets<'_>; 2]) -> Result<(), HpeError> {
    also(also(ended, || finish(one)), || finish(two))
}

impl Copier<'_> {
    /// Copies `len` bytes that `fill` gets, block by block, to devices: while they take one in, the next is got. Ends early
    /// where `fill` gets less than it was asked for; returns how much there was. An error behind the first block is left to the next
    /// call, as `read` does.
    ///
    /// # Safety
    /// The devices' side as in [`copy`](Self::copy).
    pub unsafe fn feed(
        &self,
        to: &Range<'_>,
        len: usize,
        mut fill: impl FnMut(&mut [u8], usize) -> Result<usize, HpeError>,
    ) -> Result<usize, HpeError> {
        let pair = self.pool.take()?;
        let mut sending = [Tickets::new(), Tickets::new()];
        let mut total = 0;
        let mut run = || {
            for (block, (offset, bytes)) in blocks(len, self.pool.buffer()).enumerate() {
                let (which, start) = (block % 2, pair.buffer(block));
                finish(&mut sending[which])?;
                // SAFETY: the buffer has been sent, so it is this thread's alone.
                let buffer = unsafe { std::slice::from_raw_parts_mut(start, bytes) };
                let got = match fill(buffer, offset) {
                    Err(error) if total == 0 => return Err(error),
                    Err(_) => 0,
                    Ok(got) => got.min(bytes),
                };
                if got > 0 {
                    // SAFETY: the caller's contract; the buffer is not touched until it is sent.
                    unsafe { to.submit(&mut sending[which], (offset, got), start, true)? };
                }
                total += got;
                if got < bytes {
                    break;
                }
            }
            Ok(())
        };
        let ended = run();
        let ended = finish_both(ended, &mut sending);
        settle(pair, ended).map(|()| total)
    }

    /// The other direction: while `empty` puts one block away, devices give the next. Ends early where `empty` takes less. An error
    /// behind the first block is left to the next call, as `write` does: who calls knows of all bytes that were taken.
    ///
    /// # Safety
    /// The devices' side as in [`copy`](Self::copy).
    pub unsafe fn drain<'a>(
        &self,
        from: &Range<'a>,
        len: usize,
        mut empty: impl FnMut(&[u8], usize) -> Result<usize, HpeError>,
    ) -> Result<usize, HpeError> {
        let pair = self.pool.take()?;
        let mut coming = [Tickets::new(), Tickets::new()];
        let mut total = 0;
        let mut run = || {
            let mut ahead = blocks(len, self.pool.buffer()).enumerate();
            let mut get = |coming: &mut [Tickets<'a>; 2]| {
                let next = ahead.next();
                if let Some((block, part)) = next {
                    // SAFETY: the caller's contract; the buffer was emptied before.
                    unsafe { from.submit(&mut coming[block % 2], part, pair.buffer(block), false)? };
                }
                Ok::<_, HpeError>(next)
            };
            let mut next = get(&mut coming)?;
            while let Some((block, (offset, bytes))) = next {
                finish(&mut coming[block % 2])?;
                next = get(&mut coming)?;
                // SAFETY: the block has come; devices write the other buffer now.
                let put = empty(unsafe { std::slice::from_raw_parts(pair.buffer(block), bytes) }, offset);
                total += put.as_ref().map_or(0, |put| *put.min(&bytes));
                if !put.as_ref().is_ok_and(|put| *put >= bytes) {
                    return put.map(drop);
                }
            }
            Ok(())
        };
        let ended = run();
        let ended = finish_both(ended, &mut coming);
        match settle(pair, ended) {
            Err(error) if total == 0 => Err(error),
            _ => Ok(total),
        }
    }
}
