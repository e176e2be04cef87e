//! What other nodes send to the SMFU, in the order in which it comes (spec 6).

use std::collections::VecDeque;
use std::sync::Arc;

use super::board::Board;
use crate::memory::{Ticket, TicketState};
use crate::packet::{Kind, Packet, Payload};
use extoll_abi::Mode;

/// Most bytes of a store that stores became: what copiers take as a short one.
const AT_ONCE: usize = 4096;

/// What a device does for the last packet.
enum Access {
    Store(Ticket),
    /// And the load, or the atomic operation, that it is for.
    Load(Ticket, Packet),
    /// An atomic operation for which there was no room.
    Again(Packet),
}

/// How a device stands with it.
pub(super) enum Progress {
    Pending,
    Stored,
    /// Send this.
    Loaded(Packet),
    /// Try this.
    Again(Packet),
}

/// Packets of the SMFU behind an access that a device carries out.
pub(super) struct SmfuInbound {
    board: Arc<Board>,
    access: Option<Access>,
    behind: VecDeque<Packet>,
}

impl SmfuInbound {
    pub(super) fn new(board: Arc<Board>) -> SmfuInbound {
        SmfuInbound { board, access: None, behind: VecDeque::new() }
    }

    /// Whether a device must be waited for.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.access.is_some()
    }

    /// Whether a device had no room when it was asked last.
    pub(super) fn wants_room(&self) -> bool {
        matches!(self.access, Some(Access::Again(_)))
    }

    /// Packets that wait.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.behind.len()
    }

    /// The packet, if its turn is now; else it waits.
    pub(super) fn admit(&mut self, packet: Packet) -> Option<Packet> {
        if self.is_waiting() {
            self.behind.push_back(packet);
            return None;
        }
        Some(packet)
    }

    /// A device carries out the last packet's store.
    pub(super) fn wait_for_store(&mut self, ticket: Ticket) {
        self.access = Some(Access::Store(ticket));
    }

    /// A device has no room for the last packet's atomic operation.
    pub(super) fn wait_for_room(&mut self, request: Packet) {
        self.access = Some(Access::Again(request));
    }

    /// A device reads what the last packet asks for, or does what it says and keeps what was there.
    pub(super) fn wait_for_load(&mut self, ticket: Ticket, request: Packet) {
        self.access = Some(Access::Load(ticket, request));
    }

    /// Looks at the device. Once it is done, the next packets have their turn. A store that failed is lost, as one to
    /// broken memory is; the reply of such a load says so.
    pub(super) fn progress(&mut self) -> Progress {
        let again = self.access.take_if(|access| matches!(access, Access::Again(_)));
        if let Some(Access::Again(request)) = again {
            return Progress::Again(request);
        }
        let board = &self.board;
        let progress = match &self.access {
            None | Some(Access::Again(_)) => return Progress::Pending,
            Some(Access::Store(ticket)) => match board.memory.poll(*ticket) {
                TicketState::Pending => return Progress::Pending,
                TicketState::Done | TicketState::Failed => Progress::Stored,
            },
            Some(Access::Load(ticket, request)) => match board.memory.fetched(*ticket) {
                Ok(None) => return Progress::Pending,
                Ok(Some(bytes)) => Progress::Loaded(board.smfu.reply(request, Ok(&bytes))),
                Err(error) => Progress::Loaded(board.smfu.reply(request, Err(error))),
            },
        };
        self.access = None;
        progress
    }

    /// The next packet that waited, unless a device must be waited for again.
    pub(super) fn next(&mut self) -> Option<Packet> {
        if self.is_waiting() {
            return None;
        }
        let first = self.behind.pop_front()?;
        Some(self.with_what_goes_on(first))
    }

    /// A store, with those that waited behind it and go on where it ends: for a device one access takes as long as another.
    fn with_what_goes_on(&mut self, first: Packet) -> Packet {
        let end = |bytes: &[u8]| first.address.wrapping_add(bytes.len() as u64);
        let mut bytes = Vec::new();
        let mut joined = 0;
        while let Some(next) = self.behind.front().and_then(|next| goes_on(&first, next)) {
            if joined == 0 {
                bytes.extend_from_slice(first.payload.bytes().unwrap_or_default());
            }
            if next.address != end(&bytes) || bytes.len() + next.len as usize > AT_ONCE {
                break;
            }
            bytes.extend_from_slice(next.payload.bytes().unwrap_or_default());
            self.behind.pop_front();
            joined += 1;
        }
        if joined == 0 {
            return first;
        }
        self.board.smfu.joined(joined, &first);
        let len = bytes.len() as u32;
        Packet { payload: Payload::copy_of(&bytes), len, total: len, ..first }
    }
}

/// `next`, if it is a store of the same process to the same memory as `first` is.
fn goes_on<'a>(first: &Packet, next: &'a Packet) -> Option<&'a Packet> {
    let key = |packet: &Packet| {
        let Packet { kind, source, destination, process, mode, aux, .. } = *packet;
        (kind, source, destination, process, mode, aux)
    };
    let is_store = first.kind == Kind::SmfuStore && !first.mode.contains(Mode::RRA);
    (is_store && key(first) == key(next)).then_some(next)
}

/// As of the [sender](super::sender::Sender).
impl Drop for SmfuInbound {
    fn drop(&mut self) {
        if let Some(Access::Load(ticket, _) | Access::Store(ticket)) = self.access {
            self.board.memory.forget(ticket);
        }
    }
}
