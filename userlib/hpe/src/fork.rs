//! Whether this process is a child of the one that made a runtime: threads, and so copy engines, do not come along.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use crate::error::HpeError;

/// Rises in each child: runtimes that were made before are not its.
static GENERATION: AtomicU32 = AtomicU32::new(0);

static CHANGES: Mutex<()> = Mutex::new(());

/// Who forks holds the lock meanwhile.
struct Forking(UnsafeCell<Option<MutexGuard<'static, ()>>>);

// SAFETY: used by who holds `CHANGES` only.
unsafe impl Sync for Forking {}

static FORKING: Forking = Forking(UnsafeCell::new(None));

/// For who changes what all of the process has: segments, handlers, the table of shared objects. A fork waits until it is done, so that a
/// child finds it whole, and locked by nobody.
pub(crate) fn changes() -> MutexGuard<'static, ()> {
    CHANGES.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn before() {
    let held = changes();
    // SAFETY: see `Forking`.
    unsafe { *FORKING.0.get() = Some(held) };
}

extern "C" fn in_parent() {
    // SAFETY: see `Forking`: taken by `before`, in this thread or the one that this is the copy of.
    drop(unsafe { (*FORKING.0.get()).take() });
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    in_parent();
}

/// Watches for forks from now on; returns the generation of this process.
pub(crate) fn watch() -> u32 {
    static WATCHED: Once = Once::new();
    // SAFETY: the functions take a lock that nobody holds who forks, and give it back.
    WATCHED.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child));
    });
    GENERATION.load(Ordering::Relaxed)
}

/// The generation of this process: it differs from a runtime's in the children of who made that.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Fails in a child of the process of that generation.
pub(crate) fn check(made_in: u32) -> Result<(), HpeError> {
    if generation() == made_in { Ok(()) } else { Err(HpeError::Forked) }
}
