//! Words of the table of members for collective calls of a job's ranks.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::futex;
use crate::table::{PeerState, Table, WORDS};

/// What each process shows the others. All are written by the process itself, but for the sleepers.
pub(crate) struct Words<'a> {
    /// Collective calls that it has entered, and the run of the job that these are of: see [`begin`].
    pub(crate) entered: &'a AtomicU64,
    /// Processes asleep until that changes.
    pub(crate) sleepers: &'a AtomicU64,
    /// The same as the first of the program that was this rank before.
    before: &'a AtomicU64,
}

/// Whether a rank has entered a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    Here,
    NotYet,
    /// It is in another run by now, and had not entered it when it went there.
    Never,
}

/// The words of a rank of the job.
pub(crate) fn of(table: &Table, rank: u32) -> Words<'_> {
    static NOWHERE: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
    let [entered, sleepers, before, ..] = table.slot(rank).map_or(&NOWHERE, |slot| &slot.words);
    Words { entered, sleepers, before }
}

impl Words<'_> {
    pub(crate) fn arrival(&self, epoch: u64) -> Arrival {
        let entered = self.entered.load(Ordering::SeqCst);
        let is_of_run = |entered: u64| entered >> RUN == epoch >> RUN;
        if entered < epoch {
            return Arrival::NotYet;
        }
        let before = self.before.load(Ordering::Acquire);
        if is_of_run(entered) || (is_of_run(before) && before >= epoch) {
            Arrival::Here
        } else {
            Arrival::Never
        }
    }
}

/// Calls that a rank has entered when it has begun, and waits for the others (see [`crate::Job::join`]).
const BEGINNING: u64 = 1;
/// Where in a count of calls the number of the run lies.
const RUN: u32 = 32;

/// Gives a rank its place in the count of calls; under the directory's lock, before it joins.
///
/// Ranks may be programs one after the other (`sh -c 'first; second'`). A *run* is what they do together from one
/// beginning on; all count its calls alike, whatever earlier programs of the rank had called, or had not come to call.
/// While somebody waits for the others to begin, who comes is of that run; else it begins the next one.
pub(crate) fn begin(table: &Table, rank: u32) {
    let newest = table.shape.rank_slots().map(|rank| run(table, rank)).max().unwrap_or(0);
    let begins = |other: u32| {
        let calls = of(table, other).entered.load(Ordering::Acquire) & ((1 << RUN) - 1);
        other != rank
            && matches!(table.last(other), Some((_, PeerState::Joined)))
            && (run(table, other), calls <= BEGINNING) == (newest, true)
    };
    let run = if table.shape.rank_slots().any(begins) { newest } else { newest + 1 };
    let own = of(table, rank);
    own.before.store(own.entered.load(Ordering::Acquire), Ordering::Release);
    own.entered.store(run << RUN, Ordering::SeqCst);
    if own.sleepers.load(Ordering::SeqCst) != 0 {
        futex::wake_shared(own.entered);
    }
}

/// Which run of the job a rank is in: see [`begin`].
pub(crate) fn run(table: &Table, rank: u32) -> u64 {
    of(table, rank).entered.load(Ordering::Acquire) >> RUN
}

/// The first rank that has not entered call `epoch` and never will.
pub(crate) fn gone(table: &Table, epoch: u64) -> Option<u32> {
    table.shape.rank_slots().find(|rank| {
        let over = matches!(table.last(*rank), Some((_, PeerState::Left | PeerState::Lost)));
        // It may have entered, then left, since we looked.
        match of(table, *rank).arrival(epoch) {
            Arrival::Here => false,
            Arrival::NotYet => over,
            Arrival::Never => true,
        }
    })
}
