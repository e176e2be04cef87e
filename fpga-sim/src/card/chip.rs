//! The units of a card, joined: which of them a packet, a command or a register access is for.

mod registers;

use std::cell::RefCell;
use std::sync::Arc;

use extoll_abi::{Descriptor, ErrorUnits, Mode, PageOption, regs};

use super::BURST;
use super::access::read_registers;
use super::board::Board;
use super::deputy;
use super::front::FrontEnd;
use super::notifier::Notifier;
use super::receiver::{Progress, Receiver};
use super::sender::Sender;
use super::slots::SlotRings;
use super::smfu::{self, SmfuInbound};
use super::snq::SystemQueue;
use super::translation::Translation;
use super::triggers::TriggerUnit;
use super::velo::Velo;
use crate::packet::{Kind, Packet};
use crate::short_put::ShortPut;
use crate::units::bits::VpidSet;
use crate::units::lock::Locks;
use crate::units::report::Done;
use crate::units::requester::Job;
use crate::units::responder::{self, Answer};
use crate::units::smfu::Ingress;
use crate::units::wcb::Command;

/// Responses and waiting writes beyond which no further request is taken: the network holds them back.
const WAITING_MAX: usize = 64;

pub(super) struct Chip {
    pub(super) board: Arc<Board>,
    front: Arc<FrontEnd>,
    /// VPIDs with commands in their queues.
    ready: VpidSet,
    pub(super) slots: SlotRings<4, PageOption>,
    pub(super) translation: Translation,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    pub(super) notifier: Notifier,
    pub(super) velo: Velo,
    pub(super) triggers: TriggerUnit,
    pub(super) smfu: SmfuInbound,
    pub(super) system: SystemQueue,
    /// Register lock_base: in memory of this process.
    lock_base: u64,
    /// A slot was freed since someone asked.
    freed: bool,
}

impl Chip {
    pub(super) fn new(board: &Arc<Board>, front: &Arc<FrontEnd>) -> Chip {
        Chip {
            board: board.clone(),
            front: front.clone(),
            ready: VpidSet::default(),
            slots: SlotRings::default(),
            translation: Translation::new(board.clone()),
            sender: Sender::new(board.clone()),
            receiver: Receiver::new(board.clone()),
            notifier: Notifier::new(board.clone()),
            velo: Velo::new(board.clone(), front.clone()),
            triggers: TriggerUnit::new(board.clone(), front.clone()),
            smfu: SmfuInbound::new(board.clone()),
            system: SystemQueue::new(board.clone()),
            lock_base: 0,
            freed: false,
        }
    }

    /// Whether the requester can take a command of this VPID: not while its last one is not out, nor while its
    /// queue is full.
    #[inline]
    pub(super) fn can_execute(&self, vpid: u8) -> bool {
        !self.sender.is_stalled(vpid) && self.notifier.takes_commands(vpid)
    }

    /// Carries out one command of `vpid`; [`Chip::can_execute`] holds.
    #[inline]
    pub(super) fn execute(&mut self, vpid: u8, command: &Command) {
        if !self.execute_short(vpid, command) {
            self.sender.execute(&mut self.translation, &mut self.notifier, vpid, command);
        }
    }

    /// Whether the requester has sent all that it took of this VPID.
    pub(super) fn requester_idle(&self, vpid: u8) -> bool {
        !self.sender.is_stalled(vpid) && self.notifier.is_idle(vpid)
    }

    /// Whether software's look at memory may show something new: notifications, messages, freed slots. Asking takes
    /// it.
    #[inline]
    pub(super) fn take_written(&mut self) -> bool {
        self.notifier.take_written() | self.velo.take_written() | std::mem::take(&mut self.freed)
    }

    /// Whether nothing waits of what a command or a request can leave behind.
    #[inline]
    pub(super) fn rests(&self) -> bool {
        let notifier = &self.notifier;
        let waits = !self.receiver.inbound().is_empty()
            | notifier.has_backlog()
            | notifier.has_awaiting()
            | notifier.has_done()
            | self.sender.has_stalled()
            | (self.sender.responses() != 0)
            | self.velo.is_waiting();
        !waits
    }

    /// Whether commands or messages were taken over for their requesters and wait there, or may lie in slots, or triggers are to be counted.
    #[inline]
    pub(super) fn has_commands(&self) -> bool {
        let slots = self.slots.attached().len() | self.velo.slots.attached().len();
        slots | self.ready.len() | self.velo.ready() != 0 || self.has_triggers()
    }

    /// Whether others have brought commands, messages or triggers.
    #[inline]
    pub(super) fn is_called(&self) -> bool {
        let front = &*self.front;
        front.rma.any_ready() | front.velo.any_ready() | front.triggers.any() || self.system.is_called()
    }

