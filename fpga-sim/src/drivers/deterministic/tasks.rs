//! Programs of hosts as tasks: functions on stacks of their own, which give their turn away where they wait.

use std::cell::Cell;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::{Simulation, State};

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

thread_local! {
    /// The program that runs on this thread.
    static RUNNING: Cell<*const Yielder<(), Wait>> = const { Cell::new(std::ptr::null()) };
}

/// Gives away the turn of the program that calls this; `false` where none does.
pub(super) fn suspend(until: u64, news: bool) -> bool {
    let running = RUNNING.get();
    // SAFETY: null, or the yielder of the program further up on this stack, which lives as long as the program.
    let Some(yielder) = (unsafe { running.as_ref() }) else { return false };
    yielder.suspend(Wait { until, news });
    RUNNING.set(running);
    true
}

impl Simulation {
    /// Runs programs, and the cards meanwhile, until all have ended. Each has a name for messages.
    ///
    /// One program a node, as a rule: a program that waits inside a call of the library keeps the node's locks.
    ///
    /// # Panics
    /// As the first program does that panics: the others are left where they are. Where all of them wait for ever.
    pub fn run<F: FnOnce()>(&self, programs: impl IntoIterator<Item = (String, F)>) {
        let mut tasks = Tasks(programs.into_iter().map(|(name, program)| Task::new(name, program)).collect());
        while !tasks.0.is_empty() {
            let mut state = self.state();
            let State { now, random, cards, news, .. } = &mut *state;
            cards.wake_due(*now);
            let (now, news, ready) = (*now, *news, cards.ready());
            let can_run = |task: &Task| task.until <= now || task.seen.is_some_and(|seen| seen != news);
            let programs = tasks.0.iter().filter(|task| can_run(task)).count();
            if ready + programs == 0 {
                let next = tasks.0.iter().map(|task| task.until).chain(cards.next()).min();
                self.skip_to(state, next.unwrap_or(now));
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
        let named = Named(&task.name);
        let result = task.code.resume(());
        RUNNING.set(std::ptr::null());
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

/// Says which program panicked.
struct Named<'a>(&'a str);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            RUNNING.set(std::ptr::null());
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
    fn new<'a>(name: String, program: impl FnOnce() + 'a) -> Task {
        let stack = DefaultStack::new(STACK).expect("address space for a program's stack");
        let code = move |yielder: &Yielder<(), Wait>, ()| {
            RUNNING.set(yielder);
            program();
        };
        // SAFETY: the program runs only inside `Simulation::run`, which its borrows outlive; where that ends early, by a
        // panic, it is never resumed nor dropped.
        let code = unsafe { Coroutine::with_stack_unchecked(stack, code) };
        Task { name, code, until: 0, seen: None }
    }
}
