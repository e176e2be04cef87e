//! The static and the dynamic algorithm: an allreduce or allgather whose copies go through the host or directly, by the copy engine or by kernels,
//! each as is quicker (5.3).
//!
//! The leader's own vector needs no copy but where it is part of the result. Gather, kernel, broadcast as in the text; between the calls all states are the first
//! one. The text does not say how large the packets of host-staged copies are: [`PACKET`].

use std::collections::VecDeque;

use crate::choosing::{Choosing, Copier, Copies, Mechanism};
use crate::plan::{Collective, Fault, Seen, Stamp, Step};
use crate::station::{Lane, Place, Station, Waiting, Word};
use crate::status::{By, Status};

const LEADER: usize = 0;
/// Bytes of host-staged copies that are queued at a time: what is left is not sent once the copy was assigned again.
const PACKET: usize = 256 << 10;
/// Levels of the stamps behind copies.
const GATHER: u32 = 1;
const BROADCAST: u32 = 2;

/// How copies were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// Assigned in the gather.
    pub gather: Copies,
    /// Assigned in the broadcast.
    pub broadcast: Copies,
    /// Copies that were sent again.
    pub resent: usize,
}

/// This rank's part in a chunk. The leader learns how copies were made.
pub(crate) async fn chunk<S: Station>(station: &S, step: &Step<'_>, table: Option<Copies>) -> Mix {
    let me = station.rank();
    let mix = match me {
        LEADER => lead(station, step, table).await,
        _ => {
            contribute(station, step).await;
            if step.plan.kind != Collective::Reduce {
                read(station, step).await;
            }
            Mix::default()
        }
    };
    station.store(Word::Ack(me), step.stamp(0).value()).await;
    mix
}

/// Arrives, and copies as assigned, again where assigned again.
async fn contribute<S: Station>(station: &S, step: &Step<'_>) {
    let me = station.rank();
    let slot = step.slot(me);
    let at_first = |station: &S| match Status::of(station, me) {
        Some(Status::Init) => Ok(()),
        _ => Err(Waiting { what: "the end of the last call", rank: LEADER }),
    };
    station.until(at_first).await;
    step.has_last_result(station).await;
    station.store(Word::Flag(me), step.stamp(0).value()).await;
    Status::Init.must_change(station, me, Status::Rts, By::Owner).await;
    loop {
        match assignment(station, step, true).await {
            Some(Mechanism::Ipc(by)) => {
                station.copy_by(by, Place::Shared(slot), Place::Input(step.offset), step.len).await;
                begun(station, step.stamp(GATHER), by).await;
            }
            Some(Mechanism::Hs) => stage(station, step, slot).await,
            None => return,
        }
    }
}

/// A direct copy was queued: its event is behind it.
async fn begun<S: Station>(station: &S, stamp: Stamp, by: Copier) {
    let me = station.rank();
    station.mark(event(me, by), stamp.value()).await;
    Status::IpcAssigned(by).must_change(station, me, Status::IpcInitiated(by), By::Owner).await;
}

/// The word behind a rank's copies by a copier: of each lane one, so that a slow copy's is not taken for that of the one in its place.
fn event(rank: usize, by: Copier) -> Word {
    match by.lane() {
        Lane::Kernels => Word::Stored(rank),
        _ => Word::Event(rank),
    }
}

/// What the leader wants of this rank next: a copy, or nothing more once the result is there.
pub(crate) async fn assignment<S: Station>(station: &S, step: &Step<'_>, gathers: bool) -> Option<Mechanism> {
    let me = station.rank();
    let mut found = None;
    station
        .until(|station| {
            // In the gather's time an assignment is of the gather, in the broadcast's of the broadcast. The state first: who sees the
            // broadcast's sees its time, too. The other way round it could be taken for one of the gather.
            let status = Status::of(station, me);
            let is_out = step.stamp(0).seen_in(station.load(Word::Completion)) == Seen::Here;
            found = match status {
                _ if is_out == gathers => None,
                Some(Status::IpcAssigned(by)) => Some(Mechanism::Ipc(by)),
                Some(Status::HsAssigned) => Some(Mechanism::Hs),
                _ => None,
            };
            if found.is_some() || (gathers && is_out) {
                return Ok(());
            }
            Err(Waiting { what: "the mechanism of its copy, or the result", rank: LEADER })
        })
        .await;
    found
}

