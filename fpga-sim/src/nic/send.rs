//! The requester's and responder's way out: from jobs to packets that the fabric has taken.

use std::sync::Arc;

use extoll_abi::{ErrorUnits, Kind as Unit, regs};

use super::Nic;
use super::core::{Core, context};
use crate::counters::{self, Counters};
use crate::fabric::Carriage;
use crate::fragment;
use crate::memory::Lent;
use crate::memory::{MemoryError, Ticket};
use crate::packet::{ByReference, Hold, HoldState, INLINE_MAX, Kind, Packet, Payload};
use crate::report::Report;
use crate::requester::Job;
use crate::runs::{Cursor, Runs};
use crate::wcb::Command;

/// A job that the fabric has not taken in whole.
pub(super) struct Sending {
    unit: Unit,
    report: Option<Report>,
    /// A finished packet that was refused, and the hold of its payload.
    ready: Option<(Packet, Option<Arc<HoldState>>)>,
    /// What is still to be cut into fragments.
    rest: Option<Rest>,
}

struct Rest {
    /// Header of the whole command.
    packet: Packet,
    source: Cursor,
    /// Bytes of a packet: whole fragments.
    part: u32,
    /// The next packet's payload as far as it is read; bytes from a device come piece by piece.
    bytes: Part,
    /// A piece on its way from device memory.
    fetching: Option<Ticket>,
    /// Shows to flushes that the source is still read.
    _hold: Hold,
}

/// A payload that is being read.
struct Part {
    buffer: Buffer,
    filled: usize,
}

enum Buffer {
    Own(Vec<u8>),
    /// One of the fabric's, once it gave one.
    Staged(Option<Lent>),
}

impl Part {
    /// Room for a payload of `len` bytes; `None` where the fabric has none now.
    fn room(&mut self, nic: &Nic, len: usize) -> Option<&mut [u8]> {
        match &mut self.buffer {
            Buffer::Own(bytes) => {
                bytes.resize(len, 0);
                Some(bytes)
            }
            Buffer::Staged(staged) => {
                if staged.is_none() {
                    *staged = nic.fabric.stage(len);
                }
                staged.as_mut().map(Lent::bytes_mut).filter(|bytes| bytes.len() == len)
            }
        }
    }

    /// The payload, which is complete.
    fn take(&mut self) -> Payload {
        self.filled = 0;
        match &mut self.buffer {
            Buffer::Own(bytes) if bytes.len() <= INLINE_MAX => Payload::copy_of(bytes),
            Buffer::Own(bytes) => Payload::Bytes(std::mem::take(bytes).into_boxed_slice()),
            Buffer::Staged(staged) => staged.take().map_or(Payload::None, Payload::Lent),
        }
    }
}

impl Sending {
    /// Node that it goes to.
    pub(super) fn destination(&self) -> u16 {
        let packet = self.ready.as_ref().map(|(packet, _)| packet);
        packet.or(self.rest.as_ref().map(|rest| &rest.packet)).map_or(0, |packet| packet.destination.node)
    }

    /// Whether it waits for a device, rather than for the fabric.
    pub(super) fn waits_for_device(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.fetching.is_some())
    }
}

/// A job's end: it is all with the fabric; the source may still be read until the hold is done.
type Sent = (Option<Report>, Option<Arc<HoldState>>);

impl Core {
    /// Carries out one command of `vpid`; [`Core::can_execute`] holds.
    #[inline]
    pub(super) fn execute(&mut self, nic: &Nic, vpid: u8, command: &Command) {
        let mut cx = context!(self, nic, vpid);
        let Some(job) = self.requester.execute(&mut cx, vpid, command) else { return };
        match self.start(nic, Unit::Requester, job) {
            Ok(sent) => self.sent(nic, sent),
            Err(sending) => {
                self.port(vpid).sending = Some(sending);
                self.stalled.set(vpid, true);
            }
        }
    }

    /// Sends a response, behind those to the same node that wait.
    pub(super) fn respond(&mut self, nic: &Nic, job: Job) {
        let node = job.packet.destination.node;
        let behind = self.responses.iter().any(|sending| sending.destination() == node);
        let sending = if behind {
            Err(self.prepare(nic, Unit::Responder, job))
        } else {
            self.start(nic, Unit::Responder, job)
        };
        match sending {
            Ok(sent) => self.sent(nic, sent),
            Err(sending) => self.responses.push_back(sending),
        }
    }

