//! Pinned memory through which copies go that no engine makes in one: pairs of buffers, few and counted (digest 2.4).

use std::sync::{Condvar, Mutex, PoisonError};

use ggas_gpu::{Gpu, HostMapping};

use crate::error::HpeError;
use crate::segment::PAGE;

/// What is pinned, and how often it was waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PinnedCounts {
    /// Bytes that are pinned now.
    pub bytes: usize,
    /// Bytes that may be pinned at most.
    pub bound: usize,
    /// Bytes in use now.
    pub in_use: usize,
    /// The most bytes that were in use at a time.
    pub most_in_use: usize,
    /// Copies that waited for buffers of others.
    pub waited: u64,
    /// Bytes that were given up, besides, as a copy that was not done in time may still use them.
    pub abandoned: usize,
}

/// Two buffers of one size.
struct Buffers {
    // Before the pages: first the driver forgets them.
    _registered: Option<HostMapping>,
    memory: pages::Pages,
}

pub(crate) mod pages {
    //! Pages of the host.
    use crate::error::HpeError;

    pub struct Pages {
        start: *mut u8,
        len: usize,
    }

    // SAFETY: plain memory with one owner.
    unsafe impl Send for Pages {}

    impl Pages {
        pub fn new(len: usize) -> Result<Pages, HpeError> {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: new pages.
            let start = unsafe {
                libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
            };
            if start == libc::MAP_FAILED {
                return Err(HpeError::system("mapping pinned buffers"));
            }
            Ok(Pages { start: start.cast(), len })
        }

        pub fn start(&self) -> *mut u8 {
            self.start
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: mapped by `new`; nobody else has them.
            unsafe { libc::munmap(self.start.cast(), self.len) };
        }
    }
}

#[derive(Default)]
struct State {
    idle: Vec<Buffers>,
    counts: PinnedCounts,
}

/// The buffers of a runtime.
pub(crate) struct Pool {
    buffer: usize,
    bound: usize,
    /// Registers buffers for all GPUs of the process.
    gpu: Option<Gpu>,
    state: Mutex<State>,
    returned: Condvar,
}

impl Pool {
    /// Buffers of `buffer` bytes, and never more than `bound` bytes of them.
    pub fn new(buffer: usize, bound: usize, gpu: Option<Gpu>) -> Result<Pool, HpeError> {
        let whole = buffer.max(1).checked_next_multiple_of(PAGE);
        match whole.and_then(|size| size.checked_mul(2)) {
            Some(pair) if pair <= bound => {}
            _ => return Err(HpeError::Pinned { bound, buffer }),
        }
        let buffer = whole.unwrap_or(PAGE);
        Ok(Pool { buffer, bound, gpu, state: Mutex::default(), returned: Condvar::new() })
    }

    /// Bytes of a buffer.
    pub fn buffer(&self) -> usize {
        self.buffer
    }

    pub fn counts(&self) -> PinnedCounts {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        PinnedCounts { bound: self.bound, ..state.counts }
    }

    /// Two buffers, both at once, so that copies that wait for buffers hold none. Waits until copies of others end where the
    /// bound is reached; those are bounded.
    pub fn take(&self) -> Result<Pair<'_>, HpeError> {
        let pair = 2 * self.buffer;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waited = false;
        let buffers = loop {
            if let Some(buffers) = state.idle.pop() {
                break buffers;
            }
            if state.counts.bytes + pair <= self.bound {
                let buffers = self.pin(pair)?;
                state.counts.bytes += pair;
                break buffers;
            }
            if !std::mem::replace(&mut waited, true) {
                state.counts.waited += 1;
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        state.counts.in_use += pair;
        state.counts.most_in_use = state.counts.most_in_use.max(state.counts.in_use);
        Ok(Pair { pool: self, buffers: Some(buffers) })
    }

    fn pin(&self, pair: usize) -> Result<Buffers, HpeError> {
        let memory = pages::Pages::new(pair)?;
        let registered = match &self.gpu {
            // SAFETY: the pages live as long as their registration, which is dropped with them.
            Some(gpu) => Some(unsafe { gpu.map_host(memory.start(), pair)? }),
            None => {
                // The executor copies without DMA: that the pages stay in memory is asked for, and not needed.
                // SAFETY: pages of this pair.
                unsafe { libc::mlock(memory.start().cast(), pair) };
                None
            }
        };
        Ok(Buffers { memory, _registered: registered })
    }
}

/// Two pinned buffers, returned on drop.
pub(crate) struct Pair<'a> {
    pool: &'a Pool,
    buffers: Option<Buffers>,
}

impl Pair<'_> {
    /// Where buffer 0 or 1 begins.
    pub fn buffer(&self, which: usize) -> *mut u8 {
        let start = self.buffers.as_ref().map_or(std::ptr::null_mut(), |buffers| buffers.memory.start());
        start.wrapping_add(which % 2 * self.pool.buffer)
    }

    /// Leaves the memory to a copy that may still be under way: it is never given out again.
    pub fn abandon(mut self) {
        std::mem::forget(self.buffers.take());
    }
}

impl Drop for Pair<'_> {
    fn drop(&mut self) {
        let pair = 2 * self.pool.buffer;
        let mut state = self.pool.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.counts.in_use -= pair;
        match self.buffers.take() {
            Some(buffers) => state.idle.push(buffers),
            // What was abandoned no longer counts: else a bound would be used up for good.
            None => {
                state.counts.bytes -= pair;
                state.counts.abandoned += pair;
            }
        }
        self.pool.returned.notify_one();
    }
}
