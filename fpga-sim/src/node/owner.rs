//! Who serves a VPID or a unit: a word that members of the network compare and swap.

use ggas_members::{MemberId, PROCESSES_MAX};

/// Given back: the word still says who had it, until another takes it.
const RELEASED: u64 = 1 << 63;

/// A member, none, or the one that had it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(pub u64);

impl Owner {
    /// A member that has it.
    pub fn of(id: MemberId) -> Owner {
        Owner(u64::from(id.generation) << 16 | u64::from(id.slot + 1))
    }

    /// The same, given back.
    pub fn released(self) -> Owner {
        Owner(self.0 | RELEASED)
    }

    pub fn is_released(self) -> bool {
        self.0 & RELEASED != 0
    }

    /// Who has it, or had it last.
    pub fn last(self) -> Option<MemberId> {
        let slot = (self.0 as u16).checked_sub(1)?;
        Some(MemberId { slot: slot.into(), generation: (self.0 >> 16) as u32 })
    }

    /// Who has it, alive or not.
    #[inline]
    pub fn member(self) -> Option<MemberId> {
        self.last().filter(|_| !self.is_released())
    }
}

/// A member as [`Packet::process`](crate::packet::Packet::process) says it: its slot, and as much of its generation as there
/// is room for. A slot has two million others before one has the same number.
#[inline]
pub(crate) fn process_of(id: MemberId) -> u32 {
    const SLOT_BITS: u32 = 11;
    const { assert!(PROCESSES_MAX < 1 << SLOT_BITS) };
    (id.slot + 1) | id.generation << SLOT_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_keep_members() {
        for (slot, generation) in [(0, 1), (1023, u32::MAX), (7, 1 << 31)] {
            let id = MemberId { slot, generation };
            let owner = Owner::of(id);
            assert_eq!((owner.member(), owner.last(), owner.is_released()), (Some(id), Some(id), false));
            assert_eq!((owner.released().member(), owner.released().last()), (None, Some(id)));
        }
        assert_eq!((Owner(0).member(), Owner(0).last()), (None, None));
    }

    #[test]
    fn processes_have_numbers_of_their_own() {
        use crate::packet::{ANYONE, NOBODY};
        let ids = [(0, 1), (1, 1), (0, 2), (PROCESSES_MAX - 1, u32::MAX), (PROCESSES_MAX - 1, 0)];
        let mut numbers = ids.map(|(slot, generation)| process_of(MemberId { slot, generation })).to_vec();
        numbers.extend([ANYONE, NOBODY]);
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), ids.len() + 2);
    }
}
