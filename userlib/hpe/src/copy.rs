//! One call that copies between any two memories, and picks the way (digest 2.4).

use std::sync::atomic::{AtomicU64, Ordering};

use crate::blocks::Range;
use crate::context::Context;
use crate::error::HpeError;
use crate::objects::Place;
use crate::pinned::{Pair, Pool, Slot};
use crate::shared::hold::hold_both;
use crate::spread::Piece;
use crate::staged::{Ends, Staging};

/// How bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the calling thread: from host to host.
    Host,
    /// By the copy engine of the one device there is, in one go: of what it has opened of another rank's GPU, too.
    Direct,
    /// By the copy engine of one of two devices that reach each other.
    Peer,
    /// In blocks through two pinned buffers, so that two engines, or an engine and this thread, work at a time.
    Staged,
    /// In blocks over the network, to or from another rank whose memory no GPU of this one has opened.
    Network,
}

/// Ways there are.
const WAYS: usize = Way::Network as usize + 1;

/// Copies and bytes by [`Way`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WayCounts {
    /// Copies that ended well, in the order of [`Way`].
    pub copies: [u64; WAYS],
    /// Their bytes.
    pub bytes: [u64; WAYS],
}

impl WayCounts {
    /// Copies that went so.
    pub fn of(&self, way: Way) -> u64 {
        self.copies[way as usize]
    }
}

#[derive(Default)]
pub(crate) struct Counters {
    copies: [AtomicU64; WAYS],
    bytes: [AtomicU64; WAYS],
}

impl Counters {
    pub fn add(&self, way: Way, bytes: usize) {
        self.copies[way as usize].fetch_add(1, Ordering::Relaxed);
        self.bytes[way as usize].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn read(&self) -> WayCounts {
        let of = |all: &[AtomicU64; WAYS]| std::array::from_fn(|i| all[i].load(Ordering::Relaxed));
        WayCounts { copies: of(&self.copies), bytes: of(&self.bytes) }
    }
}

/// What copies of a runtime need.
pub(crate) struct Copier<'a> {
    pub contexts: &'a [Context],
    pub pool: &'a Pool,
    pub counters: &'a Counters,
    /// Whether devices are asked to reach each other.
    pub peers: bool,
    /// How copies between devices that do not go through pinned memory.
    pub staging: Staging,
}

