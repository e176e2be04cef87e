//! The VELO unit in the card: from requester pages and slot rings to packets, from packets to mailboxes (spec 7).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use extoll_abi::{BqReadPointer, BqSegment, BqTable, Mode, Modifier, regs};

use super::BURST;
use super::arming::Unarmed;
use super::board::Board;
use super::front::{FrontEnd, Posted};
use super::offsets::{self, array, page};
use super::per_vpid::PerVpid;
use super::slots::{SlotRings, VELO_SLOT_WORDS};
use crate::packet::{ANYONE, Packet, Payload};
use crate::units::bits::VpidSet;
use crate::units::counters::{VELO_DISABLED, VELO_RECEIVED, VELO_SENT, VELO_WRONG, WcbError};
use crate::units::notify::BQ_TIMEOUT_TICK;
use crate::units::snq::Trigger;
use crate::units::velo::{Fate, Letter, Mailbox, Message, RxDesc, send};

/// Messages that wait for room in a mailbox before the network is held back.
const WAITING_MAX: usize = 64;

/// What the unit keeps for a VPID in use.
#[derive(Default)]
struct Port {
    mailbox: Mailbox,
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

pub(super) struct Velo {
    board: Arc<Board>,
    front: Arc<FrontEnd>,
    ports: PerVpid<Port>,
    pub(super) slots: SlotRings<VELO_SLOT_WORDS, u8>,
    /// VPIDs with messages in their queues.
    ready: VpidSet,
    /// VPIDs whose last message waits for the fabric.
    stalled: VpidSet,
    /// VPIDs with messages that wait for room in the mailbox.
    backlog: VpidSet,
    /// VPIDs with an interrupt that follows once software arms it.
    retrigger: Unarmed,
    /// A message was written, or a slot freed, since someone asked.
    written: bool,
}

impl Velo {
    pub(super) fn new(board: Arc<Board>, front: Arc<FrontEnd>) -> Velo {
        Velo {
            board,
            front,
            ports: PerVpid::default(),
            slots: SlotRings::default(),
            ready: VpidSet::default(),
            stalled: VpidSet::default(),
            backlog: VpidSet::default(),
            retrigger: Unarmed::default(),
            written: false,
        }
    }

    /// Whether the requester can take a message of this VPID: not while its last one is not out.
    #[inline]
    pub(super) fn can_send(&self, vpid: u8) -> bool {
        !self.stalled.contains(vpid)
    }

    /// Whether a message to this VPID can be taken in: a full mailbox holds the network back (spec 7).
    pub(super) fn has_room(&self, vpid: u8) -> bool {
        self.ports.get(vpid).is_none_or(|port| port.mailbox.backlog() < WAITING_MAX)
    }

    /// Messages wait for memory or the fabric.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.backlog.len() | self.stalled.len() != 0
    }

