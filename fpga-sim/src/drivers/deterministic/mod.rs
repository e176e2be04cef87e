//! Whole networks on one thread, in virtual time, from a seed.
//!
//! A [`Simulation`] is the clock and the driver of all cards of a network at once. What can run next (a card with
//! work, a program that does not wait) is drawn from the seed, one at a time; where nothing can, time jumps to what
//! is due next. So the same seed and the same programs give the same packets in the same order, bit for bit, and an hour
//! of retransmissions and time-outs takes milliseconds.
//!
//! Programs of hosts are functions that call the library as ever ([`Simulation::run`]); their waits let the others go
//! on. Without programs, whoever waits on the simulation's clock runs it meanwhile.
//!
//! ```
//! use extoll_sim::Simulation;
//! use std::time::Duration;
//!
//! let simulation = Simulation::new(7);
//! let clock = simulation.clock();
//! let slept = std::cell::Cell::new(0);
//! simulation.run([3, 1, 2].map(|hours| {
//!     let (clock, slept) = (clock.clone(), &slept);
//!     let program = move || {
//!         clock.sleep(Duration::from_secs(3600 * hours));
//!         slept.set(10 * slept.get() + hours);
//!     };
//!     (format!("sleeper {hours}"), program)
//! }));
//! assert_eq!((slept.get(), simulation.elapsed().as_secs() / 3600), (123, 3));
//! ```

mod cards;
mod tasks;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use ggas_clock::{Clock, Time};

use self::cards::Cards;
use crate::card::{Driver, Nic};

/// What one turn of a card or a program takes, at most; drawn for each.
const TURN: u64 = 200;
/// One in so many looks at the time ends what a call does for other cards.
const PREEMPT: u8 = 8;

/// See the module's description.
pub struct Simulation {
    this: Weak<Simulation>,
    began: Instant,
    seed: u64,
    state: Mutex<State>,
}

struct State {
    /// Virtual time in nanoseconds.
    now: u64,
    random: fastrand::Rng,
    cards: Cards,
    /// Turns of cards that moved anything.
    news: u64,
    turns: u64,
    /// A card runs, further up on this stack.
    running: bool,
}

impl Simulation {
    /// A simulation in which everything is drawn from `seed`.
    pub fn new(seed: u64) -> Arc<Simulation> {
        let state = State {
            now: 0,
            random: fastrand::Rng::with_seed(seed),
            cards: Cards::default(),
            news: 0,
            turns: 0,
            running: false,
        };
        Arc::new_cyclic(|this| Simulation {
            this: this.clone(),
            began: Clock::REAL.now(),
            seed,
            state: Mutex::new(state),
        })
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Its time, to be handed to the cards and networks that it drives.
    pub fn clock(&self) -> Clock {
        match self.this.upgrade() {
            Some(this) => Clock::of(this),
            None => Clock::real(), // unreachable: `self` is in the Arc
        }
    }

    /// Virtual time since the beginning.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.state().now)
    }

    /// Turns of cards and programs so far.
    pub fn turns(&self) -> u64 {
        self.state().turns
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn nanoseconds(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.began).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Runs a card that can run, if there is one.
    fn run_card(&self) -> bool {
        let mut state = self.state();
        let State { now, random, cards, .. } = &mut *state;
        cards.wake_due(*now);
        let Some(card) = cards.take(random) else { return false };
        state.begin_turn();
        state.running = true;
        drop(state);
        let (moved, need) = card.nic.run_for_driver();
        let mut state = self.state();
        state.running = false;
        state.news += u64::from(moved);
        let now = state.now;
        state.cards.put_back(card, now, moved, need);
        true
    }

    /// Runs cards until `until`, or until one moved anything; for who waits outside of all programs.
    fn run_cards(&self, until: u64, news: bool) {
        let (seen, mut stall) = (self.state().news, Stall::default());
        loop {
            let state = self.state();
            if state.now >= until || news && state.news != seen {
                return;
            }
            if state.running {
                return self.skip_to(state, until);
            }
            drop(state);
            if !self.run_card() {
                let state = self.state();
                let next = state.cards.next().map_or(until, |at| at.min(until));
                if stall.is_for_ever(state.now, state.news, until, next) {
                    drop(state);
                    panic!("a wait without a time limit, and no card moves anything: it would never end");
                }
                self.skip_to(state, next);
            }
        }
    }

    fn skip_to(&self, mut state: MutexGuard<'_, State>, at: u64) {
        state.now = state.now.max(at);
    }
}

impl State {
    fn begin_turn(&mut self) {
        self.turns += 1;
        let turn = self.random.u64(1..=TURN);
        self.now = self.now.checked_add(turn).expect("virtual time ends after 584 years: sleep less");
    }
}

/// Who waits as long as this waits for ever: [`Clock`] makes a century of what has no end.
const FOR_EVER: u64 = 99 * 365 * 24 * 3600 * 1_000_000_000;
/// So long cards are looked at that move nothing, while nobody else would ever go on.
const PATIENCE: u64 = 24 * 3600 * 1_000_000_000;

/// Finds waits that nothing will end: they would be a hang.
#[derive(Default)]
struct Stall {
    /// What was the news, and when they were that first.
    quiet: Option<(u64, u64)>,
}

impl Stall {
    /// Whether nothing will come, where all who wait do so until `soonest`, and until `next` nothing can run.
    fn is_for_ever(&mut self, now: u64, news: u64, soonest: u64, next: u64) -> bool {
        if soonest.saturating_sub(now) < FOR_EVER {
            self.quiet = None;
            return false;
        }
        let (_, since) = match self.quiet {
            Some(quiet) if quiet.0 == news => quiet,
            _ => *self.quiet.insert((news, now)),
        };
        next.saturating_sub(since) >= PATIENCE
    }
}

impl Time for Simulation {
    fn began(&self) -> Instant {
        self.began
    }

    fn elapsed(&self) -> Duration {
        self.elapsed()
    }

    fn pass(&self, until: Instant) {
        let until = self.nanoseconds(until);
        if !self.suspend(until, false) {
            self.run_cards(until, false);
        }
    }

    fn pass_or_news(&self, until: Instant) {
        let until = self.nanoseconds(until);
        if !self.suspend(until, true) {
            self.run_cards(until, true);
        }
    }

    fn preempts(&self) -> bool {
        self.state().random.u8(..PREEMPT) == 0
    }
}

impl Driver for Simulation {
    fn submit(&self, nic: &Arc<Nic>) {
        self.state().cards.submit(nic);
    }
}

impl std::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulation").field("seed", &self.seed).finish_non_exhaustive()
    }
}
