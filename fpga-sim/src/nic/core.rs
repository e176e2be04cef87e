//! What lies under a card's core lock: the units, their state, and the loop that runs them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::ports::Port;
use super::send::Sending;
use super::smfu::SmfuInbound;
use super::{Nic, bell, velo};
use crate::atu::Atu;
use crate::bits::VpidSet;
use crate::completer::Completer;
use crate::counters::Counters;
use crate::notify::{Fate, Notice};
use crate::packet::{Hold, HoldState, Packet};
use crate::requester::Requester;
use crate::snq::{Snq, Trigger};
use crate::timer::Timer;
use crate::wake::Wake;

/// Commands that one VPID may run before the next one's turn.
pub(super) const BURST: usize = 16;
/// Rounds of all units in one run, before the thread may do something else.
const ROUNDS: usize = 64;
/// Reports of one VPID that may wait for their sources before its next command does.
const AWAITING_MAX: usize = 1024;

/// How soon a card must run again without being told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Mood {
    /// Not at all.
    Idle,
    /// Now and then: something waits for memory that others change, or for time to pass.
    Waiting,
    /// At once: a device copies, or more is to be done.
    Busy,
}

impl From<u8> for Mood {
    fn from(value: u8) -> Mood {
        match value {
            0 => Mood::Idle,
            1 => Mood::Waiting,
            _ => Mood::Busy,
        }
    }
}

/// A notify command of the ATU, and what it waits for.
pub(super) struct Flush {
    pub(super) address: u64,
    pub(super) holds: Vec<Arc<HoldState>>,
}

pub(super) struct Core {
    pub(super) node: u16,
    pub(super) atu: Atu,
    pub(super) counters: Counters,
    /// Register lock_base: in memory of this process.
    pub(super) lock_base: u64,
    pub(super) requester: Requester,
    pub(super) completer: Completer,
    pub(super) ports: Box<[Option<Box<Port>>]>,
    pub(super) interrupts: VpidSet,
    pub(super) retrigger: VpidSet,
    pub(super) velo_retrigger: VpidSet,
    pub(super) snq: Snq,
    pub(super) timer: Timer,
    /// First words of preloads, by VPID.
    pub(super) preloads: BTreeMap<u64, u64>,

    /// VPIDs with commands in their queues.
    ready: VpidSet,
    /// VPIDs with a slot ring.
    pub(super) slotted: VpidSet,
    /// VPIDs whose requester waits for the fabric or a device.
    pub(super) stalled: VpidSet,
    /// VPIDs with reports that wait for their sources.
    pub(super) awaiting: VpidSet,
    /// VPIDs with notifications that wait for room.
    pub(super) backlog: VpidSet,
    /// VPIDs with packets that wait for a device.
    pub(super) inbound: VpidSet,
    /// Whose turn is first in the next round.
    pub(super) turn: u8,
    /// Responses that the fabric has not taken.
    pub(super) responses: VecDeque<Box<Sending>>,
    /// A request that no unit has room for.
    pub(super) held: Option<Packet>,
    /// Packets may have arrived.
    pub(super) arrivals: bool,
    pub(super) smfu: SmfuInbound,
    pub(super) velo: velo::Unit,
    /// When the link layer wants to be called.
    links_again: Option<Instant>,
    links_worked: bool,
    /// Sources and targets in use by transfers that began and have not ended.
    holds: Vec<Arc<HoldState>>,
    flushes: Vec<Flush>,
    /// A notification was written, or a slot freed, in this run.
    pub(super) notified: bool,
    /// Off the network: what is there is another card's.
    pub(super) off: bool,
    /// Scratch space of `drain_queues`.
    pub(super) gone: Vec<(Notice, Fate)>,
}

/// What a unit needs, borrowed from the core field by field.
macro_rules! context {
    ($core:expr, $nic:expr, $vpid:expr) => {
        $crate::requester::Context {
            node: $core.node,
            memory: &*$nic.memory,
            atu: &mut $core.atu,
            counters: &mut $core.counters,
            entry: $nic.state.entry($vpid),
            fragment: $crate::fragment::payload_of_mtu($nic.state.config() as u16),
            force_errors: extoll_abi::regs::CONFIG_FORCE_ERRORS.is_set($nic.state.config()),
        }
    };
}
pub(super) use context;

