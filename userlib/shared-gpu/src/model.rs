//! Ranks in virtual time: the same protocols as in processes, with times that the caller says.
//!
//! Everything runs on one thread, and the same costs give the same times and the same bytes. Without [`data`](Model::data) lengths
//! alone are modelled. Sums are of `double`s.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::Copier;
use crate::plan::Fault;
use crate::station::{Lane, Place, Slots, Station, Waiting, Word};

/// Virtual nanoseconds.
pub type Nanos = u64;

/// What a rank has done by copy engines and multiprocessors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A copy.
    Copy {
        /// Where to.
        to: Place,
        /// Where from.
        from: Place,
        /// How much.
        bytes: usize,
        /// By whom, if not through the host.
        by: Copier,
    },
    /// A reduction of this rank's vector and so many slots.
    Reduce {
        /// Slots.
        slots: usize,
        /// Bytes of each.
        bytes: usize,
    },
}

/// What work costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// How long the rank's processor is busy to start it.
    pub issue: Nanos,
    /// From its start to its end.
    pub time: Nanos,
    /// What serves one after the other; `None`: it overlaps with everything but what the rank itself queued before.
    pub unit: Option<u32>,
}

/// Costs of a machine.
pub trait Costs {
    /// Of a rank's work, at a point in time.
    fn of(&self, rank: usize, work: &Work) -> Cost;
    /// Until a word that a rank writes is seen by the others.
    fn word(&self) -> Nanos;
    /// What a rank's processor takes for noticing that its own work is complete.
    fn notice(&self) -> Nanos;
    /// When a rank enters the call.
    fn arrival(&self, rank: usize) -> Nanos {
        let _ = rank;
        0
    }
}

/// Why a run did not end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// Nothing is under way any more, and these ranks wait.
    Waiting(Vec<(usize, Option<Waiting>)>),
    /// A rank said that another did not do as agreed.
    Fault {
        /// Which.
        rank: usize,
    },
}

/// Bytes of all ranks.
#[derive(Clone, Debug, Default)]
struct Data {
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
    partials: Vec<Vec<u8>>,
    shared: Vec<u8>,
    staging: Vec<u8>,
}

enum Action {
    Wake,
    Word(Word, u64),
    Copy { rank: usize, to: Place, from: Place, bytes: usize },
    Reduce { rank: usize, to: Place, first: Place, slots: Slots, bytes: usize },
}

/// A unit's work, as it was served: for timelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Whose.
    pub rank: usize,
    /// What.
    pub work: Work,
    /// When it began and ended.
    pub at: (Nanos, Nanos),
}

struct World<C> {
    costs: C,
    now: Cell<Nanos>,
    /// Counts what a waiting rank may see.
    changes: Cell<u64>,
    words: RefCell<Vec<u64>>,
    due: RefCell<BinaryHeap<Reverse<(Nanos, u64)>>>,
    actions: RefCell<BTreeMap<u64, Action>>,
    next: Cell<u64>,
    free_at: RefCell<BTreeMap<u32, Nanos>>,
    data: RefCell<Option<Data>>,
    spans: RefCell<Vec<Span>>,
    /// Whose vector is offered, and from which place of it on.
    offered: Cell<usize>,
}

/// What a rank still has to do.
type Act<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Ranks that share a buffer.
pub struct Model<C> {
    world: Rc<World<C>>,
    ranks: Vec<Rank<C>>,
}

/// One of them.
pub struct Rank<C> {
    world: Rc<World<C>>,
    rank: usize,
    ranks: usize,
    /// When what it queued so far will be complete, by lane.
    queued: [Cell<Nanos>; Lane::ALL.len()],
    waiting: Cell<Option<Waiting>>,
}

