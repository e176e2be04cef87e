//! Groups: who takes part in a collective.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use arc_swap::{ArcSwapOption, Guard};
use ggas::{Connection, HostBuffer, Port, PostError, Region, Spec};

use crate::collective::{Area, Kind, Layout, Progress, Slot};
use crate::commit::{Open, Proposals};
use crate::error::because;
use crate::passive::turn;
use crate::puts::Mark;
use crate::shared::Shared;
use crate::stores::{Part, ShownPart, Stores};
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
    /// Where others map it.
    pub shown: Option<ShownPart>,
}

/// A member of a committed group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub rank: usize,
    /// Network logical address of its part.
    pub area: u64,
    pub shown: Option<ShownPart>,
}

impl Memory {
    /// This member's part.
    pub(crate) fn new(members: usize, bytes: u64, port: &Port) -> Result<Memory, GaspiError> {
        let layout = Layout::new(members, bytes);
        let words = Arc::new(HostBuffer::zeroed(layout.bytes()).map_err(because(GaspiError::Memory))?);
        let region = port.register_shared(words.clone()).map_err(because(GaspiError::Memory))?;
        Ok(Memory { words, region, layout, shown: None })
    }

    /// Lets the other members store to it.
    pub(crate) fn show(&mut self, stores: &Stores, group: u8) {
        self.shown = stores.show_part(group, self.words.address(), self.words.len());
    }

    pub(crate) fn nla(&self) -> Result<u64, GaspiError> {
        self.region.nla(0).map_err(because(GaspiError::Memory))
    }
}

/// A committed group: where the members are, and how far its collectives are.
#[derive(Debug)]
pub(crate) struct Meeting {
    memory: Memory,
    group: u8,
    me: usize,
    members: Vec<Member>,
    /// By member: its part where this process stores to it. Looked for by the first collective, and the same from then on, so
    /// that nothing overtakes anything.
    parts: OnceLock<Vec<Option<Part>>>,
    progress: Mutex<Progress>,
}

impl Meeting {
    /// Of members in the order of their ranks, of which this process is number `me`.
    pub(crate) fn new(group: u8, memory: Memory, me: usize, members: Vec<Member>) -> Arc<Meeting> {
        let (parts, progress) = (OnceLock::new(), Mutex::default());
        Arc::new(Meeting { memory, group, me, members, parts, progress })
    }

    /// The part of a member where this process stores to it.
    fn part(&self, shared: &Shared, member: usize) -> Option<&Part> {
        let find = |member: &Member| {
            let (me, bytes) = (shared.me, self.memory.layout.bytes());
            shared.stores.part(member.rank, me, self.group, member.shown?, bytes)
        };
        self.parts.get_or_init(|| self.members.iter().map(find).collect()).get(member)?.as_ref()
    }
}

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
}

impl Default for Groups {
    fn default() -> Groups {
        Groups { state: Mutex::default(), meetings: std::array::from_fn(|_| ArcSwapOption::empty()) }
    }
}

impl Groups {
    /// With the group of all, where the parts of all ranks are known.
    pub(crate) fn new(me: usize, memory: Memory, members: Vec<Member>) -> Groups {
        let ranks = (0..members.len() as u16).collect();
        let groups = Groups::default();
        groups.state().groups.insert(GROUP_ALL, Group { ranks, open: None });
        groups.commit(GROUP_ALL, Meeting::new(GROUP_ALL, memory, me, members));
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

    /// With the state's lock held, as all changes.
    pub(crate) fn commit(&self, group: u8, meeting: Arc<Meeting>) {
        self.meetings[usize::from(group)].store(Some(meeting));
    }

    /// It is no more.
    pub(crate) fn leave(&self, group: u8) -> Option<Arc<Meeting>> {
        self.meetings[usize::from(group)].swap(None)
    }

    pub(crate) fn is_committed(&self, group: u8) -> bool {
        self.meetings[usize::from(group)].load().is_some()
    }

    fn meeting(&self, group: u8) -> Guard<Option<Arc<Meeting>>> {
        self.meetings[usize::from(group)].load()
    }

    /// Whether collectives of the group are possible.
    pub(crate) fn check(&self, group: u8) -> Result<(), GaspiError> {
        if self.is_committed(group) { Ok(()) } else { Err(GaspiError::Group) }
    }
}

/// The meeting's memory, and puts to that of others.
struct Reach<'a> {
    shared: &'a Shared,
    meeting: &'a Meeting,
}