impl Core {
    pub(super) fn new(node: u16, counters: Counters) -> Core {
        Core {
            node,
            atu: Atu::new(counters.clone()),
            counters,
            lock_base: 0,
            requester: Requester::default(),
            completer: Completer::default(),
            ports: (0..256).map(|_| None).collect(),
            interrupts: VpidSet::default(),
            retrigger: VpidSet::default(),
            velo_retrigger: VpidSet::default(),
            snq: Snq::default(),
            timer: Timer::default(),
            preloads: BTreeMap::new(),
            ready: VpidSet::default(),
            slotted: VpidSet::default(),
            stalled: VpidSet::default(),
            awaiting: VpidSet::default(),
            backlog: VpidSet::default(),
            inbound: VpidSet::default(),
            turn: 0,
            responses: VecDeque::new(),
            held: None,
            arrivals: false,
            smfu: SmfuInbound::default(),
            velo: velo::Unit::default(),
            links_again: None,
            links_worked: false,
            holds: Vec::new(),
            flushes: Vec::new(),
            notified: false,
            off: false,
            gone: Vec::new(),
        }
    }

    /// Runs all units until nothing moves, or for long enough. Returns whether anything moved.
    #[inline]
    pub(super) fn run(&mut self, nic: &Nic) -> bool {
        if self.off {
            return false;
        }
        let mut worked = false;
        for _ in 0..ROUNDS {
            // What a round sent over links, it sent after their step, so links are asked until nothing moves.
            if !self.has_more(nic) {
                return worked;
            }
            let mut moved = false;
            nic.memory.session(&mut || moved = self.round(nic));
            if !moved {
                return worked;
            }
            worked = true;
            if nic.driver.is_some() && bell::is_over(&nic.clock) {
                break;
            }
        }
        self.arrivals = true; // more to do: look again even without news
        worked
    }

    fn round(&mut self, nic: &Nic) -> bool {
        let mut moved = false;
        if nic.has_links {
            let work = nic.fabric.step(self.node, nic.clock.now());
            self.links_again = work.again;
            self.links_worked = work.worked;
            moved |= work.worked;
        }
        if nic.bell.take_news() || self.arrivals || nic.polled && nic.fabric.pending(self.node) {
            moved |= self.receive(nic);
        }
        if !self.inbound.is_empty() {
            moved |= self.continue_writes(nic);
        }
        if self.smfu.is_waiting() {
            moved |= self.smfu_continue(nic);
        }
        if !self.backlog.is_empty() {
            moved |= self.drain_queues(nic, nic.clock.now());
        }
        if !self.responses.is_empty() {
            moved |= self.resume_responses(nic);
        }
        if !self.stalled.is_empty() {
            moved |= self.resume(nic);
        }
        moved |= self.commands(nic);
        if self.velo.is_waiting() {
            moved |= self.velo_resume(nic);
        }
        if nic.velo_fronts.any_ready() || self.velo.is_ready() {
            moved |= self.velo_messages(nic);
        }
        if !self.slotted.is_empty() {
            moved |= self.poll_slots(nic);
        }
        if !self.velo.slotted.is_empty() {
            moved |= self.velo_poll_slots(nic);
        }
        if !self.awaiting.is_empty() {
            moved |= self.finish_awaited(nic);
        }
        if !self.flushes.is_empty() {
            moved |= self.finish_flushes(nic);
        }
        if self.counters.take_failed() {
            self.snq.raise(Trigger::RmaError);
        }
        if self.snq.is_ready() || self.snq_watches() || self.snq_alarmed(nic) {
            moved |= self.snq_step(nic);
        }
        self.turn = self.turn.wrapping_add(1);
        moved
    }

    /// Takes commands from the card path, a burst from each VPID in turn.
    #[inline]
    fn commands(&mut self, nic: &Nic) -> bool {
        nic.fronts.take_ready(&mut self.ready);
        if self.ready.is_empty() {
            return false;
        }
        let mut moved = false;
        for vpid in self.ready.iter_from(self.turn) {
            for _ in 0..BURST {
                if !self.can_execute(vpid) {
                    break;
                }
                let Some(command) = nic.fronts.pop(vpid) else {
                    self.ready.set(vpid, false);
                    break;
                };
                self.execute(nic, vpid, &command);
                moved = true;
            }
        }
        moved
    }