/// A host-staged copy in packets, which ends early where the leader assigns the copy again.
async fn stage<S: Station>(station: &S, step: &Step<'_>, slot: usize) {
    let me = station.rank();
    Status::HsAssigned.must_change(station, me, Status::HsInitiated, By::Owner).await;
    let own = Waiting { what: "its own copy to the host", rank: me };
    for at in (0..step.len).step_by(PACKET) {
        let bytes = PACKET.min(step.len - at);
        station.copy(Place::Staging(slot + at), Place::Input(step.offset + at), bytes).await;
        let mut is_discarded = false;
        station
            .until(|station| {
                is_discarded = Status::of(station, me) != Some(Status::HsInitiated);
                if is_discarded || station.is_idle(Lane::Staged) { Ok(()) } else { Err(own) }
            })
            .await;
        if is_discarded {
            return;
        }
    }
    // Not changed: assigned again in this moment.
    Status::HsInitiated.change(station, me, Status::HsComplete, By::Owner).await;
}

/// Reads the result as assigned.
async fn read<S: Station>(station: &S, step: &Step<'_>) {
    let me = station.rank();
    let result = step.plan.layout.result();
    match assignment(station, step, false).await {
        Some(Mechanism::Ipc(by)) => {
            step.take_by(station, by, |at| Place::Shared(result + at)).await;
            begun(station, step.stamp(BROADCAST), by).await;
        }
        _ => {
            Status::HsAssigned.must_change(station, me, Status::HsInitiated, By::Owner).await;
            step.take(station, |at| Place::Staging(result + at)).await;
            let own = Waiting { what: "its own copy from the host", rank: me };
            station.until(|station| if station.is_idle(Lane::Staged) { Ok(()) } else { Err(own) }).await;
            Status::HsInitiated.must_change(station, me, Status::HsComplete, By::Owner).await;
        }
    }
    station.drain().await;
}

/// What the leader knows of its ranks' copies in a step.
struct Leading {
    choosing: Choosing,
    /// Ranks that have arrived and have no assignment yet, in the order in which they were seen.
    ready: VecDeque<usize>,
    pending: Vec<(usize, Mechanism)>,
    /// Ranks that were not seen to arrive.
    absent: Vec<usize>,
    /// Direct copies that were given up: complete before anything they touch is used again.
    slow: Vec<(usize, Copier)>,
    resent: usize,
    level: u32,
}

/// What the leader does next.
enum Next {
    Assign(usize),
    Complete(usize, Mechanism),
    /// By a mechanism, and by which in its place.
    Resend(usize, [Mechanism; 2]),
    Unequal(usize),
    Done,
}

impl Leading {
    fn left(&self) -> usize {
        self.ready.len() + self.absent.len()
    }

    /// Looks at all ranks once, in turn.
    fn look<S: Station>(&mut self, station: &S, step: &Step<'_>) -> Result<Next, Waiting> {
        if let Some(rank) = self.arrivals(station, step) {
            return Ok(Next::Unequal(rank));
        }
        for (at, &(rank, mechanism)) in self.pending.iter().enumerate() {
            if self.is_complete(station, step, rank, mechanism) {
                self.pending.swap_remove(at);
                return Ok(Next::Complete(rank, mechanism));
            }
        }
        if let Some(&rank) = self.ready.front()
            && self.may_assign()
        {
            self.ready.pop_front();
            return Ok(Next::Assign(rank));
        }
        if let [(rank, slow)] = self.pending[..]
            && self.left() == 0
            && self.resent == 0
            && let Some(other) = self.choosing.instead_of(slow)
        {
            return Ok(Next::Resend(rank, [slow, other]));
        }
        match self.pending[..] {
            [] if self.left() == 0 => Ok(Next::Done),
            [(rank, _), ..] => Err(Waiting { what: "its copy", rank }),
            [] => Err(Waiting { what: "its arrival", rank: self.absent.first().copied().unwrap_or(LEADER) }),
        }
    }

