//! The thread pool that runs cards in the background.
//!
//! Cards that need attention lie in one queue; each thread takes the first, runs it, and puts it back while it
//! needs more. A thread whose turns bring nothing spins briefly, then yields, then naps. With an empty queue all
//! threads sleep, and use no CPU.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::nic::{Need, Nic};

/// Fruitless turns before a thread begins to yield.
const SPINS: u32 = 64;
/// How long fruitless polling goes on (yielding) before naps begin.
const POLL_FOR: Duration = Duration::from_millis(20);
/// Naps between polls of armed cards that stay quiet.
const POLL_NAP: Duration = Duration::from_micros(20);
/// Naps while cards only wait for slow things: the first, and the longest after doubling.
const WAIT_NAP: Duration = Duration::from_micros(50);
const WAIT_NAP_MAX: Duration = Duration::from_millis(1);

thread_local! {
    /// Whether this thread belongs to an engine.
    static ENGINE_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Threads that run cards: what posters leave undone, packets for cards nobody polls, slots that GPUs fill,
/// queues that wait for room or time. Dropping the last handle ends the threads.
pub struct Engine {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    /// Threads in a sleep or nap.
    resting: AtomicUsize,
}

#[derive(Default)]
struct State {
    cards: VecDeque<Weak<Nic>>,
    /// Calls that ask resting threads to look again.
    pokes: u64,
    stop: bool,
}

impl Engine {
    /// A pool of `threads` (at least one). Threads that the system refuses are done without; with none at all,
    /// cards run only where callers drive them.
    pub fn new(threads: usize) -> Arc<Engine> {
        let shared =
            Arc::new(Shared { state: Mutex::default(), work: Condvar::new(), resting: AtomicUsize::new(0) });
        let threads = (0..threads.max(1))
            .filter_map(|i| {
                let shared = shared.clone();
                let spawned =
                    std::thread::Builder::new().name(format!("extoll-nic-{i}")).spawn(move || shared.serve());
                spawned.inspect_err(|e| tracing::warn!("engine thread {i} not started: {e}")).ok()
            })
            .collect();
        Arc::new(Engine { shared, threads })
    }

    /// The pool of this process: one thread on up to two cores, else two. Lives to the end of the process.
    pub fn global() -> Arc<Engine> {
        static GLOBAL: OnceLock<Arc<Engine>> = OnceLock::new();
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        GLOBAL.get_or_init(|| Engine::new(if cores() > 2 { 2 } else { 1 })).clone()
    }

    /// Threads of the pool.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Has a card run soon, and then for as long as it needs.
    pub(crate) fn submit(&self, nic: &Arc<Nic>) {
        let queued = nic.in_engine().swap(true, Ordering::AcqRel);
        if ENGINE_THREAD.get() {
            // This thread is awake and comes to it.
            if !queued {
                self.shared.state().cards.push_back(Arc::downgrade(nic));
            }
            return;
        }
        if queued && self.shared.resting.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = self.shared.state();
        if !queued {
            state.cards.push_back(Arc::downgrade(nic));
        }
        state.pokes += 1;
        drop(state);
        if self.shared.resting.load(Ordering::Acquire) > 0 {
            self.shared.work.notify_one();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.state().stop = true;
        self.shared.work.notify_all();
        let this = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // The last handle may go on one of the pool's own threads, with the last card.
            if thread.thread().id() != this {
                let _ = thread.join();
            }
        }
    }
}

/// What a thread's last turns brought.
#[derive(Default)]
struct Quiet {
    /// Turns since anything moved.
    turns: usize,
    /// Rounds over all cards since anything moved, and when the first of them began.
    rounds: u32,
    since: Option<Instant>,
    /// A card of this round wants to be polled without a pause.
    poll: bool,
}

/// What a thread does before its next turn.
enum Pause {
    None,
    Yield,
    Nap(Duration),
}

impl Quiet {
    /// Accounts for one turn; `cards` are in the queue now.
    fn turn(&mut self, moved: bool, need: Need, cards: usize) -> Pause {
        if moved {
            *self = Quiet::default();
            return Pause::None;
        }
        self.poll |= need == Need::Poll;
        self.turns += 1;
        if self.turns < cards {
            return Pause::None;
        }
        self.turns = 0;
        self.rounds = self.rounds.saturating_add(1);
        let poll = std::mem::take(&mut self.poll);
        if !poll {
            let doubled = WAIT_NAP * (1 << self.rounds.min(8));
            return Pause::Nap(doubled.min(WAIT_NAP_MAX));
        }
        if self.rounds < SPINS {
            std::hint::spin_loop();
            return Pause::None;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() < POLL_FOR { Pause::Yield } else { Pause::Nap(POLL_NAP) }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread's life.
    fn serve(&self) {
        fine_timers();
        ENGINE_THREAD.set(true);
        let mut quiet = Quiet::default();
        let mut pokes = 0;
        while let Some(nic) = self.next(&mut pokes, &mut quiet) {
            // Before the run, so that whoever submits the card from now on is not taken for served.
            nic.in_engine().store(false, Ordering::Release);
            let (moved, need) = nic.run_for_engine();
            let cards = {
                let mut state = self.state();
                if need != Need::Nothing && !nic.in_engine().swap(true, Ordering::AcqRel) {
                    state.cards.push_back(Arc::downgrade(&nic));
                }
                state.cards.len()
            };
            drop(nic);
            match quiet.turn(moved, need, cards) {
                Pause::None => {}
                Pause::Yield => std::thread::yield_now(),
                Pause::Nap(time) => self.nap(time, pokes),
            }
        }
    }

    /// The next card; sleeps while there is none. `None`: the engine ends.
    fn next(&self, pokes: &mut u64, quiet: &mut Quiet) -> Option<Arc<Nic>> {
        let mut state = self.state();
        loop {
            if state.stop {
                return None;
            }
            if *pokes != state.pokes {
                *pokes = state.pokes;
                *quiet = Quiet::default();
            }
            match state.cards.pop_front() {
                Some(card) => {
                    let nic = card.upgrade();
                    if nic.is_some() {
                        return nic;
                    }
                }
                None => {
                    self.resting.fetch_add(1, Ordering::AcqRel);
                    state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                    self.resting.fetch_sub(1, Ordering::AcqRel);
                }
            }
        }
    }

    /// Rests for `time`, or until someone submits a card.
    fn nap(&self, time: Duration, pokes: u64) {
        self.resting.fetch_add(1, Ordering::AcqRel);
        let state = self.state();
        if state.pokes == pokes && !state.stop {
            drop(self.work.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner));
        }
        self.resting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Naps of microseconds need a timer slack below the usual 50.
fn fine_timers() {
    // SAFETY: changes the calling thread's own timer slack; a refusal only makes naps longer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000) };
}
