//! What other nodes send to the SMFU, in the order in which it comes (spec 6).

use std::collections::VecDeque;
use std::sync::Arc;

use super::board::Board;
use crate::memory::{Ticket, TicketState};
use crate::packet::Packet;

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
        if self.is_waiting() { None } else { self.behind.pop_front() }
    }
}

/// As of the [sender](super::sender::Sender).
impl Drop for SmfuInbound {
    fn drop(&mut self) {
        if let Some(Access::Load(ticket, _) | Access::Store(ticket)) = self.access {
            self.board.memory.forget(ticket);
        }
    }
}
