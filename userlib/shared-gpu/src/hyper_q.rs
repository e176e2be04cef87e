//! The static and the dynamic algorithm: an allreduce or allgather whose copies go through the host or directly, each as is quicker (5.3).
//!
//! The leader's own vector needs no copy but where it is part of the result. Gather, kernel, broadcast as in the text; between the calls all states are the first
//! one. The text does not say how large the packets of host-staged copies are: [`PACKET`].

use std::collections::VecDeque;

use crate::choosing::{Choosing, Counts, Mechanism};
use crate::plan::{Collective, Fault, Seen, Step};
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
    /// Assigned in the gather: host-staged and direct.
    pub gather: (usize, usize),
    /// Assigned in the broadcast.
    pub broadcast: (usize, usize),
    /// Copies that were sent again.
    pub resent: usize,
}

/// This rank's part in a chunk. The leader learns how copies were made.
pub(crate) async fn chunk<S: Station>(station: &S, step: &Step<'_>, table: Option<Counts>) -> Mix {
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
            Some(Mechanism::Ipc) => {
                station.copy(Place::Shared(slot), Place::Input(step.offset), step.len).await;
                station.mark(Word::Event(me), step.stamp(GATHER).value()).await;
                Status::IpcAssigned.must_change(station, me, Status::IpcInitiated, By::Owner).await;
            }
            Some(Mechanism::Hs) => stage(station, step, slot).await,
            None => return,
        }
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
                Some(Status::IpcAssigned) => Some(Mechanism::Ipc),
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
        Some(Mechanism::Ipc) => {
            step.take(station, |at| Place::Shared(result + at)).await;
            station.mark(Word::Event(me), step.stamp(BROADCAST).value()).await;
            Status::IpcAssigned.must_change(station, me, Status::IpcInitiated, By::Owner).await;
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
    slow: Vec<usize>,
    resent: usize,
    level: u32,
}

/// What the leader does next.
enum Next {
    Assign(usize),
    Complete(usize, Mechanism),
    Resend(usize, Mechanism),
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
        match self.pending[..] {
            [] if self.left() == 0 => Ok(Next::Done),
            [(rank, mechanism)]
                if self.left() == 0 && self.choosing.is_hopeless(mechanism) && self.resent == 0 =>
            {
                Ok(Next::Resend(rank, mechanism))
            }
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
            (Mechanism::Ipc, Some(Status::IpcInitiated)) => {
                step.stamp(self.level).is_reached_by(station.load(Word::Event(rank)))
            }
            (Mechanism::Ipc, _) => false,
        }
    }
}

async fn assign<S: Station>(station: &S, from: Status, rank: usize, mechanism: Mechanism) -> bool {
    let next = match mechanism {
        Mechanism::Hs => Status::HsAssigned,
        Mechanism::Ipc => Status::IpcAssigned,
    };
    from.change(station, rank, next, By::Leader).await
}

async fn lead<S: Station>(station: &S, step: &Step<'_>, table: Option<Counts>) -> Mix {
    let (plan, others) = (step.plan, 1..station.ranks());
    let choosing = || table.map_or_else(Choosing::dynamic, Choosing::by_table);
    let (result, gathers) = (plan.layout.result(), plan.kind.gathers());
    step.all_read(station).await;
    if gathers {
        step.give(station, |at| Place::Shared(step.slot(LEADER) + at)).await;
    }
    let mut gather = Leading {
        choosing: choosing(),
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
    for rank in others.clone() {
        let complete = if is_staged(station, rank) { Status::HsComplete } else { Status::IpcComplete };
        complete.must_change(station, rank, Status::Init, By::Leader).await;
    }
    let Counts { hs, ipc } = gather.choosing.assigned;
    let mut mix = Mix { gather: (hs, ipc), broadcast: (0, 0), resent: gather.resent };
    if plan.kind != Collective::Reduce {
        let known = table.map_or_else(|| known(&gather.choosing.complete), Choosing::by_table);
        mix.broadcast = broadcast(station, step, known).await;
    } else {
        station.store(Word::Completion, step.stamp(0).value()).await;
    }
    step.take(station, |at| Place::Shared(result + at)).await;
    // The slow copies that were given up: their slots are used again by the next call.
    station
        .until(|station| {
            let is_over =
                |rank: &&usize| !step.stamp(GATHER).is_reached_by(station.load(Word::Event(**rank)));
            gather
                .slow
                .iter()
                .find(is_over)
                .map_or(Ok(()), |rank| Err(Waiting { what: "the copy that was sent again", rank: *rank }))
        })
        .await;
    station.drain().await;
    mix
}

/// Whether the rank's copy ended as host-staged.
fn is_staged<S: Station>(station: &S, rank: usize) -> bool {
    Status::of(station, rank) == Some(Status::HsComplete)
}

/// What the gather taught (stage 3, phase 1): a mechanism that never completed is not used, else one copy of each begins.
fn known(complete: &Counts) -> Choosing {
    match (complete.hs, complete.ipc) {
        (0, _) => Choosing::by_table(Counts { hs: 0, ipc: usize::MAX }),
        (_, 0) => Choosing::by_table(Counts { hs: usize::MAX, ipc: 0 }),
        _ => Choosing::dynamic(),
    }
}

async fn broadcast<S: Station>(station: &S, step: &Step<'_>, choosing: Choosing) -> (usize, usize) {
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
    for rank in 1..station.ranks() {
        let complete = if is_staged(station, rank) { Status::HsComplete } else { Status::IpcComplete };
        complete.must_change(station, rank, Status::Init, By::Leader).await;
    }
    (leading.choosing.assigned.hs, leading.choosing.assigned.ipc)
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
            Next::Resend(rank, mechanism) => resend(station, leading, (rank, mechanism)).await,
        }
    }
}

/// A direct copy is marked as complete; a host-staged one of the gather goes on from the host to the slot.
async fn complete<S: Station>(station: &S, step: &Step<'_>, level: u32, (rank, by): (usize, Mechanism)) {
    match by {
        Mechanism::Ipc => {
            Status::IpcInitiated.must_change(station, rank, Status::IpcComplete, By::Leader).await;
        }
        Mechanism::Hs if level == GATHER => {
            let slot = step.slot(rank);
            station.copy(Place::Shared(slot), Place::Staging(slot), step.len).await;
        }
        Mechanism::Hs => {}
    }
}

/// Phase 3: the last copy by the other mechanism.
async fn resend<S: Station>(station: &S, leading: &mut Leading, (rank, mechanism): (usize, Mechanism)) {
    let from = match mechanism {
        Mechanism::Hs => Status::HsInitiated,
        Mechanism::Ipc => Status::IpcInitiated,
    };
    let waiting = Waiting { what: "the beginning of its copy", rank };
    let complete = if mechanism == Mechanism::Hs { Status::HsComplete } else { Status::IpcComplete };
    let begun = |station: &S| match Status::of(station, rank) {
        Some(status) if status == from || status == complete => Ok(()),
        _ => Err(waiting),
    };
    station.until(begun).await;
    // It may be complete in this very moment: then it is not sent again.
    if assign(station, from, rank, mechanism.other()).await {
        leading.pending.clear();
        leading.pending.push((rank, mechanism.other()));
        if mechanism == Mechanism::Ipc {
            leading.slow.push(rank);
        }
        leading.resent += 1;
    }
}
