//! A device of the CPU executor: memory in a segment's view, and a thread as its copy engine.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ggas_clock::Clock;

use super::{Device, Host, Look, Memory, Queue, Side};
use crate::address::{DeviceId, view};
use crate::error::HpeError;
use crate::fork;
use crate::segment::{map_over, unmap};
use crate::worker::Worker;

/// Rounds that an idle engine spins, and then yields, before it sleeps.
const SPINS: u32 = 64;
const YIELDS: u32 = 32;

struct Copy {
    dst: u64,
    src: u64,
    len: usize,
}

/// What callers and the engine share.
#[derive(Default)]
struct Shared {
    copies: Mutex<VecDeque<Copy>>,
    news: Condvar,
    /// Copies that wait in `copies`; read without the lock by an engine that spins.
    waiting: AtomicU64,
    done: AtomicU64,
    ended: AtomicBool,
    /// Whether the engine is gone: then no copy is under way.
    stopped: AtomicBool,
}

impl Shared {
    fn copies(&self) -> MutexGuard<'_, VecDeque<Copy>> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next copy; `None` once the device has ended.
    fn next(&self) -> Option<Copy> {
        for round in 0..SPINS + YIELDS {
            if self.waiting.load(Ordering::Acquire) > 0 || self.ended.load(Ordering::Acquire) {
                break;
            }
            if round < SPINS { Clock::REAL.spin() } else { Clock::REAL.yield_now() }
        }
        let mut copies = self.copies();
        loop {
            if self.ended.load(Ordering::Acquire) {
                return None;
            }
            if let Some(copy) = copies.pop_front() {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                return Some(copy);
            }
            copies = self.news.wait(copies).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self) {
        while let Some(copy) = self.next() {
            // SAFETY: `submit`'s caller vouches for both ranges until the copy is done; they do not overlap.
            unsafe { (copy.dst as *mut u8).copy_from_nonoverlapping(copy.src as *const u8, copy.len) };
            self.done.fetch_add(1, Ordering::Release);
        }
        self.stopped.store(true, Ordering::Release);
    }
}

pub(crate) struct ExecutorDevice {
    id: DeviceId,
    shared: Arc<Shared>,
    engine: Mutex<Option<Worker>>,
    generation: u32,
}

impl ExecutorDevice {
    pub fn new(id: DeviceId) -> Result<ExecutorDevice, HpeError> {
        let shared = Arc::new(Shared::default());
        let engine = shared.clone();
        let thread = Worker::spawn(&format!("hpe-copies-{}", id.number()), move || engine.run())
            .map_err(|error| HpeError::System { what: "starting a copy engine", error })?;
        Ok(ExecutorDevice { id, shared, engine: Mutex::new(Some(thread)), generation: fork::watch() })
    }
}

impl Device for ExecutorDevice {
    fn map(&self, address: u64, size: usize) -> Result<Memory, HpeError> {
        // SAFETY: the view of pages that the caller took of this device's segment.
        unsafe { map_over(view(address), size, libc::PROT_READ | libc::PROT_WRITE, None)? };
        Ok(Memory { address, inside: view(address), buffer: None })
    }

    fn unmap(&self, memory: &Memory, size: usize) {
        // SAFETY: the runtime has taken the object out of its table.
        unsafe { unmap(memory.inside, size) };
    }

    unsafe fn submit(&self, queue: &mut Queue, dst: u64, src: u64, len: usize) -> Result<u64, HpeError> {
        let mut copies = self.shared.copies();
        if self.shared.ended.load(Ordering::Acquire) {
            return Err(HpeError::Lost { device: self.id });
        }
        copies.push_back(Copy { dst, src, len });
        self.shared.waiting.fetch_add(1, Ordering::Release);
        self.shared.news.notify_one();
        queue.last += 1;
        Ok(queue.last)
    }

    fn look(&self, number: u64) -> Look {
        match self.shared.done.load(Ordering::Acquire) >= number {
            true => Look::Done,
            false if self.shared.ended.load(Ordering::Acquire) => Look::Nothing,
            false => Look::UnderWay,
        }
    }

    fn is_done(&self, _: &mut Queue, number: u64) -> Result<bool, HpeError> {
        let done = |shared: &Shared| shared.done.load(Ordering::Acquire) >= number;
        if done(&self.shared) {
            return Ok(true);
        }
        // The engine may have carried it out just before it ended.
        let stopped = self.shared.stopped.load(Ordering::Acquire);
        match done(&self.shared) {
            false if stopped => Err(HpeError::Lost { device: self.id }),
            done => Ok(done),
        }
    }

    unsafe fn copy_now(&self, dst: u64, src: u64, len: usize, _: Side, _: Host) -> Result<(), HpeError> {
        if self.shared.ended.load(Ordering::Acquire) {
            return Err(HpeError::Lost { device: self.id });
        }
        // SAFETY: the caller's contract.
        unsafe { (dst as *mut u8).copy_from_nonoverlapping(src as *const u8, len) };
        Ok(())
    }

    fn is_signal_safe(&self) -> bool {
        true
    }

    fn wants_pinned(&self) -> bool {
        false
    }

    fn gpu(&self) -> Option<&ggas_gpu::Gpu> {
        None
    }

    /// Returns when no copy is under way any more.
    fn end(&self) {
        {
            let _copies = self.shared.copies();
            self.shared.ended.store(true, Ordering::Release);
            self.shared.news.notify_all();
        }
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(engine);
    }
}

impl Drop for ExecutorDevice {
    fn drop(&mut self) {
        // A child of a fork has no engine to wait for, and its locks may be another thread's.
        if fork::check(self.generation).is_ok() {
            self.end();
        }
    }
}
