//! A rank as a process: polls the directory, and has its GPU, or its processor, copy and reduce.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ggas_clock::{Backoff, Clock, Ladder};
use ggas_gpu::{Module, Stream};
use ggas_kernels::{KernelMem, Launch, Processor, start};

use crate::kernel::{self, REDUCE, Reduce, WORDS, Words};
use crate::lanes::Lanes;
use crate::memory::Shared;
use crate::mps::Before;
use crate::peers::{self, Name, Peers};
use crate::plan::Fault;
use crate::station::{Lane, Place, Slots, Station, Waiting, Word};
use crate::{Directory, Element, Op, SharedGpuError};

/// Looks of the kernel that polls a directory on the GPU, before it gives the GPU back: some tens of microseconds.
const LOOKS: u64 = 64;
/// Bound of work that waits for nobody.
const WORK: Duration = Duration::from_secs(30);
/// Nobody has died.
pub(crate) const NOBODY: u32 = u32::MAX;

/// What copies and reduces.
pub(crate) enum Engine {
    /// The calling thread: what is queued is done at once.
    Cpu(Processor),
    /// Streams: of the work, of copies through the staging buffer, and of looks at a directory on the GPU.
    Gpu { module: Module, work: Stream, staged: Stream, looks: Stream },
}

/// A directory on the GPU as this process last saw it.
pub(crate) struct Seen {
    pub(crate) words: HostWords,
    pub(crate) number: usize,
}

/// Host memory that both the host and kernels use.
pub(crate) struct HostWords {
    // Unregistered before the memory goes.
    pub(crate) mapped: ggas_kernels::Mapped,
    pub(crate) words: Box<[AtomicU64]>,
}

/// A rank that shares a GPU.
pub(crate) struct Process {
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    pub(crate) shared: Shared,
    pub(crate) engine: Engine,
    pub(crate) directory: Directory,
    pub(crate) seen: Option<Seen>,
    pub(crate) partial: KernelMem,
    pub(crate) peers: Peers,
    /// Whether all ranks reach each other's vectors.
    pub(crate) reaches: bool,
    pub(crate) timeout: Duration,
    /// How this rank waits.
    pub(crate) ladder: Ladder,
    /// As it was at the set-up; `None` on the executor.
    pub(crate) mps: Option<Before>,
    /// The first rank that died.
    pub(crate) dead: Arc<AtomicU32>,
    /// Calls so far, the same as of all ranks that have come as far.
    pub(crate) calls: AtomicU32,
}

/// What a rank tells all others of a call, in [`Word::Fault`].
pub(crate) fn fault_of(call: u32, fault: u64) -> u64 {
    u64::from(call) << 32 | fault
}

/// Whether it was told of a call behind this one, in which nobody who makes this one is missed: whoever told it has made this one.
pub(crate) fn is_later(word: u64, call: u32) -> bool {
    (((word >> 32) as u32).wrapping_sub(call) as i32) > 0
}

