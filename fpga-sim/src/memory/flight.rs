//! A copy that a device carries out.

use std::sync::Arc;

use super::{DeviceCopier, Ticket, TicketState};

pub(super) struct InFlight {
    pub(super) ticket: Ticket,
    /// How it ended, once known.
    pub(super) state: TicketState,
    destination: u64,
    pub(super) source: Option<u64>,
    len: u64,
    /// A queue entry that the device stores behind the copy.
    pub(super) entry: Option<u64>,
    /// Where a fetch goes; lives here so that it outlives the device's access whatever becomes of the asker.
    pub(super) buffer: Option<Box<[u8]>>,
    /// Keeps a source of another process mapped.
    pub(super) keep: Option<Arc<dyn Send + Sync>>,
}

impl InFlight {
    pub(super) fn new(ticket: Ticket, destination: u64, source: Option<u64>, len: usize) -> InFlight {
        let (state, len) = (TicketState::Pending, len as u64);
        InFlight { ticket, state, destination, source, len, entry: None, buffer: None, keep: None }
    }

    /// Whether the device is done with it, as far as anyone asked or asks now.
    pub(super) fn ended(&mut self, copiers: &[Arc<dyn DeviceCopier>]) -> bool {
        if self.state == TicketState::Pending {
            let copier = copiers.get(usize::from(self.ticket.copier));
            self.state = copier.map_or(TicketState::Failed, |copier| copier.poll(self.ticket.id));
        }
        self.state != TicketState::Pending
    }

    /// Whether it reads or writes there.
    pub(super) fn touches(&self, start: u64, end: u64) -> bool {
        let overlaps = |at: u64, len| at < end && at.saturating_add(len) > start;
        overlaps(self.destination, self.len)
            || self.source.is_some_and(|at| overlaps(at, self.len))
            || self.entry.is_some_and(|at| overlaps(at, 16))
    }
}
