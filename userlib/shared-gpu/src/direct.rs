//! A broadcast from the root's own vector: each other rank copies it once, where GSB has the root copy it into the shared buffer before.
//! Not in the text, whose broadcasts begin in the buffer (3.2.1).
//!
//! A chunk without bytes says whether the root's vector can be reached; where it cannot, chunks through the buffer follow. The root
//! returns when all have read, as its vector is the caller's again then.

use crate::plan::{Stamp, Step};
use crate::station::{Place, Station, Waiting, Word};

/// This rank's part; whether that was all, as all are told alike. The step stands for the whole call.
pub(crate) async fn broadcast<S: Station>(station: &S, step: &Step<'_>) -> bool {
    let (me, root) = (station.rank(), step.plan.root);
    let is_offered = if me == root { offer(station, step).await } else { follow(station, step).await };
    station.store(Word::Ack(me), step.stamp(0).value()).await;
    if me == root && is_offered {
        step.all_have(station, Stamp::new(step.epoch, 0, 0)).await;
    }
    is_offered
}

async fn offer<S: Station>(station: &S, step: &Step<'_>) -> bool {
    // The last offer was read.
    step.all_read(station).await;
    let is_offered = station.offer().await;
    station.store(Word::Offer(0), u64::from(is_offered)).await;
    station.store(Word::Completion, step.stamp(0).value()).await;
    is_offered
}

async fn follow<S: Station>(station: &S, step: &Step<'_>) -> bool {
    let waiting = Waiting { what: "its vector", rank: step.plan.root };
    step.meet(station, Word::Completion, step.stamp(0), waiting).await;
    let is_offered = station.load(Word::Offer(0)) == 1;
    if is_offered {
        station.copy(Place::Output(0), Place::Root(0), step.plan.bytes).await;
        station.drain().await;
    }
    is_offered
}
