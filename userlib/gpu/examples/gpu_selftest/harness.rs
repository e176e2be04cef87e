//! Rows of the table, bounded waits, host memory that kernels see.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use ggas_gpu::{Gpu, HostMapping};

/// Bound of whatever should take microseconds.
pub const SHORT: Duration = Duration::from_secs(5);

/// After so long the program gives up.
const WHOLE: Duration = Duration::from_secs(100);

pub type Outcome = Result<String, String>;

pub struct Suite {
    filter: String,
    failed: usize,
    passed: usize,
    current: Arc<Mutex<String>>,
}

impl Suite {
    pub fn new(filter: String) -> Suite {
        let current = Arc::new(Mutex::new(String::new()));
        let watched = current.clone();
        std::thread::spawn(move || {
            std::thread::sleep(WHOLE);
            println!("HUNG  {}", watched.lock().map_or_else(|_| String::new(), |name| name.clone()));
            std::process::exit(3);
        });
        Suite { filter, failed: 0, passed: 0, current }
    }

    /// Runs a check if the filter names it, and prints its row.
    pub fn check(&mut self, name: &str, run: impl FnOnce() -> Outcome) {
        if name.contains(&self.filter) {
            self.always(name, run);
        }
    }

    /// Runs a check that others need.
    pub fn always(&mut self, name: &str, run: impl FnOnce() -> Outcome) {
        if let Ok(mut current) = self.current.lock() {
            name.clone_into(&mut current);
        }
        let start = Instant::now();
        let outcome = run();
        let took = start.elapsed().as_secs_f64() * 1e3;
        let (word, detail) = match outcome {
            Ok(detail) => ("PASS", detail),
            Err(detail) => ("FAIL", detail),
        };
        if word == "PASS" {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
        println!("{word}  {name:<58} {took:>8.1} ms  {detail}");
    }

    pub fn finish(self) -> ExitCode {
        println!("{} passed, {} failed", self.passed, self.failed);
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Waits for a condition.
pub fn until(what: &str, limit: Duration, mut done: impl FnMut() -> bool) -> Result<(), String> {
    let start = Instant::now();
    while !done() {
        if start.elapsed() > limit {
            return Err(format!("waited {limit:?} for {what}"));
        }
        std::hint::spin_loop();
    }
    Ok(())
}

/// Runs something that must not hang in a thread of its own.
pub fn bounded<T: Send + 'static>(
    what: &str,
    limit: Duration,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || drop(send.send(run())));
    receive.recv_timeout(limit).map_err(|_| format!("{what} did not return within {limit:?}"))
}

/// Words in host memory that kernels see at the same address.
pub struct Shared {
    // Dropped before the memory.
    mapping: HostMapping,
    words: Vec<AtomicU64>,
}

impl Shared {
    pub fn new(gpu: &Gpu, count: usize) -> Result<Shared, String> {
        let words: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
        // SAFETY: the words are dropped after the mapping. Where a check fails kernels may still poll them; the pages
        // stay locked until those have ended.
        let mapping = unsafe { gpu.map_host(words.as_ptr().cast(), count * 8) }.map_err(crate::text)?;
        Ok(Shared { words, mapping })
    }

    pub fn address(&self, word: usize) -> u64 {
        self.mapping.address() + 8 * word as u64
    }

    pub fn load(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Acquire)
    }

    pub fn store(&self, word: usize, value: u64) {
        self.words[word].store(value, Ordering::Release);
    }
}

/// Minimum, median and 99th percentile in microseconds.
pub fn statistics(mut samples: Vec<Duration>) -> String {
    samples.sort_unstable();
    let at = |part: usize| samples[(samples.len() - 1) * part / 100].as_secs_f64() * 1e6;
    format!("min {:.2} median {:.2} p99 {:.2} us", at(0), at(50), at(99))
}

/// Bytes that differ from their neighbours.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|i| ((i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}
