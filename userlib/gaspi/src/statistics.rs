//! Counters of what a process has done.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use ggas_clock::Clock;

macro_rules! counters {
    ($($name:ident: $text:literal,)*) => {
        /// Counters; their numbers are those of the C interface.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter {
            $(#[doc = $text] $name,)*
        }

        impl Counter {
            /// All of them, in order.
            pub const ALL: &'static [Counter] = &[$(Counter::$name,)*];

            /// Name, and what it counts; both end with a zero byte.
            pub const fn texts(self) -> (&'static str, &'static str) {
                match self {
                    $(Counter::$name => (concat!(stringify!($name), "\0"), concat!($text, "\0")),)*
                }
            }
        }
    };
}

counters! {
    BytesWritten: "bytes of writes",
    BytesRead: "bytes of reads",
    NumberOfBarriers: "barriers completed",
    NumberOfWaits: "waits on queues",
    NumberOfWrites: "writes, a list as one",
    NumberOfWriteNotifys: "writes with a notification",
    NumberOfReads: "reads, a list as one",
    NumberOfReadNotifys: "reads with a notification",
    NumberOfSegmentCreate: "segments created",
    NumberOfSegmentAlloc: "segments allocated",
    NumberOfSegmentRegister: "registrations with other processes",
    NumberOfSegmentDelete: "segments deleted",
    NumberOfSegmentBind: "segments of the program's memory",
    NumberOfSegmentUse: "the same, made by a group",
    TimeInBarrier: "microseconds in barriers",
    TimeInWait: "microseconds in waits on queues",
    TimeInWaitSome: "microseconds in waits for notifications",
    TimeWaitingInGaspi: "microseconds in all of these waits",
    BytesStraight: "bytes of GPU collectives that went to other hosts from segments, without a copy",
}

/// The counters of a process. They count unless the verbosity is 0.
#[derive(Debug)]
pub struct Statistics {
    verbosity: AtomicU32,
    values: [AtomicU64; Counter::ALL.len()],
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics { verbosity: AtomicU32::new(1), values: Default::default() }
    }
}

impl Statistics {
    /// 0 stops counting.
    pub fn set_verbosity(&self, level: u32) {
        self.verbosity.store(level, Ordering::Relaxed);
    }

    /// The value.
    pub fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize].load(Ordering::Relaxed)
    }

    /// Begins again at 0.
    pub fn reset(&self, counter: Counter) {
        self.values[counter as usize].store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn add(&self, counter: Counter, more: u64) {
        if self.verbosity.load(Ordering::Relaxed) > 0 {
            self.values[counter as usize].fetch_add(more, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn one(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// A request that moves so many bytes was posted.
    #[inline]
    pub(crate) fn moved(&self, count: u64, bytes: Counter, requests: Counter) {
        self.add(bytes, count);
        self.one(requests);
    }

    /// A wait that began then is over.
    pub(crate) fn waited(&self, counter: Counter, began: Instant) {
        let time = Clock::REAL.since(began).as_micros() as u64;
        self.add(counter, time);
        self.add(Counter::TimeWaitingInGaspi, time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_process_counts_nothing() {
        let statistics = Statistics::default();
        statistics.add(Counter::BytesWritten, 5);
        statistics.set_verbosity(0);
        statistics.add(Counter::BytesWritten, 5);
        assert_eq!(statistics.get(Counter::BytesWritten), 5);
        statistics.reset(Counter::BytesWritten);
        assert_eq!(statistics.get(Counter::BytesWritten), 0);
        assert_eq!((Counter::ALL.len(), Counter::ALL[17]), (19, Counter::TimeWaitingInGaspi));
        assert!(Counter::ALL.iter().enumerate().all(|(at, counter)| *counter as usize == at));
    }
}
