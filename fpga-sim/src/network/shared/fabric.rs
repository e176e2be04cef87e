//! [`ProcessFabric`]: the cards of a network's processes, joined by rings in shared memory.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use crossbeam_queue::ArrayQueue;
use extoll_abi::Address;
use extoll_abi::regs::EXTOLL_VELO_BROADCAST_GROUP;
use ggas_members::memory::{ARENA_BYTES, Arena};
use ggas_members::{GoneGuard, Member, MemberId, Members, PeerState, quiet};

use super::cables::{Cables, Ways};
use super::error::JoinError;
use super::inbox::{Geometry, Inbox};
use super::link::Link;
use super::losses::Losses;
use super::sleep::Sleeper;
use super::stage::{STAGE_BYTES, Stages};
use super::tally::{Counters, FabricCounters};
use super::watch::Watch;
use crate::keep::Keep;
use crate::memory::Lent;
use crate::memory::runs::Run;
use crate::memory::runs::Runs;
use crate::network::fabric::{Carriage, Fabric, FabricError, First, Pending};
use crate::network::links::xbar;
use crate::node::Nodes;
use crate::node::{Owner, process_of};
use crate::packet::{ANYONE, Class, NOBODY, Packet};
use crate::wake::Wake;

/// Packets of a class that a process sent to itself and has not taken.
const OWN: usize = 128;
/// Beyond how many bytes a payload in the arena travels as a reference; a few lines are sooner there as bytes.
const REFERENCE_FROM: u32 = 512;

/// One process's end of a network between processes: it joins the cards of all of its members.
///
/// A peer is met when the first packet goes there: the two exchange their inboxes and arenas (`meet.rs`). Until
/// then packets to it wait, as where there is no credit.
pub struct ProcessFabric {
    pub(super) this: Weak<ProcessFabric>,
    pub(super) me: MemberId,
    pub(super) owner: Owner,
    pub(super) nodes: Arc<Nodes>,
    pub(super) arena: Arc<Arena>,
    stages: Option<Arc<Stages>>,
    pub(super) geometry: Geometry,
    /// By slot.
    pub(super) links: Box<[Link]>,
    sleeper: Arc<Sleeper>,
    pub(super) watch: Watch,
    /// Whose turn it is: a place of `watch`, or behind them this process itself; and packets taken in the turn.
    pub(super) turn: AtomicUsize,
    pub(super) taken: AtomicU32,
    pub(super) own: [ArrayQueue<Packet>; 2],
    /// This process found its own queue full.
    pub(super) own_refused: AtomicBool,
    /// Requests that processes had not taken when they ended: this process's card acts for theirs.
    recalled: Mutex<VecDeque<Packet>>,
    has_recalled: AtomicBool,
    pub(super) card: Keep<Arc<dyn Wake>>,
    /// There was a card, and it went.
    pub(super) detached: AtomicBool,
    pub(super) counters: Counters,
    pub(super) losses: Losses,
    pub(super) ways: Ways,
    /// Packets wait for something that does not work.
    pub(super) is_waiting: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
    departures: Arc<AtomicU32>,
    pub(super) gone: Mutex<Option<GoneGuard>>,
    /// The process that joined.
    process: u32,
}

impl ProcessFabric {
    /// A member's end of its network. A member has one, as long as it is a member.
    ///
    /// # Errors
    /// [`JoinError`]: no memory, descriptors or threads.
    pub fn join(member: Arc<Member>) -> Result<Arc<ProcessFabric>, JoinError> {
        let losses = Losses::parse(member.shape().faults(), member.me().slot).map_err(JoinError::Faults)?;
        let inbox = Inbox::create(member.shape()).map_err(JoinError::Inbox)?;
        let arena = Arena::create(ARENA_BYTES).map_err(JoinError::Arena)?;
        let cables = Cables::of_member(&member).map_err(JoinError::Cables)?;
        if !member.claim_transport() {
            return Err(JoinError::Twice);
        }
        let (geometry, counters) = (*inbox.geometry(), Counters::default());
        let members = member.shape().members();
        let fabric = Arc::new_cyclic(|this| ProcessFabric {
            this: this.clone(),
            me: member.me(),
            owner: Owner::of(member.me()),
            ways: Ways::new(cables, member.node()),
            is_waiting: AtomicBool::new(false),
            nodes: Nodes::new(member),
            stages: Stages::new(&arena),
            arena,
            geometry,
            links: (0..members).map(|slot| Link::new(slot, geometry)).collect(),
            sleeper: Arc::new(Sleeper::new(inbox)),
            watch: Watch::new(members),
            turn: AtomicUsize::new(0),
            taken: AtomicU32::new(0),
            own: [ArrayQueue::new(OWN), ArrayQueue::new(OWN)],
            own_refused: AtomicBool::new(false),
            recalled: Mutex::default(),
            has_recalled: AtomicBool::new(false),
            card: Keep::default(),
            detached: AtomicBool::new(false),
            counters,
            losses,
            departures: Arc::default(),
            thread: Mutex::default(),
            gone: Mutex::default(),
            process: std::process::id(),
        });
        let (sleeper, this) = (fabric.sleeper.clone(), Arc::downgrade(&fabric));
        let thread = quiet::spawn("extoll-wake", move || sleeper.run(&this));
        *fabric.thread.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(thread.map_err(JoinError::Thread)?);
        fabric.answer();
        Ok(fabric)
    }

