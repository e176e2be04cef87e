//! How long a call may take.

use std::time::{Duration, Instant};

use ggas_clock::{Backoff, Clock, Ladder};

use crate::GaspiError;

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// For ever.
    Block,
    /// Not at all: one attempt.
    Test,
    /// This long.
    Within(Duration),
}

impl Timeout {
    /// Of milliseconds as the C interface has them. Where the low 32 bits are all ones it is [`Block`](Timeout::Block):
    /// a Fortran program passes a 32-bit -1.
    pub fn from_millis(millis: u64) -> Timeout {
        match millis {
            0 => Timeout::Test,
            _ if millis as u32 == u32::MAX => Timeout::Block,
            _ => Timeout::Within(Duration::from_millis(millis)),
        }
    }

    /// The same as a time.
    pub fn duration(self) -> Duration {
        match self {
            Timeout::Block => Duration::MAX,
            Timeout::Test => Duration::ZERO,
            Timeout::Within(time) => time,
        }
    }

    /// What is left of it for a call that began then.
    pub(crate) fn left(self, clock: &Clock, began: Instant) -> Timeout {
        match self {
            Timeout::Within(time) => Timeout::Within(time.saturating_sub(clock.since(began))),
            other => other,
        }
    }

    /// Asks `ready` until it has an answer: spins, yields, then naps.
    pub(crate) fn wait<T>(
        self,
        clock: &Clock,
        ready: impl FnMut() -> Result<Option<T>, GaspiError>,
    ) -> Result<T, GaspiError> {
        self.wait_on(Ladder::SHORT, clock, ready)
    }

    /// The same on another ladder.
    pub(crate) fn wait_on<T>(
        self,
        ladder: Ladder,
        clock: &Clock,
        mut ready: impl FnMut() -> Result<Option<T>, GaspiError>,
    ) -> Result<T, GaspiError> {
        let mut backoff = Backoff::on(ladder, clock, self.duration());
        loop {
            if let Some(found) = ready()? {
                return Ok(found);
            }
            backoff.pause().map_err(|_| GaspiError::Timeout)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ggas_clock::Manual;

    #[test]
    fn milliseconds_are_read_as_c_and_fortran_write_them() {
        assert_eq!(Timeout::from_millis(0), Timeout::Test);
        assert_eq!(Timeout::from_millis(20), Timeout::Within(Duration::from_millis(20)));
        assert_eq!(Timeout::from_millis(u64::MAX), Timeout::Block);
        assert_eq!(Timeout::from_millis(0xffff_ffff), Timeout::Block);
    }

    #[test]
    fn a_wait_looks_once_or_as_long_as_it_may() {
        let (clock, _time) = Manual::new();
        let mut looks = 0;
        let test = Timeout::Test.wait(&clock, || {
            looks += 1;
            Ok(None::<()>)
        });
        assert_eq!((test, looks), (Err(GaspiError::Timeout), 1));
        let began = clock.now();
        let within = Timeout::from_millis(20).wait(&clock, || Ok(None::<()>));
        assert_eq!(within, Err(GaspiError::Timeout));
        let waited = clock.since(began);
        assert!((20..22).contains(&waited.as_millis()), "{waited:?}");
        assert_eq!(Timeout::from_millis(10).left(&clock, began), Timeout::Within(Duration::ZERO));
        assert_eq!(Timeout::Block.left(&clock, began), Timeout::Block);
        // What comes late ends a wait without a limit.
        let late = clock.deadline(Duration::from_secs(30));
        let found = Timeout::Block.wait(&clock, || Ok((clock.now() >= late).then_some(7)));
        assert_eq!(found, Ok(7));
    }
}
