//! Groups: who takes part in a collective.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ggas::{Connection, HostBuffer, Port, Region, Spec};

use crate::collective::{Area, Kind, Layout, Progress};
use crate::error::because;
use crate::passive::turn;
use crate::shared::Shared;
use crate::wire::{Message, Proposal};
use crate::{Counter, Datatype, GaspiError, Operation, Reduction, Timeout, reduce};

/// Ids of groups.
const IDS: usize = 256;
/// The group of all processes.
pub const GROUP_ALL: u8 = 0;

/// Memory in which the members of a group meet.
#[derive(Debug)]
pub(crate) struct Memory {
    words: Arc<HostBuffer>,
    region: Region,
    layout: Layout,
}

impl Memory {
    /// This member's part.
    pub(crate) fn new(members: usize, bytes: u64, port: &Port) -> Result<Memory, GaspiError> {
        let layout = Layout::new(members, bytes);
        let words = Arc::new(HostBuffer::zeroed(layout.bytes()).map_err(because(GaspiError::Memory))?);
        let region = port.register_shared(words.clone()).map_err(because(GaspiError::Memory))?;
        Ok(Memory { words, region, layout })
    }

    pub(crate) fn nla(&self) -> Result<u64, GaspiError> {
        self.region.nla(0).map_err(because(GaspiError::Memory))
    }
}

/// A committed group: where the members are, and how far its collectives are.
#[derive(Debug)]
struct Meeting {
    memory: Memory,
    me: usize,
    /// Rank and network logical address of the part of each member.
    members: Vec<(usize, u64)>,
    progress: Mutex<Progress>,
}

/// A group of this process.
#[derive(Debug, Default)]
struct Group {
    /// Ascending.
    ranks: Vec<u16>,
    /// Made for a commit that has begun.
    proposed: Option<Memory>,
    meeting: Option<Arc<Meeting>>,
}

#[derive(Default)]
struct State {
    groups: HashMap<u8, Group>,
    /// What members want to commit, by group and rank.
    proposals: HashMap<(u8, usize), Proposal>,
}

/// All groups of a process.
#[derive(Default)]
pub(crate) struct Groups {
    state: Mutex<State>,
}

fn checksum(ranks: &[u16]) -> u64 {
    // FNV-1a: groups of the same size that differ have different ones, all but certainly.
    ranks
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, rank| (sum ^ u64::from(*rank)).wrapping_mul(0x0100_0000_01b3))
}

impl Groups {
    /// With the group of all, where the parts of all ranks are known.
    pub(crate) fn new(me: usize, memory: Memory, areas: &[u64]) -> Groups {
        let members = areas.iter().copied().enumerate().collect();
        let meeting = Meeting { memory, me, members, progress: Mutex::default() };
        let ranks = (0..areas.len() as u16).collect();
        let all = Group { ranks, proposed: None, meeting: Some(Arc::new(meeting)) };
        let groups = Groups::default();
        groups.state().groups.insert(GROUP_ALL, all);
        groups
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        group: u8,
        work: impl FnOnce(&mut Group) -> Result<T, GaspiError>,
    ) -> Result<T, GaspiError> {
        self.state().groups.get_mut(&group).ok_or(GaspiError::Group).and_then(work)
    }

    /// What a member wants to commit; `None`: nothing any more.
    pub(crate) fn proposed(&self, group: u8, rank: usize, proposal: Option<Proposal>) {
        let proposals = &mut self.state().proposals;
        match proposal {
            Some(proposal) => proposals.insert((group, rank), proposal),
            None => proposals.remove(&(group, rank)),
        };
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
        self.with(group, |group| {
            let place = group.ranks.binary_search(&rank).err().ok_or(GaspiError::Rank)?;
            if group.meeting.is_some() || group.proposed.is_some() {
                return Err(GaspiError::Group);
            }
            group.ranks.insert(place, rank);
            Ok(())
        })
    }

    fn meeting(&self, group: u8) -> Result<Arc<Meeting>, GaspiError> {
        self.with(group, |group| group.meeting.clone().ok_or(GaspiError::Group))
    }

    /// Whether collectives of the group are possible.
    pub(crate) fn check(&self, group: u8) -> Result<(), GaspiError> {
        self.meeting(group).map(drop)
    }
}

