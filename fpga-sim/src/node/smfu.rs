//! Who has the SMFU of a node, and the memory behind it.
//!
//! A node has one unit. In a job whose nodes have several ranks each of these may have a part of each of the unit's windows: of the
//! parts of a window on a node the n-th is of the node's n-th rank, whose number on the node is its *seat*. A packet of the unit has
//! the seat for the VPID of an address, so it finds its process as other packets do, within a host and between hosts. In
//! other networks a node has one seat, and one process the unit.
//!
//! A part is at a place of the unit: an interval that leads to its own node. Who *holds* a place has the part there. A window
//! of which nobody who lives holds a part is nobody's, and its intervals are free.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use extoll_abi::Address;
use ggas_clock::{Backoff, Clock};
use ggas_members::{MemberId, Members, PeerState};

use super::block::NodeBlock;
use super::nodes::Nodes;
use super::owner::Owner;

/// How long a process waits for another of its node that sets the unit up, which takes microseconds.
const TURN: Duration = Duration::from_secs(5);

/// This process alone sets the unit of its node up, until it is dropped. Who dies meanwhile loses its turn.
pub struct SmfuTurn<'a> {
    nodes: &'a Nodes,
    block: &'a NodeBlock,
}

impl Nodes {
    /// Seats of a node: how many parts of a window it can have.
    pub fn smfu_seats(&self, node: u16) -> usize {
        let ranks = self.member().shape().ranks().map(|ranks| ranks.ranks_of(node).len());
        ranks.unwrap_or(1).max(1)
    }

    /// The seat that this process has where its node has a part for each rank; `None` for one that is no rank.
    pub fn smfu_own_seat(&self) -> Option<u8> {
        let (member, node) = (self.member(), self.member().node());
        let ranks = member.shape().ranks()?.ranks_of(node);
        let slot = member.me().slot;
        ranks.contains(&slot).then(|| (slot - ranks.start) as u8)
    }

    /// Waits for its turn to set the unit of this member's node up; `None` where another process keeps it.
    pub fn smfu_turn(&self) -> Option<SmfuTurn<'_>> {
        let block = self.node(self.member().node())?;
        let (me, mut backoff) = (Owner::of(self.member().me()), Backoff::new(Clock::REAL, TURN));
        loop {
            let before = Owner(block.smfu_turn.load(Ordering::Acquire));
            if !self.lives(before) && exchange(&block.smfu_turn, before, me) {
                return Some(SmfuTurn { nodes: self, block });
            }
            backoff.pause().ok()?;
        }
    }

    /// Makes this process the one that has a seat, and no other; `false` where another process has it.
    pub fn claim_smfu(&self, seat: u8) -> bool {
        let Some(block) = self.node(self.member().node()) else { return false };
        let (me, word) = (Owner::of(self.member().me()), &block.smfu_owners[usize::from(seat)]);
        let before = Owner(word.load(Ordering::Acquire));
        let has = before == me || !self.lives(before) && exchange(word, before, me);
        if has {
            let last = self.smfu_seat.swap(seat, Ordering::Relaxed);
            if last != seat {
                exchange(&block.smfu_owners[usize::from(last)], me, me.released());
            }
        }
        has
    }

    /// Takes that back; nothing happens where another process has the seat.
    pub fn release_smfu(&self) {
        let me = Owner::of(self.member().me());
        if let Some(block) = self.node(self.member().node()) {
            exchange(&block.smfu_owners[usize::from(self.smfu_seat())], me, me.released());
        }
    }

    /// This process has no part at a place any more. It needs no turn for that.
    pub fn let_go_of_smfu(&self, place: usize) {
        let me = Owner::of(self.member().me());
        if let Some(block) = self.node(self.member().node()) {
            exchange(&block.smfu_holders[place], me, me.released());
        }
    }

    /// The seat that this process claimed last; the first until then.
    #[inline]
    pub(crate) fn smfu_seat(&self) -> u8 {
        self.smfu_seat.load(Ordering::Relaxed)
    }

    /// Who has the seat of an address.
    pub fn smfu_owner(&self, at: Address) -> Option<MemberId> {
        self.smfu_word(at).member()
    }

    /// Who has the seat of an address, or had it last.
    pub fn last_smfu_owner(&self, at: Address) -> Option<MemberId> {
        self.smfu_word(at).last()
    }

    #[inline]
    pub(crate) fn smfu_word(&self, at: Address) -> Owner {
        let Some(block) = self.node(at.node) else { return Owner(0) };
        // By turns, as ranks have the VPIDs of their node.
        let seat = usize::from(at.vpid) % self.smfu_seats(at.node);
        Owner(block.smfu_owners[seat].load(Ordering::Acquire))
    }

    /// Whether this is a process that is there.
    fn lives(&self, owner: Owner) -> bool {
        owner.member().is_some_and(|id| self.member().state(id) == PeerState::Joined)
    }
}

impl SmfuTurn<'_> {
    /// Makes this process the one whose part is at a place; `false` where another has it, who lives.
    pub fn hold(&self, place: usize) -> bool {
        let (me, word) = (Owner::of(self.nodes.member().me()), &self.block.smfu_holders[place]);
        let before = Owner(word.load(Ordering::Acquire));
        before == me || !self.nodes.lives(before) && exchange(word, before, me)
    }

    /// Whether a process that lives has its part at a place.
    pub fn is_held(&self, place: usize) -> bool {
        self.nodes.lives(self.holder(place))
    }

    /// Whether a process that did not let go of a place is gone.
    pub fn is_left(&self, place: usize) -> bool {
        self.holder(place).member().is_some() && !self.is_held(place)
    }

    /// A place is free: nobody had it.
    pub fn forget_holder(&self, place: usize) {
        self.block.smfu_holders[place].store(0, Ordering::Release);
    }

    fn holder(&self, place: usize) -> Owner {
        Owner(self.block.smfu_holders[place].load(Ordering::Acquire))
    }
}

impl Drop for SmfuTurn<'_> {
    fn drop(&mut self) {
        let me = Owner::of(self.nodes.member().me());
        exchange(&self.block.smfu_turn, me, me.released());
    }
}

fn exchange(word: &AtomicU64, from: Owner, to: Owner) -> bool {
    word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire).is_ok()
}
