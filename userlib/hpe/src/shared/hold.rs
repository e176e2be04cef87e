//! Copies by the host's side of shared objects: no launch begins meanwhile.

use std::sync::atomic::Ordering;

use super::object::{Object, Served};
use crate::error::HpeError;
use crate::masked::Masked;

/// Keeps launches of an object back.
pub(crate) struct Held<'a>(&'a Object);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.copies.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A range of an object, by its offset; the length is the copy's.
pub(crate) type From<'a> = (&'a Object, usize);

/// Both ends of a copy between objects; one where they are the same.
pub(crate) struct HeldBoth<'a> {
    _first: Held<'a>,
    _second: Option<Held<'a>>,
}

/// Holds both ends of a copy of `len` bytes: the objects in the order in which launches take them, and one that is both once, as else
/// a launch that has one and waits for the other would be waited for here.
pub(crate) fn hold_both<'a>(dst: From<'a>, src: From<'a>, len: usize) -> Result<HeldBoth<'a>, HpeError> {
    let (first, second) = if dst.0.start <= src.0.start { (dst, src) } else { (src, dst) };
    let held = first.0.enter(first.1)?;
    let other = if dst.0.start == src.0.start { None } else { Some(second.0.enter(second.1)?) };
    dst.0.bring(dst.1, len, true)?;
    src.0.bring(src.1, len, false)?;
    Ok(HeldBoth { _first: held, _second: other })
}

impl Object {
    /// Has the host's side be the newest for `len` bytes at `offset`, and no launch begin, until the result is dropped.
    pub fn hold(&self, offset: usize, len: usize, writes: bool) -> Result<Held<'_>, HpeError> {
        let held = self.enter(offset)?;
        self.bring(offset, len, writes)?;
        Ok(held)
    }

    /// Waits until no launch has the object, and keeps the next ones back.
    fn enter(&self, offset: usize) -> Result<Held<'_>, HpeError> {
        loop {
            self.copies.fetch_add(1, Ordering::SeqCst);
            if self.launcher.load(Ordering::SeqCst) == 0 {
                return Ok(Held(self));
            }
            self.copies.fetch_sub(1, Ordering::SeqCst);
            if self.is_launched_here() {
                return Err(HpeError::InUse { address: self.start });
            }
            self.wait(offset);
        }
    }

    /// Brings the newest bytes to the host's side of an object that is held.
    fn bring(&self, offset: usize, len: usize, writes: bool) -> Result<(), HpeError> {
        // The handler of a signal that came while a block is busy would wait for this very thread.
        let _masked = Masked::new();
        let mut at = offset;
        while at < offset + len {
            match self.serve(at, writes, true)? {
                Served::Yes => at = self.block(at / self.keeping.block).1,
                Served::Later => self.wait(at),
            }
        }
        Ok(())
    }
}