/// A call under way.
pub(crate) struct Call<'a> {
    pub(crate) process: &'a Process,
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) element: Element,
    pub(crate) op: Op,
    /// Which of its process's calls it is.
    number: u32,
    error: RefCell<Option<SharedGpuError>>,
    waiting: Cell<Option<Waiting>>,
    /// Waits that ended.
    progress: Cell<u64>,
    lanes: Lanes,
    /// It has copied from a root's vector.
    is_direct: Cell<bool>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        process: &'a Process,
        (input, output): (u64, u64),
        element: Element,
        op: Op,
    ) -> Call<'a> {
        let (error, waiting, progress) = (RefCell::new(None), Cell::new(None), Cell::new(0));
        let (lanes, is_direct) = (Lanes::default(), Cell::new(false));
        let number = process.calls.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        Call { process, input, output, element, op, number, error, waiting, progress, lanes, is_direct }
    }

    /// Runs a protocol to its end, or until something failed. Each of its waits is bounded by the time-out.
    pub(crate) fn block_on(&self, protocol: impl Future<Output = ()>) -> Result<(), SharedGpuError> {
        let ended = self.poll(pin!(protocol)).map_err(|error| self.process.explain(error));
        if let Err(error) = &ended {
            self.tell(error);
        }
        self.says_that_it_waits(None);
        // What MPS ran has ended with it.
        let bound = match &ended {
            Err(SharedGpuError::MpsEnded { .. }) => WORK.min(self.process.timeout),
            _ => WORK,
        };
        // Nothing of ours may touch the vectors once they are the caller's again.
        if let Engine::Gpu { work, staged, .. } = &self.process.engine {
            let quiet = [(Lane::Direct, work), (Lane::Staged, staged)].map(|(lane, stream)| {
                let wait = || stream.wait("copies of a collective", bound).map(|()| true);
                self.lanes.is_idle(lane, wait).map(drop)
            });
            let quiet = quiet.into_iter().collect::<Result<(), _>>();
            return ended.and(quiet.map_err(|error| self.process.explain(error.into())));
        }
        ended
    }

    fn poll(&self, mut protocol: std::pin::Pin<&mut impl Future<Output = ()>>) -> Result<(), SharedGpuError> {
        let mut context = Context::from_waker(Waker::noop());
        let timeout = self.process.timeout;
        let ladder = self.process.ladder;
        let (mut backoff, mut progress) = (Backoff::on(ladder, Clock::REAL, timeout), 0);
        // A call that the others have given up may need nobody any more: it ends here all the same.
        self.check()?;
        loop {
            self.process.look()?;
            let polled = protocol.as_mut().poll(&mut context);
            if let Some(error) = self.error.take() {
                return Err(error);
            }
            if polled == Poll::Ready(()) {
                // A root that gave up says so, and then its vector is the caller's again: what was copied may be anything.
                return if self.is_direct.get() { self.fault() } else { Ok(()) };
            }
            self.check()?;
            self.says_that_it_waits(self.waiting.get());
            if progress != self.progress.get() {
                progress = self.progress.get();
                backoff = Backoff::on(ladder, Clock::REAL, timeout);
            }
            backoff.pause().map_err(|waited| SharedGpuError::late(self.to_blame(), waited))?;
        }
    }

    /// In host memory, wherever the directory is: it is read when nothing else goes on.
    fn says_that_it_waits(&self, waiting: Option<Waiting>) {
        let word = self.process.shared.word(Word::Waits(self.process.rank));
        let value = waiting.map_or(0, |waiting| waiting.rank as u64 + 1);
        // Others poll words of the same line of memory: a look is not to take it from them.
        if word.load(Ordering::Relaxed) != value {
            word.store(value, Ordering::Release);
        }
    }

    /// Whom this rank waits for, or whom that one waits for, and so on to one that waits for nobody.
    fn to_blame(&self) -> Option<Waiting> {
        let Waiting { mut what, mut rank } = self.waiting.get()?;
        for _ in 0..self.process.ranks {
            let next = self.process.shared.word(Word::Waits(rank)).load(Ordering::Acquire) as usize;
            if next == 0 || next > self.process.ranks || next - 1 == rank {
                break;
            }
            (what, rank) = ("its part, which others wait for", next - 1);
        }
        Some(Waiting { what, rank })
    }

    /// Whether a rank died, or said that the call failed.
    fn check(&self) -> Result<(), SharedGpuError> {
        let dead = self.process.dead.load(Ordering::Acquire);
        if dead != NOBODY {
            return Err(SharedGpuError::PeerLost { rank: dead });
        }
        self.fault()
    }

    /// Whether a rank said that the call failed.
    fn fault(&self) -> Result<(), SharedGpuError> {
        let word = self.process.shared.word(Word::Fault).load(Ordering::Acquire);
        if word != 0 && is_later(word, self.number) {
            return Ok(());
        }
        Fault::check(word)
    }

    /// Lets the others end at once, too.
    fn tell(&self, error: &SharedGpuError) {
        if let Some(fault) = Fault::of(error, self.process.rank) {
            self.process.tell(self.number, fault);
        }
    }

    fn note(&self, result: Result<(), SharedGpuError>) {
        if let Err(error) = result {
            self.error.borrow_mut().get_or_insert(error);
        }
    }

    fn address(&self, place: Place) -> u64 {
        match place {
            Place::Input(at) => self.input + at as u64,
            Place::Output(at) => self.output + at as u64,
            Place::Partial => self.process.partial.address(),
            Place::Shared(at) => self.process.shared.address(at),
            Place::Staging(at) => self.process.shared.staging(at),
            // Of the root itself.
            Place::Root(at) => self.input + at as u64,
        }
    }

    /// Copies from the vector that a root has offered.
    fn copy_from_root(&self, to: u64, at: usize, bytes: usize) -> Result<(), SharedGpuError> {
        let word = |n: usize| self.process.shared.word(Word::Offer(1 + n)).load(Ordering::Acquire);
        let name: Name = std::array::from_fn(word);
        self.is_direct.set(true);
        match (&self.process.peers, &self.process.engine) {
            (Peers::Gpu { gpu, opened }, Engine::Gpu { work, .. }) => {
                let from = Peers::open(gpu, opened, &name)? + at as u64;
                self.lanes.queued(Lane::Direct);
                // SAFETY: the caller's vector was checked; the root's is as long, as its call is the same, and stays until all have read.
                Ok(unsafe { work.copy(to, from, bytes) }?)
            }
            // SAFETY: as above.
            _ => unsafe { peers::read(&name, at, to as *mut u8, bytes) },
        }
    }
}

