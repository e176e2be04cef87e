//! The VELO unit in the card: from requester pages to packets, from packets to mailboxes (spec 7).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use extoll_abi::{BqReadPointer, Mode, Modifier, VELO_LINE_WORDS, regs, velo_page_at};

use super::Nic;
use super::core::{BURST, Core};
use super::front::Fronts;
use super::post::Posted;
use super::velo_slots::VeloSlots;
use crate::bits::VpidSet;
use crate::counters::{VELO_DISABLED, VELO_RECEIVED, VELO_SENT, VELO_WRONG, WcbError};
use crate::notify::BQ_TIMEOUT_TICK;
use crate::packet::{Packet, Payload};
use crate::snq::Trigger;
use crate::velo::{Fate, Letter, Mailbox, Message, send};

/// Messages that wait for room in a mailbox before the network is held back.
const WAITING_MAX: usize = 64;

pub(super) type VeloFronts = Fronts<Message, VELO_LINE_WORDS>;

/// What the unit keeps for a VPID in use.
#[derive(Default)]
pub(super) struct Port {
    pub(super) mailbox: Mailbox,
    /// The ring of messages from a GPU.
    pub(super) slots: Option<VeloSlots>,
    sending: Option<Box<Sending>>,
    /// A message that waits, or that went before it, has the interrupt bit.
    interrupt: bool,
}

impl Port {
    /// Whether an interrupt is due for messages that waited; asking takes it once none waits any more.
    fn take_interrupt(&mut self) -> bool {
        let due = self.interrupt;
        self.interrupt &= self.mailbox.backlog() > 0;
        due
    }
}

/// A message that the fabric has not taken.
struct Sending {
    packet: Packet,
    /// Nodes that it goes to after the packet's own (multicast).
    further: Vec<u16>,
}

/// The unit's state, under the core lock.
pub(super) struct Unit {
    ports: Box<[Option<Box<Port>>]>,
    /// VPIDs with messages in their queues.
    ready: VpidSet,
    /// VPIDs whose last message waits for the fabric.
    stalled: VpidSet,
    /// VPIDs with messages that wait for room in the mailbox.
    backlog: VpidSet,
    /// VPIDs with a slot ring.
    pub(super) slotted: VpidSet,
}

impl Default for Unit {
    fn default() -> Self {
        Unit {
            ports: (0..256).map(|_| None).collect(),
            ready: VpidSet::default(),
            stalled: VpidSet::default(),
            backlog: VpidSet::default(),
            slotted: VpidSet::default(),
        }
    }
}

impl Posted<VELO_LINE_WORDS> for Message {
    #[inline]
    fn fronts(nic: &Nic) -> &VeloFronts {
        &nic.velo_fronts
    }

    #[inline]
    fn state(nic: &Nic, vpid: u8) -> &AtomicU64 {
        nic.pages.velo_wcb_state(vpid)
    }

    #[inline]
    fn aim(&mut self, nic: &Nic) {
        Message::aim(self, &*nic.fabric);
    }

    #[inline]
    fn can_execute(core: &Core, vpid: u8) -> bool {
        core.velo.can_send(vpid)
    }

    #[inline]
    fn execute(&self, core: &mut Core, nic: &Nic, vpid: u8) {
        core.velo_send(nic, vpid, self);
    }

    #[inline]
    fn timeout(nic: &Nic) -> u64 {
        nic.state.velo_wcb_timeout()
    }

    #[cold]
    fn count_error(nic: &Nic, error: WcbError, vpid: u8) {
        nic.state.count_velo_wcb_error(error, vpid);
        nic.wcb_failed();
    }
}

impl Nic {
    /// Stores words, ascending from `offset`, into the VELO requester BAR (spec 7): `offset` is
    /// `class << 20 | vpid << 12` and the place in the page, header at 0, payload behind it. The words of a message
    /// may come in any order and in any number of calls; with the last one it is on its way. A word that the header
    /// does not announce begins the next message's line. One thread at a time per VPID, as on the card.
    #[inline]
    pub fn velo_store(&self, offset: u64, words: &[u64]) {
        let (tc, vpid, at) = velo_page_at(offset);
        for (i, word) in words.iter().enumerate() {
            let at = at.saturating_add(8 * i as u16);
            if let Some((front, message)) = self.velo_fronts.store(self, tc, vpid, at, *word) {
                self.post(front, vpid, message);
            }
        }
    }

