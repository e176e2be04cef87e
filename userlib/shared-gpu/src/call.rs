//! A call of a rank under way: polls the directory, and has its processor copy and reduce, until the protocol ends or something failed.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ggas_clock::{Backoff, Clock};

use crate::kernel::{self, Reduce};
use crate::lanes::Lanes;
use crate::peers::{self, Name, Peers};
use crate::plan::Fault;
use crate::process::{Engine, Process, WORK, is_later};
use crate::station::{Lane, Place, Slots, Station, Waiting, Word};
use crate::{Copier, Element, Op, SharedGpuError};

/// How long a call that ended so waits for its rank's copies. What this rank's MPS ran has ended with it; another's says nothing of them.
fn rest(ended: &Result<(), SharedGpuError>, timeout: Duration) -> Duration {
    match ended {
        Err(SharedGpuError::MpsEnded { folder: Some(_), .. }) => WORK.min(timeout),
        _ => WORK,
    }
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
        let bound = rest(&ended, self.process.timeout);
        // Nothing of ours may touch the vectors once they are the caller's again.
        if let Engine::Gpu { lanes, .. } = &self.process.engine {
            let quiet = Lane::ALL.map(|lane| {
                let stream = &lanes[lane as usize];
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
            let left = self.process.ends.left(Duration::ZERO);
            let polled = protocol.as_mut().poll(&mut context);
            if let Some(error) = self.error.take() {
                return Err(error);
            }
            if polled == Poll::Ready(()) {
                // A root that gave up says so, and then its vector is the caller's again: what was copied may be anything.
                return if self.is_direct.get() { self.fault() } else { Ok(()) };
            }
            self.check()?;
            self.check_left(&left)?;
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
        self.process.ends.check()?;
        self.fault()
    }

    /// Whether this rank waits for one that had left before it looked.
    fn check_left(&self, left: &[u32]) -> Result<(), SharedGpuError> {
        let waited_for =
            self.waiting.get().and_then(|waiting| self.process.members.get(waiting.rank).copied());
        match waited_for.filter(|rank| left.contains(rank)) {
            Some(rank) => Err(SharedGpuError::PeerLeft { rank }),
            None => Ok(()),
        }
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
            (Peers::Gpu { gpu, opened }, Engine::Gpu { lanes: [work, ..], .. }) => {
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

    async fn copy_by(&self, by: Copier, to: Place, from: Place, bytes: usize) {
        if let Place::Root(at) = from {
            return self.note(self.copy_from_root(self.address(to), at, bytes));
        }
        let lane = if by == Copier::Engine { Lane::of(to, from) } else { by.lane() };
        let (to, from) = (self.address(to), self.address(from));
        match &self.process.engine {
            _ if by != Copier::Engine => {
                self.lanes.queued(lane);
                // SAFETY: as below.
                self.note(unsafe { self.process.copy(by, to, from, bytes) });
            }
            // SAFETY: vectors that the caller checked, or the shared memory, where the protocols give each range to one rank.
            Engine::Cpu(_) => unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) },
            Engine::Gpu { lanes, .. } => {
                self.lanes.queued(lane);
                // SAFETY: as above; `block_on` returns when the streams are done.
                self.note(unsafe { lanes[lane as usize].copy(to, from, bytes) }.map_err(Into::into));
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
            Engine::Gpu { lanes, .. } => {
                let address = self.process.mark_address(word);
                self.lanes.queued(word.lane());
                // SAFETY: a word of the directory, registered or on the GPU, as long as `self`.
                self.note(
                    unsafe { lanes[word.lane() as usize].store_u64(address, value) }.map_err(Into::into),
                );
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
        let Engine::Gpu { lanes, .. } = &self.process.engine else { return true };
        self.lanes.is_idle(lane, || lanes[lane as usize].is_done()).unwrap_or_else(|error| {
            self.note(Err(error.into()));
            true
        })
    }

    async fn drain(&self) {
        let own = Waiting { what: "its own GPU", rank: self.process.rank };
        let idle = |call: &Self| Lane::ALL.into_iter().all(|lane| call.is_idle(lane));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What another rank's MPS ran has ended; this rank's copies go on, and its vectors are not the caller's before.
    #[test]
    fn only_the_end_of_the_own_mps_shortens_the_wait_for_own_copies() {
        let short = Duration::from_secs(1);
        let ended = |folder| Err(SharedGpuError::MpsEnded { rank: 3, folder, what: "x".to_owned() });
        assert_eq!(rest(&ended(Some("/tmp".into())), short), short);
        assert_eq!(rest(&ended(None), short), WORK);
        assert_eq!(rest(&ended(Some("/tmp".into())), 2 * WORK), WORK);
        assert_eq!(rest(&Ok(()), short), WORK);
        assert_eq!(rest(&Err(SharedGpuError::PeerLost { rank: 3 }), short), WORK);
    }
}
