//! Work for idle executor threads.
//!
//! When all threads of a worker only wait, the worker may as well do what they
//! wait for: step a device model, for instance. On few cores that is much sooner
//! than another thread would get to it.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use arc_swap::ArcSwap;
use ggas_clock::Clock;

type Work = Arc<dyn Fn() -> bool + Send + Sync>;

static TABLE: LazyLock<ArcSwap<Vec<(Clock, Work)>>> = LazyLock::new(ArcSwap::default);
static CHANGE: Mutex<()> = Mutex::new(());

/// Keeps work registered. A call that began before the drop may still run after it.
#[must_use = "dropping it ends the registration"]
pub struct IdleGuard(Work);

/// Executor threads whose kernels go by `clock` call `work` between two rounds of
/// polling when no thread of theirs got any further. It returns true when it did
/// something, and does not block.
pub fn on_idle(clock: &Clock, work: impl Fn() -> bool + Send + Sync + 'static) -> IdleGuard {
    let work: Work = Arc::new(work);
    let entry = (clock.clone(), work.clone());
    change(|table| table.push(entry));
    IdleGuard(work)
}

impl Drop for IdleGuard {
    fn drop(&mut self) {
        change(|table| table.retain(|(_, work)| !Arc::ptr_eq(work, &self.0)));
    }
}

fn change(edit: impl FnOnce(&mut Vec<(Clock, Work)>)) {
    let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut table = Vec::clone(&TABLE.load());
    edit(&mut table);
    TABLE.store(Arc::new(table));
}

/// Does everybody's work that goes by `clock` once; true when any of it did something. What goes by another is not
/// touched: nobody but whoever holds a virtual time may have things happen in it.
pub(crate) fn work(clock: &Clock) -> bool {
    let mut done = false;
    for (_, work) in TABLE.load().iter().filter(|(of, _)| of.is_same(clock)) {
        done |= work();
    }
    done
}

impl std::fmt::Debug for IdleGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IdleGuard")
    }
}
