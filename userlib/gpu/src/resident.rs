//! Tracks resident kernels that wait, and defers driver calls that would wait for these kernels.
//!
//! The host must not wait for a kernel that waits for the host (or for another kernel). But freeing memory,
//! unregistering host memory, unmapping and unloading wait for the whole device inside the driver. [`Gate::defer`] makes
//! such a call at once if no waiting kernel is resident on any GPU of this process, else when the last such kernel has
//! ended. (On any GPU, since host registrations and peer mappings concern all GPUs.)
//!
//! The copiers' kernels are resident and wait for commands, but this crate can stop and start them: it stops them during
//! such a call instead of deferring the call.
//!
//! Allocating, registering, mapping and creating streams do not wait for running kernels on the tested drivers (the self-test
//! checks this), so these calls are never deferred. Loading a module has waited for a copier's kernel (driver 580), and so stops it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::error::GpuError;

/// A call that may wait for the device.
type Deferred = Box<dyn FnOnce() + Send>;

/// Says whether an abandoned launch has ended.
type Ended = Box<dyn FnMut() -> bool + Send>;

/// A resident kernel that can be stopped and started again by its owner.
///
/// Both are called with the gate locked: they must not use the gate.
pub(crate) trait Pause: Send + Sync {
    /// Stops the kernel. False: it does not stop (the gate then defers).
    fn pause(&self) -> bool;
    /// Starts the kernel again if `pause` stopped it.
    fn resume(&self);
}

/// The registry of resident kernels. There is one in a process, [`gate`].
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Launches that are being waited for.
    running: usize,
    /// Launches that nobody waits for any more, and that have not ended.
    abandoned: Vec<Ended>,
    pausable: Vec<Weak<dyn Pause>>,
    deferred: Vec<Deferred>,
}

/// The gate of this process.
pub(crate) fn gate() -> &'static Gate {
    static GATE: std::sync::LazyLock<Gate> = std::sync::LazyLock::new(Gate::default);
    &GATE
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the lists whole: every change of them is one push, take or retain.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a waiting kernel that is about to be launched. Waits for a call under way that synchronises.
    pub fn enter(&self) {
        self.lock().running += 1;
    }

    /// Counts a launch out again, since it ended, and makes the deferred calls if it was the last.
    pub fn leave(&self) {
        let mut state = self.lock();
        state.running = state.running.saturating_sub(1);
        state.flush();
    }

    /// Counts a launch out that has not ended; `ended` is asked later.
    pub fn abandon(&self, ended: Ended) {
        let mut state = self.lock();
        state.running = state.running.saturating_sub(1);
        state.abandoned.push(ended);
        state.flush();
    }

    /// Registers a kernel to pause around calls that synchronise.
    pub fn add_pausable(&self, kernel: &Arc<dyn Pause>) {
        let mut state = self.lock();
        state.pausable.retain(|old| old.strong_count() > 0);
        state.pausable.push(Arc::downgrade(kernel));
    }

    /// Makes `call`, which may synchronise the device: now if no waiting kernel is resident, later otherwise.
    /// `call` must not use the gate.
    pub fn defer(&self, call: impl FnOnce() + Send + 'static) {
        let mut state = self.lock();
        state.deferred.push(Box::new(call));
        state.flush();
    }

    /// Makes `call`, which may synchronise the device, after everything deferred so far.
    ///
    /// # Errors
    /// [`GpuError::Busy`] while waiting kernels are resident.
    pub fn exclusive<T>(&self, what: &str, call: impl FnOnce() -> T) -> Result<T, GpuError> {
        let mut state = self.lock();
        let mut result = None;
        if !state.quietly(|deferred| {
            deferred.drain(..).for_each(|earlier| earlier());
            result = Some(call());
        }) {
            return Err(GpuError::Busy { what: what.to_owned() });
        }
        result.ok_or_else(|| GpuError::Busy { what: what.to_owned() })
    }

    /// Makes `call` with copiers stopped, as far as they can be; beside kernels that wait it may still end. `call` must not use the gate.
    pub fn without_copiers<T>(&self, call: impl FnOnce() -> T) -> T {
        let state = self.lock();
        let kernels: Vec<_> = state.pausable.iter().filter_map(Weak::upgrade).collect();
        let paused = kernels.iter().take_while(|kernel| kernel.pause()).count();
        let result = call();
        kernels[..paused].iter().for_each(|kernel| kernel.resume());
        result
    }

    /// Calls that wait for kernels to end.
    pub fn pending(&self) -> usize {
        let mut state = self.lock();
        state.flush();
        state.deferred.len()
    }

    /// Whether any waiting kernel is resident, copiers not counted.
    pub fn is_busy(&self) -> bool {
        self.lock().is_busy()
    }
}

