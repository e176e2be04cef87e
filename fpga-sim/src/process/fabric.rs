//! [`ProcessFabric`]: the cards of a job's processes, joined by rings in shared memory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crossbeam_queue::ArrayQueue;
use extoll_abi::regs::EXTOLL_VELO_BROADCAST_GROUP;
use extoll_abi::{Address, Modifier};

use super::arena::Arena;
use super::inbox::{Geometry, Inbox, Outbox};
use super::job::{JobSegment, PeerState};
use super::lane::{Incoming, Outgoing, Refused};
use super::peer::{PeerArena, Remote};
use super::segment::SegmentError;
use super::sleep::Sleeper;
use super::stage::{STAGE_BYTES, Staged, Stages};
use super::tally::{Counters, FabricCounters};
use super::watch::Watch;
use crate::fabric::{Carriage, Fabric, FabricError, Wake};
use crate::keep::Keep;
use crate::packet::{Class, Kind, Packet, Payload, Run};
use crate::quiet;
use crate::runs::Runs;

/// Packets of a class that a process sent to itself and has not taken.
const OWN: usize = 128;
/// Beyond how many bytes a payload in the arena travels as a reference; a few lines are sooner there as bytes.
const REFERENCE_FROM: u32 = 512;

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

/// A peer, both ways.
pub(super) struct Link {
    pub(super) out: Outgoing,
    pub(super) incoming: Incoming,
    pub(super) arena: PeerArena,
    /// It has left or is lost, and this process knows.
    departed: AtomicBool,
}

/// One process's end of the network between the processes of a job.
pub struct ProcessFabric {
    pub(super) rank: u32,
    pub(super) job: Arc<JobSegment>,
    pub(super) arena: Arc<Arena>,
    stages: Option<Arc<Stages>>,
    pub(super) geometry: Geometry,
    pub(super) links: Box<[Option<Link>]>,
    sleeper: Arc<Sleeper>,
    pub(super) watch: Watch,
    /// Whose turn it is: a place of `watch`, or behind them this process itself; and packets taken in the turn.
    pub(super) turn: AtomicUsize,
    pub(super) taken: AtomicU32,
    pub(super) own: [ArrayQueue<Packet>; 2],
    /// This process found its own queue full.
    pub(super) own_refused: AtomicBool,
    pub(super) card: Keep<Arc<dyn Wake>>,
    /// There was a card, and it went.
    pub(super) detached: AtomicBool,
    pub(super) counters: Counters,
    thread: Mutex<Option<JoinHandle<()>>>,
    departures: Arc<AtomicU32>,
}

