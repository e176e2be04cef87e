//! Barrier and allreduce of a group: steps that go on where they stopped, over memory that members put to.
//!
//! A barrier is a dissemination: in round k each member tells the one 2^k places behind it, and waits for the one 2^k
//! places before it. An allreduce goes up a binomial tree and down again. Flags hold the number of the call, which grows:
//! nothing is reset, and a buffer is free again once whoever read it has answered in the same call.

use crate::{GaspiError, Reduction};

/// Rounds of 2^16 members.
const ROUNDS: usize = 16;
const BARRIER: usize = 0;
const CHILD: usize = BARRIER + 8 * ROUNDS;
const RESULT: usize = CHILD + 8 * ROUNDS;
/// Of barriers and of reductions: the number of one that a member has given up.
const ABORTED: [usize; 2] = [RESULT + 8, RESULT + 16];
const BUFFERS: usize = RESULT + 64;
/// Beside the number of a call in a flag: a value could not be combined, and none came with it.
const FAILED: u64 = 1 << 63;
/// The same, since members gave values that are not alike.
const UNLIKE: u64 = 1 << 62;
const MARKS: u64 = FAILED | UNLIKE;
/// Before the value in a buffer: a word for what the members must have in common.
const HEAD: usize = 8;

/// Where things are in a member's part of the group's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    members: usize,
    /// Bytes of a buffer.
    room: usize,
}

impl Layout {
    pub(crate) fn new(members: usize, bytes: u64) -> Layout {
        Layout { members, room: HEAD + (bytes as usize).next_multiple_of(8) }
    }

    /// Rounds in which a member may have a child.
    fn rounds(&self) -> usize {
        self.members.next_power_of_two().trailing_zeros() as usize
    }

    /// What a member sends up.
    fn up(&self) -> usize {
        BUFFERS
    }

    /// What comes down.
    fn down(&self) -> usize {
        BUFFERS + self.room
    }

    fn child(&self, round: usize) -> usize {
        BUFFERS + (2 + round) * self.room
    }

    pub(crate) fn bytes(&self) -> usize {
        self.child(self.rounds())
    }
}

/// A group's memory as one member sees it: its own part, and puts to those of others, in order.
pub(crate) trait Area {
    /// A word of the own part, with acquire order.
    fn flag(&self, at: usize) -> u64;
    fn read(&self, at: usize, into: &mut [u8]);
    fn write(&self, at: usize, from: &[u8]);
    /// This member's number, and members.
    fn members(&self) -> (usize, usize);
    /// Writes a word of another member's part.
    fn tell(&self, member: usize, at: usize, value: u64) -> Result<(), GaspiError>;
    /// Copies from the own part to another member's.
    fn put(&self, member: usize, from: usize, to: usize, bytes: usize) -> Result<(), GaspiError>;
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
    round: usize,
    /// Of a barrier: this round's word is out. Of an allreduce: the own value is out, or on its way down.
    told: bool,
    /// Why a value of this allreduce could not be combined.
    marks: u64,
}

