//! BTB: a binomial tree with a shared inbox for every second rank (3.2.2, figure 3.2).
//!
//! The text matches levels, and stores each level's sum "back into the GPU shared buffer", where the next level's copy arrives: here
//! sums wait in the rank's own memory, and only the last is in the root's inbox, from which the broadcast starts. A rank is
//! ready for a level once it has reduced the one before. Numbers of ranks that are no powers of two have a tree with
//! missing children.

use crate::plan::{Collective, Stamp, Step, lacks};
use crate::station::{Place, Slots, Station, Waiting, Word};

/// Level of the results that go down, above all that come up.
const DOWN: u32 = 32;

/// A rank's place in the tree, whose root is place 0.
#[derive(Clone, Copy)]
struct Tree {
    place: usize,
    ranks: usize,
    root: usize,
}

impl Tree {
    fn of<S: Station>(station: &S, root: usize) -> Tree {
        let ranks = station.ranks();
        Tree { place: (station.rank() + ranks - root) % ranks, ranks, root }
    }

    fn rank(&self, place: usize) -> usize {
        (place + self.root) % self.ranks
    }

    /// The place one distance below, if there is one.
    fn below(&self, distance: usize) -> Option<usize> {
        Some(self.place + distance).filter(|place| *place < self.ranks)
    }

    fn has_children(&self) -> bool {
        self.place.is_multiple_of(2) && self.below(1).is_some()
    }

    /// Parent on the way down: without the lowest bit.
    fn parent(&self) -> usize {
        self.place & (self.place - 1)
    }
}

/// This rank's part in a chunk.
pub(crate) async fn chunk<S: Station>(station: &S, step: &Step<'_>) {
    let (me, plan) = (station.rank(), step.plan);
    let tree = Tree::of(station, plan.root);
    let inbox = Place::Shared(plan.layout.inbox(0));
    if plan.kind != Collective::Broadcast {
        up(station, step, &tree).await;
    } else if tree.place == 0 {
        step.all_read(station).await;
        station.copy(inbox, Place::Input(step.offset), step.len).await;
        station.drain().await;
    }
    if tree.place == 0 {
        station.store(Word::Completion, step.stamp(0).value()).await;
        if plan.kind != Collective::Reduce {
            station.store(Word::Serve(me), step.stamp(DOWN).value()).await;
        }
        if plan.kind != Collective::Broadcast {
            station.copy(Place::Output(step.offset), inbox, step.len).await;
            station.drain().await;
        }
    } else if plan.kind != Collective::Reduce {
        down(station, step, &tree).await;
    }
    station.store(Word::Ack(me), step.stamp(0).value()).await;
}

/// Receives from the distances 1, 2, 4 ... below, until it is this rank's turn to send.
async fn up<S: Station>(station: &S, step: &Step<'_>, tree: &Tree) {
    let (me, layout) = (station.rank(), step.plan.layout);
    let mut sum = Place::Input(step.offset);
    for level in 1.. {
        let distance = 1 << (level - 1);
        if distance >= tree.ranks {
            return;
        }
        if tree.place & distance != 0 {
            return send(station, step, (level, tree.rank(tree.place - distance)), tree, sum).await;
        }
        let Some(child) = tree.below(distance) else { continue };
        if level == 1 {
            step.all_read(station).await;
        }
        let (child, stamp) = (tree.rank(child), step.stamp(level));
        station.store(Word::Ready(me), stamp.value()).await;
        let waiting = Waiting { what: "its copy to the next level of the tree", rank: child };
        step.meet(station, Word::Flag(child), stamp, waiting).await;
        if !lacks!(step.plan, Event) {
            at_least(station, Word::Event(child), stamp, waiting).await;
        }
        let inbox = layout.inbox(tree.place);
        let is_last = tree.place == 0 && 2 * distance >= tree.ranks;
        let to = if is_last { Place::Shared(inbox) } else { Place::Partial };
        station.reduce(to, sum, Slots { first: inbox, stride: 0, number: 1 }, step.len).await;
        station.drain().await;
        sum = to;
    }
}

/// Copies this subtree's sum to a parent that is at the same level.
async fn send<S: Station>(
    station: &S,
    step: &Step<'_>,
    (level, parent): (u32, usize),
    tree: &Tree,
    sum: Place,
) {
    let (me, stamp) = (station.rank(), step.stamp(level));
    if !lacks!(step.plan, Level) {
        let waiting = Waiting { what: "its turn for this level of the tree", rank: parent };
        step.meet(station, Word::Ready(parent), stamp, waiting).await;
    }
    let inbox = step.plan.layout.inbox(tree.place & !(1 << (level - 1)));
    station.copy(Place::Shared(inbox), sum, step.len).await;
    station.mark(Word::Event(me), stamp.value()).await;
    station.store(Word::Flag(me), stamp.value()).await;
}

/// Reads from the parent's inbox, into the own one for the children.
async fn down<S: Station>(station: &S, step: &Step<'_>, tree: &Tree) {
    let (me, layout, stamp) = (station.rank(), step.plan.layout, step.stamp(DOWN));
    let parent = tree.rank(tree.parent());
    if tree.has_children() && step.plan.kind == Collective::Broadcast {
        step.all_read(station).await;
    }
    let waiting = Waiting { what: "the result from the level above", rank: parent };
    step.meet(station, Word::Serve(parent), stamp, waiting).await;
    let from = Place::Shared(layout.inbox(tree.parent()));
    if tree.has_children() {
        station.copy(Place::Shared(layout.inbox(tree.place)), from, step.len).await;
        station.drain().await;
        station.store(Word::Serve(me), stamp.value()).await;
    }
    station.copy(Place::Output(step.offset), from, step.len).await;
    station.drain().await;
}

async fn at_least<S: Station>(station: &S, word: Word, stamp: Stamp, waiting: Waiting) {
    station
        .until(|station| if stamp.is_reached_by(station.load(word)) { Ok(()) } else { Err(waiting) })
        .await;
}
