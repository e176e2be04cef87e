//! Segments that all members of a group make: each its own, which it tells the others, and a barrier.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::gpu::Policy;
use crate::wire::{Ask, Place};
use crate::{Gaspi, GaspiError, Timeout};

/// What a call makes a segment of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    New(Policy),
    Program(usize),
}

/// What makes two calls the same, so that the later one goes on where the earlier one ran out of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub id: u8,
    pub bytes: u64,
    pub group: u8,
    pub source: Source,
}

/// Calls that ran out of time behind the allocation, by segments, and which ranks know it.
#[derive(Debug, Default)]
pub(crate) struct Unfinished(Mutex<HashMap<u8, (Wanted, HashSet<usize>)>>);

impl Unfinished {
    fn lock(&self) -> MutexGuard<'_, HashMap<u8, (Wanted, HashSet<usize>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call that this one is the same as.
    fn take(&self, wanted: &Wanted) -> Option<HashSet<usize>> {
        let mut open = self.lock();
        let is_same = open.get(&wanted.id).is_some_and(|(of, _)| of == wanted);
        is_same.then(|| open.remove(&wanted.id).map(|(_, told)| told)).flatten()
    }

    /// Its segment is deleted.
    pub(crate) fn forget(&self, id: u8) {
        self.lock().remove(&id);
    }
}

impl Gaspi {
    /// Makes a segment unless the same call has, tells the members of the group, and meets them in a barrier.
    pub(crate) fn create(
        &self,
        wanted: Wanted,
        timeout: Timeout,
        make: impl FnOnce() -> Result<(), GaspiError>,
    ) -> Result<(), GaspiError> {
        let unfinished = &self.shared.unfinished;
        self.shared.groups.check(wanted.group)?;
        let mut told = match unfinished.take(&wanted) {
            Some(told) => told,
            None => {
                make()?;
                HashSet::new()
            }
        };
        let done = self.share(wanted.id, wanted.group, timeout, &mut told);
        if done == Err(GaspiError::Timeout) {
            unfinished.lock().insert(wanted.id, (wanted, told));
        }
        done
    }

    /// Registers with all members of a group, side by side, but those that know it, and meets them.
    fn share(
        &self,
        id: u8,
        group: u8,
        timeout: Timeout,
        told: &mut HashSet<usize>,
    ) -> Result<(), GaspiError> {
        let (shared, began) = (&*self.shared, self.shared.clock().now());
        let left = || timeout.left(shared.clock(), began);
        let ranks = shared.groups.ranks(group)?.into_iter().map(usize::from);
        let others: Vec<usize> = ranks.filter(|rank| *rank != shared.me && !told.contains(rank)).collect();
        let ask = |rank: usize| {
            let place = self.place(id, rank)?;
            Ok((rank, shared.begin(rank, Ask::Register { segment: id, place }, left())))
        };
        let calls = others.into_iter().map(ask).collect::<Result<Vec<_>, GaspiError>>()?;
        let mut done = Ok(());
        // Each is answered or left, so that a later call takes it over.
        for (rank, call) in calls {
            match call.and_then(|call| shared.answer(rank, call, left())) {
                Ok(_) => drop(told.insert(rank)),
                Err(GaspiError::Timeout) => done = done.and(Err(GaspiError::Timeout)),
                Err(error) => done = Err(error),
            }
        }
        done?;
        shared.barrier(group, left())
    }

    /// What a rank is told of a segment.
    pub(crate) fn place(&self, id: u8, rank: usize) -> Result<Place, GaspiError> {
        let mut place = self.shared.segments.find(id)?.place()?;
        if self.shared.is_far(rank) {
            (place.told, place.shown) = (None, None);
        }
        Ok(place)
    }
}
