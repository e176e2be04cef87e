//! Copies that were given up, and may still be under way: what comes behind them waits for them.
//!
//! A block of a shared object is copied again when its first copy was not done in time. Were the first one still to land, it would put
//! old bytes over new ones, on the device or on the host. Memory that it may use is not freed either ([`Work::give_up`]).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ggas_clock::{Backoff, Clock, Ladder};
use ggas_gpu::GpuError;

/// A copy that is under way.
pub(crate) trait Work {
    /// Whether it is done; an error ends it, too: its device is lost.
    fn is_done(&self) -> Result<bool, GpuError>;

    /// Has its memory kept until it is done.
    fn give_up(&self);
}

/// The copies of a device that were given up.
pub(crate) struct Late<W>(Mutex<Vec<W>>);

impl<W> Default for Late<W> {
    fn default() -> Self {
        Late(Mutex::default())
    }
}

impl<W: Work> Late<W> {
    /// Waits for a copy; one that takes longer is given up.
    pub fn wait(&self, work: W, clock: &Clock, timeout: Duration) -> Result<(), GpuError> {
        let ended = until("a copy of a shared object", clock, timeout, || work.is_done());
        if let Err(GpuError::Timeout { .. }) = ended {
            work.give_up();
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(work);
        }
        ended
    }

    /// Waits until all that was given up is done, or its device lost.
    pub fn settle(&self, clock: &Clock, timeout: Duration) -> Result<(), GpuError> {
        until("a copy of a shared object that was given up", clock, timeout, || {
            let mut late = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            late.retain(|work| matches!(work.is_done(), Ok(false)));
            Ok(late.is_empty())
        })
    }
}

fn until(
    what: &str,
    clock: &Clock,
    timeout: Duration,
    mut is_done: impl FnMut() -> Result<bool, GpuError>,
) -> Result<(), GpuError> {
    let mut backoff = Backoff::on(Ladder::DEVICE, clock, timeout);
    while !is_done()? {
        if backoff.pause().is_err() {
            return Err(GpuError::Timeout { what: what.to_owned(), waited: timeout });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;
    use std::time::Instant;

    use ggas_clock::Manual;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    /// A copy that lands at a point of virtual time, or whose device is lost.
    #[derive(Clone)]
    struct Copy {
        clock: Clock,
        lands: Instant,
        lost: Rc<Cell<bool>>,
        block: Rc<RefCell<u8>>,
        value: u8,
        kept: Rc<Cell<bool>>,
    }

    impl Work for Copy {
        fn is_done(&self) -> Result<bool, GpuError> {
            if self.lost.get() {
                return Err(GpuError::Invalid("the device is lost".into()));
            }
            let done = self.clock.now() >= self.lands;
            if done {
                *self.block.borrow_mut() = self.value;
                self.kept.set(false);
            }
            Ok(done)
        }

        fn give_up(&self) {
            self.kept.set(true);
        }
    }

    fn copy(clock: &Clock, takes: Duration, value: u8) -> Copy {
        let lands = clock.now() + takes;
        let (lost, block, kept) = (Rc::default(), Rc::new(RefCell::new(0)), Rc::default());
        Copy { clock: clock.clone(), lands, lost, block, value, kept }
    }

    #[test]
    fn a_copy_that_was_given_up_never_lands_behind_the_next_one() {
        let (clock, _time) = Manual::new();
        let late = Late::default();
        let first = copy(&clock, Duration::from_secs(33), 1);
        let gave_up = late.wait(first.clone(), &clock, TIMEOUT);
        assert!(matches!(gave_up, Err(GpuError::Timeout { waited: TIMEOUT, .. })), "{gave_up:?}");
        assert!(first.kept.get(), "its memory is kept");
        // Ten seconds more are not enough: the next copy is refused.
        assert!(matches!(late.settle(&clock, TIMEOUT), Err(GpuError::Timeout { .. })));
        assert!(first.kept.get());
        // It lands while it is waited for, and then the next one's bytes stay.
        late.settle(&clock, 2 * TIMEOUT).unwrap();
        assert_eq!((*first.block.borrow(), first.kept.get()), (1, false));
        let next = Copy { lands: clock.now() + Duration::from_secs(1), value: 2, ..first.clone() };
        late.wait(next, &clock, TIMEOUT).unwrap();
        clock.sleep(Duration::from_secs(100));
        assert_eq!(*first.block.borrow(), 2);
        late.settle(&clock, Duration::ZERO).unwrap();
    }

    #[test]
    fn a_lost_device_ends_what_was_given_up() {
        let (clock, _time) = Manual::new();
        let late = Late::default();
        let first = copy(&clock, Duration::from_secs(1000), 1);
        late.wait(first.clone(), &clock, TIMEOUT).unwrap_err();
        first.lost.set(true);
        late.settle(&clock, Duration::ZERO).unwrap();
        // What fails at once was not given up.
        let lost = late.wait(first.clone(), &clock, TIMEOUT);
        assert!(matches!(lost, Err(GpuError::Invalid(_))));
        late.settle(&clock, Duration::ZERO).unwrap();
    }
}
