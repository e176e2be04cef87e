//! What a process has for the collectives of its groups on vectors in GPU memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ggas_shared_gpu::Hierarchy;

use super::Gpus;
use super::attached::{Gone, Segments};
use crate::segment::Segment;

/// What a process has for its groups' collectives. Threads that call for different groups do not wait for each other.
#[derive(Debug, Default)]
pub(super) struct Sums(Mutex<HashMap<u8, Arc<Group>>>);

#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) calls: Mutex<OfGroup>,
    gone: Gone,
}

#[derive(Debug, Default)]
pub(super) struct OfGroup {
    pub(super) way: Way,
    pub(super) attached: Segments,
    /// Elements that a call through the host which timed out is done with.
    pub(super) done: usize,
}

/// How a group goes about it.
#[derive(Debug, Default)]
pub(super) enum Way {
    /// To be found by its first call, or by the first behind one that failed.
    #[default]
    Unknown,
    Shared(Box<Hierarchy>),
    /// The GPUs cannot share memory, or do not reach each other.
    Pieces,
}

impl Sums {
    pub(super) fn of(&self, group: u8) -> Arc<Group> {
        locked(&self.0).entry(group).or_default().clone()
    }
}

impl Group {
    /// Lets go of segments that were deleted, now, or when the call that is under way ends, which does this, too.
    pub(super) fn let_go(&self) {
        while self.gone.has_some()
            && let Ok(mut of_group) = self.calls.try_lock()
        {
            let OfGroup { way, attached, .. } = &mut *of_group;
            attached.let_go(self.gone.take(), way.shared());
        }
    }
}

impl Way {
    fn shared(&mut self) -> Option<&mut Hierarchy> {
        match self {
            Way::Shared(all) => Some(all),
            _ => None,
        }
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gpus {
    /// Another group may get its id.
    pub(crate) fn group_deleted(&self, group: u8) {
        if let Some(begun) = self.begun() {
            locked(&begun.sums.0).remove(&group);
        }
    }

    /// Nothing is kept of it behind the calls that are under way.
    pub(crate) fn segment_deleted(&self, segment: &Arc<Segment>) {
        let Some(begun) = self.begun() else { return };
        let groups: Vec<Arc<Group>> = locked(&begun.sums.0).values().cloned().collect();
        for group in groups {
            group.gone.add(segment);
            group.let_go();
        }
    }
}
