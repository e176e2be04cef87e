//! Programs of hosts as tasks: functions on stacks of their own, which give their turn away where they wait.

use std::cell::Cell;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::{Simulation, Stall, State};

/// Bytes of a program's stack; pages are touched on first use.
const STACK: usize = 256 << 10;

/// Until when a program waits; for the moment when anything moves, if `news`.
struct Wait {
    until: u64,
    news: bool,
}

type Stackful = Coroutine<(), Wait, (), DefaultStack>;

struct Task {
    name: String,
    code: Stackful,
    until: u64,
    /// What was the news when it began to wait for some.
    seen: Option<u64>,
}

/// A program that runs, and whose it is.
#[derive(Clone, Copy)]
struct Running {
    simulation: *const Simulation,
    yielder: *const Yielder<(), Wait>,
}

thread_local! {
    /// The program that runs on this thread.
    static RUNNING: Cell<Option<Running>> = const { Cell::new(None) };
}

impl Simulation {
    /// Gives away the turn of the program of this simulation that calls this; `false` where none does.
    pub(super) fn suspend(&self, until: u64, news: bool) -> bool {
        let own = |running: &Running| std::ptr::eq(running.simulation, self);
        let Some(running) = RUNNING.get().filter(own) else { return false };
        // SAFETY: the yielder of the program further up on this stack, which lives as long as the program.
        unsafe { &*running.yielder }.suspend(Wait { until, news });
        RUNNING.set(Some(running));
        true
    }

    /// Runs programs, and the cards meanwhile, until all have ended. Each has a name for messages.
    ///
    /// One program a node, as a rule: a program that waits inside a call of the library keeps the node's locks.
    ///
    /// # Panics
    /// As the first program does that panics: the others are left where they are. Where all of them wait for ever.
    pub fn run<F: FnOnce()>(&self, programs: impl IntoIterator<Item = (String, F)>) {
        let task = |(name, program)| Task::new(self, name, program);
        let mut tasks = Tasks(programs.into_iter().map(task).collect());
        let mut stall = Stall::default();
        while !tasks.0.is_empty() {
            let mut state = self.state();
            let State { now, random, cards, news, .. } = &mut *state;
            cards.wake_due(*now);
            let (now, news, ready) = (*now, *news, cards.ready());
            let can_run = |task: &Task| task.until <= now || task.seen.is_some_and(|seen| seen != news);
            let programs = tasks.0.iter().filter(|task| can_run(task)).count();
            if ready + programs == 0 {
                let soonest = tasks.0.iter().map(|task| task.until).min().unwrap_or(now);
                let next = cards.next().map_or(soonest, |at| at.min(soonest));
                if stall.is_for_ever(now, news, soonest, next) {
                    drop(state);
                    let names: Vec<&str> = tasks.0.iter().map(|task| &*task.name).collect();
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
            let able = tasks.0.iter().enumerate().filter(|(_, task)| can_run(task)).map(|(at, _)| at);
            let at = able.clone().nth(drawn - ready).unwrap_or(0);
            self.run_task(&mut tasks, at);
        }
    }

    fn run_task(&self, tasks: &mut Tasks, at: usize) {
        let mut ended = false;
        let task = &mut tasks.0[at];
        // A program may run a simulation of its own.
        let named = Named(&task.name, RUNNING.get());
        let result = task.code.resume(());
        RUNNING.set(named.1);
        match result {
            CoroutineResult::Yield(Wait { until, news }) => {
                task.until = until;
                task.seen = news.then(|| self.state().news);
            }
            CoroutineResult::Return(()) => ended = true,
        }
        drop(named);
        if ended {
            tasks.0.swap_remove(at);
        }
    }
}

/// Says which program panicked; and the one that ran before it, which goes on.
struct Named<'a>(&'a str, Option<Running>);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            RUNNING.set(self.1);
            eprintln!("in {}", self.0);
        }
    }
}

/// Programs that have not ended. On the way of a panic they are left where they are: what they hold may be what failed.
struct Tasks(Vec<Task>);

impl Drop for Tasks {
    fn drop(&mut self) {
        std::mem::take(&mut self.0).into_iter().for_each(std::mem::forget);
    }
}

impl Task {
    fn new<'a>(simulation: *const Simulation, name: String, program: impl FnOnce() + 'a) -> Task {
        let stack = DefaultStack::new(STACK).expect("address space for a program's stack");
        let code = move |yielder: &Yielder<(), Wait>, ()| {
            RUNNING.set(Some(Running { simulation, yielder }));
            program();
        };
        // SAFETY: the program runs only inside `Simulation::run`, which its borrows outlive; where that ends early, by a
        // panic, it is never resumed nor dropped.
        let code = unsafe { Coroutine::with_stack_unchecked(stack, code) };
        Task { name, code, until: 0, seen: None }
    }
}