    /// Whether the requester can take a command of this VPID: not while its last one is not out, nor while its
    /// queue is full.
    #[inline]
    pub(super) fn can_execute(&self, vpid: u8) -> bool {
        self.ports[usize::from(vpid)].as_ref().is_none_or(|port| {
            port.sending.is_none() && port.queue.backlog() == 0 && port.awaiting.len() < AWAITING_MAX
        })
    }

    /// Whether the requester has sent all that it took of this VPID.
    pub(super) fn requester_idle(&self, vpid: u8) -> bool {
        self.ports[usize::from(vpid)]
            .as_ref()
            .is_none_or(|port| port.sending.is_none() && port.awaiting.is_empty())
    }

    pub(super) fn mood(&self) -> Mood {
        if self.is_calm() {
            return Mood::Idle;
        }
        let fetches = |vpid: u8| {
            let port = self.ports[usize::from(vpid)].as_ref();
            port.and_then(|port| port.sending.as_ref()).is_some_and(|sending| sending.waits_for_device())
        };
        let device = !self.inbound.is_empty()
            || self.smfu.is_waiting()
            || self.responses.iter().any(|sending| sending.waits_for_device())
            || self.stalled.iter_from(0).any(fetches);
        let more = self.arrivals && self.held.is_none();
        if device || more || self.links_worked { Mood::Busy } else { Mood::Waiting }
    }

    /// Whether a round can bring anything.
    #[inline]
    fn has_more(&self, nic: &Nic) -> bool {
        let fronts = nic.fronts.any_ready() | nic.velo_fronts.any_ready() | self.velo.is_ready();
        let asked = nic.has_links | nic.bell.has_news() | fronts;
        let polled = self.ready.len()
            | self.slotted.len()
            | self.velo.slotted.len()
            | self.awaiting.len()
            | self.flushes.len();
        polled | usize::from(asked) != 0
            || self.snq.is_ready()
            || self.snq_alarmed(nic)
            || self.counters.has_failed()
            || !self.is_calm()
            || nic.polled && nic.fabric.pending(self.node)
    }

    /// Nothing waits for anything but news. Asked all the time, so without a branch for each part.
    #[inline]
    fn is_calm(&self) -> bool {
        let waiting = self.inbound.len() | self.backlog.len() | self.stalled.len();
        let flags = self.arrivals
            | self.links_worked
            | self.smfu.is_waiting()
            | self.velo.is_waiting()
            | self.held.is_some()
            | self.snq_watches()
            | self.links_again.is_some();
        waiting | self.responses.len() | usize::from(flags) == 0
    }

    /// A hold on memory in use by a transfer of this card; flushes wait for it.
    pub(super) fn hold(&mut self, nic: &Nic) -> (Hold, Arc<HoldState>) {
        if self.holds.len() >= 32 && self.holds.len() == self.holds.capacity() {
            self.holds.retain(|hold| !hold.is_done());
        }
        let owner: Weak<dyn Wake> = Arc::downgrade(&nic.bell) as Weak<dyn Wake>;
        let (hold, state) = Hold::new(owner);
        self.holds.push(state.clone());
        (hold, state)
    }

    /// A notify command: its word is written once everything that has begun is over (spec 4.2).
    pub(super) fn notify_after_holds(&mut self, nic: &Nic, address: u64) {
        self.holds.retain(|hold| !hold.is_done());
        self.flushes.push(Flush { address, holds: self.holds.clone() });
        self.finish_flushes(nic);
    }

    fn finish_flushes(&mut self, nic: &Nic) -> bool {
        let before = self.flushes.len();
        self.flushes.retain(|flush| {
            let over = flush.holds.iter().all(|hold| hold.is_done());
            if over {
                // An address outside declared memory is the driver's error; nobody waits there.
                let _ = nic.memory.store(flush.address, 1);
            }
            !over
        });
        self.flushes.len() != before
    }

    /// Forgets everything of a VPID that was closed.
    pub(super) fn close(&mut self, nic: &Nic, vpid: u8) {
        nic.fronts.reset(vpid, true);
        if let Some(port) = self.ports[usize::from(vpid)].as_mut() {
            port.sending = None;
            port.awaiting.clear();
            port.queue.clear(|_| ());
        }
        self.stalled.set(vpid, false);
        self.awaiting.set(vpid, false);
        self.backlog.set(vpid, false);
        self.retrigger.set(vpid, false);
    }
}
