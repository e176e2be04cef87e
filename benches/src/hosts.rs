//! Host threads that take part in a benchmark: one for each node, or several that compute together.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ggas_clock::{Backoff, Clock, Ladder};
use ggas_kernels::Stream;

use crate::BenchError;
use crate::error::Doing;

/// Waits until `done`, and says what did not come otherwise.
pub(crate) fn until(what: &str, timeout: Duration, mut done: impl FnMut() -> bool) -> Result<(), BenchError> {
    let mut backoff = Backoff::on(Ladder::DEVICE, Clock::REAL, timeout);
    while !done() {
        if let Err(waited) = backoff.pause() {
            return Err(std::io::Error::other(format!("it did not come in {waited:?}")))
                .doing(format!("waiting for {what}"));
        }
    }
    Ok(())
}

/// Where threads meet before time begins.
pub(crate) struct Gate {
    threads: u32,
    timeout: Duration,
    came: AtomicU32,
    begun: OnceLock<Instant>,
}

impl Gate {
    /// Returns once all threads have come.
    pub fn pass(&self) -> Result<(), BenchError> {
        self.came.fetch_add(1, Ordering::AcqRel);
        until("the other hosts", self.timeout, || self.came.load(Ordering::Acquire) >= self.threads)?;
        self.begun.get_or_init(Instant::now);
        Ok(())
    }
}

/// Has a stream's processor and this thread do what only the first launches cost: `kernel` of it does nothing.
pub(crate) fn warm_up(stream: &Stream<'_>, kernel: usize) -> Result<(), BenchError> {
    const LAUNCHES: usize = 3;
    for _ in 0..LAUNCHES {
        stream.launch(kernel).doing("starting a kernel")?;
        stream.wait().doing("waiting for a kernel")?;
    }
    Ok(())
}

/// Runs `program` in `threads` threads, by their numbers; each passes the gate once. Gives the time from there until the
/// last one is done.
pub(crate) fn together(
    threads: u32,
    timeout: Duration,
    program: impl Fn(u32, &Gate) -> Result<(), BenchError> + Sync,
) -> Result<Duration, BenchError> {
    let gate = Gate { threads, timeout, came: AtomicU32::new(0), begun: OnceLock::new() };
    let one = |thread| program(thread, &gate).map(|()| Instant::now());
    let ends = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Instant, BenchError>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().map(join).collect::<Vec<_>>()
    });
    let ends = ends.into_iter().collect::<Result<Vec<_>, _>>()?;
    let begun = gate.begun.get().copied();
    let took = ends.into_iter().max().zip(begun).map(|(end, begun)| end.saturating_duration_since(begun));
    Ok(took.unwrap_or_default())
}

/// Two-sided messages between hosts, by rendezvous: a message is copied once its receiver has said that it may, as
/// libraries for messages do with memory of GPUs. Each slot takes one message at a time.
pub(crate) struct TwoSided {
    slots: Vec<Slot>,
    timeout: Duration,
}

#[derive(Default)]
struct Slot {
    posted: AtomicU64,
    sent: AtomicU64,
}

/// A message that a host sends: addresses of its processor.
pub(crate) struct Outgoing {
    pub slot: usize,
    pub to: u64,
    pub from: u64,
    pub bytes: usize,
}

impl TwoSided {
    pub fn new(slots: usize, timeout: Duration) -> Self {
        Self { slots: (0..slots).map(|_| Slot::default()).collect(), timeout }
    }

    /// The receiver of a slot is ready for its `times`th message.
    pub fn post(&self, slot: usize, times: u64) {
        self.slots[slot].posted.store(times, Ordering::Release);
    }

    /// Sends messages, the `times`th of their slots, whose data are complete; returns when they have arrived.
    ///
    /// # Safety
    /// As for [`Stream::copy`]; the receivers posted what they do not use.
    pub unsafe fn send(
        &self,
        stream: &Stream<'_>,
        messages: &[Outgoing],
        times: u64,
    ) -> Result<(), BenchError> {
        for message in messages {
            let posted = &self.slots[message.slot].posted;
            until("a receiver", self.timeout, || posted.load(Ordering::Acquire) >= times)?;
            // SAFETY: the caller's contract.
            unsafe { stream.copy(message.to, message.from, message.bytes) }.doing("sending a message")?;
        }
        stream.wait().doing("sending messages")?;
        for message in messages {
            self.slots[message.slot].sent.store(times, Ordering::Release);
        }
        Ok(())
    }

    /// Waits for the `times`th message of a slot.
    pub fn receive(&self, slot: usize, times: u64) -> Result<(), BenchError> {
        let sent = &self.slots[slot].sent;
        until("a message", self.timeout, || sent.load(Ordering::Acquire) >= times)
    }
}

/// Where the threads of a node's host meet, again and again.
pub(crate) struct Meeting {
    threads: u32,
    timeout: Duration,
    came: AtomicU64,
}

impl Meeting {
    pub fn new(threads: u32, timeout: Duration) -> Self {
        Self { threads, timeout, came: AtomicU64::new(0) }
    }

    /// Returns once all threads have come to this round; what they did before is visible.
    pub fn meet(&self) -> Result<(), BenchError> {
        let threads = u64::from(self.threads);
        let before = self.came.fetch_add(1, Ordering::AcqRel);
        let all = (before / threads + 1) * threads;
        until("threads of this host", self.timeout, || self.came.load(Ordering::Acquire) >= all)
    }
}

/// Floats that threads use by turns; who uses which when is theirs to order.
pub(crate) struct Shared {
    start: *mut f32,
    len: usize,
}

// SAFETY: plain memory; its accesses are unsafe, and their callers order them.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    pub fn new(values: Vec<f32>) -> Self {
        let len = values.len();
        Self { start: Box::into_raw(values.into_boxed_slice()).cast(), len }
    }

    /// # Safety
    /// Nobody writes these elements meanwhile.
    pub unsafe fn get(&self, range: Range<usize>) -> &[f32] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: inside the memory; the caller's contract.
        unsafe { std::slice::from_raw_parts(self.start.add(range.start), range.len()) }
    }

    /// # Safety
    /// Nobody else uses these elements meanwhile.
    #[allow(clippy::mut_from_ref)] // as for a cell
    pub unsafe fn get_mut(&self, range: Range<usize>) -> &mut [f32] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: inside the memory; the caller's contract.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }

    /// All of them, once no thread uses any.
    pub fn all(&mut self) -> &[f32] {
        // SAFETY: the exclusive borrow.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: what `new` took from the box.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.start, self.len)) });
    }
}

/// Threads of each node's host for work of so many bytes, where all nodes are on this machine: three of four cores, as
/// threads that meet wait for each that loses its core.
pub(crate) fn threads_for(bytes: usize, nodes: u32) -> u32 {
    /// A thread more for less work costs more than it brings.
    const LEAST: usize = 64 << 10;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (bytes / LEAST).clamp(1, (cores * 3 / 4 / nodes.max(1) as usize).clamp(1, 64)) as u32
}
