//! A slot of the network, as this process has to do with it: whoever is met there, both ways.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ggas_members::MemberId;

use super::codec::Rules;
use super::inbox::{Geometry, Outbox};
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use super::peer::PeerArena;
use crate::packet::Packet;

/// What a peer gave when it was met.
pub(super) struct Given {
    pub id: MemberId,
    pub outbox: Outbox,
    pub arena: Arc<PeerArena>,
}

/// See the module's description. The rings stay where they are; processes that have the slot come and go.
pub(super) struct Link {
    pub out: Outgoing,
    pub incoming: Incoming,
    /// Generation that the lane into our inbox is for; 0: nobody had it yet.
    pub lane: AtomicU32,
    /// Generation for which the lane is to be made as new, once all was taken from it; the one that has it, where that
    /// is gone: its memory is let go of then. 0: none.
    pub wanted: AtomicU32,
    /// Generation that was last asked to meet.
    pub asked: AtomicU32,
    /// Generation that has our inbox.
    pub told: AtomicU32,
    /// Generation whose end is known.
    parted: AtomicU32,
    /// What a peer gave, until the lane is ready for it.
    pub given: Mutex<Option<Given>>,
    arena: Mutex<Option<Arc<PeerArena>>>,
    /// The node of whoever the lane is for.
    pub node: AtomicU32,
}

impl Link {
    pub fn new(slot: u32, geometry: Geometry) -> Link {
        Link {
            out: Outgoing::new(geometry),
            incoming: Incoming::new(slot),
            lane: AtomicU32::new(0),
            wanted: AtomicU32::new(0),
            asked: AtomicU32::new(0),
            told: AtomicU32::new(0),
            parted: AtomicU32::new(0),
            given: Mutex::default(),
            arena: Mutex::default(),
            node: AtomicU32::new(0),
        }
    }

    /// The node of whoever the lane is for.
    pub fn node(&self) -> u16 {
        self.node.load(Ordering::Relaxed) as u16
    }

    /// Whether the process that the lane is for is gone.
    pub fn is_parted(&self) -> bool {
        let lane = self.lane.load(Ordering::Acquire);
        lane != 0 && self.is_gone(lane)
    }

    /// Whether a process is known to be gone, or to take no packets any more.
    pub fn is_gone(&self, generation: u32) -> bool {
        self.parted.load(Ordering::Acquire) >= generation
    }

    /// The process is gone: sends no more, and lets go of what it might have read. Returns packets that it has not taken.
    pub fn part(&self, id: MemberId, rules: &Rules) -> Vec<Packet> {
        // Noted first: whoever opens the way to it meanwhile looks at this afterwards.
        self.parted.fetch_max(id.generation, Ordering::AcqRel);
        self.out.abandon(id.generation, rules)
    }

    /// Whether it was asked to meet and has not answered: packets may wait for it, and the memory that they are of.
    pub fn is_awaited(&self) -> bool {
        let asked = self.asked.load(Ordering::Acquire);
        asked != 0 && !self.is_gone(asked) && !self.out.is_open(asked)
    }

    /// Lets go of the memory of a process that is gone, from which all was taken.
    pub fn forget(&self) {
        *self.locked() = None;
        self.out.forget();
    }

    pub fn arena(&self) -> Option<Arc<PeerArena>> {
        self.locked().clone()
    }

    pub fn set_arena(&self, arena: Arc<PeerArena>) {
        *self.locked() = Some(arena);
    }

    fn locked(&self) -> MutexGuard<'_, Option<Arc<PeerArena>>> {
        self.arena.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
