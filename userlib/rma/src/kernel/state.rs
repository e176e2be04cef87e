//! What the host knows of a kernel port's use, to explain a wait that was in vain. Kernels pay nothing for it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use ggas_device::{Slot, SlotMap};

use crate::post::lock;
use crate::posted::{Asked, Posted};
use crate::report::ReportCell;

/// Where the descriptors are seen that kernels post.
#[derive(Debug)]
pub(super) enum Posts {
    /// On their way to the card.
    Stored(Arc<Asked>),
    /// In the ring, until others take their slots.
    Ring(SlotMap),
    /// In memory of another processor.
    Unseen,
}

/// See [`State::was_armed`].
#[derive(Debug, Default)]
struct Arms {
    now: u32,
    /// Whether it was armed when the report was there first.
    then: Option<bool>,
}

/// Of one port.
#[derive(Debug)]
pub(super) struct State {
    posts: Posts,
    arms: Mutex<Arms>,
}

// SAFETY: the ring's memory is valid as long as the port, which owns this; its words are atomic.
unsafe impl Send for State {}
// SAFETY: as above.
unsafe impl Sync for State {}

impl State {
    pub(super) fn new(posts: Posts) -> State {
        State { posts, arms: Mutex::default() }
    }

    /// The port is being armed.
    pub(super) fn arm(&self, report: &ReportCell) {
        let mut arms = lock(&self.arms);
        if arms.then.is_none() && report.get().is_some() {
            arms.then = Some(arms.now > 0);
        }
        arms.now += 1;
    }

    /// One who armed it has no need any more.
    pub(super) fn disarm(&self, report: &ReportCell) {
        let mut arms = lock(&self.arms);
        if arms.then.is_none() && report.get().is_some() {
            arms.then = Some(true);
        }
        arms.now -= 1;
    }

    /// The report is cleared.
    pub(super) fn clear(&self) {
        lock(&self.arms).then = None;
    }

    /// Whether the port was armed when a wait reported, which it just has.
    pub(super) fn was_armed(&self) -> bool {
        let arms = lock(&self.arms);
        arms.then.unwrap_or(arms.now > 0)
    }

    /// What kernels posted, if the host can tell.
    pub(super) fn posted(&self) -> Option<Posted> {
        match &self.posts {
            Posts::Stored(asked) => Some(asked.posted()),
            Posts::Ring(ring) => {
                let asked = Asked::default();
                // SAFETY: the ring is mapped as long as the port lives, and has so many slots.
                let slots: &[Slot] =
                    unsafe { std::slice::from_raw_parts(ring.base.as_ptr(), ring.slots as usize) };
                let taken = slots.iter().filter(|slot| slot.seq.load(Ordering::Acquire) != 0);
                taken.for_each(|slot| asked.note(slot.word[0].load(Ordering::Relaxed)));
                Some(asked.posted())
            }
            Posts::Unseen => None,
        }
    }
}
