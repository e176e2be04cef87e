//! A command or response on its way out: packets, made one after the other as the fabric takes them.

use std::sync::Arc;

use extoll_abi::{ErrorUnits, Kind as Unit, regs};

use super::blocks::Blocks;
use super::board::Board;
use super::part::{Buffer, Part};
use super::translation::Translation;
use crate::memory::runs::{Cursor, Runs};
use crate::memory::{MemoryError, TAIL, Ticket};
use crate::network::fabric::Carriage;
use crate::packet::{ByReference, Hold, HoldState, INLINE_MAX, Kind, Packet, Payload};
use crate::units::counters::{self, Counters};
use crate::units::fragment;
use crate::units::report::Report;
use crate::units::requester::Job;

/// A job that the fabric has not taken in whole.
pub(super) struct Sending {
    unit: Unit,
    report: Option<Report>,
    /// A finished packet that was refused, and the hold of its payload.
    ready: Option<(Packet, Option<Arc<HoldState>>)>,
    /// What is still to be cut into fragments.
    rest: Option<Rest>,
    /// A packet by reference to memory of a device, whose last bytes are on their way.
    tail: Option<Tail>,
}

struct Tail {
    packet: Packet,
    runs: Runs,
    hold: (Hold, Arc<HoldState>),
    fetching: Ticket,
}

struct Rest {
    /// Header of the whole command.
    packet: Packet,
    source: Cursor,
    /// Bytes of a packet: whole fragments.
    part: u32,
    /// The next packet's payload as far as it is read.
    bytes: Part,
    /// What comes from a device.
    blocks: Blocks,
    /// Shows to flushes that the source is still read.
    _hold: Hold,
}

/// A job's end: it is all with the fabric; the source may still be read until the hold is done.
pub(super) type Sent = (Option<Report>, Option<Arc<HoldState>>);

/// Sends a job as far as the fabric takes it.
#[inline]
pub(super) fn start(
    board: &Board,
    translation: &mut Translation,
    unit: Unit,
    mut job: Job,
) -> Result<Sent, Box<Sending>> {
    if let Some(runs) = &job.source
        && job.packet.total as usize <= INLINE_MAX
    {
        match gather(board, runs, job.packet.total, &mut job.packet.payload) {
            Ok(()) => job.source = None,
            Err(MemoryError::Device { .. }) => job.packet.payload = Payload::None,
            Err(_) => fail(board, unit, &mut job),
        }
    }
    count_sent(&board.counters, unit, &job.packet);
    if let Some(runs) = job.source.take_if(|runs| fits_one_packet(board, &job.packet, runs)) {
        match board.fabric.send_read(board.node, job.packet, &mut |to| read_runs(board, &runs, to)) {
            Ok(()) => return Ok((job.report, None)),
            Err(packet) if packet.payload.bytes().is_some_and(|bytes| !bytes.is_empty()) => {
                return Err(Sending::refused(unit, job.report, packet, None));
            }
            Err(packet) => job.packet = packet,
        }
        job.source = Some(runs);
    }
    if job.source.is_some() {
        return Sending::counted(board, translation, unit, job).pump(board, &mut false);
    }
    match board.fabric.send(board.node, job.packet) {
        Ok(()) => Ok((job.report, None)),
        Err(packet) => Err(Sending::refused(unit, job.report, packet, None)),
    }
}

impl Sending {
    /// A packet that was refused, or has to wait for others.
    pub(super) fn refused(
        unit: Unit,
        report: Option<Report>,
        packet: Packet,
        hold: Option<Arc<HoldState>>,
    ) -> Box<Sending> {
        Box::new(Sending { unit, report, ready: Some((packet, hold)), rest: None, tail: None })
    }

    /// A job made ready to be pumped: one packet by reference where the fabric can, else fragments.
    pub(super) fn new(board: &Board, translation: &mut Translation, unit: Unit, job: Job) -> Box<Sending> {
        count_sent(&board.counters, unit, &job.packet);
        Sending::counted(board, translation, unit, job)
    }

