//! Launches of kernels with a shared object: the device gets what the host wrote, and the host what the kernel wrote (digest 2.5).

use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::object::Object;
use super::object::state::{BUSY, CLEAN, DIRTY, INVALID};
use super::track::Access;
use crate::device::Side;
use crate::error::HpeError;
use crate::futex;
use crate::masked::Masked;

impl Object {
    /// Whether a kernel has it.
    pub fn is_launched(&self) -> bool {
        self.launcher.load(Ordering::SeqCst) != 0
    }

    /// Whether this thread launches a kernel with the object right now.
    pub fn is_launched_here(&self) -> bool {
        self.launcher.load(Ordering::SeqCst) == futex::thread()
    }

    /// Hands the object to a kernel that this thread launches: the device gets what the host wrote.
    #[inline]
    pub fn begin_launch(&self, me: usize) -> Result<(), HpeError> {
        let is_ours = !self.freed.load(Ordering::Acquire)
            && self.launcher.compare_exchange(0, me, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        // What launches of objects that nobody touches meanwhile end with.
        if is_ours && self.copies.load(Ordering::SeqCst) == 0 && !self.served.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.begin_behind(me, is_ours)
    }

    /// The same behind other launches and copies, or with bytes to send. `is_ours`: the object has this launch's mark.
    #[cold]
    fn begin_behind(&self, me: usize, mut is_ours: bool) -> Result<(), HpeError> {
        while !is_ours {
            if self.freed.load(Ordering::Acquire) {
                return Err(HpeError::NotShared { address: self.start });
            }
            match self.launcher.compare_exchange(0, me, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => is_ours = true,
                Err(owner) if owner == me => return Err(HpeError::InUse { address: self.start }),
                Err(_) => self.wait(0),
            }
        }
        while self.copies.load(Ordering::SeqCst) != 0 {
            ggas_clock::Clock::REAL.yield_now();
        }
        if !self.served.load(Ordering::SeqCst) {
            return Ok(());
        }
        // Who serves a block from here on sees the launch's mark, and leaves the block as it was.
        self.served.store(false, Ordering::SeqCst);
        let _masked = Masked::new();
        let stored = (0..self.states.len()).try_for_each(|block| self.store(block));
        if stored.is_err() {
            // Blocks that were not sent are still to be looked at.
            self.served.store(true, Ordering::SeqCst);
            self.launcher.store(0, Ordering::Release);
            wake_waiters(std::iter::once(self));
        }
        stored
    }

    /// Sends a block to the device if the host wrote it.
    fn store(&self, index: usize) -> Result<(), HpeError> {
        let Some(state) = self.states.get(index) else { return Ok(()) };
        loop {
            match state.load(Ordering::SeqCst) {
                BUSY => self.wait(index * self.keeping.block),
                DIRTY => {
                    if state.compare_exchange(DIRTY, BUSY, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                        break;
                    }
                }
                _ => return Ok(()),
            }
        }
        let (from, to) = self.block(index);
        let (start, len) = (self.start + from as u64, to - from);
        let sent = self.keeping.track.allow(start, len, false, Access::Read).and_then(|_| {
            // SAFETY: both sides are this object's; the block is busy, and the host may only read it.
            unsafe { self.copy(self.memory.inside + from as u64, self.side(from), len, Side::Device) }
        });
        if sent.is_err() {
            // Still the host's: nothing it wrote is lost.
            let _ = self.keeping.track.allow(start, len, false, Access::Write);
        } else {
            self.keeping.counters.stored.fetch_add(len as u64, Ordering::Relaxed);
        }
        self.leave(state, if sent.is_err() { DIRTY } else { CLEAN });
        sent
    }

    /// Takes the object back from a kernel, which `wrote` it or only read it. Who waits for it is woken by [`wake_waiters`].
    #[inline]
    pub fn end_launch(&self, wrote: bool) -> Result<(), HpeError> {
        let shut = if wrote && self.touched.load(Ordering::SeqCst) { self.take_back() } else { Ok(()) };
        self.launcher.store(0, Ordering::Release);
        shut
    }

    /// The host has nothing of it any more.
    #[cold]
    fn take_back(&self) -> Result<(), HpeError> {
        self.keeping.track.shut(self.start, self.size)?;
        if self.touched.swap(false, Ordering::SeqCst) {
            self.states.iter().for_each(invalidate);
        }
        Ok(())
    }
}

/// Wakes who waits for objects of a runtime whose launch has ended: one look for all of them. Their marks are seen to be gone by who counts
/// itself among those that wait from here on, or that one is seen here.
pub(crate) fn wake_waiters<'a>(mut objects: impl Iterator<Item = &'a Object>) {
    let Some(first) = objects.next() else { return };
    fence(Ordering::SeqCst);
    if first.keeping.counters.waiting.load(Ordering::SeqCst) > 0 {
        std::iter::once(first)
            .chain(objects)
            .for_each(|object| object.states.iter().for_each(futex::wake_all));
    }
}

/// The device has the newest bytes of a block; who made it busy leaves it first, as the launch keeps him back.
fn invalidate(state: &AtomicU32) {
    loop {
        match state.load(Ordering::SeqCst) {
            INVALID => return,
            BUSY => ggas_clock::Clock::REAL.yield_now(),
            seen => {
                let _ = state.compare_exchange(seen, INVALID, Ordering::SeqCst, Ordering::Relaxed);
            }
        }
    }
}
