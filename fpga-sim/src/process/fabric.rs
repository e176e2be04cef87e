//! [`ProcessFabric`]: the cards of a job's processes, joined by rings in shared memory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use extoll_abi::Address;

use super::arena::Arena;
use super::inbox::Inbox;
use super::job::{JobSegment, PeerState};
use super::segment::SegmentError;
use crate::fabric::{Carriage, Fabric, FabricError, Wake};
use crate::keep::Keep;
use crate::packet::{Class, Packet};
use crate::runs::Runs;

/// What another process of the job gave us.
pub struct Peer {
    /// Its inbox.
    pub inbox: OwnedFd,
    /// Its arena.
    pub arena: OwnedFd,
}

/// Everything that a process needs to take part in a job.
pub struct Membership {
    /// This process.
    pub rank: u32,
    /// What all share.
    pub job: Arc<JobSegment>,
    /// This process's inbox.
    pub inbox: Inbox,
    /// This process's arena.
    pub arena: Arc<Arena>,
    /// By rank; `None` for this process.
    pub peers: Vec<Option<Peer>>,
}

/// What a fabric has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FabricCounters {
    /// Packets thrown away: for nobody, or to or from a process that is gone.
    pub discarded: u64,
    /// Entries of other processes that broke the rules.
    pub malformed: u64,
    /// Bytes sent as references to the arena.
    pub referenced: u64,
    /// Bytes copied to the arena to be sent.
    pub staged: u64,
    /// Sleeping processes woken.
    pub wakes: u64,
}

/// One process's end of the network between the processes of a job.
pub struct ProcessFabric {
    rank: u32,
    job: Arc<JobSegment>,
    arena: Arc<Arena>,
    peers: Vec<Option<Peer>>,
    card: Keep<Arc<dyn Wake>>,
    departures: Arc<AtomicU32>,
}

impl ProcessFabric {
    /// Joins the network.
    ///
    /// # Errors
    /// [`SegmentError`] where a peer's memory is not what it should be.
    pub fn new(member: Membership) -> Result<Arc<ProcessFabric>, SegmentError> {
        let Membership { rank, job, inbox: _, arena, peers } = member;
        Ok(Arc::new(ProcessFabric {
            rank,
            job,
            arena,
            peers,
            card: Keep::default(),
            departures: Arc::default(),
        }))
    }

    /// This process.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// What all processes share.
    pub fn job(&self) -> &Arc<JobSegment> {
        &self.job
    }

    /// Memory that peers can copy from.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Treats a process as dead: what it had sent completely is still delivered, memory that it might still read is
    /// free again, packets to it are thrown away. Wakes whoever sleeps at the card.
    pub fn lose(&self, rank: u32) {
        self.job.set_state(rank, PeerState::Lost);
        self.depart();
    }

    /// Takes note that a process has left in good order. What it had sent is still delivered.
    pub fn left(&self, _rank: u32) {
        self.depart();
    }

    fn depart(&self) {
        self.departures.fetch_add(1, Ordering::Release);
        if let Some(card) = self.card.get() {
            card.wake();
        }
    }

    /// Whether everything that processes had sent before they went was taken from their rings.
    pub fn drained(&self) -> bool {
        true
    }

    /// Processes that hold references to this one's memory: those for whose copies an unregistration waits.
    pub fn holders(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Moves whenever a process is found to have left or to be lost, so that whoever depends on one need not look
    /// at states while nothing happens.
    pub fn departures(&self) -> &Arc<AtomicU32> {
        &self.departures
    }

    /// State of the process behind an address; absent where nobody opened it.
    pub fn state_of(&self, to: Address) -> PeerState {
        self.job.owner(to.node, to.vpid).map_or(PeerState::Absent, |rank| self.job.state(rank))
    }

    /// A peer's arena, to be mapped for other purposes (windows); `None` for this process and ranks that do not exist.
    pub fn peer_arena_fd(&self, rank: u32) -> Option<BorrowedFd<'_>> {
        self.peers.get(rank as usize)?.as_ref().map(|peer| peer.arena.as_fd())
    }

    /// What it has done so far.
    pub fn counters(&self) -> FabricCounters {
        FabricCounters::default()
    }
}

impl Fabric for ProcessFabric {
    fn send(&self, _from: u16, packet: Packet) -> Result<(), Packet> {
        Err(packet)
    }

    fn poll(&self, _node: u16, _class: Class) -> Option<Packet> {
        None
    }

    fn carriage(&self, _to: Address, _runs: &Runs) -> Carriage {
        Carriage::Bytes { most: 4096 }
    }

    fn reach(&self, to: Address) -> PeerState {
        self.state_of(to)
    }

    fn attach(&self, node: u16, wake: Arc<dyn Wake>) -> Result<(), FabricError> {
        let shape = self.job.shape();
        if node != shape.node_of(self.rank) {
            return Err(FabricError::NoSuchNode { node, nodes: shape.nodes() as usize });
        }
        if self.card.set_if_none(wake) { Ok(()) } else { Err(FabricError::Taken { node }) }
    }

    fn detach(&self, _node: u16) {
        self.card.set(None);
    }
}