impl ProcessFabric {
    /// Joins the network.
    ///
    /// # Errors
    /// [`SegmentError`] where a peer's memory is not what it should be, or for lack of resources.
    pub fn new(member: Membership) -> Result<Arc<ProcessFabric>, SegmentError> {
        let Membership { rank, job, inbox, arena, peers } = member;
        let (shape, counters) = (job.shape(), Counters::default());
        if peers.len() != shape.processes() as usize || rank >= shape.processes() {
            return Err(SegmentError::Mismatch { what: "the membership", detail: "its ranks" });
        }
        let link = |(other, peer): (usize, Option<Peer>)| {
            let Some(peer) = peer else { return Ok(None) };
            let outbox = Outbox::map(peer.inbox.as_fd(), shape, rank)?;
            let remote = Arc::new(Remote::new(outbox, rank, counters.wakes.clone()));
            let out = Outgoing::new(*inbox.geometry(), remote);
            let arena = PeerArena::new(peer.arena)?;
            Ok(Some(Link {
                out,
                incoming: Incoming::new(other as u32),
                arena,
                departed: AtomicBool::new(false),
            }))
        };
        let links = peers.into_iter().enumerate().map(link).collect::<Result<_, SegmentError>>()?;
        let fabric = Arc::new(ProcessFabric {
            rank,
            job,
            stages: Stages::new(&arena),
            arena,
            geometry: *inbox.geometry(),
            links,
            sleeper: Arc::new(Sleeper::new(inbox)),
            watch: Watch::new(shape.processes()),
            turn: AtomicUsize::new(0),
            taken: AtomicU32::new(0),
            own: [ArrayQueue::new(OWN), ArrayQueue::new(OWN)],
            own_refused: AtomicBool::new(false),
            card: Keep::default(),
            detached: AtomicBool::new(false),
            counters,
            departures: Arc::default(),
            thread: Mutex::default(),
        });
        let (sleeper, this) = (fabric.sleeper.clone(), Arc::downgrade(&fabric));
        let thread = quiet::spawn("extoll-wake", move || sleeper.run(&this));
        *fabric.thread.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(thread.map_err(SegmentError::Thread)?);
        Ok(fabric)
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
    /// free again, packets to it are thrown away, and sleepers are woken. May be called at any time, any number of
    /// times, from any thread.
    pub fn lose(&self, rank: u32) {
        let Some(link) = self.link(rank) else { return };
        self.job.set_state(rank, PeerState::Lost);
        self.depart(link);
        // It may have been about to wake our thread.
        self.sleeper.rouse();
    }

    /// Takes note that a process has left in good order. What it had sent is still delivered.
    pub fn left(&self, rank: u32) {
        if let Some(link) = self.link(rank) {
            self.depart(link);
        }
    }

    pub(super) fn depart(&self, link: &Link) {
        link.out.give_up();
        if !link.departed.swap(true, Ordering::AcqRel) {
            self.departures.fetch_add(1, Ordering::Release);
        }
        if let Some(card) = self.card.get() {
            card.wake();
            card.rouse();
        }
    }

    /// Whether everything that processes had sent before they went was taken from their rings.
    pub fn drained(&self) -> bool {
        let waits =
            |link: &Link| link.departed.load(Ordering::Acquire) && link.incoming.has_packets(self.inbox());
        !self.links.iter().flatten().any(waits)
    }

    /// Processes that hold references to this one's memory: those for whose copies an unregistration waits.
    pub fn holders(&self) -> Vec<u32> {
        let links = self.links.iter().zip(0..);
        links.filter(|(link, _)| link.as_ref().is_some_and(|l| l.out.is_held())).map(|(_, r)| r).collect()
    }

    /// Moves whenever a process is found to have left or to be lost, so that whoever depends on one need not look
    /// at states while nothing happens.
    pub fn departures(&self) -> &Arc<AtomicU32> {
        &self.departures
    }

    /// Tells all processes that this one goes in good order. What it sent still arrives; nothing is sent to it any
    /// more.
    pub fn leave(&self) {
        if self.job.state(self.rank) == PeerState::Joined {
            self.job.set_state(self.rank, PeerState::Left);
        }
        self.links.iter().flatten().for_each(|link| link.out.remote().look());
        if self.links.iter().flatten().any(|link| link.out.is_held()) {
            // A peer still copies from a buffer that was sent to it: none is emptied, and they live on in the peers'
            // mappings of the arena.
            self.stages.iter().for_each(|stages| stages.keep());
        }
    }

    /// State of the process behind an address; absent where nobody opened it.
    pub fn state_of(&self, to: Address) -> PeerState {
        self.job.owner(to.node, to.vpid).map_or(PeerState::Absent, |rank| self.job.state(rank))
    }

    /// A peer's arena, to be mapped for other purposes (windows); `None` for this process and ranks that do not
    /// exist.
    pub fn peer_arena_fd(&self, rank: u32) -> Option<BorrowedFd<'_>> {
        self.link(rank).map(|link| link.arena.fd())
    }

    /// What it has done so far.
    pub fn counters(&self) -> FabricCounters {
        self.counters.read()
    }

    #[inline]
    pub(super) fn link(&self, rank: u32) -> Option<&Link> {
        self.links.get(rank as usize)?.as_ref()
    }

    pub(super) fn inbox(&self) -> &Inbox {
        &self.sleeper.inbox
    }

    pub(super) fn wake_card(&self) {
        if let Some(card) = self.card.get() {
            card.wake();
        }
    }

    pub(super) fn discard(&self) {
        self.counters.discarded.fetch_add(1, Ordering::Relaxed);
    }

    /// The process that takes a packet, if any does.
    #[inline]
    fn owner(&self, packet: &Packet) -> Option<u32> {
        let to = packet.destination;
        match packet.kind {
            Kind::SmfuStore | Kind::SmfuLoad | Kind::SmfuReply => self.job.smfu_owner(to.node),
            _ => self.job.owner(to.node, to.vpid),
        }
    }

