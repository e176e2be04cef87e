//! A device that many threads share: lock, queue, unlock, and then poll (digest 2.1).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;
use ggas_clock::{Backoff, Clock, Ladder};

use crate::address::DeviceId;
use crate::device::{Device, Look, Queue};
use crate::error::HpeError;

/// Looks without a lock before the device is asked.
const LOOKS: u32 = 256;
/// Copies that a thread queues for others before it goes on with its own.
const OTHERS: usize = 32;

/// How a thread waits for its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// How long it polls without a pause: a little of that it spins, then it yields.
    pub spin: Duration,
    /// The pause between two polls after those; Linux adds its timer slack, 50 µs by default.
    pub every: Duration,
}

impl Wait {
    /// The paper's: a poll each 20 µs, with which up to 16 threads share a device.
    pub const PAPER: Wait = Wait { spin: Duration::ZERO, every: Duration::from_micros(20) };

    /// Polling first, for copies that take microseconds: a pause takes longer than most of them.
    pub const SPIN_FIRST: Wait = Wait { spin: Duration::from_micros(500), every: Duration::from_micros(20) };
}

/// How long a thread holds a device's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// For a call each: to queue, and to ask the device, where a copy's end is not seen without.
    Short,
    /// For a whole copy, as programs for CUDA 3 do that share a device: for comparison.
    Coarse,
}

/// Counters of a device's lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockCounts {
    /// Times that it was taken.
    pub taken: u64,
    /// Times that it was held by another thread then.
    pub waited: u64,
    /// Time that threads waited for it, together.
    pub time: Duration,
}

#[derive(Default)]
struct Counters {
    taken: AtomicU64,
    waited: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Counters {
    /// A wait that is over.
    fn count(&self, began: Instant) {
        self.waited.fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(Clock::REAL.since(began).as_nanos() as u64, Ordering::Relaxed);
    }
}

/// A copy that a thread wants to be queued while another has the lock. Once nobody else keeps it, it has been.
struct Request {
    dst: u64,
    src: u64,
    len: usize,
    ticket: OnceLock<Result<u64, HpeError>>,
}

/// A device, its queue, and the lock of both.
pub(crate) struct Context {
    id: DeviceId,
    pub device: Arc<dyn Device>,
    queue: Mutex<Queue>,
    requests: SegQueue<Arc<Request>>,
    counters: Counters,
    pub wait: Wait,
    pub locking: Locking,
    timeout: Duration,
}

/// A copy that was queued.
#[must_use]
#[derive(Clone, Copy)]
pub(crate) struct Ticket(u64);

impl Context {
    pub fn new(
        id: DeviceId,
        device: Arc<dyn Device>,
        wait: Wait,
        locking: Locking,
        timeout: Duration,
    ) -> Context {
        let (queue, requests, counters) = (Mutex::default(), SegQueue::new(), Counters::default());
        Context { id, device, queue, requests, counters, wait, locking, timeout }
    }

    pub fn id(&self) -> DeviceId {
        self.id
    }

    pub fn counts(&self) -> LockCounts {
        LockCounts {
            taken: self.counters.taken.load(Ordering::Relaxed),
            waited: self.counters.waited.load(Ordering::Relaxed),
            time: Duration::from_nanos(self.counters.nanoseconds.load(Ordering::Relaxed)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.counters.taken.fetch_add(1, Ordering::Relaxed);
        if let Some(queue) = self.try_lock() {
            return queue;
        }
        let began = Clock::REAL.now();
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.counters.count(began);
        queue
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Queue>> {
        match self.queue.try_lock() {
            Ok(queue) => Some(queue),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Copies and waits for the end.
    ///
    /// # Safety
    /// As [`Device::submit`]; after [`HpeError::Timeout`] until the device has ended.
    pub unsafe fn copy(&self, dst: u64, src: u64, len: usize) -> Result<(), HpeError> {
        match self.locking {
            Locking::Short => {
                // SAFETY: the caller's contract.
                let ticket = unsafe { self.submit(dst, src, len)? };
                self.finish(ticket)
            }
            Locking::Coarse => {
                let mut queue = self.lock();
                // SAFETY: the caller's contract.
                let number = unsafe { self.device.submit(&mut queue, dst, src, len)? };
                self.until(|| self.device.is_done(&mut queue, number))
            }
        }
    }

    /// Queues a copy and returns.
    ///
    /// # Safety
    /// As [`Device::submit`].
    pub unsafe fn submit(&self, dst: u64, src: u64, len: usize) -> Result<Ticket, HpeError> {
        self.counters.taken.fetch_add(1, Ordering::Relaxed);
        if let Some(mut queue) = self.try_lock() {
            // SAFETY: the caller's contract.
            let ticket = unsafe { self.device.submit(&mut queue, dst, src, len) };
            self.submit_for_others(&mut queue);
            return ticket.map(Ticket);
        }
        let began = Clock::REAL.now();
        let mut request = Arc::new(Request { dst, src, len, ticket: OnceLock::new() });
        self.requests.push(request.clone());
        let mut backoff = Backoff::endless(Ladder::NEIGHBOUR, Clock::REAL);
        let ticket = loop {
            if Arc::strong_count(&request) == 1
                && let Some(request) = Arc::get_mut(&mut request)
            {
                // None: who had it has panicked, and did not say whether the device takes it.
                let unknown = HpeError::Timeout { device: self.id, waited: Clock::REAL.since(began) };
                break request.ticket.take().unwrap_or(Err(unknown));
            }
            match self.try_lock() {
                Some(mut queue) => self.submit_for_others(&mut queue),
                None => {
                    // Endless: who has the lock queues this, or gives it back.
                    let _ = backoff.pause();
                }
            }
        };
        self.counters.count(began);
        ticket.map(Ticket)
    }

    /// What others wait to have queued: the driver's state stays with the core of whoever has the lock, which need not change
    /// hands for each copy.
    fn submit_for_others(&self, queue: &mut Queue) {
        for _ in 0..OTHERS {
            let Some(request) = self.requests.pop() else { return };
            // SAFETY: the contract of who made the request, and waits.
            let ticket = unsafe { self.device.submit(queue, request.dst, request.src, request.len) };
            let _ = request.ticket.set(ticket);
        }
    }

    /// Waits for a copy.
    pub fn finish(&self, ticket: Ticket) -> Result<(), HpeError> {
        // Who only looks takes no lock. A copy that failed never looks done: the device is asked from time to time.
        let mut looks = 0u32;
        self.until(|| {
            looks = looks.wrapping_add(1);
            match self.device.look(ticket.0) {
                Look::Done => Ok(true),
                Look::UnderWay if !looks.is_multiple_of(LOOKS) => Ok(false),
                _ => self.device.is_done(&mut self.lock(), ticket.0),
            }
        })
    }

    /// Waits, as long as for a copy, until something is done.
    pub fn until(&self, mut is_done: impl FnMut() -> Result<bool, HpeError>) -> Result<(), HpeError> {
        let began = Clock::REAL.now();
        loop {
            if is_done()? {
                return Ok(());
            }
            let waited = Clock::REAL.since(began);
            if waited > self.timeout {
                break;
            }
            if waited >= self.wait.spin {
                Clock::REAL.sleep(self.wait.every);
            } else if waited < self.wait.spin / 32 {
                Clock::REAL.spin();
            } else {
                // The engine, or who else shares the device, may want this core.
                Clock::REAL.yield_now();
            }
        }
        Err(HpeError::Timeout { device: self.id, waited: self.timeout })
    }
}
