//! Open ports and their handles: each call enters its port, and closing a port waits until all calls have left it.

use std::io;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use ggas_clock::Clock;

use crate::slab::{Place, Slab};

/// How long a close waits for calls on a port to return; these calls fail, since the port is closed.
const LEAVE: Duration = Duration::from_secs(10);

/// What stands at a port's handle; `head` is what programs may look at.
#[repr(C)]
pub(crate) struct Body<H, T> {
    head: H,
    inner: AtomicPtr<T>,
    /// Calls that are on the port now.
    users: AtomicU32,
}

// SAFETY: pointers in the head are for the program to look at; nobody here follows them.
unsafe impl<H, T: Send + Sync> Send for Body<H, T> {}
// SAFETY: as above; the rest is atomic.
unsafe impl<H, T: Send + Sync> Sync for Body<H, T> {}

/// All ports of a kind.
pub(crate) struct Ports<H: 'static, T: 'static> {
    slab: OnceLock<Slab<Body<H, T>>>,
    /// Bytes of the range that handles lie in.
    range: usize,
}

/// A call on a port: it stays while the call lasts.
pub(crate) struct Entered<H: 'static, T: 'static> {
    place: &'static Place<Body<H, T>>,
    inner: *const T,
}

/// Why a port could not be closed.
pub(crate) enum NotClosed {
    /// The handle is of no open port.
    Unknown,
    /// Calls on it do not return: no other will come on it, and its memory is kept.
    InUse,
}

impl<H, T: Send + Sync> Ports<H, T> {
    pub(crate) const fn new(range: usize) -> Ports<H, T> {
        Ports { slab: OnceLock::new(), range }
    }

    /// Gives an open port a handle.
    pub(crate) fn insert(&self, head: H, port: T) -> io::Result<*mut Body<H, T>> {
        let slab = made(&self.slab, self.range)?;
        let inner = Box::into_raw(Box::new(port));
        let body = Body { head, inner: AtomicPtr::new(inner), users: AtomicU32::new(0) };
        slab.insert(body).ok_or_else(|| {
            // SAFETY: made above, and nobody else knows it.
            drop(unsafe { Box::from_raw(inner) });
            io::Error::other("too many open ports")
        })
    }

    /// The open port that `handle` is.
    #[inline]
    pub(crate) fn enter(&'static self, handle: *const Body<H, T>) -> Option<Entered<H, T>> {
        let place = self.slab.get()?.get(handle)?;
        place.body.users.fetch_add(1, Ordering::SeqCst);
        let entered = Entered { place, inner: place.body.inner.load(Ordering::Acquire) };
        // Whoever closes makes the place leave first and then waits for users, so one of the two sees the other.
        place.is_live().then_some(entered)
    }

    /// Closes a port: `shut` has its calls end, which may take as long as it says.
    pub(crate) fn close<R>(
        &self,
        handle: *const Body<H, T>,
        shut: impl FnOnce(&T) -> (R, Duration),
    ) -> Result<R, NotClosed> {
        let slab = self.slab.get().ok_or(NotClosed::Unknown)?;
        let place = slab.leave(handle).ok_or(NotClosed::Unknown)?;
        let inner = place.body.inner.load(Ordering::Acquire);
        // SAFETY: only who made the place leave takes the port apart.
        let (closed, time) = shut(unsafe { &*inner });
        let end = Clock::REAL.deadline(LEAVE.saturating_add(time));
        while place.body.users.load(Ordering::SeqCst) > 0 {
            if Clock::REAL.now() > end {
                return Err(NotClosed::InUse);
            }
            Clock::REAL.sleep(Duration::from_micros(50));
        }
        // SAFETY: made by `insert`; no user is left, and none can come.
        drop(unsafe { Box::from_raw(inner) });
        slab.retire(place);
        Ok(closed)
    }
}

impl<H, T> Entered<H, T> {
    /// The port's handle.
    pub(crate) fn handle(&self) -> *mut Body<H, T> {
        std::ptr::from_ref(self.place).cast_mut().cast()
    }
}

impl<H, T> Deref for Entered<H, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: counted as a user, so the port is not taken apart.
        unsafe { &*self.inner }
    }
}

impl<H, T> Drop for Entered<H, T> {
    #[inline]
    fn drop(&mut self) {
        self.place.body.users.fetch_sub(1, Ordering::Release);
    }
}

/// The slab, made when first used.
pub(crate) fn made<T: Send + Sync>(slab: &OnceLock<Slab<T>>, range: usize) -> io::Result<&Slab<T>> {
    if let Some(slab) = slab.get() {
        return Ok(slab);
    }
    let new = Slab::new(range)?;
    Ok(slab.get_or_init(|| new))
}
