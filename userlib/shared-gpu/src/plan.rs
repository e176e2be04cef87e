//! A call: what all ranks have to do alike, cut into chunks that fit the shared buffer.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Element, Layout, Op, SharedGpuError};

use crate::choosing::{Copier, Copies};
use crate::hyper_q::Mix;
use crate::station::{Place, Station, Waiting, Word};
use crate::{btb, direct, gsb, host, hyper_q};

/// Which algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Algorithm {
    /// Fan-in and fan-out through slots in one buffer (GSB, 3.2.1).
    Gsb,
    /// A binomial tree (BTB, 3.2.2). Of an allreduce, a reduce or a broadcast; other calls are GSB's.
    Btb,
    /// As GSB, each copy through the host or directly: so many through the host, the others directly (5.3.1). Of an allreduce, an
    /// allgather, or a reduce to rank 0; other calls are GSB's.
    Static {
        /// Copies through the host, of all but the leader's.
        staged: usize,
        /// Who makes the others.
        #[serde(default)]
        by: Copier,
    },
    /// The same, as copies turn out to be quick (5.3.2).
    Dynamic,
    /// Through host memory, reduced by processors of the host: for short vectors. Not in the text.
    Host,
    /// From the root's own vector, which the others copy. Of a broadcast, where processes reach each other's vectors; other calls are
    /// GSB's. Not in the text.
    Direct,
}

impl Algorithm {
    /// Whether it has words that are in host memory only.
    pub(crate) fn has_states(self) -> bool {
        matches!(self, Algorithm::Static { .. } | Algorithm::Dynamic | Algorithm::Host | Algorithm::Direct)
    }

    /// Whether tables have it for ranks on several GPUs.
    pub(crate) fn is_of_levels(self) -> bool {
        matches!(self, Algorithm::Host | Algorithm::Gsb | Algorithm::Btb)
    }
}

/// What the ranks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Collective {
    /// All ranks' vectors, reduced, at one of them.
    Reduce,
    /// One rank's vector at all of them.
    Broadcast,
    /// All ranks' vectors, reduced, at all of them.
    Allreduce,
    /// All ranks' vectors, in the order of ranks, at all of them.
    Allgather,
    /// Of each rank's vectors, one for each rank, that for this one, in the order of ranks.
    Alltoall,
    /// All ranks' vectors, reduced, of which each rank has its part.
    #[serde(rename = "reduce-scatter")]
    ReduceScatter,
    /// Nothing: ranks meet.
    Barrier,
}

impl Collective {
    /// Those for which `ggas tune --shared-gpu` measures which algorithm to take: all but the barrier, which has one way.
    pub const TUNED: [Collective; 6] = [
        Collective::Allreduce,
        Collective::Reduce,
        Collective::Broadcast,
        Collective::Allgather,
        Collective::Alltoall,
        Collective::ReduceScatter,
    ];

    /// Whether ranks on several GPUs can go GPU by GPU: what has parts for ranks has no steps inside and between GPUs.
    pub(crate) fn has_steps(self) -> bool {
        matches!(self, Collective::Allreduce | Collective::Reduce | Collective::Broadcast)
    }

    /// Whether the result is ranks' vectors as they are, beside each other.
    pub(crate) fn gathers(self) -> bool {
        matches!(self, Collective::Allgather | Collective::Alltoall)
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Collective::Reduce => "reduce",
            Collective::Broadcast => "broadcast",
            Collective::Allreduce => "allreduce",
            Collective::Allgather => "allgather",
            Collective::Alltoall => "alltoall",
            Collective::ReduceScatter => "reduce-scatter",
            Collective::Barrier => "barrier",
        })
    }
}

/// What is left out, so that tests see it is needed.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// The event behind a copy is not waited for.
    Event,
    /// The completion flag does not change from result to result.
    Toggle,
    /// Tree levels are not matched.
    Level,
    /// Nobody waits until a result was read.
    Ack,
}

/// Number of a chunk since set-up, tree level, and a number that stands for what the call is: in one word, so that who reads it
/// sees all of them at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u64);

const LEVEL_SHIFT: u32 = 24;
const EPOCH_SHIFT: u32 = LEVEL_SHIFT + 6;
const CALL_MASK: u64 = (1 << LEVEL_SHIFT) - 1;

/// What a word says of a stamp that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    NotYet,
    Here,
    /// Of the same chunk, and of another call.
    Unequal,
}

