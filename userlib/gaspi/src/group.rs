//! Groups: who takes part in a collective.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwapOption, Guard};

use crate::GaspiError;
use crate::commit::{Open, Proposals};
use crate::meeting::{Meeting, Member, Memory};
use crate::puts::Mark;

/// Ids of groups.
const IDS: usize = 256;
/// The group of all processes.
pub const GROUP_ALL: u8 = 0;

/// A group of this process.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Ascending.
    pub ranks: Vec<u16>,
    /// A commit that has begun.
    pub open: Option<Open>,
}

#[derive(Default)]
pub(crate) struct State {
    pub groups: HashMap<u8, Group>,
    pub proposals: Proposals,
    /// Of deleted groups: memory that the card may still read, until these puts are done.
    pub gone: Vec<(Mark, Arc<Meeting>)>,
}

/// All groups of a process.
pub(crate) struct Groups {
    state: Mutex<State>,
    /// Of those that are committed, by their ids. Collectives look here, and take no lock.
    meetings: [ArcSwapOption<Meeting>; IDS],
    /// Ranks with which this process shares cores. Those of a host all know the same.
    crowd: Vec<bool>,
}

impl Default for Groups {
    fn default() -> Groups {
        let meetings = std::array::from_fn(|_| ArcSwapOption::empty());
        Groups { state: Mutex::default(), meetings, crowd: Vec::new() }
    }
}

impl Groups {
    /// With the group of all, where the parts of all ranks are known.
    pub(crate) fn new(me: usize, memory: Memory, members: Vec<Member>, crowd: Vec<bool>) -> Groups {
        let ranks = (0..members.len() as u16).collect();
        let groups = Groups { crowd, ..Groups::default() };
        groups.state().groups.insert(GROUP_ALL, Group { ranks, open: None });
        groups.commit(GROUP_ALL, me, memory, members);
        groups
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        group: u8,
        work: impl FnOnce(&mut Group) -> Result<T, GaspiError>,
    ) -> Result<T, GaspiError> {
        self.state().groups.get_mut(&group).ok_or(GaspiError::Group).and_then(work)
    }

    pub(crate) fn create(&self, max: u32) -> Result<u8, GaspiError> {
        let groups = &mut self.state().groups;
        if groups.len() >= (max as usize).min(IDS) {
            return Err(GaspiError::ManyGroups);
        }
        let free = (1..=u8::MAX).find(|id| !groups.contains_key(id)).ok_or(GaspiError::ManyGroups)?;
        groups.insert(free, Group::default());
        Ok(free)
    }

    pub(crate) fn count(&self) -> u32 {
        self.state().groups.len() as u32
    }

    pub(crate) fn ranks(&self, group: u8) -> Result<Vec<u16>, GaspiError> {
        self.with(group, |group| Ok(group.ranks.clone()))
    }

    pub(crate) fn add(&self, group: u8, rank: u16) -> Result<(), GaspiError> {
        self.with(group, |entry| {
            let place = entry.ranks.binary_search(&rank).err().ok_or(GaspiError::Rank)?;
            if self.is_committed(group) || entry.open.is_some() {
                return Err(GaspiError::Group);
            }
            entry.ranks.insert(place, rank);
            Ok(())
        })
    }

    /// The members meet from now on. With the state's lock held, as all changes.
    pub(crate) fn commit(&self, group: u8, me: usize, memory: Memory, members: Vec<Member>) {
        let share_cores = members.iter().all(|member| self.crowd.get(member.rank) == Some(&true));
        let meeting = Meeting::new(group, memory, me, members, share_cores);
        self.meetings[usize::from(group)].store(Some(meeting));
    }

    /// It is no more.
    pub(crate) fn leave(&self, group: u8) -> Option<Arc<Meeting>> {
        self.meetings[usize::from(group)].swap(None)
    }

    pub(crate) fn is_committed(&self, group: u8) -> bool {
        self.meetings[usize::from(group)].load().is_some()
    }

    pub(crate) fn meeting(&self, group: u8) -> Guard<Option<Arc<Meeting>>> {
        self.meetings[usize::from(group)].load()
    }

    /// Whether collectives of the group are possible.
    pub(crate) fn check(&self, group: u8) -> Result<(), GaspiError> {
        if self.is_committed(group) { Ok(()) } else { Err(GaspiError::Group) }
    }
}