impl<C: Costs> Model<C> {
    /// So many ranks.
    pub fn new(ranks: usize, costs: C) -> Model<C> {
        let world = Rc::new(World {
            costs,
            now: Cell::new(0),
            changes: Cell::new(0),
            words: RefCell::new(vec![0; Word::count(ranks)]),
            due: RefCell::default(),
            actions: RefCell::default(),
            next: Cell::new(0),
            free_at: RefCell::default(),
            data: RefCell::new(None),
            spans: RefCell::default(),
            offered: Cell::new(0),
        });
        let rank = |rank| Rank {
            world: world.clone(),
            rank,
            ranks,
            queued: Default::default(),
            waiting: Cell::new(None),
        };
        Model { ranks: (0..ranks).map(rank).collect(), world }
    }

    /// Gives the ranks vectors, results of as many bytes, and buffers.
    pub fn data(self, inputs: Vec<Vec<u8>>, buffer: usize) -> Model<C> {
        let zeros = |bytes: usize| vec![vec![0; bytes]; inputs.len()];
        let bytes = inputs.iter().map(Vec::len).max().unwrap_or(0);
        // As long as an inbox, of which there is one for every second rank.
        let partial = buffer.div_ceil(inputs.len().div_ceil(2).max(1));
        let (outputs, partials) = (zeros(bytes), zeros(partial));
        let data = Data { outputs, partials, shared: vec![0; buffer], staging: vec![0; buffer], inputs };
        self.world.data.replace(Some(data));
        self
    }

    /// Other vectors from now on.
    pub fn set_inputs(&self, inputs: Vec<Vec<u8>>) {
        if let Some(data) = &mut *self.world.data.borrow_mut() {
            data.inputs = inputs;
        }
    }

    /// Result of a rank.
    pub fn output(&self, rank: usize) -> Vec<u8> {
        self.world.data.borrow().as_ref().and_then(|data| data.outputs.get(rank).cloned()).unwrap_or_default()
    }

    /// What was served so far.
    pub fn spans(&self) -> Vec<Span> {
        self.world.spans.borrow().clone()
    }

    /// The ranks.
    pub fn ranks(&self) -> &[Rank<C>] {
        &self.ranks
    }

    /// Runs what each rank does until all have ended, and gives when each did.
    ///
    /// # Errors
    /// [`Stuck`]
    pub fn run<'a, F: Future<Output = ()> + 'a>(
        &'a self,
        act: impl Fn(&'a Rank<C>) -> F,
    ) -> Result<Vec<Nanos>, Stuck> {
        let began = self.world.now.get();
        let start = |rank: &'a Rank<C>| {
            let future = act(rank);
            Box::pin(async move {
                rank.pass(rank.world.costs.arrival(rank.rank)).await;
                future.await;
            }) as Act<'a>
        };
        let mut futures: Vec<Option<Act<'a>>> = self.ranks.iter().map(|rank| Some(start(rank))).collect();
        let mut ends = vec![0; futures.len()];
        loop {
            self.poll_until_quiet(&mut futures, &mut ends, began);
            if futures.iter().all(Option::is_none) {
                return Ok(ends);
            }
            if let Some((_, rank)) = Fault::from(self.world.words.borrow()[Word::Fault.index()]) {
                return Err(Stuck::Fault { rank });
            }
            if !self.world.advance() {
                let left = futures.iter().zip(&self.ranks).filter(|(future, _)| future.is_some());
                return Err(Stuck::Waiting(left.map(|(_, rank)| (rank.rank, rank.waiting.get())).collect()));
            }
        }
    }

    fn poll_until_quiet<'a>(&self, futures: &mut [Option<Act<'a>>], ends: &mut [Nanos], began: Nanos) {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let before = self.world.changes.get();
            for (slot, end) in futures.iter_mut().zip(ends.iter_mut()) {
                let Some(future) = slot else { continue };
                if future.as_mut().poll(&mut context) == Poll::Ready(()) {
                    *slot = None;
                    *end = self.world.now.get() - began;
                    self.world.changed();
                }
            }
            if self.world.changes.get() == before {
                return;
            }
        }
    }
}

