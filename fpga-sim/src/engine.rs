//! The thread pool that polls cards in the background.

use std::sync::{Arc, OnceLock};

/// Threads that run cards whose work nobody else does: spin briefly, then yield, then take timed naps; asleep, and
/// free, while no card is armed and nothing is pending.
pub struct Engine {}

impl Engine {
    /// A pool of `threads` (at least one).
    pub fn new(_threads: usize) -> Arc<Engine> {
        Arc::new(Engine {})
    }

    /// The pool of this process: one thread on up to two cores, else two.
    pub fn global() -> Arc<Engine> {
        static GLOBAL: OnceLock<Arc<Engine>> = OnceLock::new();
        GLOBAL.get_or_init(|| Engine::new(1)).clone()
    }
}
