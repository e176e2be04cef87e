//! Where things are in a member's part of the group's memory.

use super::steps::steps;

pub(super) const LINE: usize = 64;
/// Rounds of 2^16 members.
const ROUNDS: usize = 16;
/// A line for each round, since each has another writer.
pub(super) const BARRIER: usize = 0;
/// Of barriers and of reductions: the number of one that a member has given up.
pub(super) const ABORTED: [usize; 2] = [LINE * ROUNDS, LINE * ROUNDS + 8];
const SLOTS: usize = LINE * (ROUNDS + 1);
/// Of a slot: the flag, a word for what the members must have in common, the value.
pub(super) const COMMON: usize = 8;
pub(super) const VALUE: usize = 16;

/// Where things are in a member's part of the group's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(super) members: usize,
    pub(super) steps: usize,
    /// Bytes of a slot.
    pub(super) room: usize,
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
        Layout { members, steps: steps(members), room: room.next_multiple_of(LINE) }
    }

    /// Slots with values, two sets, then those of flags alone, two as well.
    fn half(&self) -> usize {
        2 * self.steps * (self.room + LINE)
    }

    pub(super) fn slot(&self, phase: usize, number: u64, step: usize) -> Slot {
        let place = (number & 1) as usize * self.steps + step;
        let at =
            SLOTS + if phase == 0 { place * self.room } else { 2 * self.steps * self.room + place * LINE };
        Slot { at, stage: at + self.half() + COMMON }
    }

    /// Where the hub is in the first member's part.
    pub(super) fn hub(&self) -> usize {
        SLOTS + 2 * self.half()
    }

    /// Of a member's part.
    pub(crate) fn bytes(&self, member: usize) -> usize {
        self.hub() + if member == 0 { self.hub_bytes() } else { 0 }
    }
}
