//! What rank 0 learns of mechanisms from one dynamic call to the next. The text's algorithm learns within a call, anew in each one, and
//! on an H200 with MPS it staged most copies where all direct ones are quickest. Beyond the text, the calls of a size are a few times as the
//! text has them, with all copies direct by the engine, all staged, half of each, and all by kernels' stores or bulk copies; the quickest of these is taken
//! then, and now and then another that is not far behind is looked at again: a look at it counts much, as its first calls may have been late by chance.

use std::collections::HashMap;
use std::time::Duration;

use crate::choosing::{Copier, Copies};
use crate::plan::Collective;

/// Calls of each way before one is preferred, of which that in the middle counts: what is done for the first time takes longer, and a call
/// for which rank 0 comes late seems short.
const TRIES: usize = 3;
/// Of so many calls one is another way; of the first ones of a size more.
const AGAIN: usize = 64;
const AGAIN_AT_FIRST: usize = 16;
const AT_FIRST: usize = 256;
/// Of so many looks one is at a way that is far behind.
const FAR: usize = 8;
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
    /// Looks at another way so far.
    looks: usize,
    /// How long the first calls of each way took.
    first: [[Duration; TRIES]; WAYS],
    /// How long each way took, lately.
    took: [Duration; WAYS],
}

impl Tried {
    fn quickest(&self) -> usize {
        (0..WAYS).min_by_key(|way| self.took[*way]).unwrap_or_default()
    }

    fn next(&mut self) -> usize {
        let every = if self.calls < AT_FIRST { AGAIN_AT_FIRST } else { AGAIN };
        match self.calls {
            first if first < LEARNING_CALLS => first % WAYS,
            later if later.is_multiple_of(every) => self.look(),
            _ => self.quickest(),
        }
    }

    /// Another way, mostly one that takes less than half as long again.
    fn look(&mut self) -> usize {
        let (quickest, look) = (self.quickest(), self.looks);
        self.looks += 1;
        let is_far = look % FAR == FAR - 1;
        let may_be =
            |way: &usize| *way != quickest && (is_far || 2 * self.took[*way] < 3 * self.took[quickest]);
        let turn = if is_far { look / FAR } else { look };
        let number = (0..WAYS).filter(may_be).count();
        (0..WAYS).filter(may_be).nth(turn % number.max(1)).unwrap_or(quickest)
    }

    fn took(&mut self, time: Duration) {
        let way = self.last;
        if self.calls < LEARNING_CALLS {
            let first = &mut self.first[way];
            first[self.calls / WAYS] = time;
            first.sort_unstable();
            // Of three with two that have not been yet, and so on: the last one says it.
            self.took[way] = first[TRIES / 2];
        } else {
            // What is taken again and again is followed slowly, as one call may be late by chance.
            let weight = if way == self.quickest() { 8 } else { 2 };
            self.took[way] = (self.took[way] * (weight - 1) + time) / weight;
        }
        self.calls += 1;
    }
}

impl Learning {
    /// The copies of the next call among so many ranks; `None`: as the text has it.
    pub(crate) fn next(&mut self, kind: Collective, bytes: usize, ranks: usize) -> Option<Copies> {
        let tried = self.sizes.entry((kind, class(bytes))).or_default();
        tried.last = tried.next();
        let (halves, copier) = TABLES[tried.last.checked_sub(1)?];
        let all = ranks - 1;
        // Of an odd number fewer through the host, where a copy is two.
        Some(Copies::new(all, halves * all / 2, copier))
    }

    /// The call took so long.
    pub(crate) fn took(&mut self, kind: Collective, bytes: usize, time: Duration) {
        let tried = self.sizes.entry((kind, class(bytes))).or_default();
        tried.took(time);
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
        [by(0, Engine), by(7, Engine), by(3, Engine), by(0, Stores), by(0, Bulk)]
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

    /// How many of them had another table.
    fn others(made: &[Option<Copies>], way: Option<Copies>) -> usize {
        made.iter().filter(|table| **table != way).count()
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
    fn others_that_are_near_are_looked_at_more_at_first() {
        let mut learning = Learning::default();
        let [direct, ..] = tables();
        let made = calls(&mut learning, 4096, 10_000, |table| if table == direct { 80 } else { 100 });
        let looks = AT_FIRST / AGAIN_AT_FIRST - LEARNING_CALLS.div_ceil(AGAIN_AT_FIRST);
        assert_eq!(others(&made[LEARNING_CALLS..AT_FIRST], direct), looks);
        let all = others(&made[AT_FIRST..], direct);
        assert!(all <= 10_000 / AGAIN && all > 100, "{all}");
    }

    #[test]
    fn far_ways_are_looked_at_rarely() {
        let mut learning = Learning::default();
        let [direct, ..] = tables();
        let made = calls(&mut learning, 64, 10_000, |table| if table == direct { 80 } else { 300 });
        let all = others(&made[LEARNING_CALLS..], direct);
        assert!(all <= 10_000 / AGAIN / FAR + 3 && all > 10, "{all}");
    }

    /// As times of 4 processes were at 8 bytes: 53 µs direct, 61 staged.
    #[test]
    fn a_way_whose_first_calls_were_late_is_found_soon() {
        let mut learning = Learning::default();
        let [direct, staged, ..] = tables();
        let made =
            calls(&mut learning, 64, LEARNING_CALLS + 3, |table| if table == staged { 61 } else { 75 });
        assert_eq!(made.last(), Some(&staged));
        let made = calls(&mut learning, 64, 150, |table| if table == direct { 53 } else { 61 });
        assert!(others(&made[130..], direct) <= 2, "{made:?}");
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
