//! Threads of the host, one for each device, that wait for each other's steps.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::BenchError;
use crate::hosts::{together, until};

/// What a device's thread says, each as often as it happened. A count, as a semaphore with one waiter each: a thread that is
/// ahead cannot release another too early.
#[derive(Clone, Copy)]
pub(super) enum Event {
    /// Its memory of a step is complete.
    Written,
    /// What goes to the device below, or above, may be taken.
    Given(usize),
    /// What came from below, or above, was taken.
    Taken(usize),
}

const EVENTS: usize = 5;

impl Event {
    fn index(self) -> usize {
        match self {
            Event::Written => 0,
            Event::Given(side) => 1 + side,
            Event::Taken(side) => 3 + side,
        }
    }
}

/// One run of a program.
pub(super) struct Steps {
    counts: Vec<[AtomicU64; EVENTS]>,
    timeout: Duration,
    failed: AtomicBool,
    why: Mutex<Option<BenchError>>,
    exchanged: AtomicU64,
}

impl Steps {
    pub fn new(devices: usize, timeout: Duration) -> Steps {
        Steps {
            counts: (0..devices).map(|_| Default::default()).collect(),
            timeout,
            failed: AtomicBool::new(false),
            why: Mutex::new(None),
            exchanged: AtomicU64::new(0),
        }
    }

    /// It happened once more on `device`; who waits for it sees what was done before.
    pub fn post(&self, device: usize, event: Event) {
        self.counts[device][event.index()].fetch_add(1, Ordering::Release);
    }

    /// Waits until it has happened `times` times on `device`.
    pub fn wait(&self, device: usize, event: Event, times: u64) -> Result<(), BenchError> {
        let count = &self.counts[device][event.index()];
        let failed = || self.failed.load(Ordering::Acquire);
        until("another device's thread", self.timeout, || {
            count.load(Ordering::Acquire) >= times || failed()
        })?;
        if failed() {
            return Err(BenchError::Unsupported("another device's thread has failed".to_owned()));
        }
        Ok(())
    }

    /// Counts the time of `exchange` as one in which data move.
    pub fn exchange<R>(&self, exchange: impl FnOnce() -> R) -> R {
        let begun = Instant::now();
        let result = exchange();
        self.exchanged.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        result
    }

    /// The time that the threads exchanged data, of all their time together, in percent.
    pub fn exchange_percent(&self, took: Duration) -> f64 {
        let all = took.as_nanos() as f64 * self.counts.len() as f64;
        100.0 * self.exchanged.load(Ordering::Relaxed) as f64 / all.max(1.0)
    }

    /// Runs `program` in a thread for each device. Gives the time until the last one is done, or the first failure, at which the
    /// others stop to wait.
    pub fn run(
        &self,
        program: impl Fn(usize) -> Result<(), BenchError> + Sync,
    ) -> Result<Duration, BenchError> {
        let took = together(self.counts.len() as u32, self.timeout, |device, gate| {
            let ran = gate.pass().and_then(|()| program(device as usize));
            if let Err(error) = ran {
                self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                self.failed.store(true, Ordering::Release);
            }
            Ok(())
        })?;
        match self.why.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(took),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_fails_ends_the_others_and_its_reason_counts() {
        let steps = Steps::new(3, Duration::from_secs(60));
        let error = steps.run(|device| match device {
            1 => Err(BenchError::Unsupported("no device".to_owned())),
            _ => steps.wait(1, Event::Written, 1),
        });
        assert_eq!(error.unwrap_err().to_string(), "no device");
    }

    #[test]
    fn who_waits_sees_each_event_by_itself() {
        let steps = Steps::new(2, Duration::from_millis(20));
        steps.post(0, Event::Given(1));
        assert!(steps.wait(0, Event::Given(1), 1).is_ok());
        for (event, times) in
            [(Event::Given(1), 2), (Event::Given(0), 1), (Event::Taken(1), 1), (Event::Written, 1)]
        {
            assert!(steps.wait(0, event, times).is_err());
        }
    }
}
