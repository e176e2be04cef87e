//! The thread pool that runs cards in the background.
//!
//! Each thread serves the cards of its lane (node id modulo threads), in turn, for as long as they need it; the loop
//! takes no lock while nobody submits. A thread whose turns bring nothing spins briefly, then yields, then naps.
//! Without cards it sleeps, and uses no CPU.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::card::{Driver, Need, Nic};
use ggas_clock::Clock;
use ggas_members::quiet;

/// Fruitless rounds before a thread begins to yield: few where threads share cores with those they wait for; on
/// hosts of many cores (those with GPUs) about as long as a kernel takes to answer, since a yield is a poll missed.
const SPINS: u32 = 64;
const SPINS_OF_MANY: u32 = 1024;
/// From how many cores on.
const MANY_CORES: usize = 8;
/// How long fruitless polling goes on (yielding) before naps begin.
const POLL_FOR: Duration = Duration::from_millis(20);
/// Naps between polls of armed cards that stay quiet.
const POLL_NAP: Duration = Duration::from_micros(20);
/// Naps while cards only wait for slow things: the first, and the longest after doubling.
const WAIT_NAP: Duration = Duration::from_micros(50);
const WAIT_NAP_MAX: Duration = Duration::from_millis(1);
/// The longest while cards only wait to be told by their fabrics.
const TOLD_NAP_MAX: Duration = Duration::from_millis(64);

/// Threads that run cards: what posters leave undone, packets for cards nobody polls, slots that GPUs fill,
/// queues that wait for room or time. Dropping the last handle ends the threads.
pub struct NicThreads {
    lanes: Arc<[Lane]>,
    threads: Vec<JoinHandle<()>>,
}

/// What one thread serves.
#[derive(Default)]
struct Lane {
    submitted: Mutex<Submitted>,
    /// `submitted` changed, or a card in service should be looked at again. Set before `resting` is read, and read
    /// after `resting` is set, so that one side always sees the other.
    news: AtomicBool,
    /// The thread is in a sleep or nap, or about to be.
    resting: AtomicBool,
    work: Condvar,
}

#[derive(Default)]
struct Submitted {
    cards: Vec<Weak<Nic>>,
    stop: bool,
}

impl NicThreads {
    /// A pool of `threads` (at least one). Threads that the system refuses are done without; with none at all,
    /// cards run only where callers drive them.
    pub fn new(threads: usize) -> Arc<NicThreads> {
        let lanes: Arc<[Lane]> = (0..threads.max(1)).map(|_| Lane::default()).collect();
        let threads = (0..lanes.len())
            .filter_map(|i| {
                let lanes = lanes.clone();
                let spawned = quiet::spawn(&format!("extoll-nic-{i}"), move || lanes[i].serve());
                spawned.inspect_err(|e| tracing::warn!("NIC thread {i} not started: {e}")).ok()
            })
            .collect();
        Arc::new(NicThreads { lanes, threads })
    }

    /// The pool of this process: one thread on up to two cores, else two. Lives to the end of the process.
    pub fn global() -> Arc<NicThreads> {
        static GLOBAL: OnceLock<Arc<NicThreads>> = OnceLock::new();
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        GLOBAL.get_or_init(|| NicThreads::new(if cores() > 2 { 2 } else { 1 })).clone()
    }

    /// Threads of the pool.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }
}

impl Driver for NicThreads {
    fn submit(&self, nic: &Arc<Nic>) {
        let lane = &self.lanes[usize::from(nic.node()) % self.lanes.len()];
        if !nic.submitted().swap(true, Ordering::AcqRel) {
            lane.lock().cards.push(Arc::downgrade(nic));
        }
        lane.tell();
    }
}

