//! The card's timer: a trigger of the system notification queue each period, or once (spec 8.2, 8.4).
//!
//! The specification has the fields of the register. Inferred are: the period counts in the unit of the time stamp
//! counter, microseconds in the model; a write starts it anew; a period of 0 is no period; one that fires once clears
//! its enable bit.

use std::time::{Duration, Instant};

const PERIOD: u64 = (1 << 48) - 1;
const ENABLE: u64 = 1 << 48;
const ONE_SHOT: u64 = 1 << 49;

/// Its register, and when it fires next.
#[derive(Default)]
pub(crate) struct Timer {
    register: u64,
    due: Option<Instant>,
}

impl Timer {
    /// The register.
    pub fn read(&self) -> u64 {
        self.register
    }

    /// Sets the register, and starts or stops.
    pub fn write(&mut self, value: u64, now: Instant) {
        self.register = value & (PERIOD | ENABLE | ONE_SHOT);
        let runs = value & ENABLE != 0 && value & PERIOD != 0;
        self.due = if runs { now.checked_add(self.period()) } else { None };
    }

    fn period(&self) -> Duration {
        Duration::from_micros(self.register & PERIOD)
    }

    /// Whether it will fire.
    #[inline]
    pub fn runs(&self) -> bool {
        self.due.is_some()
    }

    /// Whether a period is over; asking begins the next one. Periods that nobody asked for in time are one.
    pub fn take(&mut self, now: Instant) -> bool {
        let Some(due) = self.due.filter(|due| *due <= now) else { return false };
        if self.register & ONE_SHOT != 0 {
            self.register &= !ENABLE;
            self.due = None;
        } else {
            let next = due.checked_add(self.period()).filter(|next| *next > now);
            self.due = next.or_else(|| now.checked_add(self.period()));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn it_fires_once_a_period_and_does_not_drift() {
        let (mut timer, start) = (Timer::default(), Instant::now());
        timer.write(ENABLE | 10, start);
        assert!(!timer.take(start + 9 * US));
        assert!(timer.take(start + 12 * US) && !timer.take(start + 19 * US));
        assert!(timer.take(start + 20 * US));
        assert!(timer.take(start + 75 * US), "periods that were missed are one");
        assert!(!timer.take(start + 84 * US) && timer.take(start + 85 * US));
        timer.write(10, start);
        assert!(!timer.runs() && !timer.take(start + 100 * US));
    }

    #[test]
    fn a_single_shot_turns_itself_off() {
        let (mut timer, start) = (Timer::default(), Instant::now());
        timer.write(ENABLE | ONE_SHOT | 10, start);
        assert!(timer.runs() && timer.take(start + 10 * US));
        assert_eq!((timer.runs(), timer.read()), (false, ONE_SHOT | 10));
    }

    #[test]
    fn hostile_periods_do_no_harm() {
        let (mut timer, start) = (Timer::default(), Instant::now());
        timer.write(ENABLE, start);
        assert!(!timer.runs(), "no period");
        timer.write(u64::MAX, start);
        assert!(timer.runs() && !timer.take(start + Duration::from_secs(1 << 20)));
        assert_eq!(timer.read(), PERIOD | ENABLE | ONE_SHOT);
    }
}
