//! Which run a process's traces are of, so that `ggas map` does not take files of an earlier one for a part of it.

use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

use ggas_clock::Clock;

/// What names the job of this process, and the time that it runs together with the other ranks, alike for all of them.
static JOB: Mutex<Option<String>> = Mutex::new(None);

/// This process is of a job from here on.
pub(crate) fn is_of(job: String) {
    *JOB.lock().unwrap_or_else(PoisonError::into_inner) = Some(job);
}

/// What the head of a file says: the job, and for how long the process counted. Processes of a network that is no job are of one run
/// where they were there at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run(Option<String>);

impl Run {
    pub(super) fn now() -> Run {
        // From the first trace of the process on.
        begun();
        Run(JOB.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "# RUN\t{}\t{}\t{}", self.0.as_deref().unwrap_or("-"), begun(), microseconds())
    }
}

fn begun() -> u128 {
    static BEGUN: OnceLock<u128> = OnceLock::new();
    *BEGUN.get_or_init(microseconds)
}

/// Since 1970. Clocks of hosts differ; between processes of one host it is one clock.
fn microseconds() -> u128 {
    Clock::REAL.time_of_day().as_micros()
}