impl Stamp {
    pub(crate) fn new(epoch: u64, level: u32, call: u64) -> Stamp {
        Stamp(epoch << EPOCH_SHIFT | u64::from(level & 0x3f) << LEVEL_SHIFT | call & CALL_MASK)
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }

    /// Whether the word is at this stamp, and no other.
    pub(crate) fn seen_in(self, word: u64) -> Seen {
        match (word >> LEVEL_SHIFT == self.0 >> LEVEL_SHIFT, word == self.0) {
            (_, true) => Seen::Here,
            (true, false) => Seen::Unequal,
            (false, false) => Seen::NotYet,
        }
    }

    /// Whether the word is at this stamp or a later one.
    pub(crate) fn is_reached_by(self, word: u64) -> bool {
        word >> LEVEL_SHIFT >= self.0 >> LEVEL_SHIFT
    }
}

/// Where all ranks are in their sequence of calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    /// Chunks so far.
    pub(crate) epoch: u64,
    /// The last chunk's, and whether vectors lay beside each other.
    last: Option<(Algorithm, bool)>,
    /// How the last chunk was copied, at the leader.
    pub(crate) mix: Mix,
    /// The copies of the next dynamic call, at the leader, if it has learned of others.
    pub(crate) learned: Option<Copies>,
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) kind: Collective,
    pub(crate) algorithm: Algorithm,
    /// Of a vector; of calls with a vector for each rank, of one of them; of a [`Collective::ReduceScatter`], of all parts.
    pub(crate) bytes: usize,
    pub(crate) element: Element,
    /// `None`: nothing is reduced.
    pub(crate) op: Option<Op>,
    pub(crate) root: usize,
    pub(crate) layout: Layout,
    /// Who may make direct copies of the dynamic algorithm.
    pub(crate) copiers: &'static [Copier],
    /// Bytes from which on all ranks reduce a share each in host memory.
    pub(crate) shared_min: usize,
    #[cfg(test)]
    pub(crate) defect: Option<Defect>,
}

/// A rank's part in a collective of floats with root 0, the first call of its ranks: for the [`model`](crate::model) and other
/// stations. [`Algorithm::Dynamic`] has the text's two mechanisms.
pub async fn collective_on<S: Station>(
    station: &S,
    collective: Collective,
    algorithm: Algorithm,
    layout: Layout,
    bytes: usize,
) {
    let plan = Plan {
        kind: collective,
        algorithm,
        bytes,
        element: Element::Float,
        op: Some(Op::Sum).filter(|_| collective != Collective::Broadcast && !collective.gathers()),
        root: 0,
        layout,
        copiers: Copier::TEXT,
        shared_min: host::SHARED_MIN,
        #[cfg(test)]
        defect: None,
    };
    plan.run(station, &mut Cursor::default()).await;
}

/// A chunk of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) epoch: u64,
    pub(crate) offset: usize,
    pub(crate) len: usize,
    /// The chunk before used the buffer in another way.
    pub(crate) changed: bool,
    call: u64,
}

impl Plan {
    /// A number that differs for calls that do not fit together.
    fn call(&self) -> u64 {
        let words = [
            self.kind as u64,
            self.bytes as u64,
            self.element as u64,
            self.op.map_or(u64::MAX, |op| op as u64),
            self.root as u64,
            self.chunk() as u64,
            match self.algorithm {
                Algorithm::Gsb | Algorithm::Btb => 0,
                Algorithm::Static { .. } | Algorithm::Dynamic => 1,
                Algorithm::Host => 2,
                Algorithm::Direct => 3,
            },
        ];
        // FNV-1a over words, folded.
        let mixed = words.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, word| {
            (sum ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
        });
        mixed ^ mixed >> 24 ^ mixed >> 48
    }

    /// Broadcasts, reductions to others than the leader, and what is not in the text have no mechanisms to choose, and no tree.
    pub(crate) fn used(&self) -> Algorithm {
        use Collective::{Allgather, Allreduce, Broadcast, Reduce};
        let has_mechanisms = self.root == 0 && matches!(self.kind, Allreduce | Reduce | Allgather);
        let has_tree = matches!(self.kind, Allreduce | Reduce | Broadcast);
        match self.algorithm {
            Algorithm::Static { .. } | Algorithm::Dynamic if !has_mechanisms => Algorithm::Gsb,
            Algorithm::Btb if !has_tree => Algorithm::Gsb,
            Algorithm::Direct if self.kind != Broadcast => Algorithm::Gsb,
            algorithm => algorithm,
        }
    }

