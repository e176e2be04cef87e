//! What the fabric of a network of hosts and its threads share: the core and its lock, the card, and what threads say to each other.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use super::complaints::Complaints;
use super::core::{Core, Sent};
use super::desk::Desk;
use super::events::{Bounds, End};
use super::lines::Lines;
use super::lobby::Lobby;
use super::seen::Seen;
use super::sleep::Alarm;
use super::wire::Wire;
use crate::network::fabric::First;
use crate::wake::Wake;
use arc_swap::ArcSwapOption;
use ggas_clock::Clock;

/// A card yields so often before it takes the core in front of others that wait for it.
const GIVE_WAY: u32 = 64;

/// What the fabric and its threads share. `W`: what carries packets.
pub(super) struct Shared<W: Wire = Lines> {
    /// This process's number; its node's, where that has one process.
    pub me: u16,
    /// What the others are called: `node` or `rank`.
    pub who: &'static str,
    pub secret: [u8; 16],
    pub places: Vec<String>,
    pub bounds: Bounds,
    pub lobby: Lobby,
    pub complaints: Arc<Complaints>,
    /// By what packets go, and which variable says over which ports.
    pub carries: (String, &'static str),
    /// Payload of its messages, at most.
    pub most: u32,
    /// The wire reads and writes GPU memory.
    pub gpus: bool,
    pub seen: Arc<Seen>,
    core: Mutex<Core<W>>,
    /// Threads other than the card's that wait for the core.
    waiting: AtomicU32,
    pub desk: Arc<Desk>,
    card: ArcSwapOption<CardWake>,
    /// Processes whose loss is to be told, and to whom.
    lost: Mutex<Vec<u16>>,
    on_loss: OnceLock<OnLoss>,
    /// Counted up by whoever polls, and what it was when somebody ended.
    polls: AtomicU64,
    rested: AtomicU64,
    pub alarm: Alarm,
    stop: AtomicBool,
}

struct CardWake(Arc<dyn Wake>);

pub(super) type OnLoss = Box<dyn Fn(u16) + Send + Sync>;

/// What the wire is: by what packets go, and which variable says over which ports; whether it reads and writes GPU memory; payload of its
/// messages, at most.
pub(super) type Carries = ((String, &'static str), bool, u32);

impl<W: Wire> Shared<W> {
    /// Of a process of this number, which others call so, whose wire is such a one.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new(
        (me, who): (u16, &'static str),
        (secret, places): ([u8; 16], Vec<String>),
        bounds: Bounds,
        (carries, gpus, most): Carries,
        complaints: Arc<Complaints>,
        (core, seen): (Core<W>, Arc<Seen>),
    ) -> io::Result<Shared<W>> {
        Ok(Shared {
            me,
            who,
            secret,
            places,
            bounds,
            lobby: Lobby::new()?,
            complaints,
            carries,
            most,
            gpus,
            desk: core.desk().clone(),
            core: Mutex::new(core),
            waiting: AtomicU32::new(0),
            seen,
            card: ArcSwapOption::empty(),
            lost: Mutex::default(),
            on_loss: OnceLock::new(),
            polls: AtomicU64::new(0),
            rested: AtomicU64::new(0),
            alarm: Alarm::new()?,
            stop: AtomicBool::new(false),
        })
    }

    /// The core itself: who has it sees to what follows.
    #[cfg(test)]
    pub fn core(&self) -> MutexGuard<'_, Core<W>> {
        self.core.try_lock().expect("one thread, which does not have it")
    }

    /// Does something with the core, and sees to what follows from it.
    pub fn with_core<T>(&self, work: impl FnOnce(&mut Core<W>) -> T) -> T {
        self.work(self.lock(), true, work)
    }

    /// The same, where nobody has the core now.
    pub fn try_with_core<T>(&self, work: impl FnOnce(&mut Core<W>) -> T) -> Option<T> {
        let core = match self.core.try_lock() {
            Ok(core) => core,
            Err(TryLockError::Poisoned(core)) => core.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(self.work(core, true, work))
    }

    /// As [`with_core`](Self::with_core) on the lobby's thread, which looks for what it has to say before it sleeps.
    pub fn with_core_in_lobby<T>(&self, work: impl FnOnce(&mut Core<W>) -> T) -> T {
        self.work(self.lock(), false, work)
    }

    fn lock(&self) -> MutexGuard<'_, Core<W>> {
        let core = self.core.try_lock().or_else(|taken| {
            drop(taken); // where it is poisoned, it has the lock
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let core = self.core.lock();
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            core
        });
        core.unwrap_or_else(PoisonError::into_inner)
    }

    /// The same as [`with_core`](Self::with_core) for cards, which ask without a pause: the mutex is had by who asks first when it is free, and that would mostly be the
    /// card. With more threads than cores others then said nothing for seconds, and were taken for lost.
    #[inline]
    pub fn with_core_as_card<T>(&self, work: impl FnOnce(&mut Core<W>) -> T) -> T {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.give_way();
        }
        self.work(self.core.lock().unwrap_or_else(PoisonError::into_inner), true, work)
    }

    #[cold]
    fn give_way(&self) {
        for _ in 0..GIVE_WAY {
            Clock::REAL.yield_now();
            if self.waiting.load(Ordering::Relaxed) == 0 {
                break;
            }
        }
    }

    fn work<T>(
        &self,
        mut core: MutexGuard<'_, Core<W>>,
        tells: bool,
        work: impl FnOnce(&mut Core<W>) -> T,
    ) -> T {
        let result = work(&mut core);
        if !core.has_news() {
            return result;
        }
        self.spread(core, tells);
        result
    }

    /// Sees to what follows from what was done with the core.
    #[cold]
    fn spread(&self, mut core: MutexGuard<'_, Core<W>>, tells: bool) {
        let (retry, ended, out) = (core.take_retry(), core.take_ended(), core.has_out() && tells);
        let let_go = core.take_let_go();
        drop(core);
        drop(let_go);
        if out {
            self.lobby.tell();
        }
        if retry || !ended.is_empty() {
            self.wake_card();
        }
        if !ended.is_empty() {
            self.note_ended(&ended);
        }
    }

    /// Whoever called may hold a card: the lobby's thread tells others.
    #[cold]
    fn note_ended(&self, ended: &[(u16, End)]) {
        let lost = ended.iter().filter(|(_, end)| *end == End::Lost).map(|(process, _)| *process);
        self.lost().extend(lost);
        self.lobby.tell();
        if let Some(card) = &*self.card.load() {
            card.0.rouse();
        }
    }

    fn lost(&self) -> MutexGuard<'_, Vec<u16>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of losses.
    pub fn tell_lost(&self) {
        if let Some(told) = self.on_loss.get() {
            let lost = std::mem::take(&mut *self.lost());
            lost.into_iter().for_each(told);
        }
    }

    /// Whether a packet need not be sent again.
    #[inline]
    pub fn is_sent(&self, sent: Sent) -> bool {
        if sent == Sent::Here {
            self.wake_card();
        }
        sent != Sent::Wait
    }

    fn wake_card(&self) {
        if let Some(card) = &*self.card.load() {
            card.0.wake();
        }
    }

    /// Runs the card on this thread.
    pub fn run_card(&self) -> bool {
        self.card.load_full().is_some_and(|card| card.0.run())
    }

    /// Moves the wire on; whether there are packets.
    pub fn pump(&self) -> bool {
        self.with_core(Core::pump)
    }

    /// The same for the card, which gets the next request at once.
    pub fn pump_as_card(&self, first: &mut dyn First) -> bool {
        self.with_core_as_card(|core| core.pump_to(Some(first)))
    }

    /// Has `told` called for each process that is found to be lost. The first call counts.
    pub fn on_loss(&self, told: OnLoss) {
        let _ = self.on_loss.set(told);
    }

    /// The card of this end; `false`: there is one already.
    pub fn attach(&self, wake: Arc<dyn Wake>) -> bool {
        self.card.compare_and_swap(&None::<Arc<CardWake>>, Some(Arc::new(CardWake(wake)))).is_none()
    }

    pub fn detach(&self) {
        self.card.store(None);
    }

    /// Somebody asks for packets.
    #[inline]
    pub fn polled(&self) {
        self.polls.store(self.polls().wrapping_add(1), Ordering::Relaxed);
        self.alarm.ring();
    }

    /// Who asked goes to sleep.
    pub fn rest(&self) {
        self.rested.store(self.polls(), Ordering::SeqCst);
        self.alarm.end_nap();
    }

    pub fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// Whether nobody has polled since the last one who did went to sleep.
    pub fn has_rested(&self, polls: u64) -> bool {
        self.rested.load(Ordering::SeqCst) == polls
    }

    /// Has the threads end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.lobby.tell();
        self.alarm.ring();
        self.alarm.end_nap();
    }

    pub fn stops(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}