    /// This process's slot in the network; its rank, in a job.
    pub fn rank(&self) -> u32 {
        self.me.slot
    }

    /// This process as a member of the network.
    pub fn member(&self) -> &Arc<Member> {
        self.nodes.member()
    }

    /// The network's nodes.
    pub fn nodes(&self) -> &Arc<Nodes> {
        &self.nodes
    }

    /// Memory that peers can copy from.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Whether this process and the one that has a slot have exchanged their inboxes, so that packets go. Has them meet
    /// where not; packets that are sent before wait.
    pub fn has_met(&self, slot: u32) -> bool {
        if slot == self.me.slot {
            return true;
        }
        let Some((link, peer)) = self.link(slot).zip(self.member().at(slot)) else { return false };
        if link.out.is_open(peer.id.generation) {
            return true;
        }
        if peer.state == PeerState::Joined {
            self.meet(peer.id);
        }
        false
    }

    /// Treats whoever has a slot as dead: what it had sent completely is still delivered, memory that it might still
    /// read is free again, packets to it are thrown away, and sleepers are woken. May be called at any time, any number
    /// of times, from any thread.
    pub fn lose(&self, slot: u32) {
        if let Some(peer) = self.member().at(slot) {
            self.member().lose(peer.id);
        }
    }

    /// A member has left or is lost, or takes no packets any more. What it had sent is still delivered.
    pub(super) fn depart(&self, id: MemberId) {
        let Some(link) = self.link(id.slot) else { return };
        if self.member().state(self.me) != PeerState::Joined {
            // Others took this process for dead, or it left: its slot may be another's now.
            self.shut();
        }
        let untaken = link.part(id, &self.rules(Class::Request, (self.member().node(), NOBODY), link.node()));
        if !untaken.is_empty() {
            self.recalled.lock().unwrap_or_else(PoisonError::into_inner).extend(untaken);
            self.has_recalled.store(true, Ordering::Release);
        }
        // It may have been about to wake our thread.
        self.sleeper.rouse();
        // Also where it had said goodbye before: only now its state tells.
        self.departures.fetch_add(1, Ordering::Release);
        if link.lane.load(Ordering::Acquire) == id.generation {
            self.forget_soon(id, link);
        }
        self.look_again();
    }

    /// The next request that a process had not taken when it ended.
    #[inline]
    pub(super) fn take_recalled(&self, class: Class) -> Option<Packet> {
        if class != Class::Request || !self.has_recalled.load(Ordering::Acquire) {
            return None;
        }
        let mut recalled = self.recalled.lock().unwrap_or_else(PoisonError::into_inner);
        let packet = recalled.pop_front();
        self.has_recalled.store(!recalled.is_empty(), Ordering::Release);
        packet
    }

    /// Sends nothing to other processes any more.
    fn shut(&self) {
        self.links.iter().for_each(|link| link.out.shut());
    }

    /// Has the card and those who sleep for its notifications look.
    pub(super) fn look_again(&self) {
        if let Some(card) = self.card.get() {
            card.wake();
            card.rouse();
        }
    }

    /// Whether everything that processes had sent before they went was taken from their rings.
    pub fn drained(&self) -> bool {
        let waits = |link: &Link| link.is_parted() && link.incoming.has_packets(self.inbox());
        !self.links.iter().any(waits)
    }

    /// Slots of processes for which an unregistration waits: those that hold references to this one's memory, and those
    /// that were asked to meet and have not answered, for whom packets may wait.
    pub fn holders(&self) -> Vec<u32> {
        let holds = |link: &Link| link.out.is_held() || link.is_awaited();
        self.links.iter().zip(0..).filter(|(link, _)| holds(link)).map(|(_, slot)| slot).collect()
    }

    /// Moves whenever a process is found to have left or to be lost, so that whoever depends on one need not look
    /// at states while nothing happens.
    pub fn departures(&self) -> &Arc<AtomicU32> {
        &self.departures
    }

