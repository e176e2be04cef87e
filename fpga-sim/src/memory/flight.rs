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
    /// An atomic operation: what was there goes to the buffer.
    pub(super) modifies: bool,
    /// Keeps a source of another process mapped.
    pub(super) _keep: Option<Arc<dyn Send + Sync>>,
    /// Who is asked how it stands, where that is not a copier.
    pub(super) mover: Option<Mover>,
    /// Nobody asks for it any more.
    pub(super) forgotten: bool,
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
            modifies: false,
            _keep: None,
            mover: None,
            forgotten: false,
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
                    copier.map_or(TicketState::Failed, |copier| self.ask(&**copier))
                }
            };
        }
        self.state != TicketState::Pending
    }

    /// How it stands; at the end of an atomic operation the device is asked for what was there.
    fn ask(&mut self, copier: &dyn DeviceCopier) -> TicketState {
        let state = copier.poll(self.ticket.id);
        if state != TicketState::Done || !self.modifies {
            return state;
        }
        let (Some(before), Some(buffer)) = (copier.take_before(self.ticket.id), &mut self.buffer) else {
            return TicketState::Failed;
        };
        let len = buffer.len();
        buffer.copy_from_slice(&before.to_le_bytes()[..len]);
        state
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::super::{HostMemory, Memory, RangeKind};
    use super::*;

    /// Its copies are over once the test says so.
    #[derive(Default)]
    struct Slow(AtomicBool);

    impl DeviceCopier for Slow {
        fn copy(&self, _: u64, _: u64, len: usize) -> u64 {
            len as u64
        }
        fn write_inline(&self, _: u64, _: &[u8]) -> u64 {
            unreachable!("nothing is written")
        }
        fn poll(&self, _: u64) -> TicketState {
            if self.0.load(Ordering::Relaxed) { TicketState::Done } else { TicketState::Pending }
        }
    }

    #[test]
    fn what_nobody_asks_for_is_kept_until_its_device_is_done() {
        let (memory, device, words) = (HostMemory::new(), Arc::new(Slow::default()), [0u64; 8]);
        let base = words.as_ptr() as u64;
        // SAFETY: never touched.
        unsafe { memory.add_range(RangeKind::Device(device.clone()), base, 64).unwrap() };
        let [first, second, asked] = [8, 16, 24].map(|len| memory.fetch(base, len).unwrap());
        let kept = || memory.state().in_flight.len();
        memory.forget(first);
        assert_eq!(kept(), 3, "the device still writes there");
        device.0.store(true, Ordering::Relaxed);
        memory.forget(second);
        assert_eq!(kept(), 1);
        assert_eq!(memory.fetched(asked).unwrap().unwrap().len(), 24);
        assert_eq!(kept(), 0);
    }
}
