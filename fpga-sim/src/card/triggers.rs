//! The trigger unit's place in the card (model only): its registers, what triggers it, and what it has the requester
//! do. The front end of its pages is in `trigger_stores.rs`.

use std::collections::VecDeque;
use std::sync::Arc;

use extoll_abi::regs::{self, *};
use extoll_abi::{Access, Descriptor, ErrorUnits, Mode, PageOption};

use super::board::Board;
use super::front::FrontEnd;
use super::notifier::Notifier;
use super::offsets::element;
use super::per_vpid::PerVpid;
use super::slots::SlotRings;
use super::translation::Translation;
use super::trigger_stores::Stored;
use crate::units::bits::VpidSet;
use crate::units::report::Done;
use crate::units::trigger::{Lookup, Refusal, Registration, Started, Triggers};
use crate::units::wcb::Command;

/// Operations of a VPID that were started and wait for the requester; until there are fewer, none is started again.
const STARTED_MAX: usize = 4096;
/// Entries of a slot ring that are taken in one go.
const SLOTS: usize = 64;

/// What is registered.
#[derive(Clone, Copy)]
struct Operation {
    option: PageOption,
    descriptor: Descriptor,
    /// NLA of its completion word.
    done: Option<u64>,
}

/// One VPID's.
#[derive(Default)]
struct Port {
    triggers: Option<Triggers<Operation>>,
    /// Started, in order, for the requester.
    started: VecDeque<Started<Operation>>,
    /// What the host wrote for the next command: DESC to DONE.
    registration: [u64; 6],
    result: u64,
    value: u64,
    /// Where the status words are, as the register has it, and what they say.
    status_at: u64,
    status: [u64; EXTOLL_TRIGGER_STATUS_WORDS as usize],
}

pub(super) struct TriggerUnit {
    board: Arc<Board>,
    front: Arc<FrontEnd>,
    pub(super) slots: SlotRings<4, ()>,
    ports: PerVpid<Port>,
    /// VPIDs with stores in their FIFOs.
    ready: VpidSet,
    /// VPIDs with operations for the requester.
    due: VpidSet,
    /// VPIDs whose status words are old.
    changed: VpidSet,
}

impl TriggerUnit {
    pub(super) fn new(board: Arc<Board>, front: Arc<FrontEnd>) -> TriggerUnit {
        TriggerUnit {
            board,
            front,
            slots: SlotRings::default(),
            ports: PerVpid::default(),
            ready: VpidSet::default(),
            due: VpidSet::default(),
            changed: VpidSet::default(),
        }
    }

    /// Whether there may be something to do.
    #[inline]
    pub(super) fn has_work(&self) -> bool {
        let sets = self.slots.attached().len() | self.ready.len() | self.due.len() | self.changed.len();
        sets != 0 || self.front.triggers.any()
    }

    /// VPIDs with operations that the requester is to carry out.
    #[inline]
    pub(super) fn due(&self) -> VpidSet {
        self.due
    }

    /// Counts what lies in FIFOs and slot rings. A count needs no room, so nothing is held back. `freed`: slots were.
    pub(super) fn take(&mut self, freed: &mut bool) -> bool {
        let mut moved = false;
        self.front.triggers.take_ready(&mut self.ready);
        for vpid in self.ready.iter_from(0) {
            moved |= self.take_fifo(vpid);
            self.ready.set(vpid, false);
        }
        for vpid in self.slots.attached().iter_from(0) {
            let mut taken = 0;
            while taken < SLOTS
                && let Some(((), words)) = self.slots.next(vpid)
            {
                self.count(vpid, Stored::of_slot(words));
                taken += 1;
            }
            if taken > 0 {
                self.slots.publish(vpid);
                (moved, *freed) = (true, true);
            }
        }
        moved
    }

    fn take_fifo(&mut self, vpid: u8) -> bool {
        let mut moved = false;
        while let Some(stored) = self.front.triggers.pop(vpid) {
            self.count(vpid, stored);
            moved = true;
        }
        moved
    }

    /// Counts a store that found no room in the FIFO, behind what lies there.
    pub(super) fn take_behind(&mut self, vpid: u8, stored: Stored) {
        self.take_fifo(vpid);
        self.count(vpid, stored);
    }