    /// Leaves the network in good order. What this process sent still arrives; nothing is sent to it any more.
    pub fn leave(&self) {
        // Before another can have the slot: nothing of this process comes into lanes that are that one's then.
        self.shut();
        self.member().leave();
        self.part();
    }

    /// Memory that others may still read stays as it is.
    fn part(&self) {
        self.links.iter().filter_map(|link| link.out.remote()).for_each(|remote| remote.look());
        if self.links.iter().any(|link| link.out.is_held()) {
            // A peer still copies from a buffer that was sent to it: none is emptied, and they live on in the peers'
            // mappings of the arena.
            self.stages.iter().for_each(|stages| stages.keep());
        }
    }

    /// State of the process behind an address, or of the one that was there last; absent where nobody ever opened it.
    pub fn state_of(&self, to: Address) -> PeerState {
        let last = self.nodes.last_owner(to.node, to.vpid);
        last.map_or(PeerState::Absent, |id| self.member().state(id))
    }

    /// What it has done so far.
    pub fn counters(&self) -> FabricCounters {
        FabricCounters { repeated: self.losses.repeated(), ..self.counters.read() }
    }

    #[inline]
    pub(super) fn link(&self, slot: u32) -> Option<&Link> {
        self.links.get(slot as usize)
    }

    pub(super) fn inbox(&self) -> &Inbox {
        &self.sleeper.inbox
    }

    /// Descriptors that peers get.
    pub(super) fn given(&self) -> [BorrowedFd<'_>; 2] {
        [self.inbox().fd(), self.arena.fd()]
    }

    pub(super) fn rouse(&self) {
        self.sleeper.rouse();
    }

    pub(super) fn wake_card(&self) {
        if let Some(card) = self.card.get() {
            card.wake();
        }
    }

    pub(super) fn discard(&self) {
        self.counters.discarded.fetch_add(1, Ordering::Relaxed);
        self.nodes.count_discarded();
    }
}

impl ProcessFabric {
    /// Whether a node is on another host: all its ranks are.
    pub fn is_far(&self, node: u16) -> bool {
        let member = self.nodes().member();
        let first = member.shape().ranks().map_or(node.into(), |shape| shape.ranks_of(node).start);
        member.is_far(first)
    }
}

impl Fabric for ProcessFabric {
    fn send(&self, _from: u16, packet: Packet) -> Result<(), Packet> {
        self.send_packet(packet)
    }

    #[inline]
    fn process_at(&self, to: Address) -> u32 {
        self.nodes.last_owner(to.node, to.vpid).map_or(ANYONE, process_of)
    }

    fn poll(&self, _node: u16, class: Class) -> Option<Packet> {
        if self.ways.is_dead() { self.throw_away(class) } else { self.poll_class(class) }
    }

    fn polled(&self) -> bool {
        true
    }

    #[inline]
    fn pending(&self, _node: u16, _first: &mut dyn First) -> Pending {
        self.sleeper.polled();
        if self.has_news() { Pending::Packets } else { Pending::Nothing }
    }

    /// Group 63 is every node but the sender's, as the network driver uses it (spec 11); there are no others.
    fn members(&self, from: u16, group: u16) -> Vec<u16> {
        if u64::from(group) != EXTOLL_VELO_BROADCAST_GROUP {
            return Vec::new();
        }
        (0..self.nodes.count()).map(|node| node as u16).filter(|node| *node != from).collect()
    }

    fn rest(&self, _node: u16) {
        self.sleeper.rest();
    }

    fn carriage(&self, to: Address, runs: &Runs) -> Carriage {
        if self.nodes.owner(to.node, to.vpid).is_none_or(|id| id == self.me) {
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

    fn stage(&self, len: usize) -> Option<Lent> {
        self.stages.as_ref()?.take(len)
    }

    fn reg_read(&self, node: u16, offset: u64) -> Option<u64> {
        xbar::read(self, node, offset)
    }

    fn reg_write(&self, node: u16, offset: u64, value: u64) -> bool {
        xbar::write(self, node, offset, value)
    }

    fn attach(&self, node: u16, wake: Arc<dyn Wake>) -> Result<(), FabricError> {
        if node != self.member().node() {
            return Err(FabricError::NoSuchNode { node, nodes: self.nodes.count() as usize });
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
        self.recalled.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.sleeper.rouse();
    }
}

impl Drop for ProcessFabric {
    fn drop(&mut self) {
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.process != std::process::id() {
            // A fork's copy: peers, threads and locks are its parent's business.
            std::mem::forget((thread, self.gone.get_mut().unwrap_or_else(PoisonError::into_inner).take()));
            return;
        }
        self.say_goodbye();
        self.part();
        self.sleeper.stop();
        // The last handle may go on that thread itself.
        if let Some(thread) = thread.filter(|t| t.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}