impl Process {
    /// Where MPS has ended, that is why.
    fn explain(&self, error: SharedGpuError) -> SharedGpuError {
        match &self.mps {
            Some(mps) => mps.explain(error),
            None => error,
        }
    }

    /// Tells all that this rank will not make the next call.
    pub(crate) fn fail(&self, fault: Fault) {
        self.tell(self.calls.load(Ordering::Relaxed).wrapping_add(1), fault.word(self.rank));
    }

    /// Tells all of a fault, unless they know of one in this call or before it.
    fn tell(&self, call: u32, fault: u64) {
        let new = |now| (now == 0 || is_later(now, call)).then_some(fault_of(call, fault));
        let _ = self.shared.word(Word::Fault).fetch_update(Ordering::AcqRel, Ordering::Acquire, new);
    }

    /// Looks at a directory on the GPU.
    fn look(&self) -> Result<(), SharedGpuError> {
        let Some(seen) = &self.seen else { return Ok(()) };
        match self.directory {
            Directory::Host => Ok(()),
            Directory::GpuKernel => self.words_kernel(seen, seen.number, 0, LOOKS),
            Directory::GpuCopies => match &self.engine {
                Engine::Cpu(_) => {
                    (0..seen.number).for_each(|at| {
                        // SAFETY: a word of the directory in front of the buffer, mapped while `self` lives.
                        let word = unsafe { AtomicU64::from_ptr((self.shared.head() as *mut u64).add(at)) };
                        seen.words.words[at].store(word.load(Ordering::Acquire), Ordering::Release);
                    });
                    Ok(())
                }
                Engine::Gpu { looks, .. } => {
                    // SAFETY: the directory, and as many words of host memory that is registered as long.
                    unsafe { looks.copy(seen.words.mapped.address(), self.shared.head(), 8 * seen.number) }?;
                    // Without this wait the look would show what was there before.
                    Ok(looks.wait("a look at the directory", WORK)?)
                }
            },
        }
    }

