//! How a job is brought to its end: grace, then TERM, then KILL.

use std::time::{Duration, Instant};

use ggas_clock::Clock;

use nix::sys::signal::Signal;

use super::running::State;

/// INT (TERM, HUP, QUIT) twice in this time: whoever sends them wants the end now.
const TWICE: Duration = Duration::from_secs(1);

/// Whether a signal asks a program to end.
pub(super) fn is_end(signal: Signal) -> bool {
    matches!(signal, Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT)
}

/// Where the end of a job has got to.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// From a signal that asks programs to end, the launcher's or one passed on, to KILL.
    kill_after: Duration,
    /// Something failed: TERM comes then.
    grace: Option<Instant>,
    /// KILL comes then, if the ranks go on after this signal.
    kill: Option<(Instant, Signal)>,
    progress: Progress,
    /// When a signal that ends programs was passed on last.
    asked: Option<Instant>,
    /// Ranks that a step was taken against.
    pub(super) ended: Vec<u32>,
    /// Ranks that KILL was sent to, and why.
    pub(super) killed: Option<(Vec<u32>, String)>,
}

/// What was sent of our own will.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    #[default]
    Nothing,
    Term,
    Kill,
}

impl Ending {
    pub(super) fn new(kill_after: Duration) -> Ending {
        Ending { kill_after, ..Ending::default() }
    }

    /// When the next step is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.grace.into_iter().chain(self.kill.as_ref().map(|(at, _)| *at)).min()
    }

    /// Whether a signal asked for the end.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Begins the end, unless it has begun.
    pub(super) fn begin(&mut self, grace: Duration) {
        if self.progress == Progress::Nothing && self.grace.is_none() {
            self.grace = Some(Clock::REAL.now() + grace);
        }
    }

    /// TERM at once.
    pub(super) fn terminate(&mut self, state: &State) {
        self.grace = None;
        if self.progress == Progress::Nothing {
            self.progress = Progress::Term;
            self.kill_unless_ended(Signal::SIGTERM);
            self.send(state, &[Signal::SIGTERM, Signal::SIGCONT]);
        }
    }

    /// KILL at once.
    pub(super) fn kill(&mut self, state: &State, why: String) {
        if self.progress < Progress::Kill {
            self.killed = Some((state.running(), why));
        }
        (self.progress, self.grace, self.kill) = (Progress::Kill, None, None);
        self.send(state, &[Signal::SIGKILL]);
    }

    /// Takes the step that is due.
    pub(super) fn step(&mut self, state: &State) {
        let now = Clock::REAL.now();
        if self.kill.is_some_and(|(at, _)| at <= now) {
            let signal = self.kill.map_or(Signal::SIGTERM, |(_, signal)| signal);
            self.kill(state, format!("still running {:?} after {signal}", self.kill_after));
        } else if self.grace.is_some_and(|at| at <= now) {
            self.terminate(state);
        }
    }

    /// Passes a signal on that came to the launcher. One that stops the job stops the launcher, too.
    pub(super) fn pass_on(&mut self, state: &State, signal: Signal) {
        if is_end(signal) {
            if self.asked.is_some_and(|before| Clock::REAL.since(before) < TWICE) {
                return self.kill(state, format!("{signal} came within {TWICE:?} of the signal before"));
            }
            self.asked = Some(Clock::REAL.now());
            self.kill_unless_ended(signal);
        }
        for rank in state.running() {
            // One that has just ended needs no signal.
            let _ = state.signal(rank, signal);
        }
        if signal == Signal::SIGTSTP {
            let _ = nix::sys::signal::raise(Signal::SIGSTOP);
        }
    }

    /// Has KILL come in time after a signal. What is due before stays so.
    fn kill_unless_ended(&mut self, signal: Signal) {
        // Later than any clock shows: never.
        let Some(at) = Clock::REAL.now().checked_add(self.kill_after) else { return };
        if self.progress < Progress::Kill && self.kill.is_none_or(|(before, _)| at < before) {
            self.kill = Some((at, signal));
        }
    }

    fn send(&mut self, state: &State, signals: &[Signal]) {
        for rank in state.running() {
            for signal in signals {
                // One that has just ended needs no signal.
                let _ = state.signal(rank, *signal);
            }
            if !self.ended.contains(&rank) {
                self.ended.push(rank);
            }
        }
        self.ended.sort_unstable();
    }
}
