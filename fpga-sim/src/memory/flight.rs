//! Memory that something else than a thread of this process reads or writes: a device, the network.

use std::sync::Arc;

use super::{DeviceCopier, FarSource, Ticket, TicketState};
use crate::packet::HoldState;

pub(super) struct InFlight {
    /// Once it is started.
    pub(super) ticket: Ticket,
    /// How it ended, once known.
    pub(super) state: TicketState,
    pub(super) destination: u64,
    pub(super) source: Option<u64>,
    pub(super) len: u64,
    /// A queue entry that the device stores behind the copy.
    pub(super) entry: Option<u64>,
    /// Where a fetch goes; lives here so that it outlives the device's access whatever becomes of the asker.
    pub(super) buffer: Option<Box<[u8]>>,
    /// Keeps a source of another process mapped.
    pub(super) _keep: Option<Arc<dyn Send + Sync>>,
    /// Who is asked how it stands, where that is not a copier.
    pub(super) mover: Option<Mover>,
}

pub(super) enum Mover {
    /// Bytes come from another host: that read.
    Far(Arc<dyn FarSource>, u64),
    /// Others read until this is over; nobody waits for it.
    Lent(Arc<HoldState>),
}

impl InFlight {
    pub(super) fn new(destination: u64, source: Option<u64>, len: usize) -> InFlight {
        let (state, len) = (TicketState::Pending, len as u64);
        InFlight {
            ticket: Ticket { copier: u16::MAX, id: 0 },
            state,
            destination,
            source,
            len,
            entry: None,
            buffer: None,
            _keep: None,
            mover: None,
        }
    }

    /// Whether it is done with, as far as anyone asked or asks now.
    pub(super) fn ended(&mut self, copiers: &[Arc<dyn DeviceCopier>]) -> bool {
        if self.state == TicketState::Pending {
            self.state = match &self.mover {
                Some(Mover::Far(source, read)) => source.state(*read),
                Some(Mover::Lent(hold)) if hold.is_done() => TicketState::Done,
                Some(Mover::Lent(_)) => TicketState::Pending,
                None => {
                    let copier = copiers.get(usize::from(self.ticket.copier));
                    copier.map_or(TicketState::Failed, |copier| copier.poll(self.ticket.id))
                }
            };
        }
        self.state != TicketState::Pending
    }

    /// Whether it is over, and nobody asks for it.
    pub(super) fn is_given_back(&self) -> bool {
        matches!(&self.mover, Some(Mover::Lent(hold)) if hold.is_done())
    }

    /// Whether it reads or writes there.
    pub(super) fn touches(&self, start: u64, end: u64) -> bool {
        let overlaps = |at: u64, len| at < end && at.saturating_add(len) > start;
        overlaps(self.destination, self.len)
            || self.source.is_some_and(|at| overlaps(at, self.len))
            || self.entry.is_some_and(|at| overlaps(at, 16))
    }
}