    /// WCB state of a VPID's VELO requester (spec 7); alone on its page, for mapping.
    pub fn velo_wcb_state(&self, vpid: u8) -> &AtomicU64 {
        self.pages.velo_wcb_state(vpid)
    }

    /// Read-pointer register of a VPID's mailbox (spec 7); alone on its page, for mapping.
    pub fn velo_rp_register(&self, vpid: u8) -> &AtomicU64 {
        self.pages.velo_rp(vpid)
    }

    /// Whether everything that a VPID's page committed is with the network; see [`Nic::requester_idle`].
    pub fn velo_idle(&self, vpid: u8) -> bool {
        self.velo_fronts.is_empty(vpid) && self.with_core(|core| core.velo.can_send(vpid))
    }
}

fn rp(nic: &Nic, vpid: u8) -> BqReadPointer {
    BqReadPointer(nic.pages.velo_rp(vpid).load(Ordering::Acquire))
}

impl Unit {
    pub(super) fn port(&mut self, vpid: u8) -> &mut Port {
        self.ports[usize::from(vpid)].get_or_insert_default()
    }

    pub(super) fn known(&self, vpid: u8) -> Option<&Port> {
        self.ports[usize::from(vpid)].as_deref()
    }

    /// Whether the requester can take a message of this VPID: not while its last one is not out.
    pub(super) fn can_send(&self, vpid: u8) -> bool {
        self.known(vpid).is_none_or(|port| port.sending.is_none())
    }

    /// Whether a message to this VPID can be taken in: a full mailbox holds the network back (spec 7).
    pub(super) fn has_room(&self, vpid: u8) -> bool {
        self.known(vpid).is_none_or(|port| port.mailbox.backlog() < WAITING_MAX)
    }

    /// Whether software has read everything in a mailbox.
    pub(super) fn is_read(&self, vpid: u8, rp: BqReadPointer) -> bool {
        self.known(vpid).is_none_or(|port| port.mailbox.is_empty(rp))
    }

    /// Messages wait for memory or the fabric.
    pub(super) fn is_waiting(&self) -> bool {
        self.backlog.len() | self.stalled.len() != 0
    }

    /// Messages wait for the requester.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }
}

/// How long a full mailbox holds back the network (spec 7).
fn timeout(nic: &Nic) -> Option<Duration> {
    let register = nic.state.velo_timeout();
    let ticks = regs::VELO_TIMEOUT.get(register) as u32;
    regs::VELO_TIMEOUT_ENABLE.is_set(register).then(|| BQ_TIMEOUT_TICK.saturating_mul(ticks))
}

impl Core {
    /// Takes messages from the requester pages, a burst from each VPID in turn.
    pub(super) fn velo_messages(&mut self, nic: &Nic) -> bool {
        nic.velo_fronts.take_ready(&mut self.velo.ready);
        let mut moved = false;
        for vpid in self.velo.ready.iter_from(self.turn) {
            for _ in 0..BURST {
                if !self.velo.can_send(vpid) {
                    break;
                }
                let Some(message) = nic.velo_fronts.pop(vpid) else {
                    self.velo.ready.set(vpid, false);
                    break;
                };
                self.velo_send(nic, vpid, &message);
                moved = true;
            }
        }
        moved
    }

    /// Sends a message. Dropped and counted are those of a VPID that is not set up, and those with a header that
    /// means nothing; nobody could be told \[inferred\].
    #[inline]
    pub(super) fn velo_send(&mut self, nic: &Nic, vpid: u8, message: &Message) {
        if !nic.state.velo_rx(vpid).has_mailbox() {
            return self.counters.add(VELO_DISABLED, 1);
        }
        let Ok(mut packet) = send(self.node, vpid, nic.state.velo_tx(vpid), message) else {
            return Message::count_error(nic, WcbError::TooLong, vpid);
        };
        let mut further = Vec::new();
        if packet.modifier.contains(Modifier::MC) {
            further = nic.fabric.members(self.node, packet.destination.node);
            let Some(first) = further.pop() else {
                return self.counters.add(VELO_DISABLED, 1);
            };
            (packet.destination.node, packet.modifier) = (first, Modifier::NONE);
        }
        if let Err(rest) = self.velo_give(nic, packet, further, &mut false) {
            self.velo.port(vpid).sending = Some(rest);
            self.velo.stalled.set(vpid, true);
        }
    }

