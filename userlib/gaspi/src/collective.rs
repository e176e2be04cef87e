//! Barrier and allreduce of a group: steps that go on where they stopped, over memory that members write to.
//!
//! A barrier is a dissemination: in round k each member tells the one 2^k places behind it, and waits for the one 2^k
//! places before it. An allreduce is a recursive doubling: in each step two members give each other what they have. Where the
//! members are no power of two, some give their value to a neighbour first, and get the result from it at the end. All members
//! combine in the same order, that of their numbers.
//!
//! Flags hold the number of the call, which grows: nothing is reset. Slots of values are two, used in turns: who gives a value
//! in the call after the next one has got one of the next, whose giver is done with this.

use crate::{GaspiError, Reduction};

const LINE: usize = 64;
/// Rounds of 2^16 members.
const ROUNDS: usize = 16;
/// A line for each round, since each has another writer.
const BARRIER: usize = 0;
/// Of barriers and of reductions: the number of one that a member has given up.
const ABORTED: [usize; 2] = [LINE * ROUNDS, LINE * ROUNDS + 8];
const SLOTS: usize = LINE * (ROUNDS + 1);
/// Beside the number of a call in a flag: a value could not be combined, and none came with it.
const FAILED: u64 = 1 << 63;
/// The same, since members gave values that are not alike.
const UNLIKE: u64 = 1 << 62;
const MARKS: u64 = FAILED | UNLIKE;
/// Of a slot: the flag, a word for what the members must have in common, the value.
const COMMON: usize = 8;
const VALUE: usize = 16;

/// Where things are in a member's part of the group's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    steps: usize,
    /// Bytes of a slot.
    room: usize,
}

/// Where a member gets a value, and where the giver may keep it until the card has read it; the latter from its common word on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub at: usize,
    pub stage: usize,
}

impl Layout {
    pub(crate) fn new(members: usize, bytes: u64) -> Layout {
        let room = VALUE + (bytes as usize).next_multiple_of(8);
        Layout { steps: steps(members), room: room.next_multiple_of(LINE) }
    }

    /// Slots with values, two sets, then those of flags alone, two as well.
    fn half(&self) -> usize {
        2 * self.steps * (self.room + LINE)
    }

    fn slot(&self, phase: usize, number: u64, step: usize) -> Slot {
        let place = (number & 1) as usize * self.steps + step;
        let at =
            SLOTS + if phase == 0 { place * self.room } else { 2 * self.steps * self.room + place * LINE };
        Slot { at, stage: at + self.half() + COMMON }
    }

    pub(crate) fn bytes(&self) -> usize {
        SLOTS + 2 * self.half()
    }
}

/// What a member does in a step: gives what it has to one, and gets what one has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Step {
    to: Option<usize>,
    from: Option<usize>,
    gets: Gets,
}

/// What it gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Gets {
    /// Of members behind it.
    #[default]
    Higher,
    Lower,
    Result,
}

/// Of the largest power of two that the members have, and what comes before and behind.
fn steps(members: usize) -> usize {
    members.max(1).ilog2() as usize + 2
}

fn step(me: usize, members: usize, number: usize) -> Step {
    let pairs = members - (1 << members.ilog2());
    let (is_paired, is_giver) = (me < 2 * pairs, me < 2 * pairs && me % 2 == 1);
    let last = steps(members) - 1;
    match number {
        0 if is_giver => Step { to: Some(me - 1), ..Step::default() },
        0 if is_paired => Step { from: Some(me + 1), ..Step::default() },
        _ if number == last && is_giver => Step { from: Some(me - 1), gets: Gets::Result, ..Step::default() },
        _ if number == last && is_paired => Step { to: Some(me + 1), ..Step::default() },
        _ if number == 0 || number == last || is_giver => Step::default(),
        _ => {
            let place = if is_paired { me / 2 } else { me - pairs };
            let other = place ^ 1 << (number - 1);
            let member = Some(if other < pairs { 2 * other } else { other + pairs });
            Step { to: member, from: member, gets: if other < place { Gets::Lower } else { Gets::Higher } }
        }
    }
}

/// A group's memory as one member sees it: its own part, and writes to those of others, in order.
pub(crate) trait Area {
    /// A word of the own part, with acquire order.
    fn flag(&self, at: usize) -> u64;
    fn read(&self, at: usize, into: &mut [u8]);
    /// This member's number, and members.
    fn members(&self) -> (usize, usize);
    /// Writes a word of another member's part.
    fn tell(&self, member: usize, at: usize, value: u64) -> Result<(), GaspiError>;
    /// Fills a slot of another member's part: the common word and the value, then the flag.
    fn give(&self, member: usize, slot: Slot, flag: u64, common: u64, value: &[u8])
    -> Result<(), GaspiError>;
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
}

