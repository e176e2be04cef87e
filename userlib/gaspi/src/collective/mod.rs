//! Barrier and allreduce of a group: steps that go on where they stopped, over memory that members write to.
//!
//! A barrier is a dissemination: in round k each member tells the one 2^k places behind it, and waits for the one 2^k
//! places before it. An allreduce is a recursive doubling: in each step two members give each other what they have. Where the
//! members are no power of two, some give their value to a neighbour first, and get the result from it at the end. All members
//! combine in the same order, that of their numbers.
//!
//! Processes that share cores meet at a [hub] instead: a round that waits costs each of them a turn on its core.
//!
//! Flags hold the number of the call, which grows: nothing is reset. Slots of values are two, used in turns: who gives a value
//! in the call after the next one has got one of the next, whose giver is done with this.

use std::time::Instant;

mod hub;
mod layout;
mod steps;

pub(crate) use self::hub::Arrival;
use self::layout::{ABORTED, BARRIER, COMMON, LINE, VALUE};
pub(crate) use self::layout::{Layout, Slot};
use self::steps::{Gets, step};
use crate::{GaspiError, Reduction};

/// Beside the number of a call in a flag: a value could not be combined, and none came with it.
const FAILED: u64 = 1 << 63;
/// The same, since members gave values that are not alike.
const UNLIKE: u64 = 1 << 62;
const MARKS: u64 = FAILED | UNLIKE;

/// A group's memory as one member sees it: its own part, and writes to those of others, in order.
pub(crate) trait Area {
    /// A word of the own part, with acquire order.
    fn flag(&self, at: usize) -> u64;
    fn read(&self, at: usize, into: &mut [u8]);
    /// This member's number, and members.
    fn members(&self) -> (usize, usize);
    fn layout(&self) -> &Layout;
    /// Writes a word of another member's part.
    fn tell(&self, member: usize, at: usize, value: u64) -> Result<(), GaspiError>;
    /// Fills a slot of another member's part: the common word and the value, then the flag.
    fn give(&self, member: usize, slot: Slot, flag: u64, common: u64, value: &[u8])
    -> Result<(), GaspiError>;
    /// Whether the members meet at the first one's part, to which all store.
    fn has_hub(&self) -> bool;
    /// Leaves something there; how many have come in all. `None`: the hub is not there, or not yet.
    fn arrive(&self, arrival: &Arrival<'_>) -> Result<Option<u64>, GaspiError>;
    /// Reads from the hub; nothing where it is gone.
    fn read_hub(&self, at: usize, into: &mut [u8]);
}

/// Which collective is unfinished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Barrier,
    Allreduce,
    AllreduceUser,
}

/// How far a member is.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The unfinished one, and what the members must have in common.
    active: Option<(Kind, u64)>,
    barriers: u64,
    reductions: u64,
    /// Of a program's reduction, 1: how members got on is told.
    phase: usize,
    round: usize,
    /// This round's word or value is out.
    told: bool,
    /// Why a value of this allreduce could not be combined.
    marks: u64,
    value: Vec<u8>,
    theirs: Vec<u8>,
    /// When a call of the unfinished one has found a member dead.
    pub noticed: Option<Instant>,
}

impl Progress {
    /// Begins a collective, or goes on with the unfinished one of the same kind; `true`: it begins.
    pub(crate) fn enter(&mut self, kind: Kind, shape: u64) -> Result<bool, GaspiError> {
        match self.active {
            Some(active) if active != (kind, shape) => Err(GaspiError::ActiveCollective),
            Some(_) => Ok(false),
            None => {
                (self.active, self.phase, self.round) = (Some((kind, shape)), 0, 0);
                (self.told, self.marks, self.noticed) = (false, 0, None);
                Ok(true)
            }
        }
    }

    /// It is over, done or failed.
    pub(crate) fn leave(&mut self) {
        match self.active.take() {
            Some((Kind::Barrier, _)) => self.barriers += 1,
            Some(_) => self.reductions += 1,
            None => {}
        }
    }

    /// Where members say that they have given up the unfinished collective, and its number.
    fn given_up(&self) -> Option<(usize, u64)> {
        Some(match self.active?.0 {
            Kind::Barrier => (ABORTED[0], self.barriers + 1),
            _ => (ABORTED[1], self.reductions + 1),
        })
    }

    /// Tells all other members that this one gives up, as far as they can be told.
    pub(crate) fn abort(&self, area: &dyn Area) {
        let (Some((at, number)), (me, members)) = (self.given_up(), area.members()) else { return };
        for member in (0..members).filter(|member| *member != me) {
            let _ = area.tell(member, at, number);
        }
    }

