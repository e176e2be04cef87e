//! What processes say to each other beside the data: over the connections of the job's members, in order.

use serde::{Deserialize, Serialize};

use crate::gpu::Told;
use crate::segment::FLAG;
use crate::stores::{Shown, ShownPart};

/// Kind of our messages among those of the members.
pub(crate) const KIND: u16 = 0x6a5;
/// Bytes of a passive message that one of ours carries.
pub(crate) const PIECE: usize = 7 << 10;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// Wants an answer.
    Ask {
        call: u64,
        ask: Ask,
    },
    Answer {
        call: u64,
        answer: Answer,
    },
    /// Part of a passive message; the answer comes once a receiver has it.
    Passive {
        call: u64,
        is_last: bool,
        bytes: Vec<u8>,
    },
    /// The sender wants to commit a group.
    Propose {
        group: u8,
        proposal: Proposal,
    },
    /// In its commit `mine`, the sender agrees to the receiver's commit `yours`.
    Agree {
        group: u8,
        mine: u64,
        yours: u64,
    },
    /// It does not want to commit any more.
    Withdraw {
        group: u8,
        number: u64,
    },
    /// The sender's arena, whose descriptor comes with this, and where in it the board is.
    Arena {
        board: u64,
    },
    /// The receiver ends at once.
    Kill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// Whether the library is alive there.
    Ping,
    /// The asking process lets the other one at a segment of its own.
    Register {
        segment: u8,
        place: Place,
    },
    Atomic {
        segment: u8,
        offset: u64,
        operation: AtomicOperation,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AtomicOperation {
    FetchAdd(u64),
    CompareSwap { comparator: u64, new: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Done,
    Value(u64),
    Refused,
}

/// Where another process's segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Bytes.
    pub size: u64,
    /// Network logical address of the first byte.
    pub data: u64,
    /// The same of the first notification.
    pub flags: u64,
    /// How others map it, where it is passed on.
    pub told: Option<Told>,
    /// Where others map it that store to it themselves.
    pub shown: Option<Shown>,
}

/// A group as one of its members sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Proposal {
    /// Of the sender's commits.
    pub number: u64,
    pub size: u32,
    pub checksum: u64,
    /// Network logical address of the sender's part of the group's memory.
    pub area: u64,
    /// Where others map it.
    pub shown: Option<ShownPart>,
}

impl Place {
    /// Whether its addresses and those of its notifications are numbers.
    pub(crate) fn is_sound(&self, notifications: u32) -> bool {
        let flags = u64::from(notifications) * FLAG;
        self.data.checked_add(self.size).is_some() && self.flags.checked_add(flags).is_some()
    }
}

impl AtomicOperation {
    /// What the word is to be.
    pub(crate) fn applied(self, old: u64) -> u64 {
        match self {
            AtomicOperation::FetchAdd(add) => old.wrapping_add(add),
            AtomicOperation::CompareSwap { comparator, new } if old == comparator => new,
            AtomicOperation::CompareSwap { .. } => old,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_beyond_the_last_address_are_not_sound() {
        let place = Place { size: 16, data: u64::MAX - 16, flags: u64::MAX - 80, told: None, shown: None };
        assert!(place.is_sound(10));
        assert!(!place.is_sound(11));
        assert!(!Place { size: 17, ..place }.is_sound(10));
    }
}