    fn may_assign(&self) -> bool {
        self.choosing.clone().next().is_some()
    }

    /// A rank that arrived in another call, if there is one.
    fn arrivals<S: Station>(&mut self, station: &S, step: &Step<'_>) -> Option<usize> {
        let mut unequal = None;
        let ready = &mut self.ready;
        self.absent.retain(|&rank| {
            if Status::of(station, rank) != Some(Status::Rts) {
                return true;
            }
            match step.stamp(0).seen_in(station.load(Word::Flag(rank))) {
                Seen::Here => ready.push_back(rank),
                _ => unequal = Some(rank),
            }
            false
        });
        unequal
    }

    fn is_complete<S: Station>(&self, station: &S, step: &Step<'_>, rank: usize, by: Mechanism) -> bool {
        match (by, Status::of(station, rank)) {
            (Mechanism::Hs, status) => status == Some(Status::HsComplete),
            // The flag says that the copy has begun, the event that it is complete.
            (Mechanism::Ipc(by), Some(Status::IpcInitiated(_))) => {
                step.stamp(self.level).is_reached_by(station.load(event(rank, by)))
            }
            (Mechanism::Ipc(_), _) => false,
        }
    }
}

async fn assign<S: Station>(station: &S, from: Status, rank: usize, mechanism: Mechanism) -> bool {
    let next = match mechanism {
        Mechanism::Hs => Status::HsAssigned,
        Mechanism::Ipc(by) => Status::IpcAssigned(by),
    };
    from.change(station, rank, next, By::Leader).await
}

async fn lead<S: Station>(station: &S, step: &Step<'_>, table: Option<Copies>) -> Mix {
    let (plan, others) = (step.plan, 1..station.ranks());
    let (result, gathers) = (plan.layout.result(), plan.kind.gathers());
    step.all_read(station).await;
    if gathers {
        step.give(station, |at| Place::Shared(step.slot(LEADER) + at)).await;
    }
    let mut gather = Leading {
        choosing: table.map_or_else(|| Choosing::dynamic(plan.copiers), Choosing::by_table),
        ready: VecDeque::new(),
        pending: Vec::new(),
        absent: others.clone().collect(),
        slow: Vec::new(),
        resent: 0,
        level: GATHER,
    };
    serve(station, step, &mut gather, Status::Rts).await;
    station.drain().await;
    if !gathers {
        let own = Place::Input(step.offset);
        station.reduce(Place::Shared(result), own, plan.layout.slots(), step.len).await;
        station.drain().await;
    }
    to_first(station).await;
    let mut mix =
        Mix { gather: gather.choosing.assigned, broadcast: Copies::default(), resent: gather.resent };
    if plan.kind != Collective::Reduce {
        let known = table.map_or_else(|| gather.choosing.taught(), Choosing::by_table);
        mix.broadcast = broadcast(station, step, known).await;
    } else {
        station.store(Word::Completion, step.stamp(0).value()).await;
    }
    step.take_by(station, mix.gather.copier(), |at| Place::Shared(result + at)).await;
    // The slow copies that were given up: their slots are used again by the next call.
    station
        .until(|station| {
            let goes_on = |(rank, by): &&(usize, Copier)| {
                !step.stamp(GATHER).is_reached_by(station.load(event(*rank, *by)))
            };
            let waiting = |rank| Waiting { what: "the copy that was sent again", rank };
            gather.slow.iter().find(goes_on).map_or(Ok(()), |(rank, _)| Err(waiting(*rank)))
        })
        .await;
    station.drain().await;
    mix
}

