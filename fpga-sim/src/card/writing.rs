//! A payload on its way into memory, piece after piece where a device has to be waited for.

use std::sync::Arc;

use extoll_abi::ErrorUnits;

use super::ahead::Ahead;
use super::notifier::Reserved;
use crate::memory::runs::{Cursor, Run, Runs};
use crate::memory::{Completion, Foreign, Memory, MemoryError, Ticket, TicketState};
use crate::packet::{Hold, HoldState, NOBODY, Packet, Payload};

/// Most bytes of a packet that a device copies before its turn.
const EARLY: usize = 8 << 10;

pub(super) struct Writing {
    packet: Packet,
    target: Cursor,
    /// Where a payload by reference is read.
    source: Option<Cursor>,
    ticket: Option<Ticket>,
    /// Bytes that the ticket moves.
    moving: u32,
    /// A payload of another host on its way into a buffer, for memory that only copies reach.
    fetching: Option<u64>,
    /// Bytes of that buffer, as they count among those of its peer.
    buffer: usize,
    /// It could be fetched before its turn, once there is room.
    pub(super) wants_room: bool,
    /// The number of the last one before it that is written to the same place: until that is over it does not begin.
    pub(super) behind: Option<u64>,
    /// Shows to flushes that pages are in use.
    hold: Option<(Hold, Arc<HoldState>)>,
    /// The notification that the device writes behind the bytes.
    reserved: Option<Reserved>,
}

/// How far a payload is.
pub(super) enum Step {
    Done,
    Pending,
    Failed,
    /// The host that has the bytes does not give them: its process is gone, and nobody hears of the packet.
    Lost,
}

impl Writing {
    pub(super) fn new(mut packet: Packet, target: Runs) -> Writing {
        let source = match &mut packet.payload {
            Payload::ByReference(source) => {
                Some(Cursor::new(Runs { first: source.first, more: std::mem::take(&mut source.more) }))
            }
            _ => None,
        };
        Writing {
            packet,
            target: Cursor::new(target),
            source,
            ticket: None,
            moving: 0,
            fetching: None,
            buffer: 0,
            wants_room: false,
            behind: None,
            hold: None,
            reserved: None,
        }
    }

    /// A payload that a device moves as a whole, and the notification that it writes then.
    pub(super) fn by_device(
        packet: Packet,
        target: Runs,
        ticket: Ticket,
        reserved: Option<Reserved>,
    ) -> Writing {
        let len = packet.len;
        let mut writing = Writing::new(packet, target);
        writing.wait_for(ticket, len);
        writing.reserved = reserved;
        writing
    }

    /// Has flushes wait for it.
    pub(super) fn guard(mut self, hold: (Hold, Arc<HoldState>)) -> Box<Writing> {
        self.hold = Some(hold);
        Box::new(self)
    }

    /// What there is to report once it is over. The payload is dropped first: its sender may go on, and its report
    /// must not come later than ours.
    pub(super) fn end(mut self, failed: ErrorUnits) -> (Packet, Option<Reserved>) {
        self.packet.payload = Payload::None;
        self.hold = None;
        self.packet.error |= failed;
        (self.packet, self.reserved)
    }

    fn wait_for(&mut self, ticket: Ticket, moving: u32) {
        (self.ticket, self.moving) = (Some(ticket), moving);
    }

    /// Whom it is for is gone: nobody is told of it.
    pub(super) fn close(&mut self) {
        self.packet.process = NOBODY;
    }

    /// What a device does for it now.
    pub(super) fn ticket(&self) -> Option<Ticket> {
        self.ticket
    }

    /// Where it is written.
    pub(super) fn target(&self) -> &Runs {
        self.target.runs()
    }

    /// Whether it writes where another one does.
    pub(super) fn overlaps(&self, runs: &Runs) -> bool {
        let meet = |a: Run, b: Run| {
            a.address < b.address.saturating_add(u64::from(b.len))
                && b.address < a.address.saturating_add(u64::from(a.len))
        };
        self.target.runs().iter().any(|ours| runs.iter().any(|theirs| meet(ours, theirs)))
    }

    /// Starts what can be under way while others before it are: its first bytes. `ahead`: it has not to wait for room behind others.
    pub(super) fn begin(&mut self, memory: &dyn Memory, ahead: Option<&mut Ahead>) {
        self.begin_bytes(memory);
        if let Payload::Far(far) = &self.packet.payload
            && let Some(to) = self.target.piece(far.body() as u32)
        {
            match memory.copy_far(to.address, far, 0, to.len as usize) {
                Ok(Completion::Ticket(ticket)) => self.wait_for(ticket, to.len),
                // It comes over the wire while the device copies those before it.
                Err(MemoryError::Device { .. }) => match ahead {
                    Some(ahead) => self.fetch_early(ahead),
                    None => self.wants_room = true,
                },
                _ => {}
            }
        }
    }

