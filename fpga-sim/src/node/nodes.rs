//! The nodes of a network, as one of its members sees them: who serves which VPID, and each node's registers.
//!
//! A node's memory is made when it is first addressed, and stays as long as the network. What other processes write
//! there is never trusted: a member that cannot be is taken for none.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use extoll_abi::Address;
use ggas_members::memory::Part;
use ggas_members::{Member, MemberId, Members, NodeMemory, PeerState};
use nix::time::{ClockId, clock_gettime};

use super::block::{self, NodeBlock, ProcessBlock};
use super::owner::Owner;
use crate::keep::Keep;
use crate::network::hosts::Places;
use crate::network::links::torus::Direction;
use crate::units::counters::CounterBlock;

/// How long a VPID is given to nobody after it was given back: packets to its last owner may still be on the way. The
/// longest-resting one is taken earlier where there is no other.
const REST_MS: u64 = 250;

/// See the module's description.
pub struct Nodes {
    member: Arc<Member>,
    memories: Box<[OnceLock<Arc<NodeMemory>>]>,
    /// This process's block of its node, once it has one.
    own: Keep<Part<ProcessBlock>>,
    /// Its place among those of its node that have parts of a window.
    pub(super) smfu_seat: AtomicU8,
    /// This member has its node to itself.
    whole: AtomicBool,
}

/// This process's block of its node, given back when dropped.
pub(crate) struct Seat {
    node: Part<NodeBlock>,
    block: Part<ProcessBlock>,
    owner: Owner,
}

impl Nodes {
    pub(crate) fn new(member: Arc<Member>) -> Arc<Nodes> {
        let memories = (0..member.shape().nodes()).map(|_| OnceLock::new()).collect();
        Arc::new(Nodes {
            member,
            memories,
            own: Keep::default(),
            smfu_seat: AtomicU8::new(0),
            whole: AtomicBool::new(false),
        })
    }

    /// This process as a member of the network.
    pub fn member(&self) -> &Arc<Member> {
        &self.member
    }

    /// Nodes there are.
    pub fn count(&self) -> u32 {
        self.memories.len() as u32
    }

    #[inline]
    fn memory(&self, node: u16) -> Option<&Arc<NodeMemory>> {
        let memory = self.memories.get(usize::from(node))?;
        memory.get().or_else(|| match self.find(node, memory) {
            Ok(memory) => Some(memory),
            Err(error) => {
                tracing::warn!("node {node} is not reached: {error}");
                None
            }
        })
    }

