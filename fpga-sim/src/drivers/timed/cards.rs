//! Real cards: their driver, their clock, and the network that joins them.
//!
//! A card's units do at once what they are told; what it costs is charged where its packets pass: a command's way to the
//! card and through the requester before its packet is on the links, the completer and the bus before a packet is in the
//! target's inbox. So a notification is written when it would be visible. The requester's own notification comes when
//! the source was read; of payloads that lie in the packet itself (up to 64 bytes), when the command was taken.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use extoll_abi::Address;
use ggas_clock::Time;

use super::credits::Held;
use super::flight::Errand;
use super::state::What;
use super::{Ps, Timed};
use crate::card::{Driver, Nic};
use crate::drivers::naps;
use crate::memory::Memory;
use crate::memory::runs::Runs;
use crate::network::fabric::{Carriage, Fabric, FabricError};
use crate::packet::{ByReference, Class, Hold, Kind, Packet, Payload};
use crate::wake::Wake;

/// What real cards move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moves {
    /// The bytes of every payload.
    #[default]
    Bytes,
    /// The bytes of payloads that packets hold themselves, up to [`INLINE_MAX`](crate::packet::INLINE_MAX); of longer ones
    /// only how many there are.
    Lengths,
}

/// A node's card.
#[derive(Default)]
struct Slot {
    wake: Option<Arc<dyn Wake>>,
    nic: Option<Weak<Nic>>,
    /// When it is to run, and the count of such times.
    due: Option<Ps>,
    turn: u32,
    nap: u64,
    /// Packets with the room that they have at the end of their link.
    inbox: [VecDeque<(Packet, Held)>; 2],
    /// When the commands that the card has not taken were posted: it may run before the programs' time.
    posted: VecDeque<Ps>,
    /// When the last one was.
    left: Ps,
    /// Programs that wait for news of it, with their turns.
    sleepers: Vec<(u32, u32)>,
}

pub(super) struct Cards {
    slots: Vec<Slot>,
    joined: Option<(Arc<dyn Memory>, Moves)>,
    /// A card runs, further up on this stack.
    pub running: bool,
    /// How often cards ran, and how often they moved anything.
    pub runs: u64,
    pub news: u64,
}

impl Cards {
    pub fn new(nodes: usize) -> Cards {
        Cards {
            slots: (0..nodes).map(|_| Slot::default()).collect(),
            joined: None,
            running: false,
            runs: 0,
            news: 0,
        }
    }

    pub fn is_due(&self, card: u32, turn: u32) -> bool {
        let slot = &self.slots[card as usize];
        slot.turn == turn && slot.due.is_some()
    }

    /// Puts a packet into its target's inbox; gives it back where there is no card.
    pub fn deliver(&mut self, to: u32, packet: Box<Packet>, held: Held) -> Result<(), Box<Packet>> {
        let slot = &mut self.slots[to as usize];
        if slot.wake.is_none() {
            return Err(packet);
        }
        slot.inbox[packet.class() as usize].push_back((*packet, held));
        Ok(())
    }

    /// Notes that a program waits for news of a node's card.
    pub fn sleep(&mut self, node: u32, task: (u32, u32)) {
        self.slots[node as usize].sleepers.push(task);
    }

    /// Takes a payload from its source, which nobody reads any more once the hold is let go of.
    pub fn take_source(&self, packet: &mut Packet) -> Option<Hold> {
        let (memory, moves) = self.joined.as_ref()?;
        let Payload::ByReference(source) = &packet.payload else { return None };
        let payload = match moves {
            Moves::Bytes => Payload::Bytes(read(&**memory, source)?),
            Moves::Lengths => {
                let hold = Hold::of_nobody();
                Payload::ByReference(ByReference {
                    first: source.first,
                    more: source.more.clone(),
                    tail: None,
                    hold,
                })
            }
        };
        match std::mem::replace(&mut packet.payload, payload) {
            Payload::ByReference(source) => Some(source.hold),
            _ => None,
        }
    }
}

