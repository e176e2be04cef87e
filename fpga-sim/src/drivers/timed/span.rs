//! Virtual time in picoseconds: link rates of today take a fraction of a nanosecond for a flit.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::time::Duration;

/// A length of virtual time, or a moment of it since the beginning, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ps(pub u64);

impl Ps {
    /// Nothing; the beginning.
    pub const ZERO: Ps = Ps(0);
    /// Never.
    pub(super) const NEVER: Ps = Ps(u64::MAX);

    /// Nanoseconds, rounded to a picosecond; negative ones and those that are no number are 0.
    pub fn ns(ns: f64) -> Ps {
        Ps((ns * 1e3).round() as u64)
    }

    /// Microseconds, as [`Ps::ns`].
    pub fn us(us: f64) -> Ps {
        Ps::ns(us * 1e3)
    }

    /// In nanoseconds.
    pub fn as_ns(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// In microseconds.
    pub fn as_us(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// What is left of it behind `other`.
    pub fn saturating_sub(self, other: Ps) -> Ps {
        Ps(self.0.saturating_sub(other.0))
    }

    pub(super) fn of(duration: Duration) -> Ps {
        Ps(u64::try_from(duration.as_nanos()).map_or(u64::MAX, |ns| ns.saturating_mul(1000)))
    }

    pub(super) fn duration(self) -> Duration {
        Duration::from_nanos(self.0 / 1000)
    }
}

impl Add for Ps {
    type Output = Ps;

    fn add(self, other: Ps) -> Ps {
        Ps(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Ps {
    fn add_assign(&mut self, other: Ps) {
        *self = *self + other;
    }
}

impl Sub for Ps {
    type Output = Ps;

    fn sub(self, other: Ps) -> Ps {
        self.saturating_sub(other)
    }
}

impl Mul<u64> for Ps {
    type Output = Ps;

    fn mul(self, times: u64) -> Ps {
        Ps(self.0.saturating_mul(times))
    }
}

impl Sum for Ps {
    fn sum<I: Iterator<Item = Ps>>(all: I) -> Ps {
        all.fold(Ps::ZERO, Add::add)
    }
}

impl fmt::Display for Ps {
    /// In microseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} us", self.as_us())
    }
}