/// The meeting's memory, and puts to that of others.
struct Reach<'a> {
    shared: &'a Shared,
    meeting: &'a Meeting,
}

impl Reach<'_> {
    fn to(&self, member: usize, at: usize) -> (&Connection, u64) {
        let (rank, area) = self.meeting.members[member];
        (&self.shared.links[rank].control, area + at as u64)
    }

    fn failed<E: std::fmt::Display>(&self, member: usize) -> impl FnOnce(E) -> GaspiError {
        self.shared.mark(self.meeting.members[member].0);
        because(GaspiError::Device)
    }
}

impl Area for Reach<'_> {
    fn flag(&self, at: usize) -> u64 {
        self.meeting.memory.words.load_u64(at)
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        self.meeting.memory.words.read(at, into);
    }

    fn write(&self, at: usize, from: &[u8]) {
        self.meeting.memory.words.write(at, from);
    }

    fn tell(&self, member: usize, at: usize, value: u64) -> Result<(), GaspiError> {
        let (link, nla) = self.to(member, at);
        link.immediate_put(value, 8, nla, Spec::empty()).map_err(|error| self.failed(member)(error))
    }

    fn put(&self, member: usize, from: usize, to: usize, bytes: usize) -> Result<(), GaspiError> {
        let (link, nla) = self.to(member, to);
        let most = extoll_abi::MAX_TRANSFER as usize;
        for at in (0..bytes).step_by(most) {
            let piece = most.min(bytes - at);
            let region = &self.meeting.memory.region;
            link.put(region, from + at, piece, nla + at as u64, Spec::empty())
                .map_err(|error| self.failed(member)(error))?;
        }
        Ok(())
    }
}

impl Shared {
    pub(crate) fn group_delete(&self, group: u8) -> Result<(), GaspiError> {
        if group == GROUP_ALL {
            return Err(GaspiError::Group);
        }
        let gone = self.groups.state().groups.remove(&group).ok_or(GaspiError::Group)?;
        if gone.proposed.is_some() {
            for rank in gone.ranks.iter().map(|rank| usize::from(*rank)).filter(|rank| *rank != self.me) {
                // One that is gone has forgotten it.
                let _ = self.send(rank, Message::Withdraw { group }, Timeout::Test);
            }
        }
        Ok(())
    }

    pub(crate) fn group_commit(&self, group: u8, timeout: Timeout) -> Result<(), GaspiError> {
        let me = self.me as u16;
        let bytes = self.config.reduction_bytes();
        let (ranks, proposal) = self.groups.with(group, |group| {
            let ranks = group.ranks.clone();
            if group.meeting.is_some() {
                return Ok((ranks, None));
            }
            if ranks.binary_search(&me).is_err() {
                return Err(GaspiError::Group);
            }
            let is_new = group.proposed.is_none();
            if is_new {
                group.proposed = Some(Memory::new(ranks.len(), bytes, &self.control)?);
            }
            let area = group.proposed.as_ref().map_or(Ok(0), Memory::nla)?;
            let proposal = Proposal { size: ranks.len() as u32, checksum: checksum(&ranks), area };
            Ok((ranks, Some((is_new, proposal))))
        })?;
        let Some((is_new, own)) = proposal else { return Ok(()) };
        let others: Vec<usize> = ranks.iter().map(|rank| usize::from(*rank)).collect();
        if is_new {
            self.groups.proposed(group, self.me, Some(own));
            for rank in others.iter().copied().filter(|rank| *rank != self.me) {
                self.send(rank, Message::Propose { group, proposal: own }, timeout)?;
            }
        }
        let is_same = |other: &Proposal| (other.size, other.checksum) == (own.size, own.checksum);
        timeout.wait(self.clock(), || {
            let mut state = self.groups.state();
            let all: Option<Vec<(usize, u64)>> = others
                .iter()
                .map(|rank| {
                    let proposal = state.proposals.get(&(group, *rank)).filter(|other| is_same(other))?;
                    Some((*rank, proposal.area))
                })
                .collect();
            let Some(members) = all else {
                drop(state);
                return match others.iter().find(|rank| self.is_silent(**rank)) {
                    Some(rank) => {
                        self.mark(*rank);
                        Err(GaspiError::Failed)
                    }
                    None => Ok(None),
                };
            };
            // The next group of this id needs new ones.
            state.proposals.retain(|(of, rank), _| *of != group || !others.contains(rank));
            let at = members.iter().position(|(rank, _)| *rank == self.me).ok_or(GaspiError::Group)?;
            let entry = state.groups.get_mut(&group).ok_or(GaspiError::Group)?;
            let memory = entry.proposed.take().ok_or(GaspiError::Group)?;
            entry.meeting = Some(Arc::new(Meeting { memory, me: at, members, progress: Mutex::default() }));
            Ok(Some(()))
        })
    }