impl Copier<'_> {
    /// Copies between places that do not overlap, and counts how.
    ///
    /// # Safety
    /// `len` bytes are memory at both, which nobody writes or, at the destination, uses meanwhile.
    pub unsafe fn copy(&self, dst: &Place, src: &Place, len: usize) -> Result<(), HpeError> {
        let way = match (dst, src) {
            (Place::Spread(object, offset), _) => {
                // SAFETY: the caller's contract, of a part of the bytes.
                let part =
                    |piece: Piece| unsafe { self.copy(&piece.place(), &src.behind(piece.at), piece.len) };
                return object.pieces(*offset, len).try_for_each(part);
            }
            (_, Place::Spread(object, offset)) => {
                // SAFETY: the same.
                let part =
                    |piece: Piece| unsafe { self.copy(&dst.behind(piece.at), &piece.place(), piece.len) };
                return object.pieces(*offset, len).try_for_each(part);
            }
            (Place::Shared(dst, to), Place::Shared(src, from)) => {
                let _held = hold_both((dst, *to), (src, *from), len)?;
                let (dst, src) = (Place::Host(dst.side(*to)), Place::Host(src.side(*from)));
                // SAFETY: the caller's contract; both objects are held.
                return unsafe { self.copy(&dst, &src, len) };
            }
            (Place::Shared(object, offset), _) => {
                let _held = object.hold(*offset, len, true)?;
                // SAFETY: the caller's contract; the object is held.
                return unsafe { self.copy(&Place::Host(object.side(*offset)), src, len) };
            }
            (_, Place::Shared(object, offset)) => {
                let _held = object.hold(*offset, len, false)?;
                // SAFETY: the same.
                return unsafe { self.copy(dst, &Place::Host(object.side(*offset)), len) };
            }
            // Who copies over the network has each block pass through here.
            (Place::Remote { rank, address }, _) | (_, Place::Remote { rank, address }) => {
                return Err(HpeError::Elsewhere { rank: *rank, address: *address });
            }
            (Place::Host(dst), Place::Host(src)) => {
                // SAFETY: the caller's contract.
                unsafe { (*dst as *mut u8).copy_from_nonoverlapping(*src as *const u8, len) };
                Way::Host
            }
            (Place::Device { index: to, address: dst, .. }, Place::Host(src)) => {
                // SAFETY: the caller's contract.
                unsafe { self.up(&self.contexts[*to], *dst, *src, len)? }
            }
            (Place::Host(dst), Place::Device { index: from, address: src, .. }) => {
                // SAFETY: the caller's contract.
                unsafe { self.down(*dst, &self.contexts[*from], *src, len)? }
            }
            (
                Place::Device { index: to, address: dst, .. },
                Place::Device { index: from, address: src, .. },
            ) => {
                // SAFETY: the caller's contract.
                unsafe { self.between(&self.contexts[*to], *dst, &self.contexts[*from], *src, len)? }
            }
        };
        self.counters.add(way, len);
        Ok(())
    }

    /// From the host to a device.
    ///
    /// # Safety
    /// As [`copy`](Self::copy).
    unsafe fn up(&self, to: &Context, dst: u64, src: u64, len: usize) -> Result<Way, HpeError> {
        if !to.device.wants_pinned() || self.pool.holds(src, len) {
            // SAFETY: the caller's contract.
            return unsafe { to.copy(dst, src, len) }.map(|()| Way::Direct);
        }
        if let Some(slot) = self.pool.slot(len) {
            // SAFETY: bytes of the source; the slot is this copy's.
            unsafe { slot.start.copy_from_nonoverlapping(src as *const u8, len) };
            // SAFETY: the caller's contract.
            let copied = unsafe { to.copy(dst, slot.start as u64, len) };
            return settle_slot(slot, copied);
        }
        let fill = |buffer: &mut [u8], offset: usize| {
            let from = (src + offset as u64) as *const u8;
            // SAFETY: bytes of the source; the buffer is this copy's.
            unsafe { buffer.as_mut_ptr().copy_from_nonoverlapping(from, buffer.len()) };
            Ok(buffer.len())
        };
        // SAFETY: the caller's contract.
        unsafe { self.feed(&Range::One(to, dst), len, fill) }.map(|_| Way::Staged)
    }

    /// From a device to the host.
    ///
    /// # Safety
    /// As [`copy`](Self::copy).
    unsafe fn down(&self, dst: u64, from: &Context, src: u64, len: usize) -> Result<Way, HpeError> {
        if !from.device.wants_pinned() || self.pool.holds(dst, len) {
            // SAFETY: the caller's contract.
            return unsafe { from.copy(dst, src, len) }.map(|()| Way::Direct);
        }
        if let Some(slot) = self.pool.slot(len) {
            // SAFETY: the caller's contract; the slot is this copy's.
            let copied = unsafe { from.copy(slot.start as u64, src, len) };
            if copied.is_ok() {
                // SAFETY: bytes of the destination.
                unsafe { slot.start.copy_to_nonoverlapping(dst as *mut u8, len) };
            }
            return settle_slot(slot, copied);
        }
        let empty = |buffer: &[u8], offset: usize| {
            let to = (dst + offset as u64) as *mut u8;
            // SAFETY: bytes of the destination; the buffer is this copy's.
            unsafe { buffer.as_ptr().copy_to_nonoverlapping(to, buffer.len()) };
            Ok(buffer.len())
        };
        // SAFETY: the caller's contract.
        unsafe { self.drain(&Range::One(from, src), len, empty) }.map(|_| Way::Staged)
    }

    /// # Safety
    /// As [`copy`](Self::copy).
    unsafe fn between(
        &self,
        to: &Context,
        dst: u64,
        from: &Context,
        src: u64,
        len: usize,
    ) -> Result<Way, HpeError> {
        if to.id() == from.id() {
            // SAFETY: the caller's contract.
            return unsafe { to.copy(dst, src, len) }.map(|()| Way::Direct);
        }
        if self.peers && reach(to, from) {
            // SAFETY: the same; the engine of the destination reaches the source.
            return unsafe { to.copy(dst, src, len) }.map(|()| Way::Peer);
        }
        if let Some(slot) = self.pool.slot(len) {
            // SAFETY: the same, by way of the slot, which is this copy's.
            let copied = unsafe { from.copy(slot.start as u64, src, len) };
            // SAFETY: the same.
            let copied = copied.and_then(|()| unsafe { to.copy(dst, slot.start as u64, len) });
            return settle_slot(slot, copied);
        }
        // SAFETY: the same.
        unsafe { self.stage(Ends { to, dst, from, src, len }) }.map(|()| Way::Staged)
    }
}

/// Whether a copy that failed so may still use its buffers. A device that is lost has stopped.
fn may_go_on(error: &HpeError) -> bool {
    matches!(error, HpeError::Timeout { .. } | HpeError::Gpu(_))
}

/// Waits for one more part of a copy, also behind an error: then no part uses the buffers. Of errors it tells the first, or that for which
/// buffers are given up, behind which nothing is waited for.
pub(crate) fn also(
    before: Result<(), HpeError>,
    finish: impl FnOnce() -> Result<(), HpeError>,
) -> Result<(), HpeError> {
    if before.as_ref().is_err_and(may_go_on) {
        return before;
    }
    match finish() {
        Err(error) if before.is_ok() || may_go_on(&error) => Err(error),
        _ => before,
    }
}

/// Returns the buffers, unless a copy may still use them.
pub(crate) fn settle<T>(pair: Pair<'_>, result: Result<T, HpeError>) -> Result<T, HpeError> {
    if result.as_ref().is_err_and(may_go_on) {
        pair.abandon();
    }
    result
}

/// The same of a slot.
fn settle_slot(slot: Slot<'_>, result: Result<(), HpeError>) -> Result<Way, HpeError> {
    if result.as_ref().is_err_and(may_go_on) {
        slot.abandon();
    }
    result.map(|()| Way::Staged)
}

/// Whether the engine of `to` reaches the memory of `from`.
fn reach(to: &Context, from: &Context) -> bool {
    match (to.device.gpu(), from.device.gpu()) {
        (Some(to), Some(from)) => to.reaches(from),
        (None, None) => true,
        // A GPU has no access to the executor's memory, whose engine cannot read a GPU's.
        _ => false,
    }
}

/// Offsets and lengths of the blocks of `len` bytes.
pub(crate) fn blocks(len: usize, block: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..len).step_by(block.max(1)).map(move |offset| (offset, block.min(len - offset)))
}
