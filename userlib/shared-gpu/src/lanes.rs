//! Which of a call's queues have work.

use std::cell::Cell;

use crate::station::Lane;

/// Lanes in which work was queued that nobody has seen end: others are idle without a question to the driver.
#[derive(Default)]
pub(crate) struct Lanes([Cell<bool>; Lane::ALL.len()]);

impl Lanes {
    /// Work goes there.
    pub(crate) fn queued(&self, lane: Lane) {
        self.0[lane as usize].set(true);
    }

    /// Asks only where something was queued.
    pub(crate) fn is_idle<E>(&self, lane: Lane, ask: impl FnOnce() -> Result<bool, E>) -> Result<bool, E> {
        let is_idle = !self.0[lane as usize].get() || ask()?;
        self.0[lane as usize].set(!is_idle);
        Ok(is_idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_is_asked_of_lanes_with_work_only_and_until_that_has_ended() {
        let lanes = Lanes::default();
        let asked = Cell::new(0);
        let ask = |lane, is_done: Result<bool, ()>| {
            lanes.is_idle(lane, || {
                asked.set(asked.get() + 1);
                is_done
            })
        };
        assert_eq!((ask(Lane::Staged, Ok(false)), asked.get()), (Ok(true), 0), "nothing was queued");
        lanes.queued(Lane::Staged);
        assert_eq!((ask(Lane::Direct, Ok(false)), asked.get()), (Ok(true), 0), "in the other lane");
        assert_eq!((ask(Lane::Staged, Ok(false)), asked.get()), (Ok(false), 1));
        assert_eq!((ask(Lane::Staged, Err(())), asked.get()), (Err(()), 2), "it may go on");
        assert_eq!((ask(Lane::Staged, Ok(true)), asked.get()), (Ok(true), 3));
        assert_eq!((ask(Lane::Staged, Ok(false)), asked.get()), (Ok(true), 3), "seen to have ended");
        lanes.queued(Lane::Staged);
        assert_eq!((ask(Lane::Staged, Ok(false)), asked.get()), (Ok(false), 4), "something new");
    }
}
