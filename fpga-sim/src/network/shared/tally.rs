//! What a fabric counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a fabric has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FabricCounters {
    /// Packets thrown away: for nobody, or to or from a process that is gone.
    pub discarded: u64,
    /// Entries of other processes that broke the rules.
    pub malformed: u64,
    /// Bytes sent as references to the arena.
    pub referenced: u64,
    /// Of these, bytes that were copied to the arena to be sent.
    pub staged: u64,
    /// System calls made to wake sleeping processes.
    pub wakes: u64,
    /// Packets that a link lost and that were repeated, in a network with faults.
    pub repeated: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) discarded: AtomicU64,
    pub(super) malformed: AtomicU64,
    pub(super) referenced: AtomicU64,
    pub(super) staged: AtomicU64,
    pub(super) wakes: Arc<AtomicU64>,
}

impl Counters {
    pub fn read(&self) -> FabricCounters {
        let Counters { discarded, malformed, referenced, staged, wakes } = self;
        FabricCounters {
            discarded: discarded.load(Ordering::Relaxed),
            malformed: malformed.load(Ordering::Relaxed),
            referenced: referenced.load(Ordering::Relaxed),
            staged: staged.load(Ordering::Relaxed),
            wakes: wakes.load(Ordering::Relaxed),
            repeated: 0,
        }
    }
}
