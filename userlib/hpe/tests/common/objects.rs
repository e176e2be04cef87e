//! Shared objects of tests.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use ggas_hpe::{Builder, HpeError, Runtime, Tracking};

pub const BLOCK: usize = 4096;
pub const WORDS: usize = 8 * BLOCK / 8;
pub const ALL: [Tracking; 3] = [Tracking::Protect, Tracking::ProtectByThread, Tracking::Userfault];

/// A runtime, unless this machine does not allow `userfaultfd`.
pub fn made(settings: Builder) -> Option<Runtime> {
    match settings.build() {
        Err(HpeError::System { what, error }) if what.starts_with("userfaultfd") => {
            eprintln!("not run: {what}: {error}");
            None
        }
        made => Some(made.unwrap()),
    }
}

/// An object of a device.
pub fn words<'a>(runtime: &Runtime, device: usize) -> &'a [AtomicU64] {
    let start = runtime.alloc_shared(super::pair(runtime)[device], WORDS * 8).unwrap();
    // SAFETY: the object lives as long as the test, and is used by atomics only.
    unsafe { std::slice::from_raw_parts(start.cast(), WORDS) }
}

/// What a kernel sees.
pub fn inside<'a>(runtime: &Runtime, words: &[AtomicU64]) -> &'a [AtomicU64] {
    let address = runtime.device_address(words.as_ptr().cast()).unwrap();
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts(address as *const AtomicU64, WORDS) }
}

/// Waits for what has to come.
pub fn wait_until(mut done: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing happened");
        std::thread::yield_now();
    }
}