    fn count(&mut self, vpid: u8, stored: Stored) {
        let port = self.ports.at(vpid);
        let Some(triggers) = &mut port.triggers else {
            // Nobody made a table: as of a descriptor for a VPID that is not open, only a counter tells.
            return self.board.counters.error(regs::REQ_CMDT);
        };
        let before = triggers.counts();
        let (tag, started) = match stored {
            Stored::Fire { tag, fields } => (tag, triggers.trigger(tag, fields)),
            Stored::Rearm { tag } if port.started.len() >= STARTED_MAX => {
                port.note(EXTOLL_TRIGGER_STATUS_FAILED, 1, tag);
                self.changed.set(vpid, true);
                return;
            }
            Stored::Rearm { tag } => (tag, triggers.rearm(tag)),
        };
        let after = triggers.counts();
        if let Ok(Some(started)) = started {
            port.started.push_back(started);
            self.due.set(vpid, true);
        }
        for (word, more) in [
            (EXTOLL_TRIGGER_STATUS_REFUSED, after.refused - before.refused),
            (EXTOLL_TRIGGER_STATUS_LATE, after.late - before.late),
            (EXTOLL_TRIGGER_STATUS_FAILED, after.failed - before.failed),
        ] {
            if more > 0 {
                port.note(word, more, tag);
                self.changed.set(vpid, true);
            }
        }
    }

    /// The next operation of a VPID that the requester is to carry out, and its completion word.
    pub(super) fn next(&mut self, notifier: &mut Notifier, vpid: u8) -> Option<(Command, Option<Done>)> {
        let port = self.ports.at(vpid);
        while let Some(started) = port.started.pop_front() {
            let Started { tag, operation, fields, times } = started;
            let done = operation.done.map(|word| Done { word, times });
            let descriptor = match fields {
                None => Some(operation.descriptor),
                Some(fields) => fields.applied(&operation.descriptor).and_then(|(header, request)| {
                    Descriptor::encode(header.dst, header.spec, header.modifier, &request).ok()
                }),
            };
            if let Some(descriptor) = descriptor {
                let process = self.board.fabric.process_at(descriptor.header().dst);
                return Some((Command { option: operation.option, descriptor, process }, done));
            }
            port.note(EXTOLL_TRIGGER_STATUS_FAILED, 1, tag);
            self.changed.set(vpid, true);
            if let Some(done) = done {
                notifier.complete(vpid, done, ErrorUnits::REQUESTER);
            }
        }
        self.due.set(vpid, false);
        None
    }

    /// Writes completion words.
    pub(super) fn write_words(&mut self, translation: &mut Translation, done: Vec<(u8, Done, ErrorUnits)>) {
        for (vpid, Done { word, times }, error) in done {
            let value = TRIGGER_WORD_TIMES.put(times.into()) | TRIGGER_WORD_ERROR.put(error.bits().into());
            if !self.store(translation, vpid, word, value) {
                self.ports.at(vpid).note(EXTOLL_TRIGGER_STATUS_FAILED, 1, 0);
                self.changed.set(vpid, true);
            }
        }
    }

    /// Writes the status words that have changed; each count behind its tag.
    pub(super) fn write_status(&mut self, translation: &mut Translation) -> bool {
        let moved = !self.changed.is_empty();
        for vpid in self.changed.iter_from(0) {
            self.changed.set(vpid, false);
            let Port { status_at, status, .. } = *self.ports.at(vpid);
            let Some(start) = nla(status_at) else { continue };
            for (i, word) in status.into_iter().enumerate().rev() {
                // Where nothing is registered there, nobody looks.
                self.store(translation, vpid, start.wrapping_add(8 * i as u64), word);
            }
        }
        moved
    }

    /// Stores a word at an NLA of a VPID, with release; whether it could.
    fn store(&self, translation: &mut Translation, vpid: u8, nla: u64, value: u64) -> bool {
        let mut cx = translation.context(vpid);
        let runs = cx.resolve(vpid, Mode::TE, nla, 8, Access::WRITE);
        runs.is_some_and(|runs| self.board.memory.store(runs.first.address, value).is_ok())
    }

    /// Forgets everything of a VPID that was closed.
    pub(super) fn close(&mut self, vpid: u8) {
        while self.front.triggers.pop(vpid).is_some() {}
        if let Some(port) = self.ports.get_mut(vpid) {
            *port = Port::default();
        }
        self.due.set(vpid, false);
        self.changed.set(vpid, false);
    }

    /// Reads a register of a trigger page; `None` for offsets of others.
    pub(super) fn reg_read(&mut self, offset: u64) -> Option<u64> {
        let (vpid, at) = page(offset)?;
        let Some(port) = self.ports.get_mut(vpid) else { return Some(0) };
        let triggers = port.triggers.as_ref();
        Some(match at {
            EXTOLL_TRIGGER_DESC..EXTOLL_TRIGGER_COMMAND => {
                port.registration[(at - EXTOLL_TRIGGER_DESC) as usize / 8]
            }
            EXTOLL_TRIGGER_RESULT => port.result,
            EXTOLL_TRIGGER_VALUE => port.value,
            EXTOLL_TRIGGER_STATUS => port.status_at,
            EXTOLL_TRIGGER_CONTROL => triggers.map_or(0, |triggers| {
                TRIGGER_ENTRIES.put(triggers.most().into()) | TRIGGER_LOOKUP.put(triggers.lookup().bits())
            }),
            _ => {
                let counts = triggers.map(Triggers::counts).unwrap_or_default();
                let i = at.wrapping_sub(EXTOLL_TRIGGER_COUNTERS) / 8;
                let values = [
                    counts.used,
                    counts.unregistered,
                    counts.waiting,
                    counts.started,
                    counts.refused,
                    counts.late,
                    counts.failed,
                    counts.compared,
                ];
                values.get(i as usize).copied().unwrap_or(0)
            }
        })
    }