    /// Takes commands from the card path, a burst from each VPID in turn.
    #[inline]
    pub(super) fn take_commands(&mut self, turn: u8) -> bool {
        self.front.rma.take_ready(&mut self.ready);
        if self.ready.is_empty() {
            return false;
        }
        let mut moved = false;
        for vpid in self.ready.iter_from(turn) {
            for _ in 0..BURST {
                if !self.can_execute(vpid) {
                    break;
                }
                let Some(command) = self.front.rma.pop(vpid) else {
                    self.ready.set(vpid, false);
                    break;
                };
                self.execute(vpid, &command);
                moved = true;
            }
        }
        moved
    }

    /// Takes published descriptors, a burst from each ring in turn; what the requester cannot take stays.
    pub(super) fn poll_slots(&mut self, turn: u8) -> bool {
        let mut moved = false;
        for vpid in self.slots.attached().iter_from(turn) {
            let mut taken = 0;
            while taken < BURST && self.can_execute(vpid) {
                let Some((option, word)) = self.slots.next(vpid) else { break };
                let descriptor = Descriptor { word };
                let process = self.board.fabric.process_at(descriptor.header().dst);
                taken += 1;
                self.execute(vpid, &Command { option, descriptor, process });
            }
            if taken > 0 {
                moved = true;
                self.freed = true;
                self.slots.publish(vpid);
            }
        }
        moved
    }

    /// Whether triggers wait to be counted, operations to be started, or their completion words to be written.
    #[inline]
    pub(super) fn has_triggers(&self) -> bool {
        self.notifier.has_done() || self.triggers.has_work()
    }

    /// Counts triggers and starts the operations that they complete, a burst of each VPID in turn; writes the
    /// completion words that are due.
    pub(super) fn run_triggers(&mut self, turn: u8) -> bool {
        let mut moved = self.triggers.take(&mut self.freed);
        for vpid in self.triggers.due().iter_from(turn) {
            for _ in 0..BURST {
                if !self.can_execute(vpid) {
                    break;
                }
                let Some((command, done)) = self.triggers.next(&mut self.notifier, vpid) else { break };
                self.start_triggered(vpid, &command, done);
                moved = true;
            }
        }
        if self.notifier.has_done() {
            let done = self.notifier.take_done();
            self.triggers.write_words(&mut self.translation, done);
            moved = true;
        }
        // Behind the words: who waits for one looks at the status, too.
        moved | self.triggers.write_status(&mut self.translation)
    }

    fn start_triggered(&mut self, vpid: u8, command: &Command, done: Option<Done>) {
        let (translation, notifier) = (&mut self.translation, &mut self.notifier);
        let answered = self.sender.execute_triggered(translation, notifier, vpid, command, done);
        if let (Some(tag), Some(done)) = (answered, done)
            && !self.receiver.await_answer(vpid, tag, done)
        {
            self.notifier.complete(vpid, done, ErrorUnits::COMPLETER);
        }
    }

    /// Whether the unit that takes this request can: a full queue or a busy device holds the network back, as on
    /// the card, until the queue's timeout (spec 3.2).
    #[inline]
    pub(super) fn has_room(&self, packet: &Packet) -> bool {
        let responses = self.sender.responses() < WAITING_MAX;
        if self.board.state.is_foreign(packet) {
            return responses;
        }
        let vpid = packet.destination.vpid;
        let free = || self.notifier.backlog(vpid) < WAITING_MAX && self.receiver.waiting(vpid) < WAITING_MAX;
        match packet.kind {
            Kind::Velo => self.velo.has_room(vpid),
            Kind::Get | Kind::Lock => responses && free(),
            Kind::SmfuStore | Kind::SmfuReduce => self.smfu.len() < WAITING_MAX,
            Kind::SmfuLoad | Kind::SmfuAtomic => responses && self.smfu.len() < WAITING_MAX,
            _ => free(),
        }
    }

    /// Deals with a put or a notification that the fabric still has, unless something has to be done before; whether it did. `bytes` are its
    /// payload where it has none itself.
    #[inline]
    pub(super) fn settle(&mut self, packet: &mut Packet, bytes: &[u8]) -> bool {
        let short = packet.payload.bytes().filter(|own| !own.is_empty()).unwrap_or(bytes);
        let put = ShortPut::of(packet, short);
        put.is_some_and(|put| self.take_short(&put, short)) || self.settle_any(packet, bytes)
    }

    fn settle_any(&mut self, packet: &mut Packet, bytes: &[u8]) -> bool {
        let fits = matches!(packet.kind, Kind::Put | Kind::Notification)
            && !packet.mode.contains(Mode::RRA)
            && packet.payload.bytes().is_some();
        if !fits || self.board.state.is_foreign(packet) || !self.has_room(packet) {
            return false;
        }
        let Chip { board, receiver, translation, notifier, .. } = self;
        // As in `accept`.
        if notifier.has_awaiting() {
            notifier.finish_awaited();
        }
        let mut settled = false;
        board.memory.session(&mut || settled = receiver.settle(translation, notifier, packet, bytes));
        settled
    }