impl Progress {
    /// Begins a collective, or goes on with the unfinished one of the same kind; `true`: it begins.
    pub(crate) fn enter(&mut self, kind: Kind, shape: u64) -> Result<bool, GaspiError> {
        match self.active {
            Some(active) if active != (kind, shape) => Err(GaspiError::ActiveCollective),
            Some(_) => Ok(false),
            None => {
                (self.active, self.phase, self.round) = (Some((kind, shape)), 0, 0);
                (self.told, self.marks) = (false, 0);
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
    pub(crate) fn awaited(&self, me: usize, members: usize) -> Option<usize> {
        match self.active?.0 {
            Kind::Barrier => {
                let step = 1 << self.round;
                (step < members).then(|| (me + members - step) % members)
            }
            _ => step(me, members, self.round).from,
        }
    }

    /// As far as a barrier goes now; `true`: all members have come.
    pub(crate) fn barrier(&mut self, me: usize, members: usize, area: &dyn Area) -> Result<bool, GaspiError> {
        let number = self.barriers + 1;
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
        layout: &Layout,
        area: &dyn Area,
        combine: &mut Reduction<'_>,
    ) -> Result<Option<Vec<u8>>, GaspiError> {
        let is_users = self.active.is_some_and(|(kind, _)| kind == Kind::AllreduceUser);
        loop {
            if !self.is_through(layout, area, combine)? {
                return Ok(None);
            }
            // A program's function may have failed on one of two members that combined the same.
            if !is_users || self.phase == 1 || self.marks & UNLIKE != 0 {
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
    fn is_through(
        &mut self,
        layout: &Layout,
        area: &dyn Area,
        combine: &mut Reduction<'_>,
    ) -> Result<bool, GaspiError> {
        let (number, (me, members)) = (self.reductions + 1, area.members());
        let common = self.active.map_or(0, |(_, shape)| shape);
        while self.round < layout.steps {
            let (step, slot) = (step(me, members, self.round), layout.slot(self.phase, number, self.round));
            if let Some(to) = step.to.filter(|_| !self.told) {
                match (self.marks, self.phase) {
                    (0, 0) => area.give(to, slot, number, common, &self.value)?,
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
        if self.marks == 0 && self.active.is_some_and(|(_, shape)| area.flag(slot.at + COMMON) != shape) {
            self.marks = UNLIKE;
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
mod tests {
    use super::*;
    use crate::reduce::{self, Datatype, Operation};
    use std::cell::RefCell;
    use std::collections::{BTreeMap, VecDeque};

    /// All members' parts in one place, and what was posted by one to another and is not done: the source is read then.
    struct Parts {
        bytes: RefCell<Vec<Vec<u8>>>,
        posted: RefCell<BTreeMap<(usize, usize), VecDeque<Posted>>>,
    }

    enum Posted {
        Word { at: usize, value: u64 },
        Bytes { from: usize, to: usize, count: usize },
    }

    impl Parts {
        /// Carries out the oldest post of a pair.
        fn deliver(&self, random: &mut fastrand::Rng) {
            let mut posted = self.posted.borrow_mut();
            let Some(number) = (!posted.is_empty()).then(|| random.usize(..posted.len())) else { return };
            let Some(((origin, target), queue)) = posted.iter_mut().nth(number) else { return };
            match queue.pop_front() {
                Some(Posted::Word { at, value }) => Of(self, *target).write(at, &value.to_ne_bytes()),
                Some(Posted::Bytes { from, to, count }) => {
                    let mut data = vec![0; count];
                    Of(self, *origin).read(from, &mut data);
                    Of(self, *target).write(to, &data);
                }
                None => {}
            }
            posted.retain(|_, queue| !queue.is_empty());
        }
    }

    struct Of<'a>(&'a Parts, usize);

    impl Of<'_> {
        fn write(&self, at: usize, from: &[u8]) {
            self.0.bytes.borrow_mut()[self.1][at..at + from.len()].copy_from_slice(from);
        }

        fn post(&self, member: usize, posted: Posted) -> Result<(), GaspiError> {
            self.0.posted.borrow_mut().entry((self.1, member)).or_default().push_back(posted);
            Ok(())
        }
    }

    impl Area for Of<'_> {
        fn flag(&self, at: usize) -> u64 {
            let mut word = [0; 8];
            self.read(at, &mut word);
            u64::from_ne_bytes(word)
        }

        fn read(&self, at: usize, into: &mut [u8]) {
            into.copy_from_slice(&self.0.bytes.borrow()[self.1][at..at + into.len()]);
        }

        fn members(&self) -> (usize, usize) {
            (self.1, self.0.bytes.borrow().len())
        }

        fn tell(&self, member: usize, at: usize, value: u64) -> Result<(), GaspiError> {
            self.post(member, Posted::Word { at, value })
        }

        fn give(
            &self,
            member: usize,
            slot: Slot,
            flag: u64,
            common: u64,
            value: &[u8],
        ) -> Result<(), GaspiError> {
            self.write(slot.stage, &common.to_ne_bytes());
            self.write(slot.stage + 8, value);
            let count = 8 + value.len();
            self.post(member, Posted::Bytes { from: slot.stage, to: slot.at + COMMON, count })?;
            self.tell(member, slot.at, flag)
        }
    }

    /// Each member looks once at a time, in a random order, as calls do that may not wait.
    #[test]
    fn any_order_of_single_looks_finishes_barriers_and_reductions() {
        let mut random = fastrand::Rng::with_seed(20);
        for members in 1..18 {
            let layout = Layout::new(members, 24);
            let bytes = RefCell::new(vec![vec![0; layout.bytes()]; members]);
            let parts = Parts { bytes, posted: RefCell::default() };
            let mut progress: Vec<Progress> = (0..members).map(|_| Progress::default()).collect();
            let mut done = vec![0u64; members];
            const CALLS: u64 = 20;
            while done.iter().any(|done| *done < CALLS) {
                parts.deliver(&mut random);
                let me = random.usize(..members);
                let call = done[me];
                if call == CALLS {
                    continue;
                }
                let area = Of(&parts, me);
                // Whoever is behind by more than one call holds all others.
                assert!(done.iter().all(|other| other.abs_diff(call) <= 1), "{members}: {done:?}");
                let is_done = if call % 3 == 0 {
                    progress[me].enter(Kind::Barrier, 0).unwrap();
                    progress[me].barrier(me, members, &area).unwrap()
                } else {
                    let own =
                        |member: usize| [member as u64 + call, 1, u64::MAX].map(u64::to_ne_bytes).concat();
                    if progress[me].enter(Kind::Allreduce, 24).unwrap() {
                        progress[me].give(&own(me));
                    }
                    assert_eq!(progress[me].enter(Kind::Barrier, 0), Err(GaspiError::ActiveCollective));
                    assert_eq!(progress[me].enter(Kind::Allreduce, 8), Err(GaspiError::ActiveCollective));
                    let mut sum = |one: &mut [u8], two: &[u8]| {
                        reduce::combine(Operation::Sum, Datatype::Ulong, one, two);
                        Ok(())
                    };
                    let value = progress[me].allreduce(&layout, &area, &mut sum).unwrap();
                    let count = members as u64;
                    let first = count * call + count * (count - 1) / 2;
                    let expected = [first, count, count.wrapping_neg()].map(u64::to_ne_bytes).concat();
                    assert!(value.as_ref().is_none_or(|value| *value == expected), "{members} call {call}");
                    value.is_some()
                };
                if is_done {
                    progress[me].leave();
                    done[me] += 1;
                }
            }
        }
    }

    /// Members of any number give and get in pairs, and each value gets to each.
    #[test]
    fn steps_are_pairs_and_reach_all() {
        for members in 1..70 {
            // Which values each has, in order.
            let mut have: Vec<Vec<usize>> = (0..members).map(|me| vec![me]).collect();
            for number in 0..steps(members) {
                let before = have.clone();
                for me in 0..members {
                    let Step { from, gets, .. } = step(me, members, number);
                    let Some(from) = from else { continue };
                    assert_eq!(step(from, members, number).to, Some(me), "{members}: {number}");
                    have[me] = match gets {
                        Gets::Higher => [&before[me][..], &before[from]].concat(),
                        Gets::Lower => [&before[from][..], &before[me]].concat(),
                        Gets::Result => before[from].clone(),
                    };
                }
                let gives = |me: &usize| step(*me, members, number).to.is_some();
                let gets = |me: &usize| step(*me, members, number).from.is_some();
                assert_eq!((0..members).filter(gives).count(), (0..members).filter(gets).count());
            }
            assert!(have.iter().all(|have| have.iter().copied().eq(0..members)), "{members}: {have:?}");
        }
    }
}
