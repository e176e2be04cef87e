//! The thread that makes the accesses.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ggas_clock::{Backoff, Clock, Ladder};

use super::layout::GGAS_PROXY_ANSWERS;
use super::ring::{Command, Ring};
use crate::launch::LaunchError;
use crate::memory::MemoryError;
use crate::processor::Processor;
use crate::trap;

/// While kernels run: their accesses come in microseconds, or behind what they compute.
const BESIDE_KERNELS: Ladder =
    Ladder { naps: (Duration::from_micros(20), Duration::from_micros(100)), ..Ladder::DEVICE };
/// Else, for kernels in streams of the caller's, of which nobody here knows.
const ALONE: Ladder =
    Ladder { spins: 1, yields: 16, naps: (Duration::from_micros(50), Duration::from_millis(1)), part: 0 };

/// Makes the accesses that a ring asks for.
pub struct Server {
    ring: Ring,
    /// The next line to look at.
    next: AtomicU64,
    /// Of each answer, how often it was given.
    uses: Mutex<[u64; GGAS_PROXY_ANSWERS as usize]>,
    stopped: AtomicBool,
    /// Starts of kernels that somebody waits for.
    pub(super) running: AtomicUsize,
    failed: Mutex<Option<Failure>>,
}

/// An access that failed.
struct Failure {
    block: u32,
    thread: u32,
    access: String,
    failed: trap::Failed,
}

impl Server {
    /// With a ring for kernels of a processor.
    pub fn new(processor: &Processor) -> Result<Server, MemoryError> {
        Ok(Server {
            ring: Ring::new(processor)?,
            next: AtomicU64::new(0),
            uses: Mutex::new([0; GGAS_PROXY_ANSWERS as usize]),
            stopped: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            failed: Mutex::default(),
        })
    }

    /// Where kernels have the ring, a `struct ggas_proxy`.
    pub fn address(&self) -> u64 {
        self.ring.address()
    }

    /// Starts a thread that serves it until it is stopped.
    pub fn spawn(self: Arc<Self>, ordinal: usize) -> Result<JoinHandle<()>, MemoryError> {
        self.stopped.store(false, Ordering::Release);
        let serve = move || {
            while !self.stopped.load(Ordering::Acquire) {
                self.serve_a_while();
            }
        };
        let thread = thread::Builder::new().name(format!("ggas-proxy-{ordinal}")).spawn(serve);
        thread.map_err(|error: io::Error| MemoryError::NoThread { error })
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Until something has moved, or nothing for so long that it is time to look whether kernels still run.
    fn serve_a_while(&self) {
        let beside = self.running.load(Ordering::Relaxed) > 0;
        let ladder = if beside { BESIDE_KERNELS } else { ALONE };
        let mut backoff = Backoff::on(ladder, Clock::REAL, Duration::from_millis(5));
        loop {
            let made = self.serve() > 0;
            // What was stored leaves at once, and what comes to these kernels is taken: nobody else here is awake for it.
            let moved = (made || beside) && trap::attend();
            if made || moved || self.stopped.load(Ordering::Acquire) || backoff.pause().is_err() {
                return;
            }
            if !beside && self.running.load(Ordering::Relaxed) > 0 {
                return;
            }
        }
    }

    /// Makes the accesses that are there; how many. By one thread at a time.
    pub fn serve(&self) -> usize {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        let mut number = self.next.load(Ordering::Relaxed);
        let mut count = 0;
        while let Some(mut command) = self.ring.command(number) {
            self.make(&mut command);
            self.ring.answer(&command, &mut uses);
            number = self.ring.take(number, &command);
            self.next.store(number, Ordering::Release);
            count += 1;
        }
        count
    }

    fn make(&self, command: &mut Command) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.is_none() {
            let done = trap::access(command.kind, command.address, &mut command.bytes);
            *failed = done.err().map(|failed| Failure {
                block: command.block,
                thread: command.thread,
                access: format!("{} of {} bytes", command.kind, command.len()),
                failed,
            });
            if failed.is_some() {
                self.ring.tell_failed(true);
            }
        }
        if failed.is_some() {
            command.bytes.fill(0xff);
        }
    }

    /// Waits until all that was claimed by kernels that have ended was made.
    pub fn catch_up(&self) -> Result<(), MemoryError> {
        let claimed = self.ring.claimed()?;
        // Each access ends within a time of its own.
        let mut backoff = Backoff::endless(Ladder::NEIGHBOUR, Clock::REAL);
        while self.next.load(Ordering::Acquire) < claimed && !self.stopped.load(Ordering::Acquire) {
            let _ = backoff.pause();
        }
        Ok(())
    }

    /// Takes the first access that failed; of which kernels it was is for the caller to say.
    pub fn failure(&self, kernels: &str) -> Option<LaunchError> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        self.ring.tell_failed(false);
        Some(LaunchError::Access {
            kernel: kernels.to_owned(),
            block: failed.block,
            thread: failed.thread,
            access: failed.access,
            place: failed.failed.place,
            source: failed.failed.source,
        })
    }
}