    #[cold]
    fn find<'a>(&self, node: u16, memory: &'a OnceLock<Arc<NodeMemory>>) -> io::Result<&'a Arc<NodeMemory>> {
        let sizes = (block::BYTES, block::process_at(1));
        // SAFETY: a block is made of atomics.
        let made = self.member.node_memory(node, sizes, |map| unsafe { map.at::<NodeBlock>(0) }.reset())?;
        Ok(memory.get_or_init(|| Arc::new(made)))
    }

    #[inline]
    pub(super) fn node(&self, node: u16) -> Option<&NodeBlock> {
        // SAFETY: a block is made of atomics.
        self.memory(node).map(|memory| unsafe { memory.map().at(0) })
    }

    /// Block of a node, with its memory.
    pub(crate) fn node_part(&self, node: u16) -> Option<Part<NodeBlock>> {
        // SAFETY: a block is made of atomics.
        self.memory(node).map(|memory| Part::of(memory, |memory| unsafe { memory.map().at(0) }))
    }

    /// What the processes that are or were on a node counted.
    pub(crate) fn counters_of(&self, node: u16) -> impl Iterator<Item = &CounterBlock> + Clone {
        self.processes_of(node).map(|process| &process.counters.0)
    }

    fn processes_of(&self, node: u16) -> impl Iterator<Item = &ProcessBlock> + Clone {
        let memory = self.memory(node);
        // The lowest are taken first: behind one that nobody ever had there are none, nor memory for them.
        (0..block::PROCESSES).map_while(move |index| {
            // SAFETY: a block is made of atomics.
            let process: &ProcessBlock = unsafe { memory?.map().at(block::process_at(index)) };
            (process.owner.load(Ordering::Relaxed) != 0).then_some(process)
        })
    }

    /// Counts network packets that begin their way on a link of this member's node. By one thread at a time.
    #[inline]
    pub(crate) fn count_sent(&self, link: Direction, packets: u64) {
        if let Some(own) = self.own.get() {
            own.sent.count(link, packets);
        }
    }

    /// Network packets that processes of a node, there or gone, sent over a link of it.
    pub(crate) fn sent(&self, node: u16, link: Direction) -> u64 {
        self.processes_of(node).fold(0, |sum: u64, process| sum.wrapping_add(process.sent.read(link)))
    }

    /// Counts a packet that this member's node threw away.
    pub(crate) fn count_discarded(&self) {
        if let Some(block) = self.node(self.member.node()) {
            block.discarded.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Packets that a node threw away.
    pub(crate) fn discarded(&self, node: u16) -> u64 {
        self.node(node).map_or(0, |block| block.discarded.load(Ordering::Relaxed))
    }

    /// A block for this process on its node.
    pub(crate) fn seat(&self) -> io::Result<Seat> {
        let (me, node) = (Owner::of(self.member.me()), self.member.node());
        let memory = self.memories.get(usize::from(node)).ok_or(io::ErrorKind::NotFound)?;
        let memory = memory.get().map_or_else(|| self.find(node, memory), Ok)?;
        let part = Part::of(memory, |memory| {
            // SAFETY: a block is made of atomics.
            unsafe { memory.map().at::<NodeBlock>(0) }
        });
        for index in 0..block::PROCESSES {
            // Readers look at the next one, too.
            memory.reserve(block::process_at(index), 2 * size_of::<ProcessBlock>())?;
            // SAFETY: a block is made of atomics.
            let process = Part::of(memory, |memory| unsafe {
                memory.map().at::<ProcessBlock>(block::process_at(index))
            });
            let before = Owner(process.owner.load(Ordering::Acquire));
            if before.member().is_some_and(|id| self.member.state(id) == PeerState::Joined)
                || process
                    .owner
                    .compare_exchange(before.0, me.0, Ordering::AcqRel, Ordering::Relaxed)
                    .is_err()
            {
                continue;
            }
            // What one that died had counted is the node's.
            part.deputies.take_from(&process.counters.0);
            self.own.set(Some(process.clone()));
            return Ok(Seat { node: part, block: process, owner: me });
        }
        Err(io::Error::other("the node has as many processes as it has VPIDs: choose another GGAS_NODE"))
    }

    /// Who serves a VPID; also processes that died without giving it back.
    #[inline]
    pub fn owner(&self, node: u16, vpid: u8) -> Option<MemberId> {
        self.owner_word(node, vpid).member()
    }

    /// Who serves a VPID, or had it last.
    pub fn last_owner(&self, node: u16, vpid: u8) -> Option<MemberId> {
        self.owner_word(node, vpid).last()
    }

    #[inline]
    pub(crate) fn owner_word(&self, node: u16, vpid: u8) -> Owner {
        self.node(node)
            .map_or(Owner(0), |block| Owner(block.owners[usize::from(vpid)].load(Ordering::Acquire)))
    }

    /// Takes the lowest VPID below `limit` of this member's node that nobody has and that does not rest: for a while
    /// after it was given back, packets for its last owner may still be on the way.
    pub fn take_vpid(&self, limit: u32) -> Option<u8> {
        let (me, now) = (Owner::of(self.member.me()), now_ms());
        let block = self.node(self.member.node())?;
        let own = |vpid: usize| vpid < limit as usize && self.may_have(vpid as u8);
        let vpids = block.owners.iter().zip(&block.released).enumerate().filter(|(vpid, _)| own(*vpid));
        let take = |vpid: usize, before: Owner| {
            let word = &block.owners[vpid];
            let taken = word.compare_exchange(before.0, me.0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if taken {
                // One that died has left it open.
                block.vpids[vpid].store(0, Ordering::Release);
                block.velo.rx[vpid].store(0, Ordering::Release);
            }
            taken
        };
        let mut resting = Vec::new();
        for (vpid, (word, released)) in vpids {
            let owner = Owner(word.load(Ordering::Acquire));
            if owner.member().is_some_and(|id| self.member.state(id) == PeerState::Joined) {
                continue;
            }
            if owner.member().is_some() {
                // Its process is gone: from now on it rests.
                released.store(now, Ordering::Relaxed);
                let rests = owner.released();
                if word.compare_exchange(owner.0, rests.0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    resting.push((now, vpid, rests));
                }
                continue;
            }
            let since = released.load(Ordering::Relaxed);
            if owner.0 != 0 && now.saturating_sub(since) < REST_MS {
                resting.push((since, vpid, owner));
            } else if take(vpid, owner) {
                return Some(vpid as u8);
            }
        }
        resting.sort_unstable_by_key(|(since, vpid, _)| (*since, *vpid));
        let longest = resting.into_iter().find(|(_, vpid, owner)| take(*vpid, *owner));
        longest.map(|(_, vpid, _)| vpid as u8)
    }

    /// Whether a VPID of this member's node can be its own: to other hosts the number says which rank of the node has it.
    fn may_have(&self, vpid: u8) -> bool {
        let member = &self.member;
        let Some(shape) = member.shape().ranks().filter(|_| member.spans_hosts()) else { return true };
        let at = Address::new(member.node(), vpid);
        member.me().slot >= shape.processes() || Places::of_job(shape).process(at) == member.me().slot as u16
    }

    /// Gives a VPID back; one that is not this member's stays as it is.
    pub fn give_vpid(&self, vpid: u8) {
        let me = Owner::of(self.member.me());
        let Some(block) = self.node(self.member.node()) else { return };
        let (word, released) = (&block.owners[usize::from(vpid)], &block.released[usize::from(vpid)]);
        if word.load(Ordering::Acquire) == me.0 {
            released.store(now_ms(), Ordering::Relaxed);
            let _ = word.compare_exchange(me.0, me.released().0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Takes all VPIDs and the SMFU of this member's node, for a card whose registers nobody else uses: a guest's. `false`
    /// where another process has any of them.
    pub fn take_node(&self) -> bool {
        let vpids: Vec<u8> = std::iter::from_fn(|| self.take_vpid(block::VPIDS as u32)).collect();
        let taken = vpids.len() == block::VPIDS && self.claim_smfu(0);
        if !taken {
            vpids.into_iter().for_each(|vpid| self.give_vpid(vpid));
        }
        self.whole.store(taken, Ordering::Release);
        taken
    }

    /// Whether it has.
    pub(crate) fn has_node(&self) -> bool {
        self.whole.load(Ordering::Acquire)
    }

    /// Whether another member has this node to itself, by [`take_node`](Self::take_node). Programs never have the last VPID.
    pub fn is_of_guest(&self) -> bool {
        let last = self.owner(self.member.node(), (block::VPIDS - 1) as u8);
        last.is_some_and(|id| id != self.member.me() && self.member.state(id) == PeerState::Joined)
    }
}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nodes").field("member", &self.member).finish_non_exhaustive()
    }
}

impl Seat {
    /// What this process counts in.
    pub fn counters(&self) -> Part<CounterBlock> {
        self.block.part(|block| &block.counters.0)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.node.deputies.take_from(&self.block.counters.0);
        let word = &self.block.owner;
        let _ =
            word.compare_exchange(self.owner.0, self.owner.released().0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// The host's clock: the same for all members.
fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| {
        u64::try_from(now.tv_sec()).unwrap_or(0) * 1000
            + u64::try_from(now.tv_nsec()).unwrap_or(0) / 1_000_000
    });
    now.max(1)
}
