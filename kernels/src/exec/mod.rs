//! The CPU executor: kernels compiled as host C++, one fiber per CUDA thread.
//!
//! All blocks of all launches of one [`start`](crate::start) live at once, so
//! blocks and nodes may wait for each other; of a launch that says so
//! ([`Launch::resident`](crate::Launch::resident)) only some do. A block's fibers stay on one OS
//! thread; blocks are dealt out over the workers. Fibers run until they wait:
//! at a barrier, in a warp operation, or in a loop that calls `ggas_pause()`.
//!
//! What never ends is an error that names kernel, block and wait, not a hang:
//! see [`LaunchError`].

mod backlog;
mod block;
mod ffi;
mod idle;
mod run;
mod stack;

pub(crate) use run::{CpuRun, leaked, start};

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ggas_clock::Clock;

#[cfg(doc)]
use crate::LaunchError;

/// Settings of the CPU executor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CpuConfig {
    /// OS threads that run blocks; default: the cores of this process.
    pub workers: usize,
    /// A thread that runs so long without waiting is taken for a loop that
    /// never calls `ggas_pause()`; default 10 s.
    pub no_pause_limit: Duration,
    /// What time is for kernels (`ggas_time_ns`), their naps and the launches' time-outs; default: real. With a virtual
    /// clock kernels run while somebody waits for their launch, on that thread, and one that never pauses is not noticed.
    pub clock: Clock,
}

impl Default for CpuConfig {
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        Self { workers, no_pause_limit: Duration::from_secs(10), clock: Clock::real() }
    }
}

impl CpuConfig {
    /// The defaults, but with `clock`.
    pub fn on_clock(clock: Clock) -> Self {
        Self { clock, ..Self::default() }
    }
}

/// A kernel's arguments: bytes, padding included, aligned for any structure.
pub(crate) struct Args(Box<[MaybeUninit<u128>]>);

impl Args {
    pub fn new<T: Copy>(value: &T) -> Self {
        let mut words = vec![MaybeUninit::uninit(); size_of::<T>().div_ceil(size_of::<u128>()).max(1)];
        // SAFETY: both are valid for so many bytes and do not overlap; padding stays uninitialised.
        unsafe {
            std::ptr::copy_nonoverlapping(
                std::ptr::from_ref(value).cast::<MaybeUninit<u8>>(),
                words.as_mut_ptr().cast::<MaybeUninit<u8>>(),
                size_of::<T>(),
            );
        }
        Self(words.into())
    }

    pub fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }

    /// The first `len` bytes.
    pub fn bytes(&self, len: usize) -> &[MaybeUninit<u8>] {
        assert!(len <= size_of_val(&*self.0), "a structure of other size was copied in");
        // SAFETY: within the allocation; the type allows uninitialised padding.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), len) }
    }
}

/// What a worker runs at the moment, for the watchdog: a count that grows with
/// every resume, and who runs.
#[derive(Default)]
struct Pulse {
    count: AtomicU64,
    /// launch << 48 | block << 16 | thread, plus one; 0: between fibers.
    who: AtomicU64,
}

impl Pulse {
    fn enter(&self, launch: usize, block: u32, thread: u32) {
        self.who.store(
            ((launch as u64) << 48 | u64::from(block) << 16 | u64::from(thread)) + 1,
            Ordering::Relaxed,
        );
        self.count.store(self.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn leave(&self) {
        self.who.store(0, Ordering::Relaxed);
    }

    fn read(&self) -> (u64, Option<(usize, u32, u32)>) {
        let who = self.who.load(Ordering::Relaxed).checked_sub(1);
        let who = who.map(|w| ((w >> 48) as usize, (w >> 16) as u32, w as u16 as u32));
        (self.count.load(Ordering::Relaxed), who)
    }
}