/// All ranks' copies are complete: back to the first state.
async fn to_first<S: Station>(station: &S) {
    for rank in 1..station.ranks() {
        // A state in which nothing is complete is one that does not lead there.
        let complete = Status::of(station, rank).unwrap_or(Status::Init);
        complete.must_change(station, rank, Status::Init, By::Leader).await;
    }
}

async fn broadcast<S: Station>(station: &S, step: &Step<'_>, choosing: Choosing) -> Copies {
    let result = step.plan.layout.result();
    if choosing.may_use_host() {
        station.copy(Place::Staging(result), Place::Shared(result), step.result_len()).await;
        station.drain().await;
    }
    station.store(Word::Completion, step.stamp(0).value()).await;
    let mut leading = Leading {
        choosing,
        ready: (1..station.ranks()).collect(),
        pending: Vec::new(),
        absent: Vec::new(),
        slow: Vec::new(),
        // In the broadcast nothing is sent again.
        resent: 1,
        level: BROADCAST,
    };
    serve(station, step, &mut leading, Status::Init).await;
    to_first(station).await;
    leading.choosing.assigned
}

/// Assigns, and takes note of what completes, until all of a step's copies are complete.
async fn serve<S: Station>(station: &S, step: &Step<'_>, leading: &mut Leading, from: Status) {
    loop {
        let mut next = Next::Done;
        station.until(|station| leading.look(station, step).map(|found| next = found)).await;
        match next {
            Next::Done => return,
            Next::Unequal(rank) => Fault::Unequal.tell(station, rank).await,
            Next::Assign(rank) => {
                if let Some(mechanism) = leading.choosing.next() {
                    leading.pending.push((rank, mechanism));
                    if !assign(station, from, rank, mechanism).await {
                        Fault::State.tell(station, rank).await;
                    }
                }
            }
            Next::Complete(rank, mechanism) => {
                let left = leading.left();
                leading.choosing.completed(mechanism, left);
                complete(station, step, leading.level, (rank, mechanism)).await;
            }
            Next::Resend(rank, mechanisms) => resend(station, leading, rank, mechanisms).await,
        }
    }
}

/// A direct copy is marked as complete; a host-staged one of the gather goes on from the host to the slot.
async fn complete<S: Station>(station: &S, step: &Step<'_>, level: u32, (rank, by): (usize, Mechanism)) {
    match by {
        Mechanism::Ipc(by) => {
            let complete = Status::IpcComplete(by);
            Status::IpcInitiated(by).must_change(station, rank, complete, By::Leader).await;
        }
        Mechanism::Hs if level == GATHER => {
            let slot = step.slot(rank);
            station.copy(Place::Shared(slot), Place::Staging(slot), step.len).await;
        }
        Mechanism::Hs => {}
    }
}

/// Phase 3: the last copy by another mechanism.
async fn resend<S: Station>(station: &S, leading: &mut Leading, rank: usize, [slow, other]: [Mechanism; 2]) {
    let (from, complete) = match slow {
        Mechanism::Hs => (Status::HsInitiated, Status::HsComplete),
        Mechanism::Ipc(by) => (Status::IpcInitiated(by), Status::IpcComplete(by)),
    };
    let waiting = Waiting { what: "the beginning of its copy", rank };
    let begun = |station: &S| match Status::of(station, rank) {
        Some(status) if status == from || status == complete => Ok(()),
        _ => Err(waiting),
    };
    station.until(begun).await;
    // It may be complete in this very moment: then it is not sent again.
    if assign(station, from, rank, other).await {
        leading.pending.clear();
        leading.pending.push((rank, other));
        if let Mechanism::Ipc(by) = slow {
            leading.slow.push((rank, by));
        }
        leading.resent += 1;
    }
}
