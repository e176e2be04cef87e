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
    /// Where a fetch goes; lives here so that it outlives the device's access whatever becomes of the asker.
    pub(super) buffer: Option<Box<[u8]>>,
}

impl InFlight {
    pub(super) fn new(ticket: Ticket, destination: u64, source: Option<u64>, len: usize) -> InFlight {
        InFlight { ticket, state: TicketState::Pending, destination, source, len: len as u64, buffer: None }
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
        let overlaps = |at: u64| at < end && at.saturating_add(self.len) > start;
        overlaps(self.destination) || self.source.is_some_and(overlaps)
    }
}
