//! What rank 0 learns of mechanisms from one dynamic call to the next. The text's algorithm learns within a call, anew in each one, and
//! on an H200 with MPS it staged most copies where all direct ones are quickest. Beyond the text, the calls of a size are a few times as the
//! text has them, with all copies direct by the engine, all staged, half of each, and all by kernels' stores or bulk copies; the quickest of these is taken
//! then, and now and then the others are looked at again.

use std::collections::HashMap;
use std::time::Duration;

use crate::choosing::{Copier, Copies};
use crate::plan::Collective;

/// Calls of each way before one is preferred: what is done for the first time takes longer.
const TRIES: usize = 2;
/// Of so many calls one is another way.
const AGAIN: usize = 64;
/// The way of the text, then tables: how many of two copies go through the host, and who makes the others.
const TABLES: [(usize, Copier); 5] =
    [(0, Copier::Engine), (2, Copier::Engine), (1, Copier::Engine), (0, Copier::Stores), (0, Copier::Bulk)];
const WAYS: usize = 1 + TABLES.len();
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
    pub(crate) fn next(&mut self, kind: Collective, bytes: usize, ranks: usize) -> Option<Copies> {
        let tried = self.sizes.entry((kind, class(bytes))).or_default();
        tried.last = tried.next();
        let (halves, copier) = TABLES[tried.last.checked_sub(1)?];
        let all = ranks - 1;
        Some(Copies::new(all, (halves * all).div_ceil(2), copier))
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

    /// All direct by the engine, all staged, half of each, all by stores and all bulk, of eight ranks.
    fn tables() -> [Option<Copies>; WAYS - 1] {
        let by = |staged, copier| Some(Copies::new(7, staged, copier));
        use Copier::*;
        [by(0, Engine), by(7, Engine), by(4, Engine), by(0, Stores), by(0, Bulk)]
    }

    /// Calls with times by table, as many as asked for; which tables they had.
    fn calls(
        learning: &mut Learning,
        bytes: usize,
        number: usize,
        time: impl Fn(Option<Copies>) -> u64,
    ) -> Vec<Option<Copies>> {
        let call = |_| {
            let table = learning.next(Collective::Allreduce, bytes, 8);
            learning.took(Collective::Allreduce, bytes, US(time(table)));
            table
        };
        (0..number).map(call).collect()
    }

    #[test]
    fn all_ways_are_tried_and_the_quickest_stays() {
        let mut learning = Learning::default();
        let [direct, staged, _, stores, bulk] = tables();
        for (at, quickest) in tables().into_iter().enumerate() {
            let time = |table: Option<Copies>| if table == quickest { 80 } else { 120 };
            let made = calls(&mut learning, 4096 << at, 60, time);
            assert_eq!((made[0], &made[1..WAYS]), (None, &tables()[..]), "one of each first");
            assert!(made[LEARNING_CALLS..].iter().all(|table| *table == quickest), "{quickest:?}");
        }
        // Sizes have times of their own.
        let next = [4096, 5000, 8192, 32768, 65536].map(|bytes| calls(&mut learning, bytes, 1, |_| 80)[0]);
        assert_eq!(next, [direct, direct, staged, stores, bulk]);
    }

    #[test]
    fn what_becomes_quicker_is_found_and_one_late_call_changes_nothing() {
        let mut learning = Learning::default();
        let [direct, ..] = tables();
        calls(&mut learning, 64, 30, |table| if table == direct { 80 } else { 120 });
        assert_eq!(calls(&mut learning, 64, 2, |_| 200), [direct; 2], "late by chance");
        let text = |table: Option<Copies>| if table.is_none() { 20 } else { 150 };
        assert_eq!(calls(&mut learning, 64, 5000, text).last(), Some(&None));
    }
}