impl Reach<'_> {
    fn to(&self, member: usize, at: usize) -> (&Connection, u64) {
        let Member { rank, area, .. } = self.meeting.members[member];
        // What another process has told; a card refuses an address that is none.
        (&self.shared.links[rank].control, area.wrapping_add(at as u64))
    }

    /// The part of a member where this process stores to it. As of a card, what a dead one is told fails; between hosts the network
    /// may hear of its end later.
    fn part(&self, member: usize) -> Result<Option<&Part>, GaspiError> {
        let part = self.meeting.part(self.shared, member);
        let rank = self.meeting.members[member].rank;
        if self.shared.deaths.has_any_departed() && self.shared.is_gone(rank) {
            self.shared.mark(rank);
            return Err(GaspiError::Dead);
        }
        Ok(part)
    }

    /// What a post that failed means to a collective.
    fn failed(&self, member: usize, error: PostError) -> GaspiError {
        self.shared.mark(self.meeting.members[member].rank);
        match error {
            PostError::PeerLost(_) => because(GaspiError::Dead)(error),
            _ => because(GaspiError::Device)(error),
        }
    }
}

impl Area for Reach<'_> {
    fn flag(&self, at: usize) -> u64 {
        self.meeting.memory.words.load_u64(at)
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        self.meeting.memory.words.read(at, into);
    }

    fn members(&self) -> (usize, usize) {
        (self.meeting.me, self.meeting.members.len())
    }

    fn tell(&self, member: usize, at: usize, value: u64) -> Result<(), GaspiError> {
        if let Some(part) = self.part(member)? {
            part.tell(at, value);
            return Ok(());
        }
        let (link, nla) = self.to(member, at);
        link.immediate_put(value, 8, nla, Spec::empty()).map_err(|error| self.failed(member, error))
    }

    fn give(
        &self,
        member: usize,
        Slot { at, stage }: Slot,
        flag: u64,
        common: u64,
        value: &[u8],
    ) -> Result<(), GaspiError> {
        if let Some(part) = self.part(member)? {
            part.give(at, [flag, common], value);
            return Ok(());
        }
        let words = &self.meeting.memory.words;
        words.store_u64(stage, common);
        words.write(stage + 8, value);
        self.put(member, stage, at + 8, 8 + value.len())?;
        self.tell(member, at, flag)
    }
}

impl Reach<'_> {
    /// Copies from the own part to another member's, through the card.
    fn put(&self, member: usize, from: usize, to: usize, bytes: usize) -> Result<(), GaspiError> {
        let (link, nla) = self.to(member, to);
        let most = extoll_abi::MAX_TRANSFER as usize;
        for at in (0..bytes).step_by(most) {
            let piece = most.min(bytes - at);
            let region = &self.meeting.memory.region;
            link.put(region, from + at, piece, nla.wrapping_add(at as u64), Spec::REQUESTER)
                .map_err(|error| self.failed(member, error))?;
            self.shared.puts.posted(self.meeting.members[member].rank);
        }
        Ok(())
    }
}

impl Shared {
    /// Frees memory of deleted groups as far as no put reads it; `meeting`: of one more.
    pub(crate) fn free_meetings(&self, meeting: Option<Arc<Meeting>>) {
        self.puts.take(&self.control);
        let gone = &mut self.groups.state().gone;
        gone.extend(meeting.map(|meeting| {
            let mark = self.puts.mark(meeting.members.iter().map(|member| member.rank));
            (mark, meeting)
        }));
        gone.retain(|(mark, _)| !self.puts.are_done(mark));
    }

    /// Waits until no put of a collective reads memory any more, as long as a post may take.
    pub(crate) fn finish_puts(&self) {
        let mark = self.puts.mark(0..self.size());
        let time = Timeout::Within(self.control.config().post_timeout);
        let done = time.wait(self.clock(), || {
            self.puts.take(&self.control);
            Ok(self.puts.are_done(&mark).then_some(()))
        });
        if done.is_err() {
            tracing::warn!("puts of collectives are not done: their targets do not take them");
        }
    }

