//! What rank 0 learns of mechanisms from one dynamic call to the next. The text's algorithm learns within a call, anew in each one, and
//! on an H200 with MPS it staged most copies where all direct ones are quickest. Beyond the text, the calls of a size are a few times as the
//! text has them, with all copies direct by the engine, all staged, half of each, and all by kernels' stores or bulk copies; the quickest of these is taken
//! then, and now and then another that is not far behind is looked at again. Ways are compared by runs of calls.

use std::collections::HashMap;
use std::time::Duration;

use crate::choosing::{Copier, Copies};
use crate::plan::Collective;

/// First calls of each way, in turn, of which that in the middle counts: what is done for the first time takes longer.
const TRIES: usize = 3;
/// Then ways are compared by so many calls one behind the other: single calls vary by more than ways that are near each other differ, and a
/// call may take over what the one before left to do.
const RUN: usize = 8;
/// Of so many runs one is by another way.
const AGAIN: usize = 32;
/// Of so many looks at other ways one is a single call by any of them: it may have become quicker.
const FAR: usize = 8;
/// The way of the text, then tables: how many of two copies go through the host, and who makes the others.
const TABLES: [(usize, Copier); 5] =
    [(0, Copier::Engine), (2, Copier::Engine), (1, Copier::Engine), (0, Copier::Stores), (0, Copier::Bulk)];
const WAYS: usize = 1 + TABLES.len();
const FIRST: usize = WAYS * TRIES;
/// First calls of a collective and size by [`Algorithm::Dynamic`](crate::Algorithm::Dynamic) that try ways, at most: a run of each way
/// that is not far behind follows its first calls. From then on the quickest is taken.
pub const LEARNING_CALLS: usize = FIRST + WAYS * RUN;

/// By collective and size, in powers of two.
#[derive(Debug, Default)]
pub(crate) struct Learning {
    sizes: HashMap<(Collective, u32), Tried>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    /// First calls that were made, and how long they took.
    calls: usize,
    first: [[Duration; TRIES]; WAYS],
    /// How long each way takes.
    took: [Duration; WAYS],
    /// Ways that are yet to have their first run.
    waits: [bool; WAYS],
    run: Run,
    runs: usize,
    /// Looks at another way so far.
    looks: usize,
}

/// Calls one behind the other by one way.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    way: usize,
    calls: usize,
    made: usize,
    times: [Duration; RUN],
    /// It is so many times less than all that is known of the way.
    weight: u32,
}

impl Run {
    fn of(way: usize, calls: usize, weight: u32) -> Run {
        Run { way, calls, weight, ..Run::default() }
    }

    /// The mean of the calls in the middle: neither one that was late by chance nor one for which rank 0 came late, and which seems short.
    fn time(&mut self) -> Duration {
        let times = &mut self.times[..self.calls];
        times.sort_unstable();
        let middle = &times[self.calls / 4..self.calls - self.calls / 4];
        middle.iter().sum::<Duration>() / middle.len() as u32
    }
}

impl Tried {
    fn quickest(&self) -> usize {
        (0..WAYS).min_by_key(|way| self.took[*way]).unwrap_or_default()
    }

    /// Less than half as long again as the quickest.
    fn is_near(&self, way: usize) -> bool {
        2 * self.took[way] < 3 * self.took[self.quickest()]
    }

    /// The way of the next call.
    fn next(&mut self) -> usize {
        if self.calls < FIRST {
            return self.calls % WAYS;
        }
        if self.run.made == self.run.calls {
            self.run = self.next_run();
        }
        self.run.way
    }

    fn next_run(&mut self) -> Run {
        if let Some(way) = self.waits.iter().position(|waits| *waits) {
            self.waits[way] = false;
            return Run::of(way, RUN, 1);
        }
        self.runs += 1;
        // What is taken again and again is followed slowly.
        let quickest = Run::of(self.quickest(), RUN, 8);
        if self.runs.is_multiple_of(AGAIN) { self.look().unwrap_or(quickest) } else { quickest }
    }

    fn look(&mut self) -> Option<Run> {
        let (look, quickest) = (self.looks, self.quickest());
        self.looks += 1;
        let others = || (0..WAYS).filter(|way| *way != quickest);
        if look % FAR == FAR - 1 {
            return others().nth(look / FAR % (WAYS - 1)).map(|way| Run::of(way, 1, 2));
        }
        let near = || others().filter(|way| self.is_near(*way));
        let number = near().count();
        near().nth(look.checked_rem(number)?).map(|way| Run::of(way, RUN, 2))
    }

    fn took(&mut self, time: Duration) {
        if self.calls < FIRST {
            return self.tried(time);
        }
        let run = &mut self.run;
        run.times[run.made] = time;
        run.made += 1;
        if run.made == run.calls {
            let took = &mut self.took[run.way];
            *took = (*took * (run.weight - 1) + run.time()) / run.weight;
        }
    }

    fn tried(&mut self, time: Duration) {
        let first = &mut self.first[self.calls % WAYS];
        first[self.calls / WAYS] = time;
        self.calls += 1;
        if self.calls == FIRST {
            self.first.iter_mut().for_each(|times| times.sort_unstable());
            self.took = self.first.map(|times| times[TRIES / 2]);
            self.waits = std::array::from_fn(|way| self.is_near(way));
        }
    }
}