impl Drop for NicThreads {
    fn drop(&mut self) {
        for lane in &*self.lanes {
            lane.lock().stop = true;
            lane.tell();
        }
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
    /// What the card of this round needs that needs most.
    need: Need,
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
        self.need = self.need.max(need);
        self.turns += 1;
        if self.turns < cards {
            return Pause::None;
        }
        self.turns = 0;
        self.rounds = self.rounds.saturating_add(1);
        let need = std::mem::take(&mut self.need);
        if need != Need::Poll {
            let longest = if need == Need::Told { TOLD_NAP_MAX } else { WAIT_NAP_MAX };
            let doubled = WAIT_NAP * (1 << self.rounds.min(11));
            return Pause::Nap(doubled.min(longest));
        }
        if self.rounds < spins() {
            Clock::REAL.spin();
            return Pause::None;
        }
        let since = *self.since.get_or_insert_with(|| Clock::REAL.now());
        if Clock::REAL.since(since) < POLL_FOR { Pause::Yield } else { Pause::Nap(POLL_NAP) }
    }
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, Submitted> {
        self.submitted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the thread look at its lane soon.
    fn tell(&self) {
        self.news.store(true, Ordering::SeqCst);
        if self.resting.load(Ordering::SeqCst) {
            drop(self.lock()); // the thread is in its wait, or has not looked at `news` yet
            self.work.notify_one();
        }
    }

    /// A thread's life.
    fn serve(&self) {
        fine_timers();
        let mut quiet = Quiet::default();
        let mut cards: VecDeque<Weak<Nic>> = VecDeque::new();
        loop {
            if self.news.load(Ordering::Relaxed) && self.news.swap(false, Ordering::SeqCst) {
                let mut submitted = self.lock();
                if submitted.stop {
                    return;
                }
                cards.extend(submitted.cards.drain(..));
                quiet = Quiet::default();
            }
            let Some(card) = cards.pop_front() else {
                self.rest(None);
                continue;
            };
            let Some(nic) = card.upgrade() else { continue };
            // Before the run: whoever submits the card from now on is not taken for served.
            nic.submitted().swap(false, Ordering::AcqRel);
            let (moved, need) = nic.run_for_driver();
            if need != Need::Nothing && !nic.submitted().swap(true, Ordering::AcqRel) {
                cards.push_back(card);
            }
            drop(nic);
            match quiet.turn(moved, need, cards.len()) {
                Pause::None => {}
                Pause::Yield => Clock::REAL.yield_now(),
                Pause::Nap(time) => self.rest(Some(time)),
            }
        }
    }

    /// Rests until there is news, at most for `time`.
    fn rest(&self, time: Option<Duration>) {
        self.resting.store(true, Ordering::SeqCst);
        let submitted = self.lock();
        if !self.news.load(Ordering::SeqCst) {
            match time {
                Some(time) => drop(Clock::REAL.wait(&self.work, submitted, time)),
                None => drop(self.work.wait(submitted).unwrap_or_else(PoisonError::into_inner)),
            }
        }
        self.resting.store(false, Ordering::SeqCst);
    }
}

/// Rounds to spin on this host.
fn spins() -> u32 {
    static SPINS_HERE: OnceLock<u32> = OnceLock::new();
    let many = || std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= MANY_CORES);
    *SPINS_HERE.get_or_init(|| if many() { SPINS_OF_MANY } else { SPINS })
}

/// Naps of microseconds need a timer slack below the usual 50.
fn fine_timers() {
    // SAFETY: changes the calling thread's own timer slack; a refusal only makes naps longer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nap behind so many turns of one card that moves nothing.
    fn nap(quiet: &mut Quiet, need: Need, turns: u32) -> Duration {
        let naps = (0..turns).filter_map(|_| match quiet.turn(false, need, 1) {
            Pause::Nap(time) => Some(time),
            _ => None,
        });
        naps.last().expect("a nap")
    }

    #[test]
    fn who_is_told_is_looked_at_ever_more_seldom() {
        let mut quiet = Quiet::default();
        assert_eq!(nap(&mut quiet, Need::Told, 20), TOLD_NAP_MAX);
        // Beside one that is not told, as often as that.
        assert_eq!(nap(&mut quiet, Need::Nap, 1), WAIT_NAP_MAX);
        quiet.turn(true, Need::Told, 1);
        assert_eq!(nap(&mut quiet, Need::Told, 1), 2 * WAIT_NAP);
    }
}