impl<C: Costs> World<C> {
    fn changed(&self) {
        self.changes.set(self.changes.get() + 1);
    }

    fn schedule(&self, at: Nanos, action: Action) {
        let number = self.next.get();
        self.next.set(number + 1);
        self.actions.borrow_mut().insert(number, action);
        self.due.borrow_mut().push(Reverse((at, number)));
    }

    /// To the next point at which something happens; `false`: nothing ever will.
    fn advance(&self) -> bool {
        let Some(Reverse((at, number))) = self.due.borrow_mut().pop() else { return false };
        self.now.set(at);
        self.changed();
        match self.actions.borrow_mut().remove(&number) {
            Some(Action::Word(word, value)) => self.words.borrow_mut()[word.index()] = value,
            Some(Action::Copy { rank, to, from: Place::Root(at), bytes }) => {
                let root = self.offered.get();
                self.with_data(|data| {
                    let what = data.take(root, Place::Input(at), bytes);
                    data.put(rank, to, &what);
                });
            }
            Some(Action::Copy { rank, to, from, bytes }) => {
                self.with_data(|data| data.copy(rank, to, from, bytes))
            }
            Some(Action::Reduce { rank, to, first, slots, bytes }) => {
                self.with_data(|data| data.reduce(rank, to, first, slots, bytes));
            }
            Some(Action::Wake) | None => {}
        }
        true
    }

    fn with_data(&self, work: impl FnOnce(&mut Data)) {
        if let Some(data) = &mut *self.data.borrow_mut() {
            work(data);
        }
    }
}

impl Data {
    fn place(&mut self, rank: usize, place: Place) -> (&mut Vec<u8>, usize) {
        match place {
            Place::Input(at) | Place::Root(at) => (&mut self.inputs[rank], at),
            Place::Output(at) => (&mut self.outputs[rank], at),
            Place::Partial => (&mut self.partials[rank], 0),
            Place::Shared(at) => (&mut self.shared, at),
            Place::Staging(at) => (&mut self.staging, at),
        }
    }

    fn take(&mut self, rank: usize, from: Place, bytes: usize) -> Vec<u8> {
        let (memory, at) = self.place(rank, from);
        memory[at..at + bytes].to_vec()
    }

    fn put(&mut self, rank: usize, to: Place, what: &[u8]) {
        let (memory, at) = self.place(rank, to);
        memory[at..at + what.len()].copy_from_slice(what);
    }

    fn copy(&mut self, rank: usize, to: Place, from: Place, bytes: usize) {
        let what = self.take(rank, from, bytes);
        self.put(rank, to, &what);
    }

    fn reduce(&mut self, rank: usize, to: Place, first: Place, slots: Slots, bytes: usize) {
        let doubles = |bytes: Vec<u8>| -> Vec<f64> {
            bytes
                .chunks_exact(8)
                .map(|word| f64::from_ne_bytes(word.try_into().unwrap_or_default()))
                .collect()
        };
        let place =
            |at| if matches!(first, Place::Staging(_)) { Place::Staging(at) } else { Place::Shared(at) };
        let mut sum = doubles(self.take(rank, first, bytes));
        for slot in 0..slots.number {
            let part = doubles(self.take(rank, place(slots.first + slot * slots.stride), bytes));
            sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
        let sum: Vec<u8> = sum.into_iter().flat_map(f64::to_ne_bytes).collect();
        self.put(rank, to, &sum);
    }
}

impl<C: Costs> Rank<C> {
    /// Its virtual time.
    pub fn now(&self) -> Nanos {
        self.world.now.get()
    }

