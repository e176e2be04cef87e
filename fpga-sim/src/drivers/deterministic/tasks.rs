//! Programs of hosts as tasks whose next turn is drawn.

use super::{Simulation, Stall, State};
use crate::drivers::tasks::{self, Program, Stack, Wait};

struct Task {
    program: Program,
    until: u64,
    /// What was the news when it began to wait for some.
    seen: Option<u64>,
}

impl Simulation {
    /// Gives away the turn of the program of this simulation that calls this; `false` where none does.
    pub(super) fn suspend(&self, until: u64, news: bool) -> bool {
        tasks::suspend(self.owner(), Wait { until, news })
    }

    fn owner(&self) -> *const () {
        (&raw const *self).cast()
    }

    /// Runs programs, and the cards meanwhile, until all have ended. Each has a name for messages.
    ///
    /// One program a node, as a rule: a program that waits inside a call of the library keeps the node's locks.
    ///
    /// # Panics
    /// As the first program does that panics: the others are left where they are. Where all of them wait for ever.
    pub fn run<F: FnOnce()>(&self, programs: impl IntoIterator<Item = (String, F)>) {
        let task = |(name, program)| {
            // SAFETY: the program runs only inside this call, which its borrows outlive.
            let program = unsafe { Program::new(self.owner(), name, Stack::new(), program) };
            Task { program, until: 0, seen: None }
        };
        let mut tasks: Vec<Task> = programs.into_iter().map(task).collect();
        let mut stall = Stall::default();
        while !tasks.is_empty() {
            let mut state = self.state();
            let State { now, random, cards, news, .. } = &mut *state;
            cards.wake_due(*now);
            let (now, news, ready) = (*now, *news, cards.ready());
            let can_run = |task: &Task| task.until <= now || task.seen.is_some_and(|seen| seen != news);
            let programs = tasks.iter().filter(|task| can_run(task)).count();
            if ready + programs == 0 {
                let soonest = tasks.iter().map(|task| task.until).min().unwrap_or(now);
                let next = cards.next().map_or(soonest, |at| at.min(soonest));
                if stall.is_for_ever(now, news, soonest, next) {
                    drop(state);
                    let names: Vec<&str> = tasks.iter().map(|task| task.program.name()).collect();
                    panic!("all programs wait for ever, and no card moves anything: {}", names.join(", "));
                }
                self.skip_to(state, next);
                continue;
            }
            let drawn = random.usize(..ready + programs);
            if drawn < ready {
                drop(state);
                self.run_card();
                continue;
            }
            state.begin_turn();
            drop(state);
            let able = tasks.iter().enumerate().filter(|(_, task)| can_run(task)).map(|(at, _)| at);
            let at = able.clone().nth(drawn - ready).unwrap_or(0);
            self.run_task(&mut tasks, at);
        }
    }

    fn run_task(&self, tasks: &mut Vec<Task>, at: usize) {
        let task = &mut tasks[at];
        match task.program.resume() {
            Some(Wait { until, news }) => {
                task.until = until;
                task.seen = news.then(|| self.state().news);
            }
            None => {
                tasks.swap_remove(at).program.end();
            }
        }
    }
}
