//! What other nodes send to the SMFU, in the order in which it comes (spec 6).

use std::collections::VecDeque;
use std::sync::Arc;

use super::board::Board;
use crate::memory::{Ticket, TicketState};
use crate::packet::Packet;

/// Packets of the SMFU behind a store that a device carries out.
pub(super) struct SmfuInbound {
    board: Arc<Board>,
    store: Option<Ticket>,
    behind: VecDeque<Packet>,
}

impl SmfuInbound {
    pub(super) fn new(board: Arc<Board>) -> SmfuInbound {
        SmfuInbound { board, store: None, behind: VecDeque::new() }
    }

    /// Whether a device must be waited for.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.store.is_some()
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
    pub(super) fn wait_for(&mut self, store: Ticket) {
        self.store = Some(store);
    }

    /// Whether the device is done, so that the next packets have their turn. A store that failed is lost, as one to
    /// broken memory is.
    pub(super) fn is_over(&mut self) -> bool {
        let over = self.store.is_some_and(|store| self.board.memory.poll(store) != TicketState::Pending);
        if over {
            self.store = None;
        }
        over
    }

    /// The next packet that waited, unless a device must be waited for again.
    pub(super) fn next(&mut self) -> Option<Packet> {
        if self.is_waiting() { None } else { self.behind.pop_front() }
    }
}
