//! How this process waits for others: it depends on whether each has a core.

use ggas::members::cores::{Cores, are_crowded};
use ggas_clock::Ladder;

/// Looks of a wait that come before anything else is done meanwhile.
const LOOKS: u32 = 64;

/// How this process waits for others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub ladder: Ladder,
    /// Looks in a row to begin with.
    pub looks: u32,
    /// They have fewer cores than they are.
    pub is_crowded: bool,
}

impl Pace {
    /// Of processes of a host with these cores.
    pub(crate) fn of(processes: impl Iterator<Item = Cores>) -> Pace {
        let is_crowded = are_crowded(processes);
        if is_crowded {
            Pace { ladder: Ladder::CROWDED, looks: 1, is_crowded }
        } else {
            Pace { ladder: Ladder::SHORT, looks: LOOKS, is_crowded }
        }
    }
}