    /// Messages wait for the requester.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.front.velo.any_ready() || !self.ready.is_empty()
    }

    /// VPIDs of which messages were taken over and wait for the requester.
    #[inline]
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Whether there are interrupts that follow once software arms them.
    #[inline]
    pub(super) fn remembers(&self) -> bool {
        !self.retrigger.is_empty()
    }

    /// Whether a message was written or a slot freed; asking takes it.
    #[inline]
    pub(super) fn take_written(&mut self) -> bool {
        std::mem::take(&mut self.written)
    }

    /// Takes messages from the requester pages, a burst from each VPID in turn.
    pub(super) fn take_messages(&mut self, turn: u8) -> bool {
        self.front.velo.take_ready(&mut self.ready);
        let mut moved = false;
        for vpid in self.ready.iter_from(turn) {
            for _ in 0..BURST {
                if !self.can_send(vpid) {
                    break;
                }
                let Some(message) = self.front.velo.pop(vpid) else {
                    self.ready.set(vpid, false);
                    break;
                };
                self.send(vpid, &message);
                moved = true;
            }
        }
        moved
    }

    /// Takes published messages, a burst from each ring in turn; while the network does not take a VPID's last one,
    /// its next ones stay.
    pub(super) fn poll_slots(&mut self, turn: u8) -> bool {
        let mut moved = false;
        for vpid in self.slots.attached().iter_from(turn) {
            let mut taken = 0;
            while taken < BURST && self.can_send(vpid) {
                let Some((tc, word)) = self.slots.next(vpid) else { break };
                let mut message = Message { tc, word, process: ANYONE };
                Posted::aim(&mut message, &self.board);
                taken += 1;
                self.send(vpid, &message);
            }
            if taken > 0 {
                moved = true;
                self.written = true;
                self.slots.publish(vpid);
            }
        }
        moved
    }

    /// Sends a message. Dropped and counted are those of a VPID that is not set up, and those with a header that
    /// means nothing; nobody could be told \[inferred\].
    #[inline]
    pub(super) fn send(&mut self, vpid: u8, message: &Message) {
        let board = &*self.board;
        span!("velo requester", node = board.node, vpid);
        if !board.state.velo_rx(vpid).has_mailbox() {
            return board.counters.add(VELO_DISABLED, 1);
        }
        let Ok(mut packet) = send(board.node, vpid, board.state.velo_tx(vpid), message) else {
            return Message::count_error(board, WcbError::TooLong, vpid);
        };
        let mut further = Vec::new();
        if packet.modifier.contains(Modifier::MC) {
            further = board.fabric.members(board.node, packet.destination.node);
            let Some(first) = further.pop() else {
                return board.counters.add(VELO_DISABLED, 1);
            };
            (packet.destination.node, packet.modifier) = (first, Modifier::NONE);
        }
        if let Err(rest) = give(board, packet, further, &mut false) {
            self.ports.at(vpid).sending = Some(rest);
            self.stalled.set(vpid, true);
        }
    }

    /// Tries again what the fabric refused, and what found no room.
    pub(super) fn resume(&mut self, turn: u8) -> bool {
        let mut moved = false;
        for vpid in self.stalled.iter_from(turn) {
            let Some(sending) = self.ports.at(vpid).sending.take() else {
                self.stalled.set(vpid, false);
                continue;
            };
            match give(&self.board, sending.packet, sending.further, &mut moved) {
                Ok(()) => self.stalled.set(vpid, false),
                Err(sending) => self.ports.at(vpid).sending = Some(sending),
            }
        }
        if !self.backlog.is_empty() {
            moved |= self.drain(self.board.clock.now());
        }
        moved
    }

    fn drain(&mut self, now: Instant) -> bool {
        let (mut moved, timeout) = (false, timeout(self.board.state.velo_timeout()));
        for vpid in self.backlog.iter_from(0) {
            let (port, board) = (self.ports.at(vpid), &*self.board);
            let rp = || BqReadPointer(board.pages.velo_rp(vpid).load(Ordering::Acquire));
            let (written, dropped) = port.mailbox.drain(&*board.memory, now, timeout, rp);
            let empty = port.mailbox.backlog() == 0;
            let interrupt = port.take_interrupt() && written > 0;
            self.backlog.set(vpid, !empty);
            board.counters.add(VELO_RECEIVED, written);
            if dropped > 0 {
                board.state.count_mailbox_errors(vpid, dropped);
                board.raise(Trigger::BqError);
            }
            self.written |= written > 0;
            if interrupt {
                self.interrupt(vpid);
            }
            moved |= written | dropped != 0;
        }
        moved
    }

    /// Takes a message in.
    #[inline]
    pub(super) fn accept(&mut self, packet: &Packet) {
        let vpid = packet.destination.vpid;
        let board = &*self.board;
        span!("velo mailbox", node = board.node, vpid, from = %packet.source);
        let rx = board.state.velo_rx(vpid);
        if !rx.has_mailbox() || !regs::BQ_ENABLE.is_set(board.state.velo_general()) {
            return board.counters.add(VELO_DISABLED, 1);
        }
        if rx.protection() != packet.protection {
            return board.counters.add(VELO_WRONG, 1);
        }
        let rp = BqReadPointer(board.pages.velo_rp(vpid).load(Ordering::Acquire));
        let port = self.ports.at(vpid);
        match port.mailbox.push(&*board.memory, rp, &Letter::of(packet)) {
            Fate::Written => {
                board.counters.add(VELO_RECEIVED, 1);
                self.written = true;
                if packet.mode.contains(Mode::IRQ) {
                    self.interrupt(vpid);
                }
            }
            Fate::Waits => {
                port.interrupt |= packet.mode.contains(Mode::IRQ);
                self.backlog.set(vpid, true);
            }
            Fate::Dropped => {
                board.state.count_mailbox_errors(vpid, 1);
                board.raise(Trigger::BqError);
            }
        }
    }

    /// A message with the interrupt bit was written, or may have been: as for notifications (spec 3.2, 3.3)
    /// \[inferred\].
    fn interrupt(&mut self, vpid: u8) {
        if self.retrigger.take_or_remember(vpid, self.board.pages.velo_rp(vpid)) {
            self.board.raise(Trigger::VeloNotification);
        }
    }

    /// Raises interrupts that were remembered until software arms them.
    pub(super) fn retrigger_armed(&mut self) -> bool {
        let Velo { board, ports, retrigger, .. } = self;
        retrigger.retrigger(
            |vpid| board.pages.velo_rp(vpid),
            |vpid, rp| ports.get(vpid).is_none_or(|port| port.mailbox.is_empty(rp)),
            |_| board.raise(Trigger::VeloNotification),
        )
    }

    /// Forgets what a VPID had to send and what waited for its mailbox.
    fn close(&mut self, vpid: u8) {
        self.front.velo.reset(vpid, true);
        let port = self.ports.at(vpid);
        port.sending = None;
        port.mailbox.clear();
        port.interrupt = false;
        self.retrigger.forget(vpid);
        self.stalled.set(vpid, false);
        self.backlog.set(vpid, false);
    }

    /// Reads a register of a VPID; `None` for offsets of others.
    pub(super) fn reg_read(&self, offset: u64) -> Option<u64> {
        use regs::*;
        if let Some(v) = page(offset, EXTOLL_RF_BQ_VELO_RP) {
            return Some(self.board.pages.velo_rp(v).load(Ordering::Acquire));
        }
        let (base, v) = offsets::queue(offset, EXTOLL_RF_BQ_VELO_UB, EXTOLL_RF_BQ_VELO_WP)?;
        let Some(port) = self.ports.get(v) else { return Some(0) };
        Some(match base {
            EXTOLL_RF_BQ_VELO_UB => port.mailbox.ub,
            EXTOLL_RF_BQ_VELO_DCQ => port.mailbox.table.0,
            EXTOLL_RF_BQ_VELO_CURRENT => port.mailbox.current.0,
            EXTOLL_RF_BQ_VELO_NEXT => port.mailbox.next.0,
            _ => port.mailbox.write_pointer(),
        })
    }

    /// Writes a register of a VPID; false for offsets of others. What belongs to a VPID that another process of the
    /// node serves stays as it is.
    pub(super) fn reg_write(&mut self, offset: u64, value: u64) -> bool {
        use regs::*;
        let state = &self.board.state;
        if let Some(v) = page(offset, EXTOLL_RF_BQ_VELO_RP) {
            if state.serves(v) {
                self.board.pages.velo_rp(v).store(value, Ordering::Release);
            }
        } else if let Some(v) = array(offset, EXTOLL_RF_VELO_RX) {
            let was_open = state.set_velo_rx(v, RxDesc(value)).has_mailbox();
            if was_open && !RxDesc(value).has_mailbox() {
                self.close(v);
            }
        } else if let Some((base, v)) = offsets::queue(offset, EXTOLL_RF_BQ_VELO_UB, EXTOLL_RF_BQ_VELO_WP) {
            if state.serves(v) {
                self.queue_write(base, v, value);
            }
        } else {
            return false;
        }
        true
    }

    fn queue_write(&mut self, base: u64, vpid: u8, value: u64) {
        use regs::*;
        let mailbox = &mut self.ports.at(vpid).mailbox;
        match base {
            EXTOLL_RF_BQ_VELO_UB => mailbox.ub = value,
            EXTOLL_RF_BQ_VELO_DCQ => mailbox.table = BqTable(value),
            EXTOLL_RF_BQ_VELO_CURRENT => mailbox.current = BqSegment(value),
            EXTOLL_RF_BQ_VELO_NEXT => mailbox.next = BqSegment(value),
            _ => mailbox.set_write_pointer(value),
        }
    }
}

/// Gives the fabric a message for each receiver, until it refuses one.
#[inline]
fn give(
    board: &Board,
    mut packet: Packet,
    mut further: Vec<u16>,
    moved: &mut bool,
) -> Result<(), Box<Sending>> {
    loop {
        let next = further.last().map(|node| {
            let bytes = packet.payload.bytes().unwrap_or(&[]);
            let mut next = packet.part(0, packet.len, Payload::copy_of(bytes));
            next.destination.node = *node;
            next
        });
        if let Err(packet) = board.fabric.send(board.node, packet) {
            return Err(Box::new(Sending { packet, further }));
        }
        board.counters.add(VELO_SENT, 1);
        *moved = true;
        let Some(next) = next else { return Ok(()) };
        further.pop();
        packet = next;
    }
}

/// How long a full mailbox holds back the network (spec 7).
fn timeout(register: u64) -> Option<Duration> {
    let ticks = regs::VELO_TIMEOUT.get(register) as u32;
    regs::VELO_TIMEOUT_ENABLE.is_set(register).then(|| BQ_TIMEOUT_TICK.saturating_mul(ticks))
}