    fn words_kernel(&self, seen: &Seen, at: usize, value: u64, looks: u64) -> Result<(), SharedGpuError> {
        let args = Words {
            directory: self.shared.head(),
            copy: seen.words.mapped.address(),
            number: seen.number as u64,
            at: at as u64,
            value,
            looks,
        };
        match &self.engine {
            Engine::Cpu(processor) => {
                // SAFETY: the structure is this kernel's; directory and copy live as long as `self`.
                let launch = unsafe { Launch::new(processor, WORDS, 1, 1, &args) };
                Ok(start(&[launch])?.wait(WORK)?)
            }
            Engine::Gpu { module, looks, .. } => {
                // SAFETY: as above.
                let launch = unsafe { ggas_gpu::Launch::new(module, WORDS, 1, 1, &args) };
                // SAFETY: a stream of this GPU, waited for right away.
                unsafe { launch.enqueue(looks.as_raw()) }?;
                Ok(looks.wait("a look at the directory", WORK)?)
            }
        }
    }

    fn write_word(&self, word: Word, value: u64) -> Result<(), SharedGpuError> {
        let Some(seen) = &self.seen else {
            self.shared.word(word).store(value, Ordering::Release);
            return Ok(());
        };
        match (&self.engine, self.directory) {
            (_, Directory::GpuKernel) => self.words_kernel(seen, word.index(), value, 0),
            (Engine::Cpu(_), _) => {
                // SAFETY: a word of the directory in front of the buffer, mapped while `self` lives.
                let place =
                    unsafe { AtomicU64::from_ptr((self.shared.head() as *mut u64).add(word.index())) };
                place.store(value, Ordering::Release);
                Ok(())
            }
            (Engine::Gpu { looks, .. }, _) => {
                // SAFETY: a word of the directory, mapped while `self` lives.
                unsafe { looks.store_u64(self.shared.head() + 8 * word.index() as u64, value) }?;
                Ok(looks.wait("a word of the directory", WORK)?)
            }
        }
    }

    /// Address of a word for a mark.
    fn mark_address(&self, word: Word) -> u64 {
        match self.seen {
            Some(_) => self.shared.head() + 8 * word.index() as u64,
            None => self.shared.word_address(word),
        }
    }
}

