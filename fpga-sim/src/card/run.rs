//! Running a card: on the thread that calls it, for those who ask meanwhile, and for its driver.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use super::core::{Core, Mood};
use super::lock::Guard;
use super::{Nic, bell, quantum};

thread_local! {
    /// The card that this thread serves for a driver.
    static SERVED: Cell<*const Nic> = const { Cell::new(std::ptr::null()) };
}

impl Nic {
    /// Something that needs the core whatever it takes; then what others brought meanwhile.
    pub(super) fn with_core<T>(&self, work: impl FnOnce(&mut Core) -> T) -> T {
        bell::after(|| {
            let mut core = self.core.lock();
            core.stir();
            let result = work(&mut core);
            if let Some(core) = core.release() {
                self.run_held(core);
            }
            result
        })
    }

    /// Runs this card until nothing can move, or leaves it to the thread that does so now.
    #[inline]
    pub(super) fn run(&self) -> bool {
        self.core.try_lock().is_some_and(|core| self.run_held(core))
    }

    /// Runs this card, and again for those who asked while it ran, but not for ever.
    #[inline]
    pub(super) fn run_held(&self, mut core: Guard<'_, Core>) -> bool {
        let mut moved = false;
        loop {
            let (worked, mood) = core.run(&self.board);
            moved |= worked;
            let notified = core.chip.take_written();
            self.mood.store(mood as u8, Ordering::Relaxed);
            let again = core.release();
            if notified {
                self.event.signal();
            }
            if mood != Mood::Idle {
                self.ask_driver(mood == Mood::Busy);
            }
            match again {
                // The driver sees to what they ask for, and the core to whoever comes first.
                Some(still) if self.driver.is_some() && quantum::is_over(&self.board.clock) => {
                    self.mood.store(Mood::Busy as u8, Ordering::Relaxed);
                    drop(still);
                    self.ask_driver(true);
                    return moved;
                }
                Some(still) => core = still,
                None => return moved,
            }
        }
    }

    /// Has the driver look after the card; if `soon`, without finishing its nap first. The thread that serves the
    /// card for the driver knows what it needs anyway.
    #[cold]
    pub(super) fn ask_driver(&self, soon: bool) {
        let served = std::ptr::eq(SERVED.get(), self);
        if served || !soon && self.submitted.load(Ordering::Relaxed) && !self.is_left_alone() {
            return;
        }
        if let (Some(driver), Some(this)) = (&self.driver, self.bell.nic()) {
            driver.submit(&this);
        }
    }

    /// Whether the driver waits for the fabric to tell of the card, which now has to be looked at by itself.
    fn is_left_alone(&self) -> bool {
        if Mood::from(self.mood.load(Ordering::Relaxed)) != Mood::Waiting {
            return false;
        }
        fence(Ordering::SeqCst); // between the mood and this, as `run_for_driver` has the other way round
        self.left_alone.load(Ordering::Relaxed)
    }

    /// For the driver: runs the card and everything that this leads to; says what it needs next.
    pub(crate) fn run_for_driver(&self) -> (bool, Need) {
        self.left_alone.store(false, Ordering::Relaxed);
        SERVED.set(self);
        let before = Mood::from(self.mood.load(Ordering::Relaxed));
        let moved = self.progress();
        SERVED.set(std::ptr::null());
        let mut mood = Mood::from(self.mood.load(Ordering::Relaxed));
        if before == Mood::Busy && mood == Mood::Idle {
            // It was polled for a device, which those whom it kept waiting may sleep for.
            self.board.fabric.rest(self.node());
        }
        if mood == Mood::Told {
            // Who leaves it otherwise from here on sees this, or is seen.
            self.left_alone.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            mood = Mood::from(self.mood.load(Ordering::Relaxed));
        }
        let need = match mood {
            Mood::Busy => Need::Poll,
            _ if self.armed.load(Ordering::Acquire) > 0 => Need::Poll,
            Mood::Waiting => Need::Nap,
            Mood::Idle | Mood::Told if self.front.any_partial() => Need::Nap,
            Mood::Told => Need::Told,
            Mood::Idle => Need::Nothing,
        };
        (moved, need)
    }

    /// The driver's mark on cards in its queue.
    pub(crate) fn submitted(&self) -> &AtomicBool {
        &self.submitted
    }

    /// The first line for a while has begun. Whoever reads the state of its buffer in a BAR does not call the card, so
    /// that the driver has to give it up if it stays as it is.
    #[inline]
    pub(super) fn line_begun(&self) {
        if self.in_bar {
            self.ask_driver(true);
        }
    }
}

/// What a card needs from its driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// Nothing until someone submits it again.
    #[default]
    Nothing,
    /// Nothing either, as long as its fabric tells it when what was refused is worth trying again.
    Told,
    /// To be looked at now and then.
    Nap,
    /// To be polled without a pause.
    Poll,
}
