//! Lanes: pinned buffers of this rank that others get from and put to, for a copy at a time. There are few, as two blocks on their way
//! keep a network busy, and so what is registered is bounded.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use ggas_rma::{Kind, Match, PortBase, Region};

use super::Shared;
use crate::error::HpeError;
use crate::pinned::{Buffers, Pool};

/// Copies of a rank at a time.
pub(crate) const LANES: usize = 2;
/// Numbers of lanes: more, as one whose answers never came keeps its own.
pub(crate) const NUMBERS: usize = 16;

/// What is tried with them.
const LOCKED: &str =
    "registering pinned buffers: raise the limit of locked memory (ulimit -l), or take smaller ones";

/// Two pinned buffers that the network reaches.
pub(crate) struct Staging {
    // Unregistered before the memory goes.
    pub regions: [Region; 2],
    _buffers: Buffers,
}

impl Staging {
    /// The first `block` bytes of each; without `wait` nothing where the pool's bound is reached.
    pub fn new(port: &PortBase, pool: &Pool, block: usize, wait: bool) -> Result<Option<Staging>, HpeError> {
        let Some(buffers) = pool.take_buffers(wait)? else { return Ok(None) };
        let region = |which: usize| {
            // SAFETY: memory of this pair, which outlives its regions; it is reached by addresses only.
            let region =
                unsafe { port.register_raw(buffers.start().wrapping_add(which * pool.buffer()), block) };
            region.map_err(HpeError::network(LOCKED))
        };
        match region(0).and_then(|first| Ok([first, region(1)?])) {
            Ok(regions) => Ok(Some(Staging { regions, _buffers: buffers })),
            Err(error) => {
                pool.give_back(buffers);
                Err(error)
            }
        }
    }

    /// Where a buffer is.
    pub fn address(&self, which: usize) -> u64 {
        self.regions[which].address()
    }
}

/// Buffers with a number, by which answers find who waits.
pub(crate) struct Lane {
    pub number: usize,
    pub staging: Staging,
}

#[derive(Default)]
struct State {
    idle: Vec<Lane>,
    /// Lanes that are there, and those that ever were, besides those that were given up.
    count: usize,
    made: usize,
    /// Whether there was no room for another one.
    is_full: bool,
    /// Lanes that others may still use, and the slots whose answers are missing.
    given_up: Vec<(Lane, Vec<usize>)>,
}

/// The lanes of a runtime, made when they are needed.
#[derive(Default)]
pub(crate) struct Lanes {
    state: Mutex<State>,
    returned: Condvar,
}

impl Lanes {
    /// A lane for a copy; waits for those of others.
    pub fn take(&self, shared: &Shared, pool: &Pool) -> Result<Lane, HpeError> {
        let mut state = self.state();
        loop {
            state.sweep(shared);
            if let Some(lane) = state.idle.pop() {
                return Ok(lane);
            }
            if let Some(lane) = state.make(shared, pool)? {
                return Ok(lane);
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends a copy. Where answers to slots are missing, the lane is left to whoever may still use it.
    pub fn give_back(&self, lane: Lane, missing: Vec<usize>) {
        let mut state = self.state();
        if missing.is_empty() {
            state.idle.push(lane);
        } else {
            state.count -= 1;
            state.given_up.push((lane, missing));
        }
        self.returned.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Another lane; `None` where this thread has to wait for one.
    fn make(&mut self, shared: &Shared, pool: &Pool) -> Result<Option<Lane>, HpeError> {
        // One pair is the station's, and one is left for what is copied here.
        if self.count > 0 && (self.is_full || self.count == LANES || !pool.has_pairs(self.count + 3)) {
            return Ok(None);
        }
        if self.made == NUMBERS {
            let reason = format!(
                "ranks did not answer {NUMBERS} copies, and may still use their buffers: make new runtimes"
            );
            return Err(HpeError::Join { reason });
        }
        match Staging::new(&shared.port, pool, shared.block, self.count == 0) {
            Ok(Some(staging)) => {
                (self.count, self.made) = (self.count + 1, self.made + 1);
                Ok(Some(Lane { number: self.made - 1, staging }))
            }
            // Another thread has a lane, and gives it back.
            Ok(None) => Ok(None),
            Err(_) if self.count > 0 => {
                self.is_full = true;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes late answers, so that the queue does not fill; lanes that have all are as good as new.
    fn sweep(&mut self, shared: &Shared) {
        let mut waiting = Vec::new();
        for (lane, mut missing) in self.given_up.drain(..) {
            missing.retain(|slot| shared.port.poll_match(&answer_to(*slot)).is_none());
            if missing.is_empty() {
                self.count += 1;
                self.idle.push(lane);
            } else {
                waiting.push((lane, missing));
            }
        }
        self.given_up = waiting;
    }
}

/// The notification that answers the request of a slot.
pub(crate) fn answer_to(slot: usize) -> Match {
    Match::any().kind(Kind::Completer).class(slot as u8)
}