    /// Bytes of a vector that go through the buffer at a time.
    fn chunk(&self) -> usize {
        let chunk = self.layout.chunk(self.used());
        match self.kind {
            // A slot has a part for each rank; parts are whole elements.
            Collective::Alltoall => chunk / self.layout.ranks / 8 * 8,
            _ => chunk,
        }
    }

    /// Fails where not even an element fits in the buffer.
    pub(crate) fn check(&self) -> Result<(), SharedGpuError> {
        let Layout { ranks, buffer, .. } = self.layout;
        match self.chunk() {
            0 => {
                let least = Layout::least_for_all_to_all(ranks);
                Err(SharedGpuError::SmallBuffer { bytes: buffer, ranks, least })
            }
            _ => Ok(()),
        }
    }

    /// Whether a rank wants the result, of a call in which the root of a broadcast has it.
    pub(crate) fn reads(&self, rank: usize) -> bool {
        match self.kind {
            Collective::Reduce => rank == self.root,
            Collective::Broadcast => rank != self.root,
            _ => true,
        }
    }

    #[cfg(test)]
    pub(crate) fn lacks(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    /// Its first chunk, of ranks that have made no other call.
    #[cfg(test)]
    pub(crate) fn first_step(&self) -> Step<'_> {
        Step { plan: self, epoch: 1, offset: 0, len: self.bytes, changed: true, call: self.call() }
    }

    /// The rank's part in the call.
    pub(crate) async fn run<S: Station>(&self, station: &S, cursor: &mut Cursor) {
        let (chunk, call) = (self.chunk(), self.call());
        if station.ranks() == 1 {
            if self.kind != Collective::Broadcast && self.bytes > 0 {
                station.copy(Place::Output(0), Place::Input(0), self.bytes).await;
                station.drain().await;
            }
            return;
        }
        if self.used() == Algorithm::Direct && self.bytes > 0 {
            cursor.epoch += 1;
            let step = Step { plan: self, epoch: cursor.epoch, offset: 0, len: 0, changed: true, call };
            cursor.last = None;
            if direct::broadcast(station, &step).await {
                station.drain().await;
                return;
            }
        }
        // Who only meets has a chunk without bytes.
        let end = if self.kind == Collective::Barrier { 1 } else { self.bytes };
        for offset in (0..end).step_by(chunk) {
            cursor.epoch += 1;
            let algorithm = self.used();
            let way = (algorithm, self.kind.gathers());
            let changed = cursor.last.replace(way) != Some(way);
            let len = chunk.min(self.bytes - offset);
            let step = Step { plan: self, epoch: cursor.epoch, offset, len, changed, call };
            match algorithm {
                // Of a direct broadcast that could not be.
                Algorithm::Gsb | Algorithm::Direct => gsb::chunk(station, &step).await,
                Algorithm::Btb => btb::chunk(station, &step).await,
                Algorithm::Host => host::chunk(station, &step).await,
                Algorithm::Dynamic => {
                    cursor.mix = hyper_q::chunk(station, &step, cursor.learned).await;
                }
                Algorithm::Static { staged, by } => {
                    let table = Copies::new(station.ranks() - 1, staged, by);
                    cursor.mix = hyper_q::chunk(station, &step, Some(table)).await;
                }
            }
        }
        station.drain().await;
    }
}

/// Names a defect in release builds, too, where there is none.
macro_rules! lacks {
    ($plan:expr, $defect:ident) => {{
        #[cfg(test)]
        let lacks = $plan.lacks($crate::plan::Defect::$defect);
        #[cfg(not(test))]
        let lacks = false;
        lacks
    }};
}
pub(crate) use lacks;