impl Learning {
    /// The copies of the next call among so many ranks; `None`: as the text has it.
    pub(crate) fn next(&mut self, kind: Collective, bytes: usize, ranks: usize) -> Option<Copies> {
        let tried = self.sizes.entry((kind, class(bytes))).or_default();
        let (halves, copier) = TABLES[tried.next().checked_sub(1)?];
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
    use std::cell::{Cell, RefCell};

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
            let time = |table: Option<Copies>| if table == quickest { 80 } else { 110 };
            let made = calls(&mut learning, 4096 << at, LEARNING_CALLS + 200, time);
            assert_eq!((made[0], &made[1..WAYS]), (None, &tables()[..]), "one of each first");
            assert!(made[FIRST..LEARNING_CALLS].chunks(RUN).all(|run| others(run, run[0]) == 0), "runs");
            assert!(made[LEARNING_CALLS..].iter().all(|table| *table == quickest), "{quickest:?}");
        }
        // Sizes have times of their own.
        let next = [4096, 5000, 8192, 32768, 65536].map(|bytes| calls(&mut learning, bytes, 1, |_| 80)[0]);
        assert_eq!(next, [direct, direct, staged, stores, bulk]);
    }

    /// Way by way as processes that share an H200 took for allreduces (`benches/results/one-gpu`).
    const MEASURED: [(&str, [u64; WAYS]); 4] = [
        ("24 processes, 4 KiB", [200, 195, 199, 186, 175, 193]),
        ("24 processes, 16 MiB", [2054, 2481, 28_151, 13_828, 1974, 2004]),
        ("8 processes, 4 KiB", [110, 85, 90, 83, 77, 76]),
        ("8 processes, 1 MiB", [155, 93, 566, 310, 82, 84]),
    ];

    /// Single calls vary by 15 % either way, and one of ten takes up to three times as long.
    #[test]
    fn ways_are_told_from_each_other_by_calls_that_vary_more_than_they_differ() {
        for (what, times) in MEASURED {
            let quickest = *times.iter().min().expect("ways") as f64;
            let over = |seed| {
                let random = RefCell::new(fastrand::Rng::with_seed(seed));
                let (took, number) = (Cell::new(0.0), 3400);
                let time = |table: Option<Copies>| {
                    let way = tables().iter().position(|one| *one == table).map_or(0, |at| 1 + at);
                    took.set(took.get() + times[way] as f64);
                    let mut random = random.borrow_mut();
                    let late = if random.u32(0..10) == 0 { 1.5 + 1.5 * random.f64() } else { 1.0 };
                    (1000.0 * times[way] as f64 * (0.85 + 0.3 * random.f64()) * late) as u64
                };
                let mut learning = Learning::default();
                calls(&mut learning, 4096, LEARNING_CALLS, time);
                took.set(0.0);
                calls(&mut learning, 4096, number, time);
                let mean = took.get() / number as f64;
                let over = mean / quickest;
                assert!(over <= 1.08, "{what}, seed {seed}: {mean:.0} us, quickest {quickest}");
                over
            };
            let mean = (0..50).map(over).sum::<f64>() / 50.0;
            assert!(mean <= 1.03, "{what}: {mean} times the quickest");
        }
    }

    #[test]
    fn others_that_are_near_are_looked_at_now_and_then() {
        let mut learning = Learning::default();
        let [direct, ..] = tables();
        let made = calls(&mut learning, 4096, 10_000, |table| if table == direct { 80 } else { 100 });
        let all = others(&made[LEARNING_CALLS..], direct);
        assert!(all <= 10_000 / AGAIN && all > 200, "{all}");
    }

    #[test]
    fn far_ways_are_looked_at_rarely() {
        let mut learning = Learning::default();
        let [direct, ..] = tables();
        let made = calls(&mut learning, 64, 100_000, |table| if table == direct { 80 } else { 300 });
        let all = others(&made[LEARNING_CALLS..], direct);
        assert!(all <= 100_000 / RUN / AGAIN / FAR && all > 40, "{all}");
    }

    #[test]
    fn a_way_whose_first_calls_were_late_is_found() {
        let mut learning = Learning::default();
        let [direct, staged, ..] = tables();
        let made =
            calls(&mut learning, 64, LEARNING_CALLS + 3, |table| if table == staged { 61 } else { 75 });
        assert_eq!(made.last(), Some(&staged));
        let made = calls(&mut learning, 64, 4000, |table| if table == direct { 53 } else { 61 });
        assert!(others(&made[3000..], direct) <= 1000 / AGAIN + RUN, "{made:?}");
    }

    #[test]
    fn what_becomes_quicker_is_found_and_late_calls_change_nothing() {
        let mut learning = Learning::default();
        let [direct, ..] = tables();
        calls(&mut learning, 64, LEARNING_CALLS, |table| if table == direct { 80 } else { 120 });
        assert_eq!(calls(&mut learning, 64, 2, |_| 200), [direct; 2], "late by chance");
        assert_eq!(calls(&mut learning, 64, 30, |_| 80), [direct; 30]);
        let text = |table: Option<Copies>| if table.is_none() { 20 } else { 150 };
        assert_eq!(calls(&mut learning, 64, 30_000, text).last(), Some(&None));
    }
}