    #[allow(clippy::result_large_err, reason = "as `Fabric::send`")]
    fn send_here(&self, packet: Packet) -> Result<(), Packet> {
        let queue = &self.own[packet.class() as usize];
        if let Err(packet) = queue.push(packet) {
            self.own_refused.store(true, Ordering::SeqCst);
            queue.push(packet)?;
        }
        self.wake_card();
        Ok(())
    }
}

impl Fabric for ProcessFabric {
    fn send(&self, _from: u16, packet: Packet) -> Result<(), Packet> {
        let to = packet.destination;
        if packet.modifier.contains(Modifier::MC) || u32::from(to.node) >= self.job.shape().nodes() {
            self.discard(); // groups have no members
            return Ok(());
        }
        let link = match self.owner(&packet) {
            Some(rank) if rank != self.rank => self.link(rank),
            // Nobody serves it: this process's card acts for the target's.
            _ => return self.send_here(packet),
        };
        let Some(link) = link else {
            self.discard();
            return Ok(());
        };
        let staged = matches!(packet.payload, Payload::Staged(_));
        match link.out.send(&self.arena, packet) {
            Ok(0) => Ok(()),
            Ok(bytes) => {
                self.counters.referenced.fetch_add(bytes as u64, Ordering::Relaxed);
                if staged {
                    self.counters.staged.fetch_add(bytes as u64, Ordering::Relaxed);
                }
                Ok(())
            }
            Err(Refused::Full(packet)) => Err(packet),
            Err(Refused::Never(packet)) => {
                drop(packet);
                self.discard();
                Ok(())
            }
        }
    }

    fn poll(&self, _node: u16, class: Class) -> Option<Packet> {
        self.poll_class(class)
    }

    fn polled(&self) -> bool {
        true
    }

    #[inline]
    fn pending(&self, _node: u16) -> bool {
        self.sleeper.polled();
        self.has_news()
    }

    /// Group 63 is every node but the sender's, as the network driver uses it (spec 11); there are no others.
    fn members(&self, from: u16, group: u16) -> Vec<u16> {
        if u64::from(group) != EXTOLL_VELO_BROADCAST_GROUP {
            return Vec::new();
        }
        (0..self.job.shape().nodes()).map(|node| node as u16).filter(|node| *node != from).collect()
    }

    fn rest(&self, _node: u16) {
        self.sleeper.rest();
    }

    fn carriage(&self, to: Address, runs: &Runs) -> Carriage {
        if self.job.owner(to.node, to.vpid).is_none_or(|rank| rank == self.rank) {
            return Carriage::Reference;
        }
        let most = self.geometry.most() as u32;
        let total: u64 = runs.iter().map(|run| u64::from(run.len)).sum();
        let here = |run: Run| self.arena.offset_of(run.address, run.len as usize).is_some();
        if total > u64::from(REFERENCE_FROM) && runs.more.is_empty() && here(runs.first) {
            return Carriage::Reference;
        }
        match &self.stages {
            Some(_) if total > u64::from(most) => Carriage::Staged { most: STAGE_BYTES as u32 },
            _ => Carriage::Bytes { most },
        }
    }

    fn stage(&self, len: usize) -> Option<Staged> {
        self.stages.as_ref()?.take(len)
    }

    fn reach(&self, to: Address) -> PeerState {
        self.state_of(to)
    }

    fn attach(&self, node: u16, wake: Arc<dyn Wake>) -> Result<(), FabricError> {
        let shape = self.job.shape();
        if node != shape.node_of(self.rank) {
            return Err(FabricError::NoSuchNode { node, nodes: shape.nodes() as usize });
        }
        if !self.card.set_if_none(wake) {
            return Err(FabricError::Taken { node });
        }
        self.detached.store(false, Ordering::Release);
        Ok(())
    }

    fn detach(&self, _node: u16) {
        self.card.set(None);
        self.detached.store(true, Ordering::Release);
        while self.own.iter().any(|queue| queue.pop().is_some()) {}
        self.sleeper.rouse();
    }
}

impl Drop for ProcessFabric {
    fn drop(&mut self) {
        self.leave();
        self.sleeper.stop();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // The last handle may go on that thread itself.
        if let Some(thread) = thread.filter(|t| t.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}