    /// Whether a member has said so.
    pub(crate) fn is_aborted(&self, area: &dyn Area) -> bool {
        self.given_up().is_some_and(|(at, number)| area.flag(at) >= number)
    }

    /// Whose word a barrier waits for, or an allreduce.
    fn awaited(&self, area: &dyn Area) -> Option<usize> {
        let (me, members) = area.members();
        match self.active?.0 {
            Kind::Barrier => {
                let step = 1 << self.round;
                (step < members).then(|| (me + members - step) % members)
            }
            _ => step(me, members, self.round).from,
        }
    }

    /// As far as a barrier goes now; `true`: all members have come.
    pub(crate) fn barrier(&mut self, area: &dyn Area) -> Result<bool, GaspiError> {
        if area.has_hub() {
            return self.barrier_at_hub(area);
        }
        let (number, (me, members)) = (self.barriers + 1, area.members());
        while 1 << self.round < members {
            let at = BARRIER + LINE * self.round;
            if !self.told {
                area.tell((me + (1 << self.round)) % members, at, number)?;
                self.told = true;
            }
            // One that is ahead has begun the next.
            if area.flag(at) < number {
                return Ok(false);
            }
            (self.round, self.told) = (self.round + 1, false);
        }
        Ok(true)
    }

    /// What the member gives to an allreduce that begins.
    pub(crate) fn give(&mut self, value: &[u8]) {
        self.value.clear();
        self.value.extend_from_slice(value);
    }

    /// As far as an allreduce goes now; the result once it is there. Where a value cannot be combined, or is not like the
    /// others, all members get through this, and fail.
    pub(crate) fn allreduce(
        &mut self,
        area: &dyn Area,
        combine: &mut Reduction<'_>,
    ) -> Result<Option<Vec<u8>>, GaspiError> {
        let is_users = self.active.is_some_and(|(kind, _)| kind == Kind::AllreduceUser);
        loop {
            let is_through = if area.has_hub() {
                self.reduce_at_hub(area, combine)?
            } else {
                self.is_through(area, combine)?
            };
            if !is_through {
                return Ok(None);
            }
            // A program's function may have failed on one of two members that combined the same.
            if !is_users || area.has_hub() || self.phase == 1 || self.marks & UNLIKE != 0 {
                break;
            }
            (self.phase, self.round, self.told) = (1, 0, false);
        }
        match self.marks {
            0 => Ok(Some(std::mem::take(&mut self.value))),
            marks if marks & UNLIKE != 0 => Err(GaspiError::Unlike),
            _ => Err(GaspiError::Failed),
        }
    }

    /// The steps of a phase, as far as they go now.
    fn is_through(&mut self, area: &dyn Area, combine: &mut Reduction<'_>) -> Result<bool, GaspiError> {
        let (number, (me, members), layout) = (self.reductions + 1, area.members(), area.layout());
        let common = self.active.map_or(0, |(_, shape)| shape);
        while self.round < layout.steps {
            let (step, slot) = (step(me, members, self.round), layout.slot(self.phase, number, self.round));
            if let Some(to) = step.to.filter(|_| !self.told) {
                match (self.marks, self.phase) {
                    (0, 0) => area.give(to, slot, number, common, &self.value)?,
                    // All compare what they must have in common, also where a function has failed.
                    (marks, 0) => area.give(to, slot, number | marks, common, &[])?,
                    (marks, _) => area.tell(to, slot.at, number | marks)?,
                }
            }
            self.told = true;
            if step.from.is_some() {
                let flag = area.flag(slot.at);
                if flag & !MARKS < number {
                    return Ok(false);
                }
                self.marks |= flag & MARKS;
                if self.phase == 0 {
                    self.take(slot, step.gets, area, combine);
                }
            }
            (self.round, self.told) = (self.round + 1, false);
        }
        Ok(true)
    }

    /// Combines what has come with the own value.
    fn take(&mut self, slot: Slot, gets: Gets, area: &dyn Area, combine: &mut Reduction<'_>) {
        if self.active.is_some_and(|(_, shape)| area.flag(slot.at + COMMON) != shape) {
            self.marks |= UNLIKE;
        }
        if self.marks != 0 {
            return;
        }
        if gets == Gets::Result {
            return area.read(slot.at + VALUE, &mut self.value);
        }
        self.theirs.resize(self.value.len(), 0);
        area.read(slot.at + VALUE, &mut self.theirs);
        if gets == Gets::Lower {
            std::mem::swap(&mut self.value, &mut self.theirs);
        }
        if combine(&mut self.value, &self.theirs).is_err() {
            self.marks = FAILED;
        }
    }
}

#[cfg(test)]
mod tests;
