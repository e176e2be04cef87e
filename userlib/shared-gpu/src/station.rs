//! What a protocol asks of a rank: words of the directory, copies, reductions and waits.
//!
//! Protocols are `async` functions over [`Station`], so that one text of each runs in processes, which poll, and in the
//! [`model`](crate::model), in virtual time.

use std::future::Future;

use crate::Copier;

/// A word of the directory, which all ranks read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Word {
    /// The completion flag: the [`Stamp`](crate::Stamp) of the last result. It changes with each, so that nobody takes the last
    /// one for this (3.2.1, step 5).
    Completion,
    /// Zero, or what went wrong.
    Fault,
    /// Counts the vectors that were left in host memory.
    Arrived,
    /// Counts the shares that were reduced there.
    Reduced,
    /// Whether a root has offered its vector, and words of where that is.
    Offer(usize),
    /// A rank has begun its copy.
    Flag(usize),
    /// The copies of a rank before this mark are complete: written behind them, by whoever copies (the text's IPC event).
    Event(usize),
    /// The same of its copies by kernels.
    Stored(usize),
    /// A rank has read a result, and wants nothing more of it.
    Ack(usize),
    /// The tree level that a rank is ready to receive.
    Ready(usize),
    /// A rank has a result that its children in the tree may read.
    Serve(usize),
    /// State of a rank's copy in the static and dynamic algorithms (5.3.2).
    Status(usize),
    /// The rank that a rank waits for, plus one: who waits in vain follows this to who is to blame.
    Waits(usize),
}

/// Words of a line of memory: each rank has one, and what is common others.
const LINE: usize = 8;
/// Lines of what is common: words of their own, and an offer.
const COMMON: usize = 3;

impl Word {
    /// Words of a directory.
    pub const fn count(ranks: usize) -> usize {
        LINE * (ranks + COMMON)
    }

    /// Which of them this is.
    pub const fn index(self) -> usize {
        match self {
            Word::Completion => 0,
            Word::Fault => 1,
            Word::Arrived => 2,
            Word::Reduced => 3,
            Word::Offer(at) => LINE + at % (2 * LINE),
            Word::Flag(rank) => LINE * (rank + COMMON),
            Word::Event(rank) => LINE * (rank + COMMON) + 1,
            Word::Ack(rank) => LINE * (rank + COMMON) + 2,
            Word::Ready(rank) => LINE * (rank + COMMON) + 3,
            Word::Serve(rank) => LINE * (rank + COMMON) + 4,
            Word::Status(rank) => LINE * (rank + COMMON) + 5,
            Word::Waits(rank) => LINE * (rank + COMMON) + 6,
            Word::Stored(rank) => LINE * (rank + COMMON) + 7,
        }
    }

    /// Behind what its marks are.
    pub fn lane(self) -> Lane {
        if matches!(self, Word::Stored(_)) { Lane::Kernels } else { Lane::Direct }
    }
}

/// Memory that a rank copies from or to, and the offset in it in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The rank's own vector.
    Input(usize),
    /// Where the rank wants its result.
    Output(usize),
    /// The rank's own memory for sums of a subtree.
    Partial,
    /// The shared buffer on the GPU.
    Shared(usize),
    /// The shared buffer on the host, for copies that are staged through it.
    Staging(usize),
    /// The vector that the root of a broadcast has [offered](Station::offer).
    Root(usize),
}

/// What a rank waits for, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// In words.
    pub what: &'static str,
    /// The rank that is to do it.
    pub rank: usize,
}

/// Slots one behind the other in the shared buffer, or in that on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Offset of the first, in bytes.
    pub first: usize,
    /// From one to the next, in bytes.
    pub stride: usize,
    /// How many.
    pub number: usize,
}

/// Queues of a rank, which overlap with each other: copies through the staging buffer have one of their own, and copies by kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Copies within the GPU by its engine, reductions, marks.
    Direct,
    /// Copies to and from the host's staging buffer.
    Staged,
    /// Copies by kernels, and marks behind them.
    Kernels,
}

impl Lane {
    /// All of them.
    pub const ALL: [Lane; 3] = [Lane::Direct, Lane::Staged, Lane::Kernels];

    /// That of a copy by the engine.
    pub fn of(to: Place, from: Place) -> Lane {
        let is_staged = |place| matches!(place, Place::Staging(_));
        if is_staged(to) || is_staged(from) { Lane::Staged } else { Lane::Direct }
    }
}

/// A rank. Copies, reductions and marks are queued: they are done in their order, and complete at the mark behind them or when
/// [`drain`](Self::drain) ends. What fails or takes too long ends the call: the station's owner drops the protocol then.
pub trait Station {
    /// This one.
    fn rank(&self) -> usize;
    /// All that share the buffer.
    fn ranks(&self) -> usize;
    /// Reads a word; all that its writer did before is visible then.
    fn load(&self, word: Word) -> u64;
    /// Writes a word.
    fn store(&self, word: Word, value: u64) -> impl Future<Output = ()>;
    /// Queues a copy by the engine.
    fn copy(&self, to: Place, from: Place, bytes: usize) -> impl Future<Output = ()> {
        self.copy_by(Copier::Engine, to, from, bytes)
    }
    /// Queues a copy; one by a kernel is between the rank's vectors and the shared buffer.
    fn copy_by(&self, by: Copier, to: Place, from: Place, bytes: usize) -> impl Future<Output = ()>;
    /// Has the others read this rank's own vector as [`Place::Root`]; whether they can.
    fn offer(&self) -> impl Future<Output = bool>;
    /// Queues a write of a word, in its [lane](Word::lane).
    fn mark(&self, word: Word, value: u64) -> impl Future<Output = ()>;
    /// Queues `to[i] = first[i] op slot 0's [i] op slot 1's [i] ...`, of so many bytes.
    fn reduce(&self, to: Place, first: Place, slots: Slots, bytes: usize) -> impl Future<Output = ()>;
    /// Writes a word where it is `from`; whether it was. In host memory, for the static and dynamic algorithms.
    fn exchange(&self, word: Word, from: u64, to: u64) -> impl Future<Output = bool>;
    /// Adds one to a word, and gives the sum. In host memory, for [`Algorithm::Host`](crate::Algorithm::Host).
    fn count(&self, word: Word) -> impl Future<Output = u64>;
    /// Reduces slots of the host's staging buffer to one of its offsets, by the host, in their order; done when it ends.
    fn reduce_on_host(&self, to: usize, slots: Slots, bytes: usize) -> impl Future<Output = ()>;
    /// Whether all that was queued in a lane is complete.
    fn is_idle(&self, lane: Lane) -> bool;
    /// Ends when all that was queued is complete.
    fn drain(&self) -> impl Future<Output = ()>;
    /// Ends once `ready` says so. It is asked again and again.
    fn until(&self, ready: impl FnMut(&Self) -> Result<(), Waiting>) -> impl Future<Output = ()>;
}