impl Station for Call<'_> {
    fn rank(&self) -> usize {
        self.process.rank
    }

    fn ranks(&self) -> usize {
        self.process.ranks
    }

    fn load(&self, word: Word) -> u64 {
        match &self.process.seen {
            Some(seen) => seen.words.words[word.index()].load(Ordering::Acquire),
            None => self.process.shared.word(word).load(Ordering::Acquire),
        }
    }

    async fn store(&self, word: Word, value: u64) {
        if word == Word::Fault {
            return self.process.tell(self.number, value);
        }
        self.note(self.process.write_word(word, value));
    }

    async fn copy(&self, to: Place, from: Place, bytes: usize) {
        if let Place::Root(at) = from {
            return self.note(self.copy_from_root(self.address(to), at, bytes));
        }
        let lane = Lane::of(to, from);
        let (to, from) = (self.address(to), self.address(from));
        match &self.process.engine {
            // SAFETY: vectors that the caller checked, or the shared memory, where the protocols give each range to one rank.
            Engine::Cpu(_) => unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) },
            Engine::Gpu { work, staged, .. } => {
                let stream = if lane == Lane::Staged { staged } else { work };
                self.lanes.queued(lane);
                // SAFETY: as above; `block_on` returns when the streams are done.
                self.note(unsafe { stream.copy(to, from, bytes) }.map_err(Into::into));
            }
        }
    }

    async fn offer(&self) -> bool {
        // Memory without a name, as that of windows, goes through the buffer.
        let name = self.process.reaches.then(|| self.process.peers.name(self.input).ok()).flatten();
        for (at, word) in name.iter().flatten().enumerate() {
            self.process.shared.word(Word::Offer(1 + at)).store(*word, Ordering::Release);
        }
        name.is_some()
    }

    async fn mark(&self, word: Word, value: u64) {
        match &self.process.engine {
            Engine::Cpu(_) => self.note(self.process.write_word(word, value)),
            Engine::Gpu { work, .. } => {
                let address = self.process.mark_address(word);
                self.lanes.queued(Lane::Direct);
                // SAFETY: a word of the directory, registered or on the GPU, as long as `self`.
                self.note(unsafe { work.store_u64(address, value) }.map_err(Into::into));
            }
        }
    }

    async fn reduce(&self, to: Place, first: Place, slots: Slots, bytes: usize) {
        let count = bytes / self.element.size();
        let args = Reduce {
            result: self.address(to),
            first: self.address(first),
            slots: self.process.shared.address(slots.first),
            stride: slots.stride as u64,
            count: count as u64,
            number: slots.number as u32,
            element: self.element as u32,
            op: self.op as u32,
            reserved: 0,
        };
        self.lanes.queued(Lane::Direct);
        self.note(self.process.reduce(&args));
    }

    async fn count(&self, word: Word) -> u64 {
        self.process.shared.word(word).fetch_add(1, Ordering::AcqRel) + 1
    }

    async fn reduce_on_host(&self, to: usize, slots: Slots, bytes: usize) {
        let shared = &self.process.shared;
        let at = |offset| shared.staging_on_host(offset);
        let args = Reduce {
            result: at(to),
            first: at(slots.first),
            slots: at(slots.first + slots.stride),
            stride: slots.stride as u64,
            count: (bytes / self.element.size()) as u64,
            number: slots.number as u32 - 1,
            element: self.element as u32,
            op: self.op as u32,
            reserved: 0,
        };
        // SAFETY: slots and result lie in the staging buffer, and the protocol gives this range of them to this rank now.
        unsafe { kernel::reduce(&args) };
    }

    async fn exchange(&self, word: Word, from: u64, to: u64) -> bool {
        let word = self.process.shared.word(word);
        word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn is_idle(&self, lane: Lane) -> bool {
        let Engine::Gpu { work, staged, .. } = &self.process.engine else { return true };
        let stream = if lane == Lane::Staged { staged } else { work };
        self.lanes.is_idle(lane, || stream.is_done()).unwrap_or_else(|error| {
            self.note(Err(error.into()));
            true
        })
    }

    async fn drain(&self) {
        let own = Waiting { what: "its own GPU", rank: self.process.rank };
        let idle = |call: &Self| call.is_idle(Lane::Direct) && call.is_idle(Lane::Staged);
        self.until(|call| if idle(call) { Ok(()) } else { Err(own) }).await;
    }

    async fn until(&self, mut ready: impl FnMut(&Self) -> Result<(), Waiting>) {
        poll_fn(|_| {
            let answer = if self.error.borrow().is_some() {
                Err(Waiting { what: "the end", rank: self.rank() })
            } else {
                ready(self)
            };
            self.waiting.set(answer.err());
            if answer.is_ok() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        self.progress.set(self.progress.get() + 1);
    }
}

impl Process {
    fn reduce(&self, args: &Reduce) -> Result<(), SharedGpuError> {
        match &self.engine {
            Engine::Cpu(_) => {
                // SAFETY: what it names was checked by the call; the protocol gives it to this rank now.
                unsafe { kernel::reduce(args) };
                Ok(())
            }
            Engine::Gpu { module, work, .. } => {
                let blocks = args.count.div_ceil(256).clamp(1, 512) as u32;
                // SAFETY: the structure is this kernel's; what it names as above. No block waits for another.
                let launch = unsafe { ggas_gpu::Launch::new(module, REDUCE, blocks, 256, args) };
                // SAFETY: a stream of this GPU; `block_on` returns when it is done.
                Ok(unsafe { launch.enqueue(work.as_raw()) }?)
            }
        }
    }
}