    /// A device copies bytes that are here while it copies others. The last ones of a command wait for their turn: who sees them
    /// sees all. So do many at once, since they are kept a second time for it.
    fn begin_bytes(&mut self, memory: &dyn Memory) {
        let Some(to) = self.target.piece(u32::MAX).filter(|_| !self.packet.is_last()) else { return };
        let bytes = self.packet.payload.bytes().and_then(|bytes| bytes.get(..to.len as usize));
        let begins = |bytes: &&[u8]| bytes.len() <= EARLY && memory.is_device(to.address, bytes.len());
        let Some(bytes) = bytes.filter(begins) else { return };
        match memory.write(to.address, bytes) {
            Ok(Completion::Ticket(ticket)) => self.wait_for(ticket, to.len),
            Ok(Completion::Done) => self.passed(to.len),
            Err(_) => {} // again in its turn, and then told
        }
    }

    /// Fetches before its turn a payload that goes to a device, if there is room.
    pub(super) fn fetch_early(&mut self, ahead: &mut Ahead) {
        let Payload::Far(far) = &self.packet.payload else { return };
        let len = far.len();
        self.wants_room = !ahead.take(self.packet.source.node, len);
        if !self.wants_room {
            (self.fetching, self.buffer) = (Some(far.fetch()), len);
        }
    }

    /// Moves a piece of a payload of another host; `None`: that has to be fetched first.
    fn move_far(
        &mut self,
        memory: &dyn Memory,
        ahead: &mut Ahead,
        to: Run,
    ) -> Option<(Result<Completion, MemoryError>, u32)> {
        let Payload::Far(far) = &self.packet.payload else { return None };
        let (at, body) = (self.target.position(), far.body() as u32);
        if let Some(tail) = far.tail().get(at.saturating_sub(body) as usize..).filter(|_| at >= body) {
            let len = (tail.len() as u32).min(to.len);
            return Some((memory.write(to.address, &tail[..len as usize]), len));
        }
        let len = to.len.min(body - at);
        match memory.copy_far(to.address, far, at as usize, len as usize) {
            Err(MemoryError::Device { .. }) => {
                ahead.add(self.packet.source.node, far.len());
                (self.fetching, self.buffer) = (Some(far.fetch()), far.len());
                None
            }
            moved => Some((moved, len)),
        }
    }

    /// Whether a fetched payload is there. It starts at its first byte then, whatever was moved before.
    fn take_fetched(&mut self, read: u64) -> Result<bool, ()> {
        let Payload::Far(far) = &self.packet.payload else { return Err(()) };
        let Some(bytes) = far.fetched(read) else { return Ok(false) };
        // The device copies from where they are.
        self.packet.payload = Payload::Foreign(Foreign::from(bytes?));
        self.fetching = None;
        Ok(true)
    }

    /// Moves piece after piece, in order, so that the last bytes come last. All that are before it are over.
    pub(super) fn advance(&mut self, memory: &dyn Memory, ahead: &mut Ahead) -> Step {
        let step = self.go_on(memory, ahead);
        if !matches!(step, Step::Pending) && self.buffer > 0 {
            ahead.give_back(self.packet.source.node, std::mem::take(&mut self.buffer));
        }
        step
    }

    fn go_on(&mut self, memory: &dyn Memory, ahead: &mut Ahead) -> Step {
        loop {
            if let Some(read) = self.fetching {
                match self.take_fetched(read) {
                    Ok(true) => {}
                    Ok(false) => return Step::Pending,
                    Err(()) => return Step::Lost,
                }
            }
            if let Some(ticket) = self.ticket {
                match memory.poll(ticket) {
                    TicketState::Pending => return Step::Pending,
                    TicketState::Failed if matches!(self.packet.payload, Payload::Far(_)) => {
                        return Step::Lost;
                    }
                    TicketState::Failed => return Step::Failed,
                    TicketState::Done => self.passed(self.moving),
                }
                self.ticket = None;
            }
            let Some(to) = self.target.piece(u32::MAX) else { return Step::Done };
            let (moved, len) = match &self.source {
                Some(source) => {
                    let Some(from) = source.piece(to.len) else { return Step::Failed };
                    (memory.copy(to.address, from.address, from.len as usize), from.len)
                }
                None if let Payload::Foreign(source) = &self.packet.payload => {
                    let at = self.target.position() as usize;
                    (memory.copy_foreign(to.address, source, at, to.len as usize), to.len)
                }
                None if matches!(self.packet.payload, Payload::Far(_)) => {
                    match self.move_far(memory, ahead, to) {
                        Some(moved) => moved,
                        None => continue,
                    }
                }
                None => {
                    let at = self.target.position() as usize;
                    let bytes = self.packet.payload.bytes().and_then(|b| b.get(at..at + to.len as usize));
                    let Some(bytes) = bytes else { return Step::Failed };
                    (memory.write(to.address, bytes), to.len)
                }
            };
            match moved {
                Ok(Completion::Done) => self.passed(len),
                Ok(Completion::Ticket(ticket)) => self.wait_for(ticket, len),
                Err(_) => return Step::Failed,
            }
        }
    }

    fn passed(&mut self, len: u32) {
        self.target.advance(len);
        if let Some(source) = &mut self.source {
            source.advance(len);
        }
    }
}
