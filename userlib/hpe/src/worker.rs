//! Threads of a runtime, which begin and end while nobody forks.
//!
//! The standard library of a Rust program keeps a table of threads behind a lock that each takes where it begins and
//! ends. A child that is made meanwhile has it locked for ever, and no thread of the child could begin.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::fork;
use crate::masked::Masked;

/// A thread without the program's signals. Dropped, it is waited for; what tells it to end comes first.
pub(crate) struct Worker {
    handle: Option<JoinHandle<()>>,
    gate: Arc<Gate>,
    generation: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Stage {
    #[default]
    Begins,
    Works,
    Done,
    MayEnd,
}

#[derive(Default)]
struct Gate {
    stage: Mutex<Stage>,
    news: Condvar,
}

/// Sets the stage where the work is over, however it ends.
struct Works<'a>(&'a Gate);

impl Gate {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From a stage on there is no way back.
    fn reach(&self, stage: Stage) {
        let mut now = self.stage();
        *now = stage.max(*now);
        self.news.notify_all();
    }

    fn wait(&self, stage: Stage) {
        let mut now = self.stage();
        while *now < stage {
            now = self.news.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Works<'_> {
    fn drop(&mut self) {
        self.0.reach(Stage::Done);
    }
}

impl Worker {
    /// Returns once the thread works.
    pub fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> io::Result<Worker> {
        let gate = Arc::new(Gate::default());
        let (own, generation) = (gate.clone(), fork::watch());
        let _masked = Masked::new();
        let _no_fork = fork::changes();
        let begins = move || {
            own.reach(Stage::Works);
            let works = Works(&own);
            work();
            drop(works);
            own.wait(Stage::MayEnd);
        };
        let handle = Builder::new().name(name).spawn(begins)?;
        gate.wait(Stage::Works);
        Ok(Worker { handle: Some(handle), gate, generation })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        if fork::check(self.generation).is_err() {
            // No thread of this process: its stack may be one's by now.
            return std::mem::forget(handle);
        }
        if handle.thread().id() == std::thread::current().id() {
            return self.gate.reach(Stage::MayEnd);
        }
        self.gate.wait(Stage::Done);
        let _no_fork = fork::changes();
        self.gate.reach(Stage::MayEnd);
        let _ = handle.join();
    }
}