    /// The same, of one that is counted already.
    fn counted(board: &Board, translation: &mut Translation, unit: Unit, mut job: Job) -> Box<Sending> {
        let declared =
            |runs: &Runs| runs.iter().all(|run| board.memory.contains(run.address, run.len as usize));
        if job.source.as_ref().is_some_and(|runs| !declared(runs)) {
            fail(board, unit, &mut job);
        }
        let report = job.report;
        let Some(runs) = job.source else { return Sending::refused(unit, report, job.packet, None) };
        let (hold, state) = translation.hold();
        let carriage = match board.fabric.carriage(job.packet.destination, &runs) {
            Carriage::Granted { least, devices, runs: few, most } => {
                let (total, few) = (job.packet.total, runs.more.len() < few);
                if few && total >= least && board.memory.lend(&runs, &state, false) {
                    Carriage::Reference
                } else if few
                    && total >= devices
                    && let Some(fetching) = lend_of_device(board, &runs, &state)
                {
                    job.packet.len = total;
                    let tail = Some(Tail { packet: job.packet, runs, hold: (hold, state), fetching });
                    return Box::new(Sending { unit, report, ready: None, rest: None, tail });
                } else {
                    Carriage::Bytes { most }
                }
            }
            carriage => carriage,
        };
        let (most, buffer) = match carriage {
            Carriage::Reference => {
                job.packet.len = job.packet.total;
                job.packet.payload = Payload::ByReference(ByReference {
                    first: runs.first,
                    more: runs.more,
                    tail: None,
                    hold,
                });
                return Sending::refused(unit, report, job.packet, Some(state));
            }
            Carriage::Bytes { most } | Carriage::Granted { most, .. } => (most, Buffer::Own(Vec::new())),
            Carriage::Staged { most } => (most, Buffer::Staged(None)),
        };
        let (part, source) = (whole_fragments(&job.packet, most), Cursor::new(runs));
        let bytes = Part { buffer, filled: 0 };
        let rest =
            Some(Rest { packet: job.packet, source, part, bytes, blocks: Blocks::default(), _hold: hold });
        Box::new(Sending { unit, report, ready: None, rest, tail: None })
    }

    /// Node that it goes to.
    pub(super) fn destination(&self) -> u16 {
        let packet = self.ready.as_ref().map(|(packet, _)| packet);
        let packet = packet.or(self.rest.as_ref().map(|rest| &rest.packet));
        let packet = packet.or(self.tail.as_ref().map(|tail| &tail.packet));
        packet.map_or(0, |packet| packet.destination.node)
    }

    /// Nothing more of it goes: what a device brings is for nobody.
    pub(super) fn give_up(self, board: &Board) {
        let of_rest = self.rest.and_then(|rest| rest.blocks.fetching());
        let fetching = of_rest.or(self.tail.map(|tail| tail.fetching));
        fetching.into_iter().for_each(|ticket| board.memory.forget(ticket));
    }

    /// Whether it waits for a device, rather than for the fabric.
    pub(super) fn waits_for_device(&self) -> bool {
        let waits = |rest: &Rest| self.ready.is_none() && rest.blocks.is_waiting();
        self.tail.is_some() || self.rest.as_ref().is_some_and(waits)
    }

    /// Gives the fabric packet after packet until it refuses one, or a device must be waited for.
    pub(super) fn pump(mut self: Box<Self>, board: &Board, moved: &mut bool) -> Result<Sent, Box<Sending>> {
        span!("send", node = board.node, to = self.destination(), unit = ?self.unit);
        let mut hold = None;
        loop {
            if self.ready.is_none() && !self.next_fragment(board) {
                return Err(self);
            }
            let Some((packet, state)) = self.ready.take() else { return Ok((self.report, hold)) };
            if let Err(packet) = board.fabric.send(board.node, packet) {
                self.ready = Some((packet, state));
                return Err(self);
            }
            *moved = true;
            hold = state;
        }
    }

    /// Makes the next fragment ready, or sees that there is none. False: a device must be waited for.
    fn next_fragment(&mut self, board: &Board) -> bool {
        if let Some(tail) = self.tail.take() {
            return self.finish_tail(board, tail);
        }
        let Some(rest) = &mut self.rest else { return true };
        let offset = rest.source.position() - rest.bytes.filled as u32;
        let len = rest.part.min(rest.packet.total - offset);
        if len == 0 {
            self.rest = None;
            return true;
        }
        match rest.read(board, len) {
            Ok(None) => return false,
            Ok(Some(payload)) => {
                self.ready = Some((rest.packet.part(offset, len, payload), None));
            }
            Err(_) => {
                let packet = rest.packet.part(0, rest.packet.total, Payload::None);
                self.fail_rest(board, packet);
            }
        }
        true
    }

    /// The rest of the command becomes one empty packet that carries the error.
    #[cold]
    fn fail_rest(&mut self, board: &Board, mut packet: Packet) {
        let units = count_failure(board, self.unit);
        packet.error |= units;
        if let Some(report) = &mut self.report {
            report.fail(units);
        }
        self.ready = Some((packet, None));
        self.rest = None;
    }

    /// Makes a packet by reference to memory of a device ready, if its last bytes are there.
    fn finish_tail(&mut self, board: &Board, tail: Tail) -> bool {
        let bytes = match board.memory.fetched(tail.fetching) {
            Ok(None) => {
                self.tail = Some(tail);
                return false;
            }
            Ok(Some(bytes)) => Box::<[u8; TAIL]>::try_from(bytes).ok(),
            Err(_) => None,
        };
        let Tail { mut packet, runs, hold: (hold, state), .. } = tail;
        if bytes.is_none() {
            self.fail_rest(board, packet);
            return true;
        }
        packet.payload =
            Payload::ByReference(ByReference { first: runs.first, more: runs.more, tail: bytes, hold });
        self.ready = Some((packet, Some(state)));
        true
    }
}