    /// Sends a response that is complete and counted, in the same order.
    pub(super) fn respond_with(&mut self, nic: &Nic, mut packet: Packet) {
        let node = packet.destination.node;
        if !self.responses.iter().any(|sending| sending.destination() == node) {
            match nic.fabric.send(self.node, packet) {
                Ok(()) => return,
                Err(refused) => packet = refused,
            }
        }
        let ready = Some((packet, None));
        self.responses.push_back(Box::new(Sending {
            unit: Unit::Responder,
            report: None,
            ready,
            rest: None,
        }));
    }

    /// Tries again what the fabric refused.
    pub(super) fn resume(&mut self, nic: &Nic) -> bool {
        let mut moved = false;
        for vpid in self.stalled.iter_from(self.turn) {
            let Some(sending) = self.port(vpid).sending.take() else {
                self.stalled.set(vpid, false);
                continue;
            };
            match self.pump(nic, sending, &mut moved) {
                Ok(sent) => {
                    self.stalled.set(vpid, false);
                    self.sent(nic, sent);
                }
                Err(sending) => self.port(vpid).sending = Some(sending),
            }
        }
        moved
    }

    /// Tries again responses that the fabric refused, in order for each node.
    pub(super) fn resume_responses(&mut self, nic: &Nic) -> bool {
        let mut moved = false;
        let mut blocked: Vec<u16> = Vec::new();
        for _ in 0..self.responses.len() {
            let Some(sending) = self.responses.pop_front() else { break };
            let node = sending.destination();
            if blocked.contains(&node) {
                self.responses.push_back(sending);
                continue;
            }
            match self.pump(nic, sending, &mut moved) {
                Ok(sent) => self.sent(nic, sent),
                Err(sending) => {
                    blocked.push(node);
                    self.responses.push_back(sending);
                }
            }
        }
        moved
    }

    fn sent(&mut self, nic: &Nic, (report, hold): Sent) {
        if let Some(report) = report {
            self.report_after(nic, hold, report);
        }
    }

    /// Sends a job as far as the fabric takes it.
    #[inline]
    fn start(&mut self, nic: &Nic, unit: Unit, mut job: Job) -> Result<Sent, Box<Sending>> {
        if let Some(runs) = &job.source
            && job.packet.total as usize <= INLINE_MAX
        {
            match gather(nic, runs, job.packet.total) {
                Ok(payload) => {
                    job.packet.payload = payload;
                    job.source = None;
                }
                Err(MemoryError::Device { .. }) => {}
                Err(_) => self.fail(unit, &mut job),
            }
        }
        if job.source.is_some() {
            let sending = self.prepare(nic, unit, job);
            return self.pump(nic, sending, &mut false);
        }
        count_sent(&mut self.counters, unit, &job.packet);
        match nic.fabric.send(self.node, job.packet) {
            Ok(()) => Ok((job.report, None)),
            Err(packet) => {
                Err(Box::new(Sending { unit, report: job.report, ready: Some((packet, None)), rest: None }))
            }
        }
    }

    /// Makes a job ready to be pumped: one packet by reference where the fabric can, else fragments.
    fn prepare(&mut self, nic: &Nic, unit: Unit, mut job: Job) -> Box<Sending> {
        let declared =
            |runs: &Runs| runs.iter().all(|run| nic.memory.contains(run.address, run.len as usize));
        if job.source.as_ref().is_some_and(|runs| !declared(runs)) {
            self.fail(unit, &mut job);
        }
        count_sent(&mut self.counters, unit, &job.packet);
        let report = job.report;
        let Some(runs) = job.source else {
            return Box::new(Sending { unit, report, ready: Some((job.packet, None)), rest: None });
        };
        let (hold, state) = self.hold(nic);
        let (most, buffer) = match nic.fabric.carriage(job.packet.destination, &runs) {
            Carriage::Reference => {
                job.packet.len = job.packet.total;
                job.packet.payload =
                    Payload::ByReference(ByReference { first: runs.first, more: runs.more, hold });
                let ready = Some((job.packet, Some(state)));
                return Box::new(Sending { unit, report, ready, rest: None });
            }
            Carriage::Bytes { most } => (most, Buffer::Own(Vec::new())),
            Carriage::Staged { most } => (most, Buffer::Staged(None)),
        };
        // Whole fragments, so that each packet's notifications are those of its fragments.
        let fragment = u32::from(job.packet.fragment.max(1));
        let (part, source) = ((most / fragment).max(1) * fragment, Cursor::new(runs));
        let bytes = Part { buffer, filled: 0 };
        let rest = Some(Rest { packet: job.packet, source, part, bytes, fetching: None, _hold: hold });
        Box::new(Sending { unit, report, ready: None, rest })
    }