    /// Writes a register of a trigger page; false for offsets of others. What belongs to a VPID that another process of
    /// the node serves stays as it is.
    pub(super) fn reg_write(&mut self, offset: u64, value: u64) -> bool {
        let Some((vpid, at)) = page(offset) else { return false };
        if !self.board.state.serves(vpid) {
            return true;
        }
        let port = self.ports.at(vpid);
        match at {
            EXTOLL_TRIGGER_DESC..EXTOLL_TRIGGER_COMMAND => {
                port.registration[(at - EXTOLL_TRIGGER_DESC) as usize / 8] = value;
            }
            EXTOLL_TRIGGER_COMMAND => {
                // What was stored before comes before.
                self.take_fifo(vpid);
                self.command(vpid, value);
            }
            EXTOLL_TRIGGER_STATUS => {
                port.status_at = value;
                self.changed.set(vpid, true);
            }
            EXTOLL_TRIGGER_CONTROL => {
                let lookup = Lookup::from_bits(TRIGGER_LOOKUP.get(value));
                let most = TRIGGER_ENTRIES.get(value) as u32;
                *port = Port::default();
                port.triggers = lookup.and_then(|lookup| Triggers::new(lookup, most));
                self.due.set(vpid, false);
                self.changed.set(vpid, false);
            }
            _ => {
                if let Some(stored) = self.front.triggers.assemble(vpid, at, value) {
                    self.take_behind(vpid, stored);
                }
            }
        }
        true
    }

    fn command(&mut self, vpid: u8, command: u64) {
        let port = self.ports.at(vpid);
        let [word0, word1, word2, tag, how, done] = port.registration;
        let busy = port.started.len() >= STARTED_MAX;
        let Some(triggers) = port.triggers.as_mut() else {
            port.result = EXTOLL_TRIGGER_BAD;
            return;
        };
        let option = PageOption::new(TRIGGER_OPTION.get(how) as u8).unwrap_or_default();
        let descriptor = Descriptor { word: [word0, word1, word2] };
        let started = match command {
            EXTOLL_TRIGGER_CMD_REGISTER | EXTOLL_TRIGGER_CMD_REARM if busy => {
                port.result = EXTOLL_TRIGGER_BUSY;
                return;
            }
            EXTOLL_TRIGGER_CMD_REGISTER => triggers.register(&Registration {
                tag,
                threshold: TRIGGER_THRESHOLD.get(how) as u32,
                takes_fields: TRIGGER_FIELDS.is_set(how),
                operation: Operation { option, descriptor, done: nla(done) },
            }),
            EXTOLL_TRIGGER_CMD_REARM => triggers.rearm(tag),
            EXTOLL_TRIGGER_CMD_CANCEL => triggers.cancel(tag).map(|count| {
                port.value = count.into();
                None
            }),
            EXTOLL_TRIGGER_CMD_LOOK => triggers.count(tag).ok_or(Refusal::Unknown).map(|count| {
                port.value = count.into();
                None
            }),
            _ => Err(Refusal::Threshold),
        };
        port.result = match started {
            Ok(Some(started)) => {
                port.started.push_back(started);
                self.due.set(vpid, true);
                EXTOLL_TRIGGER_DONE_OK
            }
            Ok(None) => EXTOLL_TRIGGER_DONE_OK,
            Err(Refusal::Full(_)) => EXTOLL_TRIGGER_FULL,
            Err(Refusal::Taken) => EXTOLL_TRIGGER_TAKEN,
            Err(Refusal::Unknown) => EXTOLL_TRIGGER_UNKNOWN,
            Err(Refusal::Waits) => EXTOLL_TRIGGER_WAITS,
            Err(Refusal::Threshold | Refusal::NoFields | Refusal::Count) => EXTOLL_TRIGGER_BAD,
        };
    }
}

impl Port {
    fn note(&mut self, word: u64, more: u64, tag: u64) {
        self.status[word as usize] += more;
        self.status[word as usize + 1] = tag;
    }
}

/// The NLA in DONE or STATUS.
fn nla(register: u64) -> Option<u64> {
    TRIGGER_VALID.is_set(register).then_some(register & !7)
}

/// VPID, and offset in its trigger page.
fn page(offset: u64) -> Option<(u8, u64)> {
    let (vpid, at) = element(offset, EXTOLL_RF_TRIGGER, EXTOLL_RF_TRIGGER_STRIDE, EXTOLL_VPIDS)?;
    Some((vpid as u8, at))
}