/// The bytes of a source; `None` where it is a device's, which the target's card copies.
fn read(memory: &dyn Memory, source: &ByReference) -> Option<Box<[u8]>> {
    let mut bytes = vec![0; source.runs().map(|run| run.len as usize).sum()];
    let mut rest = &mut bytes[..];
    for run in source.runs() {
        let (now, behind) = rest.split_at_mut(run.len as usize);
        memory.read(run.address, now).ok()?;
        rest = behind;
    }
    Some(bytes.into_boxed_slice())
}

impl Timed {
    /// Joins real cards by this network: their payloads lie in `memory`. What the memory of cards copies for a payload is
    /// its own business: see [`Lengths`](crate::memory::Lengths).
    pub fn join(&self, memory: Arc<dyn Memory>, moves: Moves) {
        self.state().cards.joined = Some((memory, moves));
    }

    /// Tells a card of news, which has it run.
    pub(super) fn wake(&self, card: u32) {
        let wake = self.state().cards.slots[card as usize].wake.clone();
        if let Some(wake) = wake {
            wake.wake();
        }
    }

    /// Runs a card whose turn it is.
    pub(super) fn run_card(&self, card: u32) {
        let mut state = self.state();
        state.cards.runs += 1;
        let slot = &mut state.cards.slots[card as usize];
        slot.due = None;
        let Some(nic) = slot.nic.as_ref().and_then(Weak::upgrade) else { return };
        // Before the run: whoever submits the card from now on is not taken for served.
        nic.submitted().store(false, Ordering::Release);
        state.cards.running = true;
        drop(state);
        let (moved, need) = nic.run_for_driver();
        let mut state = self.state();
        state.cards.running = false;
        let now = state.now;
        if moved {
            state.cards.news += 1;
            let sleepers = std::mem::take(&mut state.cards.slots[card as usize].sleepers);
            for (task, turn) in sleepers {
                state.schedule(now, What::Task(task, turn));
            }
        }
        let before = state.cards.slots[card as usize].nap;
        let Some(nap) = naps::next(before, moved, need) else { return };
        if nic.submitted().swap(true, Ordering::AcqRel) {
            return;
        }
        let slot = &mut state.cards.slots[card as usize];
        slot.nap = nap;
        let due = now + Ps::ns(1.0) * nap;
        let turn = slot.due(due);
        state.schedule(due, What::Card(card, turn));
    }
}

impl Slot {
    /// When the requester gets what a packet comes from: not before it was posted, nor before what comes first.
    fn leaves(&mut self, now: Ps, packet: &Packet) -> Ps {
        let is_posted = packet.offset == 0 && !packet.kind.is_smfu();
        let posted = if is_posted { self.posted.pop_front() } else { None };
        self.left = self.left.max(now).max(posted.unwrap_or(now));
        self.left
    }

    /// It is to run at `at`; gives the count.
    fn due(&mut self, at: Ps) -> u32 {
        self.due = Some(at);
        self.turn = self.turn.wrapping_add(1);
        self.turn
    }
}

impl Timed {
    /// Has a card run at the time of who asks; a program pays for what it told the card.
    fn have_run(&self, nic: &Arc<Nic>, command: bool) {
        let Some(card) = self.index(nic.node()) else { return };
        nic.submitted().store(true, Ordering::Release);
        let by_program = self.is_running_here();
        let mut state = self.state();
        if by_program && !state.cards.running {
            state.charge(self.costs.host.post);
        }
        let at = state.here();
        let slot = &mut state.cards.slots[card as usize];
        if command {
            slot.posted.push_back(at);
        }
        if slot.nic.as_ref().is_none_or(|known| !std::ptr::eq(known.as_ptr(), &raw const **nic)) {
            slot.nic = Some(Arc::downgrade(nic));
        }
        slot.nap = 0;
        if slot.due.is_none_or(|due| due > at) {
            let turn = slot.due(at);
            state.schedule(at, What::Card(card, turn));
        }
    }
}

