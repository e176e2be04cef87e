//! What rank 0 learns of mechanisms from one dynamic call to the next. The text's algorithm learns within a call, anew in each one, and
//! on an H200 with MPS it staged most copies where all direct ones are quickest. Beyond the text, the calls of a size are a few times as the
//! text has them, with all copies direct, all staged, and half of each; the quickest of the four is taken then, and now and then the
//! others are looked at again.

use std::collections::HashMap;
use std::time::Duration;

use crate::choosing::Counts;
use crate::plan::Collective;

/// Calls of each way before one is preferred: what is done for the first time takes longer.
const TRIES: usize = 2;
/// Of so many calls one is another way.
const AGAIN: usize = 64;
/// The way of the text, then tables.
const WAYS: usize = 4;
/// First calls of a collective and size by [`Algorithm::Dynamic`](crate::Algorithm::Dynamic) that try ways: from then on the quickest is taken.
pub const LEARNING_CALLS: usize = WAYS * TRIES;

/// By collective and size, in powers of two.
#[derive(Debug, Default)]
pub(crate) struct Learning {
    sizes: HashMap<(Collective, u32), Tried>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    calls: usize,
    last: usize,
    /// How long each way took, lately.
    took: [Duration; WAYS],
}

impl Tried {
    fn quickest(&self) -> usize {
        (0..WAYS).min_by_key(|way| self.took[*way]).unwrap_or_default()
    }

    fn next(&self) -> usize {
        match self.calls {
            first if first < LEARNING_CALLS => first % WAYS,
            later if later.is_multiple_of(AGAIN) => later / AGAIN % WAYS,
            _ => self.quickest(),
        }
    }
}

impl Learning {
    /// The copies of the next call among so many ranks; `None`: as the text has it.
    pub(crate) fn next(&mut self, kind: Collective, bytes: usize, ranks: usize) -> Option<Counts> {
        let tried = self.sizes.entry((kind, class(bytes))).or_default();
        tried.last = tried.next();
        let all = ranks - 1;
        let hs = [None, Some(0), Some(all), Some(all.div_ceil(2))][tried.last];
        hs.map(|hs| Counts { hs, ipc: all - hs })
    }

    /// The call took so long.
    pub(crate) fn took(&mut self, kind: Collective, bytes: usize, time: Duration) {
        let tried = self.sizes.entry((kind, class(bytes))).or_default();
        let known = &mut tried.took[tried.last];
        // The shorter of the first ones; what changes later is followed slowly, as one call may be late by chance.
        *known = match tried.calls {
            first if first < WAYS => time,
            again if again < LEARNING_CALLS => time.min(*known),
            _ => (*known * 7 + time) / 8,
        };
        tried.calls += 1;
    }
}

fn class(bytes: usize) -> u32 {
    bytes.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_micros;

    /// Calls with times by table, as many as asked for; which tables they had.
    fn calls(
        learning: &mut Learning,
        bytes: usize,
        number: usize,
        time: impl Fn(Option<usize>) -> u64,
    ) -> Vec<Option<usize>> {
        let call = |_| {
            let hs = learning.next(Collective::Allreduce, bytes, 8).map(|table| table.hs);
            learning.took(Collective::Allreduce, bytes, US(time(hs)));
            hs
        };
        (0..number).map(call).collect()
    }

    #[test]
    fn all_ways_are_tried_and_the_quickest_stays() {
        let mut learning = Learning::default();
        let direct = |hs: Option<usize>| if hs == Some(0) { 80 } else { 120 };
        let made = calls(&mut learning, 4096, 60, direct);
        assert_eq!(made[..4], [None, Some(0), Some(7), Some(4)]);
        assert!(made[8..].iter().all(|hs| *hs == Some(0)));
        // Another size has times of its own.
        let staged = |hs: Option<usize>| if hs == Some(7) { 50 } else { 60 };
        assert!(calls(&mut learning, 1 << 20, 60, staged)[8..].iter().all(|hs| *hs == Some(7)));
        assert_eq!(calls(&mut learning, 5000, 1, direct), [Some(0)]);
    }

    #[test]
    fn what_becomes_quicker_is_found_and_one_late_call_changes_nothing() {
        let mut learning = Learning::default();
        calls(&mut learning, 64, 30, |hs| if hs == Some(0) { 80 } else { 120 });
        assert_eq!(calls(&mut learning, 64, 2, |_| 200), [Some(0); 2], "late by chance");
        let text = |hs: Option<usize>| if hs.is_none() { 20 } else { 150 };
        assert_eq!(calls(&mut learning, 64, 5000, text).last(), Some(&None));
    }
}
