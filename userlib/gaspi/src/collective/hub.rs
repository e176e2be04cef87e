//! Collectives of processes that share cores: all meet at the first member's part.
//!
//! Each member puts its value to the hub, leaves the number of the call, and counts itself. Who comes last combines all values
//! in the order of the members, and tells the others. Each thus has one turn on its core for a collective, where the rounds of
//! a dissemination take one each.
//!
//! The values need one set of slots only: a member that puts its next one has the result of the last, so that one was combined.

use super::layout::{ABORTED, BARRIER, Layout, VALUE};
use super::{Area, FAILED, LINE, MARKS, Progress, UNLIKE};
use crate::{GaspiError, Reduction};

/// What a member leaves at the hub. Places are in the first member's part.
#[derive(Debug)]
pub(crate) struct Arrival<'a> {
    /// Of the call.
    pub number: u64,
    /// Where the member's number goes.
    pub word: usize,
    /// What counts the arrivals of all calls.
    pub count: usize,
    /// Where the value goes, what the members must have in common, and the value.
    pub value: Option<(usize, u64, &'a [u8])>,
}

impl Layout {
    /// The counts of barriers and of reductions, the members' numbers of both, then their values.
    pub(super) fn hub_bytes(&self) -> usize {
        self.hub_value(self.members) - self.hub()
    }

    fn hub_count(&self, is_barrier: bool) -> usize {
        self.hub() + if is_barrier { 0 } else { LINE }
    }

    fn hub_word(&self, is_barrier: bool, member: usize) -> usize {
        self.hub() + 2 * LINE + 8 * (member + if is_barrier { 0 } else { self.members })
    }

    fn hub_value(&self, member: usize) -> usize {
        self.hub() + 2 * LINE + (16 * self.members).next_multiple_of(LINE) + member * self.room
    }
}

/// Tells what a member need not hear that is dead by now.
fn told(result: Result<(), GaspiError>) -> Result<(), GaspiError> {
    if result == Err(GaspiError::Dead) { Ok(()) } else { result }
}

impl Progress {
    pub(super) fn barrier_at_hub(&mut self, area: &dyn Area) -> Result<bool, GaspiError> {
        let (number, (me, members)) = (self.barriers + 1, area.members());
        if !self.told {
            let (layout, value) = (area.layout(), None);
            let (word, count) = (layout.hub_word(true, me), layout.hub_count(true));
            let Some(came) = area.arrive(&Arrival { number, word, count, value })? else { return Ok(false) };
            self.told = true;
            if came == number * members as u64 {
                for member in (0..members).filter(|member| *member != me) {
                    told(area.tell(member, BARRIER, number))?;
                }
                return Ok(true);
            }
        }
        Ok(area.flag(BARRIER) >= number)
    }

    pub(super) fn reduce_at_hub(
        &mut self,
        area: &dyn Area,
        combine: &mut Reduction<'_>,
    ) -> Result<bool, GaspiError> {
        let (number, (me, members), layout) = (self.reductions + 1, area.members(), area.layout());
        let (slot, shape) = (layout.slot(0, number, 0), self.active.map_or(0, |(_, shape)| shape));
        if !self.told {
            let (word, count) = (layout.hub_word(false, me), layout.hub_count(false));
            let value = Some((layout.hub_value(me), shape, &self.value[..]));
            let Some(came) = area.arrive(&Arrival { number, word, count, value })? else { return Ok(false) };
            self.told = true;
            if came == number * members as u64 {
                self.combine_at_hub(shape, area, combine);
                for member in (0..members).filter(|member| *member != me) {
                    told(match self.marks {
                        0 => area.give(member, slot, number, shape, &self.value),
                        marks => area.tell(member, slot.at, number | marks),
                    })?;
                }
                return Ok(true);
            }
        }
        let flag = area.flag(slot.at);
        if flag & !MARKS < number {
            return Ok(false);
        }
        self.marks |= flag & MARKS;
        if self.marks == 0 {
            area.read(slot.at + VALUE, &mut self.value);
        }
        Ok(true)
    }

    /// The values of all, which are there.
    fn combine_at_hub(&mut self, shape: u64, area: &dyn Area, combine: &mut Reduction<'_>) {
        let ((_, members), layout) = (area.members(), area.layout());
        // The common word, then the value.
        self.theirs.resize(8 + self.value.len(), 0);
        for member in 0..members {
            area.read_hub(layout.hub_value(member), &mut self.theirs);
            let (common, value) = self.theirs.split_at(8);
            if common != shape.to_ne_bytes() {
                self.marks = UNLIKE;
                return;
            }
            if member == 0 {
                self.value.copy_from_slice(value);
            } else if self.marks == 0 && combine(&mut self.value, value).is_err() {
                self.marks = FAILED;
            }
        }
    }

    /// Whether the unfinished collective waits for what a member does.
    pub(crate) fn awaits(&self, member: usize, area: &dyn Area) -> bool {
        if !area.has_hub() {
            return self.awaited(area) == Some(member);
        }
        let Some((at, number)) = self.given_up() else { return false };
        let mut came = [0; 8];
        area.read_hub(area.layout().hub_word(at == ABORTED[0], member), &mut came);
        u64::from_ne_bytes(came) < number
    }
}