impl Driver for Timed {
    fn submit(&self, nic: &Arc<Nic>) {
        self.have_run(nic, false);
    }

    fn posted(&self, nic: &Arc<Nic>) {
        self.have_run(nic, true);
    }
}

impl Time for Timed {
    fn began(&self) -> Instant {
        self.began
    }

    fn elapsed(&self) -> Duration {
        self.now().duration()
    }

    fn pass(&self, until: Instant) {
        self.pass_until(until, false);
    }

    fn pass_or_news(&self, until: Instant) {
        self.pass_until(until, true);
    }

    fn look(&self) -> Duration {
        self.costs.host.poll.duration().max(Duration::from_nanos(1))
    }

    fn pass_look(&self) {
        match self.is_running_here() {
            true => self.suspend_for(self.look()),
            false => self.pass(self.began + self.elapsed() + self.look()),
        }
    }
}

impl Fabric for Timed {
    fn send(&self, from: u16, packet: Packet) -> Result<(), Packet> {
        let Some(to) = self.index(packet.destination.node) else { return Ok(()) };
        let Some(from) = self.index(from) else { return Ok(()) };
        let costs = &self.costs;
        let (errand, delay) = match packet.kind {
            Kind::GetResponse | Kind::LockResponse | Kind::SmfuReply => (Errand::Answer, 0),
            Kind::Get | Kind::Lock | Kind::SmfuLoad | Kind::SmfuAtomic => (Errand::Ask, costs.bus_write),
            Kind::SmfuStore | Kind::SmfuReduce => (Errand::Store, costs.bus_write),
            Kind::Put | Kind::Notification | Kind::Velo => (Errand::Put, costs.bus_write),
        };
        let mut state = self.state();
        let station = &mut state.ground.stations[from as usize];
        if station.queued[errand.class() as usize] >= costs.queue {
            station.refused = true;
            return Err(packet);
        }
        let mut at = state.here();
        if delay > 0 {
            at = state.cards.slots[from as usize].leaves(at, &packet);
        }
        at += Ps(delay);
        state.send(at, (from, to), errand, packet);
        Ok(())
    }

    fn poll(&self, node: u16, class: Class) -> Option<Packet> {
        let node = self.index(node)?;
        let mut state = self.state();
        let (packet, held) = state.cards.slots[node as usize].inbox[class as usize].pop_front()?;
        let at = state.here();
        state.give_back(held, at);
        Some(packet)
    }

    fn carriage(&self, _to: Address, runs: &Runs) -> Carriage {
        let lengths = matches!(self.state().cards.joined, Some((_, Moves::Lengths)));
        let bytes: u64 = runs.iter().map(|run| u64::from(run.len)).sum();
        if lengths || bytes <= self.costs.train {
            return Carriage::Reference;
        }
        Carriage::Bytes { most: u32::try_from(self.costs.train).unwrap_or(u32::MAX) }
    }

    fn attach(&self, node: u16, wake: Arc<dyn Wake>) -> Result<(), FabricError> {
        let nodes = self.nodes();
        let index = self.index(node).ok_or(FabricError::NoSuchNode { node, nodes })?;
        let mut state = self.state();
        let slot = &mut state.cards.slots[index as usize];
        if slot.wake.is_some() {
            return Err(FabricError::Taken { node });
        }
        slot.wake = Some(wake);
        Ok(())
    }

    fn detach(&self, node: u16) {
        let Some(index) = self.index(node) else { return };
        let mut state = self.state();
        let slot = &mut state.cards.slots[index as usize];
        // Taken out of the lock: dropping packets wakes their senders.
        let gone = (slot.wake.take(), slot.nic.take(), std::mem::take(&mut slot.inbox));
        let at = state.here();
        gone.2.iter().flatten().for_each(|(_, held)| state.give_back(*held, at));
        drop(state);
        drop(gone);
    }
}