    /// Takes a packet from the network, or what it has.
    #[inline]
    pub(super) fn accept(&mut self, packet: &mut Packet) {
        if self.board.state.is_foreign(packet) {
            let packet = packet.take();
            return deputy::act_for_target(&self.board, &mut self.translation, &mut self.sender, packet);
        }
        match packet.kind {
            Kind::Get | Kind::Lock => self.answer(packet),
            Kind::Put | Kind::Notification | Kind::GetResponse | Kind::LockResponse => {
                let (translation, notifier) = (&mut self.translation, &mut self.notifier);
                // What this may answer is reported first: its source may have been let go of just now.
                if notifier.has_awaiting() {
                    notifier.finish_awaited();
                }
                if self.receiver.accept(translation, notifier, packet) {
                    self.write_registers(packet);
                }
            }
            Kind::Velo => self.velo.accept(packet),
            Kind::SmfuStore | Kind::SmfuLoad | Kind::SmfuAtomic | Kind::SmfuReduce | Kind::SmfuReply => {
                self.accept_smfu(packet.take());
            }
        }
    }

    fn answer(&mut self, packet: &Packet) {
        span!("responder", node = self.board.node, from = %packet.source, kind = ?packet.kind);
        let locks = Locks { base: self.lock_base, config: self.board.state.lock_config() };
        let mut cx = self.translation.context(packet.destination.vpid);
        let job = match responder::receive(&mut cx, &locks, packet) {
            Answer::Dropped => return,
            Answer::Send(job) => job,
            Answer::Registers(mut job, offset) => {
                job.packet.payload = read_registers(offset, job.packet.total, |at| self.reg_read(at));
                job
            }
        };
        self.sender.respond(&mut self.translation, &mut self.notifier, job);
    }

    /// Goes on with packets that waited for a device.
    pub(super) fn continue_writes(&mut self, turn: u8) -> bool {
        let mut moved = false;
        for vpid in self.receiver.inbound().iter_from(turn) {
            loop {
                match self.receiver.go_on(&mut self.translation, &mut self.notifier, vpid) {
                    Progress::Nothing | Progress::Pending => break,
                    Progress::Moved => {}
                    Progress::Registers(mut packet) => self.write_registers(&mut packet),
                }
                moved = true;
            }
        }
        moved
    }

    fn accept_smfu(&mut self, packet: Packet) {
        span!("smfu", node = self.board.node, from = %packet.source, kind = ?packet.kind);
        let Some(packet) = self.smfu.admit(packet) else { return };
        let board = self.board.clone();
        let file = registers::File(RefCell::new(self));
        let led_to = board.smfu.ingress(packet, &*board.memory, &file);
        self.wait_for(led_to);
    }

    /// A packet of the SMFU led to this.
    fn wait_for(&mut self, led_to: Ingress) {
        match led_to {
            Ingress::Done => {}
            Ingress::Pending(ticket) => self.smfu.wait_for_store(ticket),
            Ingress::Fetch { ticket, request } => self.smfu.wait_for_load(ticket, request),
            Ingress::Again(request) => self.smfu.wait_for_room(request),
            Ingress::Reply(packet) => self.reply_smfu(packet),
        }
    }

    fn reply_smfu(&mut self, packet: Packet) {
        let job = Job { packet, source: None, report: None };
        self.sender.respond(&mut self.translation, &mut self.notifier, job);
    }

    /// Goes on behind a device's access for the SMFU that is done.
    pub(super) fn continue_smfu(&mut self) -> bool {
        match self.smfu.progress() {
            smfu::Progress::Pending => return false,
            smfu::Progress::Stored => {}
            smfu::Progress::Loaded(reply) => self.reply_smfu(reply),
            smfu::Progress::Again(request) => {
                let board = self.board.clone();
                self.wait_for(board.smfu.ingress_atomic(request, &*board.memory));
                if self.smfu.wants_room() {
                    return false;
                }
            }
        }
        while let Some(packet) = self.smfu.next() {
            self.accept_smfu(packet);
        }
        true
    }

    /// Whether there are interrupts that follow once software arms them: it does so without telling the card.
    #[inline]
    pub(super) fn watches_arming(&self) -> bool {
        self.system.executes() && (self.notifier.remembers() || self.velo.remembers())
    }

    /// Raises interrupts that were remembered until software arms them, and runs the next trigger's program.
    pub(super) fn run_system(&mut self) -> bool {
        let mut moved = false;
        if self.watches_arming() {
            moved |= self.notifier.retrigger_armed();
            moved |= self.velo.retrigger_armed();
        }
        moved |= self.system.look();
        let Some(mut snq) = self.system.begin() else { return moved };
        let (board, time) = (self.board.clone(), self.board.state.read(regs::EXTOLL_RF_INFO_TSC));
        let write = |entry| SystemQueue::write(&board, entry);
        snq.run(time.unwrap_or(0), |offset| self.reg_read(offset), write);
        self.system.end(snq);
        true
    }
}
