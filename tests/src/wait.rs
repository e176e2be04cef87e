//! Waits that end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take on a loaded machine of two cores, which may stall for seconds.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Looks until there is something to see, and returns it. Panics after [`LIMIT`], naming `what`.
pub fn until<T>(what: impl FnOnce() -> String, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    let mut rounds = 0u32;
    loop {
        if let Some(found) = look() {
            return found;
        }
        rounds += 1;
        if rounds > 200 {
            assert!(started.elapsed() < LIMIT, "waited {:?} for {}", started.elapsed(), what());
            std::thread::sleep(Duration::from_micros(50));
        } else {
            std::thread::yield_now();
        }
    }
}

/// Says that a thread ended, also when it panicked: others that run until then end too.
pub struct Ended<'a>(pub &'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