    /// Gives the fabric a message for each receiver, until it refuses one.
    #[inline]
    fn velo_give(
        &mut self,
        nic: &Nic,
        mut packet: Packet,
        mut further: Vec<u16>,
        moved: &mut bool,
    ) -> Result<(), Box<Sending>> {
        loop {
            let next = further.last().map(|node| {
                let mut next =
                    packet.part(0, packet.len, Payload::copy_of(packet.payload.bytes().unwrap_or(&[])));
                next.destination.node = *node;
                next
            });
            if let Err(packet) = nic.fabric.send(self.node, packet) {
                return Err(Box::new(Sending { packet, further }));
            }
            self.counters.add(VELO_SENT, 1);
            *moved = true;
            let Some(next) = next else { return Ok(()) };
            further.pop();
            packet = next;
        }
    }

    /// Tries again what the fabric refused, and what found no room.
    pub(super) fn velo_resume(&mut self, nic: &Nic) -> bool {
        let mut moved = false;
        for vpid in self.velo.stalled.iter_from(self.turn) {
            let Some(sending) = self.velo.port(vpid).sending.take() else {
                self.velo.stalled.set(vpid, false);
                continue;
            };
            match self.velo_give(nic, sending.packet, sending.further, &mut moved) {
                Ok(()) => self.velo.stalled.set(vpid, false),
                Err(sending) => self.velo.port(vpid).sending = Some(sending),
            }
        }
        if !self.velo.backlog.is_empty() {
            moved |= self.velo_drain(nic, nic.clock.now());
        }
        moved
    }

    fn velo_drain(&mut self, nic: &Nic, now: Instant) -> bool {
        let (mut moved, timeout) = (false, timeout(nic));
        for vpid in self.velo.backlog.iter_from(0) {
            let mailbox = &mut self.velo.port(vpid).mailbox;
            let (written, dropped) = mailbox.drain(&*nic.memory, now, timeout, || rp(nic, vpid));
            let empty = mailbox.backlog() == 0;
            let interrupt = written > 0 && self.velo.port(vpid).take_interrupt();
            self.velo.backlog.set(vpid, !empty);
            self.counters.add(VELO_RECEIVED, written);
            if dropped > 0 {
                nic.state.count_mailbox_errors(vpid, dropped);
                self.snq.raise(Trigger::BqError);
            }
            self.notified |= written > 0;
            if interrupt {
                self.velo_interrupt(nic, vpid);
            }
            moved |= written | dropped != 0;
        }
        moved
    }

    /// Takes a message in.
    #[inline]
    pub(super) fn velo_accept(&mut self, nic: &Nic, packet: &Packet) {
        let vpid = packet.destination.vpid;
        let rx = nic.state.velo_rx(vpid);
        if !rx.has_mailbox() || !regs::BQ_ENABLE.is_set(nic.state.velo_general()) {
            return self.counters.add(VELO_DISABLED, 1);
        }
        if rx.protection() != packet.protection {
            return self.counters.add(VELO_WRONG, 1);
        }
        match self.velo.port(vpid).mailbox.push(&*nic.memory, rp(nic, vpid), &Letter::of(packet)) {
            Fate::Written => {
                self.counters.add(VELO_RECEIVED, 1);
                self.notified = true;
                if packet.mode.contains(Mode::IRQ) {
                    self.velo_interrupt(nic, vpid);
                }
            }
            Fate::Waits => {
                self.velo.port(vpid).interrupt |= packet.mode.contains(Mode::IRQ);
                self.velo.backlog.set(vpid, true);
            }
            Fate::Dropped => {
                nic.state.count_mailbox_errors(vpid, 1);
                self.snq.raise(Trigger::BqError);
            }
        }
    }

    /// Forgets what a VPID had to send and what waited for its mailbox.
    pub(super) fn velo_close(&mut self, nic: &Nic, vpid: u8) {
        nic.velo_fronts.reset(vpid, true);
        let port = self.velo.port(vpid);
        port.sending = None;
        port.mailbox.clear();
        port.interrupt = false;
        self.velo_retrigger.set(vpid, false);
        self.velo.stalled.set(vpid, false);
        self.velo.backlog.set(vpid, false);
    }
}