impl Step<'_> {
    pub(crate) fn stamp(&self, level: u32) -> Stamp {
        Stamp::new(self.epoch, level, self.call)
    }

    /// Ends once a word is at `stamp`. A rank that is in another call is told to all.
    pub(crate) async fn meet<S: Station>(&self, station: &S, word: Word, stamp: Stamp, waiting: Waiting) {
        let mut unequal = false;
        station
            .until(|station| match stamp.seen_in(station.load(word)) {
                Seen::Here => Ok(()),
                Seen::Unequal => {
                    unequal = true;
                    Ok(())
                }
                Seen::NotYet => Err(waiting),
            })
            .await;
        if unequal {
            Fault::Unequal.tell(station, waiting.rank).await;
        }
    }

    /// Ends once the chunk before has a result: its flags were seen, and its slots reduced.
    pub(crate) async fn has_last_result<S: Station>(&self, station: &S) {
        let before = Stamp::new(self.epoch - 1, 0, 0);
        let waiting = Waiting { what: "the last result", rank: 0 };
        station
            .until(|station| match before.is_reached_by(station.load(Word::Completion)) {
                true => Ok(()),
                false => Err(waiting),
            })
            .await;
    }

    /// Ends once all ranks have read what the chunk before left in the buffer.
    pub(crate) async fn all_read<S: Station>(&self, station: &S) {
        if lacks!(self.plan, Ack) {
            return;
        }
        self.all_have(station, Stamp::new(self.epoch - 1, 0, 0)).await;
    }

    /// Ends once all ranks have acknowledged a chunk.
    pub(crate) async fn all_have<S: Station>(&self, station: &S, before: Stamp) {
        station
            .until(|station| {
                match (0..station.ranks()).find(|rank| !before.is_reached_by(station.load(Word::Ack(*rank))))
                {
                    Some(rank) => Err(Waiting { what: "reading the last result", rank }),
                    None => Ok(()),
                }
            })
            .await;
    }
}

/// What a rank tells all others, in [`Word::Fault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A rank called something else.
    Unequal,
    /// A rank was waited for in vain.
    Late,
    /// A rank failed, by its GPU or memory.
    Failed,
    /// A rank's status word went where no state leads.
    State,
    /// A rank died; of the job, as its numbers are.
    Died,
    /// MPS ended, by which a rank used the GPU; of the job, as those who are told may be on other GPUs and hosts.
    Mps,
    /// A rank left the job, and was waited for; of the job, too.
    Left,
}

impl Fault {
    const ALL: [Fault; 7] =
        [Fault::Unequal, Fault::Late, Fault::Failed, Fault::State, Fault::Died, Fault::Mps, Fault::Left];

    pub(crate) fn word(self, rank: usize) -> u64 {
        (rank as u64) << 8 | (self as u64 + 1)
    }

    pub(crate) fn from(word: u64) -> Option<(Fault, usize)> {
        let fault = *Fault::ALL.get(((word & 0xff) as usize).checked_sub(1)?)?;
        Some((fault, (word >> 8 & 0xff_ffff) as usize))
    }

    /// What others are told of an error that this rank has found; nothing where they have been told.
    pub(crate) fn of(error: &SharedGpuError, own: usize) -> Option<u64> {
        Some(match error {
            SharedGpuError::Timeout { rank, .. } => Fault::Late.word(*rank),
            SharedGpuError::PeerLost { rank } => Fault::Died.word(*rank as usize),
            SharedGpuError::Mismatch { .. } | SharedGpuError::Elsewhere { .. } => return None,
            error => Fault::passed_on(error, own),
        })
    }

    /// What those are told by this rank who are no ranks of the call that failed, and do not know its numbers.
    pub(crate) fn passed_on(error: &SharedGpuError, own: usize) -> u64 {
        match error {
            SharedGpuError::MpsEnded { rank, .. } => Fault::Mps.word(*rank),
            SharedGpuError::PeerLeft { rank } => Fault::Left.word(*rank as usize),
            _ => Fault::Failed.word(own),
        }
    }

    /// Fails where such a word says so.
    pub(crate) fn check(word: u64) -> Result<(), SharedGpuError> {
        let elsewhere = |rank, how| Err(SharedGpuError::Elsewhere { rank, how });
        match Fault::from(word) {
            None => Ok(()),
            Some((Fault::Unequal, rank)) => Err(SharedGpuError::Mismatch { rank }),
            Some((Fault::Late, rank)) => elsewhere(rank, "did not come in time"),
            Some((Fault::Failed, rank)) => elsewhere(rank, "failed"),
            Some((Fault::Died, rank)) => Err(SharedGpuError::PeerLost { rank: rank as u32 }),
            Some((Fault::Left, rank)) => Err(SharedGpuError::PeerLeft { rank: rank as u32 }),
            Some((Fault::State, rank)) => elsewhere(rank, "went to a state that does not follow"),
            Some((Fault::Mps, rank)) => {
                Err(SharedGpuError::MpsEnded { rank, folder: None, what: "as that rank found".to_owned() })
            }
        }
    }

    /// Tells it, and never comes back: the station's owner ends the call.
    pub(crate) async fn tell<S: Station>(self, station: &S, rank: usize) {
        station.store(Word::Fault, self.word(rank)).await;
        station.until(|_| Err(Waiting { what: "the end of a failed call", rank })).await;
    }
}
