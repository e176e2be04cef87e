//! What counts until its owner goes, or until the process ends by `exit` with it there.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, TryLockError, Weak};

use ggas_clock::Clock;

/// Something that brings what it counted to a trace as it is dropped: with this, or as the process ends by `exit` before.
#[derive(Debug)]
pub struct Lasting<T> {
    value: Arc<Mutex<Option<T>>>,
    process: u32,
}

trait Ends: Send + Sync {
    /// Whether it is over, now or before.
    fn end_soon(&self) -> bool;
}

impl<T: Send> Ends for Mutex<Option<T>> {
    fn end_soon(&self) -> bool {
        soon(self).map(|mut value| value.take()).is_some()
    }
}

/// Of all that are there, for the end of the process.
static ALL: Mutex<Vec<Weak<dyn Ends>>> = Mutex::new(Vec::new());
/// The process that has them, and not a child of it made by `fork`: there they may be locked by threads that it has not.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static AT_EXIT: Once = Once::new();
/// Looks at a lock as the process ends.
const TRIES: u32 = 100_000;

impl<T: Send + 'static> Lasting<T> {
    /// From now on.
    pub fn new(value: T) -> Lasting<T> {
        let (value, process) = (Arc::new(Mutex::new(Some(value))), std::process::id());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = PROCESS.swap(process, Ordering::Relaxed) != process;
        // Those of a parent are not this process's.
        all.retain(|one| !is_new && one.strong_count() > 0);
        let ends: Weak<Mutex<Option<T>>> = Arc::downgrade(&value);
        all.push(ends);
        // SAFETY: the handler needs nothing but statics.
        AT_EXIT.call_once(|| unsafe {
            libc::atexit(end_all);
        });
        Lasting { value, process }
    }

    /// Does something with it; `None`: it is over.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(work)
    }

    /// Ends it. Not in a child made by `fork`.
    pub fn end(&self) {
        if self.process == std::process::id() {
            let value = self.value.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(value);
        }
    }
}

/// Programs may end without closing what they opened.
extern "C" fn end_all() {
    if PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    // Those whose lock is not to be had are left as they are: their file says that it is not whole.
    let all = soon(&ALL).map(|mut all| std::mem::take(&mut *all)).unwrap_or_default();
    if all.iter().filter_map(Weak::upgrade).filter(|one| !one.end_soon()).count() > 0 {
        tracing::warn!("a trace is not complete: the process ended while something was counted");
    }
}

/// A lock that others have for a moment, or that what `exit` has interrupted has.
fn soon<T: ?Sized>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    let clock = Clock::real();
    (0..TRIES).find_map(|_| match lock.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => {
            clock.yield_now();
            None
        }
    })
}
