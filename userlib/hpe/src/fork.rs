//! Whether this process is a child of the one that made a runtime: threads, and so copy engines, do not come along.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::HpeError;

/// Rises in each child: runtimes that were made before are not its.
static GENERATION: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Watches for forks from now on; returns the generation of this process.
pub(crate) fn watch() -> u32 {
    static WATCHED: Once = Once::new();
    // SAFETY: the function only adds to an atomic.
    WATCHED.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
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