impl State {
    fn is_busy(&mut self) -> bool {
        self.abandoned.retain_mut(|ended| !ended());
        self.running > 0 || !self.abandoned.is_empty()
    }

    fn flush(&mut self) {
        if !self.deferred.is_empty() {
            self.quietly(|deferred| deferred.drain(..).for_each(|call| call()));
        }
    }

    /// Runs `calls` with nothing resident. False, and not run, if that cannot be.
    fn quietly(&mut self, calls: impl FnOnce(&mut Vec<Deferred>)) -> bool {
        if self.is_busy() {
            return false;
        }
        let kernels: Vec<_> = self.pausable.iter().filter_map(Weak::upgrade).collect();
        let mut paused = 0;
        while paused < kernels.len() && kernels[paused].pause() {
            paused += 1;
        }
        let quiet = paused == kernels.len();
        if quiet {
            calls(&mut self.deferred);
        }
        kernels[..paused].iter().for_each(|kernel| kernel.resume());
        quiet
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    fn counter() -> (Arc<AtomicUsize>, impl Fn() -> Box<dyn FnOnce() + Send>) {
        let count = Arc::new(AtomicUsize::new(0));
        let make = {
            let count = count.clone();
            move || {
                let count = count.clone();
                Box::new(move || {
                    count.fetch_add(1, Ordering::Relaxed);
                }) as Box<dyn FnOnce() + Send>
            }
        };
        (count, make)
    }

    #[test]
    fn calls_are_made_at_once_when_nothing_runs() {
        let (gate, (count, call)) = (Gate::default(), counter());
        gate.defer(call());
        assert_eq!((count.load(Ordering::Relaxed), gate.pending()), (1, 0));
    }

    #[test]
    fn calls_wait_for_the_last_kernel() {
        let (gate, (count, call)) = (Gate::default(), counter());
        gate.enter();
        gate.enter();
        gate.defer(call());
        gate.defer(call());
        assert!(matches!(gate.exclusive("a free", || ()), Err(GpuError::Busy { .. })));
        gate.leave();
        assert_eq!((count.load(Ordering::Relaxed), gate.pending()), (0, 2));
        gate.leave();
        assert_eq!((count.load(Ordering::Relaxed), gate.pending()), (2, 0));
        assert_eq!(gate.exclusive("a free", || 7), Ok(7));
    }

    #[test]
    fn an_abandoned_kernel_keeps_calls_back_until_it_ends() {
        let (gate, (count, call)) = (Gate::default(), counter());
        let ended = Arc::new(AtomicBool::new(false));
        gate.enter();
        let seen = ended.clone();
        gate.abandon(Box::new(move || seen.load(Ordering::Relaxed)));
        gate.defer(call());
        assert_eq!((count.load(Ordering::Relaxed), gate.is_busy()), (0, true));
        ended.store(true, Ordering::Relaxed);
        assert_eq!((gate.pending(), count.load(Ordering::Relaxed)), (0, 1));
    }

    struct Copier {
        stops: bool,
        log: Mutex<Vec<&'static str>>,
    }

    impl Pause for Copier {
        fn pause(&self) -> bool {
            self.log.lock().unwrap().push("pause");
            self.stops
        }
        fn resume(&self) {
            self.log.lock().unwrap().push("resume");
        }
    }

    #[test]
    fn copiers_are_paused_around_calls() {
        let gate = Gate::default();
        let copier = Arc::new(Copier { stops: true, log: Mutex::default() });
        let kernel: Arc<dyn Pause> = copier.clone();
        gate.add_pausable(&kernel);
        let seen = copier.clone();
        gate.defer(move || seen.log.lock().unwrap().push("call"));
        assert_eq!(*copier.log.lock().unwrap(), ["pause", "call", "resume"]);
    }

    #[test]
    fn a_copier_that_does_not_stop_defers() {
        let (gate, (count, call)) = (Gate::default(), counter());
        let kernel: Arc<dyn Pause> = Arc::new(Copier { stops: false, log: Mutex::default() });
        gate.add_pausable(&kernel);
        gate.defer(call());
        assert_eq!((count.load(Ordering::Relaxed), gate.pending()), (0, 1));
        drop(kernel);
        assert_eq!((gate.pending(), count.load(Ordering::Relaxed)), (0, 1));
    }
}