impl Progress {
    /// Begins a collective, or goes on with the unfinished one of the same kind; `true`: it begins.
    pub(crate) fn enter(&mut self, kind: Kind, shape: u64) -> Result<bool, GaspiError> {
        match self.active {
            Some(active) if active != (kind, shape) => Err(GaspiError::ActiveCollective),
            Some(_) => Ok(false),
            None => {
                (self.active, self.round, self.told, self.marks) = (Some((kind, shape)), 0, false, 0);
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
        let step = 1 << self.round;
        match self.active?.0 {
            _ if step >= members && !self.told => None,
            Kind::Barrier => Some((me + members - step) % members),
            // Up, from the child of this round; down, from the parent, whose round the last one is.
            _ if !self.told => Some(me + step),
            _ => me.checked_sub(step),
        }
    }

    /// As far as a barrier goes now; `true`: all members have come.
    pub(crate) fn barrier(&mut self, me: usize, members: usize, area: &dyn Area) -> Result<bool, GaspiError> {
        let number = self.barriers + 1;
        while 1 << self.round < members {
            let at = BARRIER + 8 * self.round;
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
    pub(crate) fn give(&self, layout: &Layout, area: &dyn Area, value: &[u8]) {
        let shape = self.active.map_or(0, |(_, shape)| shape);
        area.write(layout.up(), &shape.to_ne_bytes());
        area.write(layout.up() + HEAD, value);
    }

    /// As far as an allreduce of `bytes` goes now: combines what children sent with the own value, sends it to the parent,
    /// and the result to the children. `true`: the result is in `value`. Where a value cannot be combined, or is not like the
    /// others, all members get through this, and fail.
    pub(crate) fn allreduce(
        &mut self,
        me: usize,
        layout: &Layout,
        area: &dyn Area,
        value: &mut [u8],
        combine: &mut Reduction<'_>,
    ) -> Result<bool, GaspiError> {
        let (number, members, bytes) = (self.reductions + 1, layout.members, value.len());
        let (up, down) = (layout.up() + HEAD, layout.down() + HEAD);
        while !self.told && 1 << self.round < members && me & (1 << self.round) == 0 {
            if me + (1 << self.round) < members {
                let flag = area.flag(CHILD + 8 * self.round);
                if flag & !MARKS < number {
                    return Ok(false);
                }
                self.marks |= flag & MARKS;
                let child = layout.child(self.round);
                if self.marks == 0 && self.active.is_some_and(|(_, shape)| area.flag(child) != shape) {
                    self.marks = UNLIKE;
                }
                if self.marks == 0 {
                    let mut theirs = vec![0; bytes];
                    area.read(child + HEAD, &mut theirs);
                    area.read(up, value);
                    self.marks = if combine(value, &theirs).is_err() { FAILED } else { 0 };
                    area.write(up, value);
                }
            }
            self.round += 1;
        }
        let is_root = me == 0;
        if !self.told {
            if is_root {
                // The puts below may read it after this call; the next one gives another value to go up.
                area.read(up, value);
                area.write(down, value);
            } else {
                let (parent, at) = (me - (1 << self.round), CHILD + 8 * self.round);
                self.pass(area, parent, (layout.up(), layout.child(self.round), bytes), (at, number))?;
            }
            self.told = true;
        }
        if !is_root {
            let flag = area.flag(RESULT);
            if flag & !MARKS < number {
                return Ok(false);
            }
            self.marks |= flag & MARKS;
        }
        area.read(down, value);
        for round in (0..self.round).rev().filter(|round| me + (1 << round) < members) {
            let (child, way) = (me + (1 << round), (layout.down(), layout.down(), bytes));
            self.pass(area, child, way, (RESULT, number))?;
        }
        match self.marks {
            0 => Ok(true),
            marks if marks & UNLIKE != 0 => Err(GaspiError::Unlike),
            _ => Err(GaspiError::Failed),
        }
    }

    /// Puts a value to another member, and the flag behind it; where there is none, the flag alone.
    fn pass(
        &self,
        area: &dyn Area,
        member: usize,
        (from, to, bytes): (usize, usize, usize),
        (at, number): (usize, u64),
    ) -> Result<(), GaspiError> {
        if self.marks != 0 {
            return area.tell(member, at, number | self.marks);
        }
        area.put(member, from, to, HEAD + bytes)?;
        area.tell(member, at, number)
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

        fn write(&self, at: usize, from: &[u8]) {
            self.0.bytes.borrow_mut()[self.1][at..at + from.len()].copy_from_slice(from);
        }

        fn members(&self) -> (usize, usize) {
            (self.1, self.0.bytes.borrow().len())
        }

        fn tell(&self, member: usize, at: usize, value: u64) -> Result<(), GaspiError> {
            self.post(member, Posted::Word { at, value })
        }

        fn put(&self, member: usize, from: usize, to: usize, bytes: usize) -> Result<(), GaspiError> {
            self.post(member, Posted::Bytes { from, to, count: bytes })
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
                        progress[me].give(&layout, &area, &own(me));
                    }
                    assert_eq!(progress[me].enter(Kind::Barrier, 0), Err(GaspiError::ActiveCollective));
                    assert_eq!(progress[me].enter(Kind::Allreduce, 8), Err(GaspiError::ActiveCollective));
                    let mut value = vec![0; 24];
                    let mut sum = |one: &mut [u8], two: &[u8]| {
                        reduce::combine(Operation::Sum, Datatype::Ulong, one, two);
                        Ok(())
                    };
                    let is_done = progress[me].allreduce(me, &layout, &area, &mut value, &mut sum).unwrap();
                    let count = members as u64;
                    let first = count * call + count * (count - 1) / 2;
                    let expected = [first, count, count.wrapping_neg()].map(u64::to_ne_bytes).concat();
                    assert!(!is_done || value == expected, "{members} call {call}");
                    is_done
                };
                if is_done {
                    progress[me].leave();
                    done[me] += 1;
                }
            }
        }
    }
}
