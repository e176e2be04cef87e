//! GSB: fan-in and fan-out through slots of one buffer (3.2.1, figure 3.1).
//!
//! The text does not say when a slot, or the result, may be overwritten by the next call. Here flags are numbers of chunks
//! ([`Stamp`](crate::Stamp)): a slot is free once the completion flag has its last chunk's, the result once all have acknowledged
//! theirs. The leader's own vector is reduced where it is: it needs neither slot nor copy.

use std::cell::RefCell;

use crate::plan::{Collective, Fault, Seen, Step, lacks};
use crate::station::{Place, Station, Waiting, Word};

/// Who aggregates: "a predefined process".
const LEADER: usize = 0;

/// This rank's part in a chunk.
pub(crate) async fn chunk<S: Station>(station: &S, step: &Step<'_>) {
    let (me, plan) = (station.rank(), step.plan);
    match plan.kind {
        Collective::Broadcast if me == plan.root => publish(station, step).await,
        Collective::Broadcast => {}
        _ if me == LEADER => collect(station, step).await,
        _ => contribute(station, step).await,
    }
    if plan.reads(me) {
        read(station, step).await;
    }
    station.store(Word::Ack(me), step.stamp(0).value()).await;
}

/// Steps 1 and 2: the copy into the own slot, the event behind it, and the flag, which says that the copy has begun.
async fn contribute<S: Station>(station: &S, step: &Step<'_>) {
    let me = station.rank();
    step.has_last_result(station).await;
    // Vectors that are the result are read in their slots.
    if step.changed || step.plan.kind.gathers() {
        step.all_read(station).await;
    }
    let slot = step.slot(me);
    step.give(station, |at| Place::Shared(slot + at)).await;
    station.mark(Word::Event(me), step.stamp(0).value()).await;
    station.store(Word::Flag(me), step.stamp(0).value()).await;
}

/// Steps 3 to 5: polls the ranks that are not complete in turn, reduces all slots, and toggles the completion flag. What gathers has
/// no reduction (5.3), and the leader a slot.
async fn collect<S: Station>(station: &S, step: &Step<'_>) {
    let stamp = step.stamp(0);
    let gathers = step.plan.kind.gathers();
    if gathers {
        step.all_read(station).await;
        step.give(station, |at| Place::Shared(step.slot(LEADER) + at)).await;
    }
    let pending = RefCell::new((1..station.ranks()).collect::<Vec<_>>());
    let mut unequal = None;
    station
        .until(|station| {
            pending.borrow_mut().retain(|&rank| match stamp.seen_in(station.load(Word::Flag(rank))) {
                Seen::NotYet => true,
                Seen::Unequal => {
                    unequal = Some(rank);
                    false
                }
                Seen::Here if lacks!(step.plan, Event) => false,
                Seen::Here => !stamp.is_reached_by(station.load(Word::Event(rank))),
            });
            match pending.borrow().first() {
                Some(&rank) if unequal.is_none() => Err(Waiting { what: "the copy into its slot", rank }),
                _ => Ok(()),
            }
        })
        .await;
    if let Some(rank) = unequal {
        Fault::Unequal.tell(station, rank).await;
    }
    if !gathers && step.len > 0 {
        step.all_read(station).await;
        let (result, own) = (Place::Shared(step.plan.layout.result()), Place::Input(step.offset));
        station.reduce(result, own, step.plan.layout.slots(), step.len).await;
    }
    station.drain().await;
    complete(station, step).await;
}

/// A broadcast's root puts its vector where results are.
async fn publish<S: Station>(station: &S, step: &Step<'_>) {
    step.all_read(station).await;
    let result = Place::Shared(step.plan.layout.result());
    station.copy(result, Place::Input(step.offset), step.len).await;
    station.drain().await;
    complete(station, step).await;
}

async fn complete<S: Station>(station: &S, step: &Step<'_>) {
    let stamp = if lacks!(step.plan, Toggle) { u64::MAX } else { step.stamp(0).value() };
    station.store(Word::Completion, stamp).await;
}

/// Steps 6 and 7.
async fn read<S: Station>(station: &S, step: &Step<'_>) {
    let rank = if step.plan.kind == Collective::Broadcast { step.plan.root } else { LEADER };
    let waiting = Waiting { what: "the result", rank };
    if lacks!(step.plan, Toggle) {
        station
            .until(|station| if station.load(Word::Completion) != 0 { Ok(()) } else { Err(waiting) })
            .await;
    } else {
        step.meet(station, Word::Completion, step.stamp(0), waiting).await;
    }
    let result = step.plan.layout.result();
    step.take(station, |at| Place::Shared(result + at)).await;
    station.drain().await;
}
