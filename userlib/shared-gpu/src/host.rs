//! Through host memory: all ranks leave their vectors there, processors of the host reduce them, and all read the result.
//!
//! Not in the text, which found its own ways slower than that for short vectors (3.3.2): a copy to the host and one back are what a
//! GPU has to do for a rank, and no kernel. Ranks that share cores have one turn on them each: who comes last
//! reduces. With a core for each rank, longer vectors are reduced by all, each a share.
//!
//! The result has a place of its own, written when all have arrived: they have read the last one. A slot is free once the last
//! call has a result.

use crate::plan::{Collective, Fault, Seen, Stamp, Step};
use crate::station::{Place, Slots, Station, Waiting, Word};

/// From here on all reduce a share each, where they have a core each: below, a second meeting takes longer than the work.
pub(crate) const SHARED_MIN: usize = 4 << 10;
/// The same where ranks share cores, on which a meeting takes turns.
pub(crate) const CROWDED_MIN: usize = 32 << 10;
/// Multiple of shares: a line of memory, and one more that is fetched with it.
const SHARE: usize = 128;
/// Looks at the result between two looks at all ranks.
const LOOKS: u32 = 64;

/// This rank's part in a chunk.
pub(crate) async fn chunk<S: Station>(station: &S, step: &Step<'_>) {
    let (me, plan) = (station.rank(), step.plan);
    match plan.kind {
        Collective::Broadcast if me == plan.root => publish(station, step).await,
        Collective::Broadcast => {}
        _ => contribute(station, step).await,
    }
    if plan.reads(me) {
        read(station, step).await;
    }
    station.store(Word::Ack(me), step.stamp(0).value()).await;
}

/// A broadcast's root puts its vector where results are. The others have read the last one, as they need not arrive.
async fn publish<S: Station>(station: &S, step: &Step<'_>) {
    step.all_read(station).await;
    let result = Place::Staging(step.plan.layout.host_result());
    station.copy(result, Place::Input(step.offset), step.len).await;
    station.drain().await;
    station.store(Word::Completion, step.stamp(0).value()).await;
}

/// Leaves the vector, and reduces what is this rank's to reduce.
async fn contribute<S: Station>(station: &S, step: &Step<'_>) {
    let (me, ranks) = (station.rank(), station.ranks() as u64);
    let stamp = step.stamp(0).value();

    // Who wants no result may be a call ahead of those that reduce its slot.
    let last = Stamp::new(step.epoch - 1, 0, 0);
    meet(station, step, last, |station| last.is_reached_by(station.load(Word::Completion))).await;
    // Vectors that are the result are read in their slots.
    let gathers = step.plan.kind.gathers();
    if step.changed || gathers {
        step.all_read(station).await;
    }
    let slot = step.host_slot(me);
    step.give(station, |at| Place::Staging(slot + at)).await;
    station.drain().await;
    station.store(Word::Flag(me), stamp).await;
    let came = station.count(Word::Arrived).await;
    let is_shared = !gathers && step.len >= step.plan.shared_min;
    let mut is_complete = came.is_multiple_of(ranks);
    if is_shared {
        let all = came.next_multiple_of(ranks);
        meet(station, step, step.stamp(0), |station| station.load(Word::Arrived) >= all).await;
        same(station, step).await;
        let share = step.len.div_ceil(station.ranks()).next_multiple_of(SHARE);
        reduce(station, step, (me * share).min(step.len), share).await;
        station.store(Word::Event(me), stamp).await;
        is_complete = station.count(Word::Reduced).await.is_multiple_of(ranks);
    } else if is_complete {
        same(station, step).await;
        if !gathers {
            reduce(station, step, 0, step.len).await;
        }
    }
    if is_complete {
        station.store(Word::Completion, stamp).await;
    }
    // Who has done this is not waited for any more.
    station.store(Word::Event(me), stamp).await;
}

/// At most so many bytes of all ranks' vectors from an offset on.
async fn reduce<S: Station>(station: &S, step: &Step<'_>, at: usize, most: usize) {
    let layout = step.plan.layout;
    let bytes = most.min(step.len - at);
    if bytes > 0 {
        let slots = layout.host_slots();
        let slots = Slots { first: slots.first + at, ..slots };
        station.reduce_on_host(layout.host_result() + at, slots, bytes).await;
    }
}

/// Goes on only if all are in this call.
async fn same<S: Station>(station: &S, step: &Step<'_>) {
    let unequal = |rank: &usize| step.stamp(0).seen_in(station.load(Word::Flag(*rank))) != Seen::Here;
    if let Some(rank) = (0..station.ranks()).find(unequal) {
        Fault::Unequal.tell(station, rank).await;
    }
}

/// Ends once `ready`. Now and then looks for ranks that are in another call, and for the first that has not done its part of the
/// chunk of a stamp.
async fn meet<S: Station>(station: &S, step: &Step<'_>, part: Stamp, ready: impl Fn(&S) -> bool) {
    let (mut looks, mut unequal) = (0_u32, None);
    let mut waiting = Waiting { what: "its part", rank: station.rank() };
    station
        .until(|station| {
            if ready(station) {
                return Ok(());
            }
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(LOOKS) {
                let seen = |rank: usize| step.stamp(0).seen_in(station.load(Word::Flag(rank)));
                unequal = (0..station.ranks()).find(|rank| seen(*rank) == Seen::Unequal);
                let is_missing = |rank: &usize| !part.is_reached_by(station.load(Word::Event(*rank)));
                let missing = (0..station.ranks()).filter(|rank| *rank != station.rank()).find(is_missing);
                waiting.rank = missing.unwrap_or(waiting.rank);
            }
            if unequal.is_some() { Ok(()) } else { Err(waiting) }
        })
        .await;
    if let Some(rank) = unequal {
        Fault::Unequal.tell(station, rank).await;
    }
}

async fn read<S: Station>(station: &S, step: &Step<'_>) {
    let stamp = step.stamp(0);
    if step.plan.kind != Collective::Broadcast {
        let ready = |station: &S| stamp.seen_in(station.load(Word::Completion)) != Seen::NotYet;
        meet(station, step, stamp, ready).await;
    }
    let waiting = Waiting { what: "the result", rank: step.plan.root };
    step.meet(station, Word::Completion, stamp, waiting).await;
    let result = step.plan.layout.host_result();
    step.take(station, |at| Place::Staging(result + at)).await;
    station.drain().await;
}
