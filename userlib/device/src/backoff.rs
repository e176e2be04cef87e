//! Waiting on few cores: spin briefly, then yield, then nap.

use std::time::{Duration, Instant};

/// Rounds of pure spinning; about a microsecond.
const SPINS: u32 = 64;
/// Rounds that give the core away.
const YIELDS: u32 = 256;
/// First and longest nap.
const NAPS: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

/// One bounded wait.
pub struct Backoff {
    round: u32,
    started: Option<Instant>,
    timeout: Duration,
    nap: Duration,
}

/// What to do before looking again.
pub enum Step {
    /// Look again at once (the caller was delayed as the round asks).
    Again,
    /// Long without success: sleep, at most this long.
    Sleep(Duration),
    /// Time is over; this long was waited.
    Over(Duration),
}

impl Backoff {
    /// A wait of at most `timeout`.
    pub fn new(timeout: Duration) -> Backoff {
        Backoff { round: 0, started: None, timeout, nap: NAPS.0 }
    }

    /// The next step. The clock is first read after the spinning, so short waits do not pay for it.
    pub fn step(&mut self) -> Step {
        self.round = self.round.saturating_add(1);
        if self.round < SPINS && !self.timeout.is_zero() {
            std::hint::spin_loop();
            return Step::Again;
        }
        let waited = self.started.get_or_insert_with(Instant::now).elapsed();
        if waited >= self.timeout {
            return Step::Over(waited);
        }
        if self.round < SPINS + YIELDS {
            std::thread::yield_now();
            return Step::Again;
        }
        Step::Sleep(self.timeout - waited)
    }

    /// Naps a little longer each time, for waits that nothing announces.
    pub fn nap(&mut self, left: Duration) {
        std::thread::sleep(self.nap.min(left));
        self.nap = (self.nap * 2).min(NAPS.1);
    }
}