    /// Goes on with a collective until it is over.
    fn meet<T>(
        &self,
        group: u8,
        kind: Kind,
        timeout: Timeout,
        begin: impl FnOnce(&mut Progress, &Reach<'_>),
        mut advance: impl FnMut(&mut Progress, &Reach<'_>) -> Result<Option<T>, GaspiError>,
    ) -> Result<T, GaspiError> {
        let meeting = self.groups.meeting(group)?;
        let reach = Reach { shared: self, meeting: &meeting };
        let mut progress = turn(self, &meeting.progress, timeout)?;
        if progress.enter(kind)? {
            begin(&mut progress, &reach);
        }
        let mut looks = 0u32;
        let done = timeout.wait(self.clock(), || {
            // On the model, a caller that waits may do the card's work.
            while self.control.poll().is_some() {}
            if let Some(result) = advance(&mut progress, &reach)? {
                return Ok(Some(result));
            }
            looks = looks.wrapping_add(1);
            let awaited = progress.awaited(meeting.me, meeting.members.len()).map(|at| meeting.members[at].0);
            let Some(rank) = awaited.filter(|rank| looks.is_multiple_of(256) && self.is_gone(*rank)) else {
                return Ok(None);
            };
            // It may have left behind its part in this: what it had sent is taken in first.
            self.control.device().drain_lost();
            if let Some(result) = advance(&mut progress, &reach)? {
                return Ok(Some(result));
            }
            if progress.awaited(meeting.me, meeting.members.len()).map(|at| meeting.members[at].0)
                != Some(rank)
            {
                return Ok(None);
            }
            self.mark(rank);
            Err(GaspiError::Device)
        });
        if done.as_ref().err() != Some(&GaspiError::Timeout) {
            progress.leave();
        }
        done
    }

    pub(crate) fn barrier(&self, group: u8, timeout: Timeout) -> Result<(), GaspiError> {
        let began = self.clock().now();
        let done = self.meet(
            group,
            Kind::Barrier,
            timeout,
            |_, _| (),
            |progress, reach| {
                let (me, members) = (reach.meeting.me, reach.meeting.members.len());
                Ok(progress.barrier(me, members, reach)?.then_some(()))
            },
        );
        self.statistics.waited(Counter::TimeInBarrier, began);
        if done.is_ok() {
            self.statistics.one(Counter::NumberOfBarriers);
        }
        done
    }

    /// Combines vectors of the group's members; all get the result. `send` is looked at when the collective begins.
    pub(crate) fn allreduce(
        &self,
        group: u8,
        kind: Kind,
        send: &[u8],
        combine: &mut Reduction<'_>,
        timeout: Timeout,
    ) -> Result<Vec<u8>, GaspiError> {
        self.meet(
            group,
            kind,
            timeout,
            |progress, reach| progress.give(&reach.meeting.memory.layout, reach, send),
            |progress, reach| {
                let mut value = vec![0; send.len()];
                let layout = reach.meeting.memory.layout;
                let is_done = progress.allreduce(reach.meeting.me, &layout, reach, &mut value, combine)?;
                Ok(is_done.then_some(value))
            },
        )
    }

    pub(crate) fn allreduce_of(
        &self,
        group: u8,
        send: &[u8],
        (operation, datatype): (Operation, Datatype),
        timeout: Timeout,
    ) -> Result<Vec<u8>, GaspiError> {
        let mut combine = |one: &mut [u8], two: &[u8]| {
            reduce::combine(operation, datatype, one, two);
            Ok(())
        };
        self.allreduce(group, Kind::Allreduce, send, &mut combine, timeout)
    }
}