    /// The rank's processor is busy.
    pub async fn pass(&self, time: Nanos) {
        if time == 0 {
            return;
        }
        let end = self.now() + time;
        self.world.schedule(end, Action::Wake);
        poll_fn(|_| if self.now() >= end { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Queues work behind what the rank queued before, and what its unit serves before.
    async fn queue(&self, lane: Lane, work: Work, action: Action) {
        let cost = self.world.costs.of(self.rank, &work);
        self.pass(cost.issue).await;
        let queued = &self.queued[lane as usize];
        let mut begin = queued.get().max(self.now());
        if let Some(unit) = cost.unit {
            let mut free_at = self.world.free_at.borrow_mut();
            let free = free_at.entry(unit).or_default();
            begin = begin.max(*free);
            *free = begin + cost.time;
        }
        let end = begin + cost.time;
        queued.set(end);
        self.world.spans.borrow_mut().push(Span { rank: self.rank, work, at: (begin, end) });
        self.world.schedule(end, action);
        // One instant later it is noticed.
        self.world.schedule(end + 1, Action::Wake);
    }
}

impl<C: Costs> Station for Rank<C> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn load(&self, word: Word) -> u64 {
        self.world.words.borrow()[word.index()]
    }

    async fn store(&self, word: Word, value: u64) {
        self.pass(self.world.costs.word()).await;
        self.world.words.borrow_mut()[word.index()] = value;
        self.world.changed();
    }

    async fn copy_by(&self, by: Copier, to: Place, from: Place, bytes: usize) {
        let action = Action::Copy { rank: self.rank, to, from, bytes };
        let lane = if by == Copier::Engine { Lane::of(to, from) } else { by.lane() };
        self.queue(lane, Work::Copy { to, from, bytes, by }, action).await;
    }

    async fn offer(&self) -> bool {
        self.pass(self.world.costs.word()).await;
        self.world.offered.set(self.rank);
        true
    }

    async fn mark(&self, word: Word, value: u64) {
        let end = self.queued[word.lane() as usize].get();
        self.world.schedule(end.max(self.now()), Action::Word(word, value));
    }

    async fn reduce(&self, to: Place, first: Place, slots: Slots, bytes: usize) {
        let work = Work::Reduce { slots: slots.number, bytes };
        let action = Action::Reduce { rank: self.rank, to, first, slots, bytes };
        self.queue(Lane::Direct, work, action).await;
    }

    async fn exchange(&self, word: Word, from: u64, to: u64) -> bool {
        self.pass(self.world.costs.word()).await;
        let is_from = self.load(word) == from;
        if is_from {
            self.world.words.borrow_mut()[word.index()] = to;
            self.world.changed();
        }
        is_from
    }

    async fn count(&self, word: Word) -> u64 {
        self.pass(self.world.costs.word()).await;
        let mut words = self.world.words.borrow_mut();
        words[word.index()] += 1;
        self.world.changed();
        words[word.index()]
    }

    async fn reduce_on_host(&self, to: usize, slots: Slots, bytes: usize) {
        let work = Work::Reduce { slots: slots.number - 1, bytes };
        let others = Slots { first: slots.first + slots.stride, number: slots.number - 1, ..slots };
        let (to, first) = (Place::Staging(to), Place::Staging(slots.first));
        self.queue(Lane::Staged, work, Action::Reduce { rank: self.rank, to, first, slots: others, bytes })
            .await;
        self.drain().await;
    }

    fn is_idle(&self, lane: Lane) -> bool {
        self.queued[lane as usize].get() < self.now()
    }

    async fn drain(&self) {
        let end = self.queued.iter().map(Cell::get).max().unwrap_or(0);
        let left = end.saturating_sub(self.now());
        if left > 0 {
            self.pass(left).await;
            // Its bytes move at the same instant, perhaps behind the wake-up.
            self.pass(self.world.costs.notice().max(1)).await;
        }
    }

    async fn until(&self, mut ready: impl FnMut(&Self) -> Result<(), Waiting>) {
        poll_fn(|_| {
            let answer = ready(self);
            self.waiting.set(answer.err());
            if answer.is_ok() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
