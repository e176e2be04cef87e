//! How a job is brought to its end: grace, then TERM, then KILL.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::running::State;

/// From TERM to KILL.
const TERM_TO_KILL: Duration = Duration::from_secs(2);
/// INT (TERM, HUP, QUIT) twice in this time: whoever sends them wants the end now.
const TWICE: Duration = Duration::from_secs(1);

/// Whether a signal asks a program to end.
pub(super) fn is_end(signal: Signal) -> bool {
    matches!(signal, Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT)
}

/// Where the end of a job has got to.
#[derive(Debug, Default)]
pub(super) struct Ending {
    step: Step,
    /// When a signal that ends programs was passed on last.
    asked: Option<Instant>,
    /// Ranks that a step was taken against.
    pub(super) ended: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Step {
    /// All run.
    #[default]
    None,
    /// Something failed: TERM comes then.
    Grace(Instant),
    /// KILL comes then.
    Term(Instant),
    Killed,
}

impl Ending {
    /// When the next step is due.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.step {
            Step::Grace(at) | Step::Term(at) => Some(at),
            Step::None | Step::Killed => None,
        }
    }

    /// Whether a signal asked for the end.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Begins the end, unless it has begun.
    pub(super) fn begin(&mut self, grace: Duration) {
        if matches!(self.step, Step::None) {
            self.step = Step::Grace(Instant::now() + grace);
        }
    }

    /// TERM at once.
    pub(super) fn terminate(&mut self, state: &State) {
        if matches!(self.step, Step::None | Step::Grace(_)) {
            self.step = Step::Term(Instant::now() + TERM_TO_KILL);
            self.send(state, &[Signal::SIGTERM, Signal::SIGCONT]);
        }
    }

    /// KILL at once.
    pub(super) fn kill(&mut self, state: &State) {
        self.step = Step::Killed;
        self.send(state, &[Signal::SIGKILL]);
    }

    /// Takes the step that is due.
    pub(super) fn step(&mut self, state: &State) {
        if self.due().is_none_or(|at| Instant::now() < at) {
            return;
        }
        match self.step {
            Step::Grace(_) => self.terminate(state),
            Step::Term(_) => self.kill(state),
            Step::None | Step::Killed => {}
        }
    }

    /// Passes a signal on that came to the launcher. One that stops the job stops the launcher, too.
    pub(super) fn pass_on(&mut self, state: &State, signal: Signal) {
        if is_end(signal) {
            if self.asked.is_some_and(|before| before.elapsed() < TWICE) {
                return self.kill(state);
            }
            self.asked = Some(Instant::now());
        }
        for rank in state.running() {
            // One that has just ended needs no signal.
            let _ = state.signal(rank, signal);
        }
        if signal == Signal::SIGTSTP {
            let _ = nix::sys::signal::raise(Signal::SIGSTOP);
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