    /// Gives the fabric packet after packet until it refuses one, or a device must be waited for.
    fn pump(&mut self, nic: &Nic, mut sending: Box<Sending>, moved: &mut bool) -> Result<Sent, Box<Sending>> {
        let mut hold = None;
        loop {
            if sending.ready.is_none() && !self.next_fragment(nic, &mut sending) {
                return Err(sending);
            }
            let Some((packet, state)) = sending.ready.take() else { return Ok((sending.report, hold)) };
            if let Err(packet) = nic.fabric.send(self.node, packet) {
                sending.ready = Some((packet, state));
                return Err(sending);
            }
            *moved = true;
            hold = state;
        }
    }

    /// Makes the next fragment ready, or sees that there is none. False: a device must be waited for.
    fn next_fragment(&mut self, nic: &Nic, sending: &mut Sending) -> bool {
        let Some(rest) = &mut sending.rest else { return true };
        let offset = rest.source.position() - rest.bytes.filled as u32;
        let len = rest.part.min(rest.packet.total - offset);
        if len == 0 {
            sending.rest = None;
            return true;
        }
        match rest.read(nic, len) {
            Ok(None) => return false,
            Ok(Some(payload)) => {
                sending.ready = Some((rest.packet.part(offset, len, payload), None));
            }
            Err(_) => {
                // The rest of the command becomes one empty packet that carries the error.
                let units = self.count_failure(sending.unit);
                let mut packet = rest.packet.part(0, rest.packet.total, Payload::None);
                packet.error |= units;
                if let Some(report) = &mut sending.report {
                    report.fail(units);
                }
                sending.ready = Some((packet, None));
                sending.rest = None;
            }
        }
        true
    }

    /// Turns a job into its error form because its source cannot be read.
    #[cold]
    fn fail(&mut self, unit: Unit, job: &mut Job) {
        let units = self.count_failure(unit);
        job.fail(units);
    }

    fn count_failure(&mut self, unit: Unit) -> ErrorUnits {
        let (counter, units) = match unit {
            Unit::Responder => (regs::RESP_TRANS, ErrorUnits::RESPONDER),
            _ => (regs::REQ_TRANS, ErrorUnits::REQUESTER),
        };
        self.counters.error(counter);
        units
    }
}

/// Counts a packet, or all fragments of a command, that a unit sends.
#[inline]
pub(super) fn count_sent(counters: &mut Counters, unit: Unit, packet: &Packet) {
    let payload = if packet.error.is_empty() && packet.kind != Kind::Get { packet.total } else { 0 };
    let fragments = fragment::count(payload.max(1), packet.fragment);
    let (packets, words) = match unit {
        Unit::Responder => (counters::RESP_FRAGMENTS, counters::RESP_QUADWORDS),
        _ => (counters::REQ_FRAGMENTS, counters::REQ_QUADWORDS),
    };
    counters.add(packets, fragments);
    counters.add(words, payload.div_ceil(8));
}

impl Rest {
    /// The next `len` bytes; `None` while a device brings them, or the fabric has no buffer.
    fn read(&mut self, nic: &Nic, len: u32) -> Result<Option<Payload>, MemoryError> {
        let mut filled = self.bytes.filled;
        let staged = matches!(self.bytes.buffer, Buffer::Staged(_));
        let Some(room) = self.bytes.room(nic, len as usize) else { return Ok(None) };
        if let Some(ticket) = self.fetching {
            let Some(piece) = nic.memory.fetched(ticket).inspect_err(|_| self.fetching = None)? else {
                return Ok(None);
            };
            self.fetching = None;
            self.source.advance(piece.len() as u32);
            room[filled..filled + piece.len()].copy_from_slice(&piece);
            filled += piece.len();
        }
        while let Some(piece) = self.source.piece(len - filled as u32) {
            let end = filled + piece.len as usize;
            let to = &mut room[filled..end];
            let read = match staged {
                true => nic.memory.read_for_others(piece.address, to),
                false => nic.memory.read(piece.address, to),
            };
            match read {
                Ok(()) => self.source.advance(piece.len),
                Err(MemoryError::Device { .. }) => {
                    self.bytes.filled = filled;
                    self.fetching = Some(nic.memory.fetch(piece.address, piece.len as usize)?);
                    return Ok(None);
                }
                Err(e) => return Err(e),
            }
            filled = end;
        }
        Ok(Some(self.bytes.take()))
    }
}

/// Reads a small payload.
#[inline]
fn gather(nic: &Nic, runs: &Runs, total: u32) -> Result<Payload, MemoryError> {
    let mut bytes = [0; INLINE_MAX];
    let mut at = 0;
    for run in runs.iter() {
        let end = (at + run.len as usize).min(INLINE_MAX);
        nic.memory.read(run.address, &mut bytes[at..end])?;
        at = end;
    }
    Ok(Payload::Inline { len: total as u8, bytes })
}
