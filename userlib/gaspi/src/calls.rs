//! Questions to other processes that wait for an answer.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ggas_clock::{Clock, Event};

use crate::wire::{Answer, Ask};
use crate::{GaspiError, Timeout};

/// What makes two calls the same, so that the later one goes on where the earlier one stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matter {
    Ask(Ask),
    /// There is one passive message at a time for each receiver, whatever later calls say.
    Passive,
}

struct Open {
    rank: usize,
    matter: Matter,
    answer: Option<Answer>,
    /// Its caller ran out of time: the same call again takes it over.
    is_left: bool,
}

/// All that are open.
#[derive(Default)]
pub(crate) struct Calls {
    open: Mutex<(u64, HashMap<u64, Open>)>,
    news: Event,
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, (u64, HashMap<u64, Open>)> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of this call, and whether the question has still to be sent. `is_lost`: the process is gone; that it answered
    /// an earlier call says nothing of now.
    pub(crate) fn begin(&self, rank: usize, matter: Matter, is_lost: bool) -> (u64, bool) {
        let mut open = self.lock();
        let (next, calls) = &mut *open;
        if is_lost && matter == Matter::Ask(Ask::Ping) {
            calls.retain(|_, call| !call.is_left || (call.rank, call.matter) != (rank, matter));
        }
        let left =
            calls.iter_mut().find(|(_, call)| call.is_left && (call.rank, call.matter) == (rank, matter));
        if let Some((number, call)) = left {
            call.is_left = false;
            return (*number, false);
        }
        *next += 1;
        calls.insert(*next, Open { rank, matter, answer: None, is_left: false });
        (*next, true)
    }

    /// Its caller has run out of time before it waited.
    pub(crate) fn leave(&self, call: u64) {
        if let Some(open) = self.lock().1.get_mut(&call) {
            open.is_left = true;
        }
    }

    /// What could not be sent is not open.
    pub(crate) fn forget(&self, call: u64) {
        self.lock().1.remove(&call);
    }

    /// An answer has come; one from the wrong process is none.
    pub(crate) fn answered(&self, rank: usize, call: u64, answer: Answer) {
        if let Some(open) = self.lock().1.get_mut(&call).filter(|open| open.rank == rank) {
            open.answer = Some(answer);
        }
        self.news.signal();
    }

    /// Whoever waits looks again.
    pub(crate) fn wake(&self) {
        self.news.signal();
    }

    /// Waits for the answer; sleeps meanwhile. After [`GaspiError::Timeout`] the call stays open for a later one.
    pub(crate) fn wait(
        &self,
        clock: &Clock,
        call: u64,
        timeout: Timeout,
        is_lost: impl Fn() -> bool,
    ) -> Result<Answer, GaspiError> {
        let answer = || self.lock().1.get(&call).and_then(|open| open.answer);
        let mut ready = || answer().is_some() || is_lost();
        self.news.wait(clock, timeout.duration(), &mut ready, || ());
        let mut open = self.lock();
        match open.1.get_mut(&call) {
            Some(Open { answer: None, is_left, .. }) if !is_lost() => {
                *is_left = true;
                Err(GaspiError::Timeout)
            }
            _ => match open.1.remove(&call).and_then(|open| open.answer) {
                Some(Answer::Refused) | None => Err(GaspiError::Failed),
                Some(answer) => Ok(answer),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ggas_clock::Manual;
    use std::time::Duration;

    const PING: Matter = Matter::Ask(Ask::Ping);

    #[test]
    fn a_call_that_ran_out_of_time_is_taken_over_by_the_same_one_and_no_other() {
        let ((clock, _time), calls) = (Manual::new(), Calls::default());
        let (first, is_new) = calls.begin(1, PING, false);
        assert!(is_new);
        let began = clock.now();
        let timed_out = calls.wait(&clock, first, Timeout::from_millis(20), || false);
        assert_eq!(timed_out, Err(GaspiError::Timeout));
        assert!(clock.since(began) >= Duration::from_millis(20));
        assert!(calls.begin(2, PING, false).1, "of another rank");
        assert!(calls.begin(1, Matter::Passive, false).1, "of another matter");
        assert_eq!(calls.begin(1, PING, false), (first, false));
        assert!(calls.begin(1, PING, false).1, "one that waits now has its own");
        calls.answered(2, first, Answer::Refused);
        assert_eq!(
            calls.wait(&clock, first, Timeout::Test, || false),
            Err(GaspiError::Timeout),
            "not of rank 2"
        );
        calls.answered(1, first, Answer::Value(9));
        assert_eq!(calls.begin(1, PING, false), (first, false));
        assert_eq!(calls.wait(&clock, first, Timeout::Test, || false), Ok(Answer::Value(9)));
    }

    #[test]
    fn an_answer_from_before_its_death_is_no_ping_of_a_process() {
        let ((clock, _time), calls) = (Manual::new(), Calls::default());
        let (call, _) = calls.begin(1, PING, false);
        assert_eq!(calls.wait(&clock, call, Timeout::Test, || false), Err(GaspiError::Timeout));
        calls.answered(1, call, Answer::Done);
        let (next, is_new) = calls.begin(1, PING, true);
        assert!(is_new && next != call);
    }

    #[test]
    fn nobody_waits_for_the_dead() {
        let ((clock, _time), calls) = (Manual::new(), Calls::default());
        let (call, _) = calls.begin(0, PING, false);
        assert_eq!(calls.wait(&clock, call, Timeout::Block, || true), Err(GaspiError::Failed));
        assert!(calls.begin(0, PING, false).1, "the call is over");
    }
}