impl Rest {
    /// The next `len` bytes; `None` while a device brings them, or the fabric has no buffer.
    fn read(&mut self, board: &Board, len: u32) -> Result<Option<Payload>, MemoryError> {
        let memory = &*board.memory;
        let mut filled = self.bytes.filled;
        let staged = matches!(self.bytes.buffer, Buffer::Staged(_));
        let Some(room) = self.bytes.room(board, len as usize) else { return Ok(None) };
        while let Some(piece) = self.source.piece(len - filled as u32) {
            let to = &mut room[filled..filled + piece.len as usize];
            let read = match self.blocks.take(memory, to)? {
                None => {
                    self.bytes.filled = filled;
                    return Ok(None);
                }
                Some(0) => {
                    let read = match staged {
                        true => memory.read_for_others(piece.address, to),
                        false => memory.read(piece.address, to),
                    };
                    match read {
                        Err(MemoryError::Device { .. }) => {
                            self.blocks.begin(memory, &self.source)?;
                            continue;
                        }
                        read => read.map(|()| piece.len)?,
                    }
                }
                Some(taken) => taken as u32,
            };
            self.source.advance(read);
            filled += read as usize;
        }
        Ok(Some(self.bytes.take()))
    }
}

/// Turns a job into its error form because its source cannot be read.
#[cold]
fn fail(board: &Board, unit: Unit, job: &mut Job) {
    job.fail(count_failure(board, unit));
}

fn count_failure(board: &Board, unit: Unit) -> ErrorUnits {
    let (counter, units) = match unit {
        Unit::Responder => (regs::RESP_TRANS, ErrorUnits::RESPONDER),
        _ => (regs::REQ_TRANS, ErrorUnits::REQUESTER),
    };
    board.counters.error(counter);
    units
}

/// Counts a packet, or all fragments of a command, that a unit sends.
#[inline]
pub(super) fn count_sent(counters: &Counters, unit: Unit, packet: &Packet) {
    let payload = if packet.error.is_empty() && packet.kind != Kind::Get { packet.total } else { 0 };
    let fragments = fragment::count(payload.max(1), packet.fragment);
    let (packets, words) = match unit {
        Unit::Responder => (counters::RESP_FRAGMENTS, counters::RESP_QUADWORDS),
        _ => (counters::REQ_FRAGMENTS, counters::REQ_QUADWORDS),
    };
    counters.add(packets, fragments);
    counters.add(words, payload.div_ceil(8));
}

/// Lends memory of a device, and begins to fetch its last bytes; `None`: it cannot be lent.
fn lend_of_device(board: &Board, runs: &Runs, until: &Arc<HoldState>) -> Option<Ticket> {
    let last = runs.more.last().unwrap_or(&runs.first);
    let before = (last.len as usize).checked_sub(TAIL)?;
    let lent = board.memory.lend(runs, until, true);
    lent.then(|| board.memory.fetch(last.address + before as u64, TAIL).ok()).flatten()
}

/// Longest payload that is read at once, instead of piece by piece as the fabric takes it.
const AT_ONCE: u32 = 16 << 10;

/// Whether a payload goes as bytes in one packet.
#[inline]
fn fits_one_packet(board: &Board, packet: &Packet, runs: &Runs) -> bool {
    if packet.total > AT_ONCE {
        return false;
    }
    let most = match board.fabric.carriage(packet.destination, runs) {
        Carriage::Bytes { most } => most,
        Carriage::Granted { least, most, .. } if packet.total < least => most,
        _ => return false,
    };
    packet.total <= whole_fragments(packet, most)
}

/// Reads all of them, which fill `to`; `false`: not from memory of the host.
fn read_runs(board: &Board, runs: &Runs, to: &mut [u8]) -> bool {
    let mut rest = to;
    for run in runs.iter() {
        let Some((part, behind)) = rest.split_at_mut_checked(run.len as usize) else { return false };
        if board.memory.read(run.address, part).is_err() {
            return false;
        }
        rest = behind;
    }
    rest.is_empty()
}

/// Bytes of a packet of at most `most`: whole fragments, so that its notifications are those of its fragments.
fn whole_fragments(packet: &Packet, most: u32) -> u32 {
    let fragment = u32::from(packet.fragment.max(1));
    (most / fragment).max(1) * fragment
}

/// Reads a small payload, into its place.
#[inline]
fn gather(board: &Board, runs: &Runs, total: u32, payload: &mut Payload) -> Result<(), MemoryError> {
    *payload = Payload::Inline { len: total as u8, bytes: [0; INLINE_MAX] };
    let Payload::Inline { bytes, .. } = payload else { return Ok(()) };
    if runs.more.is_empty() {
        let len = (runs.first.len as usize).min(INLINE_MAX);
        return board.memory.read(runs.first.address, &mut bytes[..len]);
    }
    let mut at = 0;
    for run in runs.iter() {
        let end = (at + run.len as usize).min(INLINE_MAX);
        board.memory.read(run.address, &mut bytes[at..end])?;
        at = end;
    }
    Ok(())
}