    /// Goes on with a collective until it is over. `shape`: what the members must have in common.
    fn meet<T>(
        &self,
        group: u8,
        (kind, shape): (Kind, u64),
        (timeout, began): (Timeout, Instant),
        begin: impl FnOnce(&mut Progress, &Reach<'_>),
        mut advance: impl FnMut(&mut Progress, &Reach<'_>) -> Result<Option<T>, GaspiError>,
    ) -> Result<T, GaspiError> {
        let meeting = self.groups.meeting(group);
        let meeting = meeting.as_ref().ok_or(GaspiError::Group)?;
        let reach = Reach { shared: self, meeting };
        let mut progress = turn(self, &meeting.progress, timeout)?;
        if progress.enter(kind, shape)? {
            begin(&mut progress, &reach);
        }
        let (mut looks, mut noticed) = (0u32, None);
        let left = timeout.left(self.clock(), began);
        let done = left.wait_on(self.pace.ladder, self.clock(), || {
            // At first nothing holds it up.
            for _ in 0..if looks == 0 { self.pace.looks } else { 1 } {
                if let Some(result) = advance(&mut progress, &reach)? {
                    return Ok(Some(result));
                }
            }
            // On the model, a caller that waits may do the card's work.
            self.puts.take(&self.control);
            looks = looks.wrapping_add(1);
            if !self.is_time_for_losses(looks) || !self.is_hopeless(&progress, &reach, &mut noticed) {
                return Ok(None);
            }
            // A dead member may have left behind its part in this: what it had sent is taken in first.
            self.control.device().drain_lost();
            if let Some(result) = advance(&mut progress, &reach)? {
                return Ok(Some(result));
            }
            if self.is_hopeless(&progress, &reach, &mut noticed) { Err(GaspiError::Dead) } else { Ok(None) }
        });
        match done {
            Err(GaspiError::Timeout) => return done,
            // Others may wait for a member that waits no more.
            Err(GaspiError::Dead | GaspiError::Device) => progress.abort(&reach),
            _ => {}
        }
        progress.leave();
        done
    }

    /// Whether a collective cannot come to an end: whom it waits for is gone, another member has found that out, or one
    /// has died, and the time is over in which those that live get through what it had joined in. `noticed`: when this
    /// call has found a member dead.
    fn is_hopeless(&self, progress: &Progress, reach: &Reach<'_>, noticed: &mut Option<Instant>) -> bool {
        let members = &reach.meeting.members;
        let awaited = progress.awaited(reach.meeting.me, members.len()).map(|at| members[at].rank);
        if let Some(rank) = awaited.filter(|rank| self.is_gone(*rank)) {
            self.mark(rank);
            return true;
        }
        if progress.is_aborted(reach) {
            return true;
        }
        if !members.iter().any(|member| member.rank != self.me && self.is_lost(member.rank)) {
            return false;
        }
        let since = *noticed.get_or_insert_with(|| self.clock().now());
        self.clock().since(since) >= self.config.failure_timeout
    }

    pub(crate) fn barrier(&self, group: u8, timeout: Timeout) -> Result<(), GaspiError> {
        let began = self.clock().now();
        let done = self.meet(
            group,
            (Kind::Barrier, 0),
            (timeout, began),
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

    /// Combines vectors of the group's members; all get the result. `send` is looked at when the collective begins; `how`
    /// stands for what is done with it.
    pub(crate) fn allreduce(
        &self,
        group: u8,
        (kind, how): (Kind, u8),
        send: &[u8],
        combine: &mut Reduction<'_>,
        timeout: Timeout,
    ) -> Result<Vec<u8>, GaspiError> {
        let shape = u64::from(how) << 56 | send.len() as u64;
        self.meet(
            group,
            (kind, shape),
            (timeout, self.clock().now()),
            |progress, _| progress.give(send),
            |progress, reach| progress.allreduce(&reach.meeting.memory.layout, reach, combine),
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
        // Never that of a function of the program, which is 0.
        let how = 1 + operation as u8 * 8 + datatype as u8;
        self.allreduce(group, (Kind::Allreduce, how), send, &mut combine, timeout)
    }
}
