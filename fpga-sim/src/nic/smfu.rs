//! The SMFU's place in the card: trapped accesses to its BAR go out, its packets come in.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use ggas_clock::{Backoff, Ladder};

use super::core::Core;
use super::{Nic, bell};
use crate::memory::{Ticket, TicketState};
use crate::packet::Packet;
use crate::requester::Job;
use crate::smfu::{Ingress, RegisterFile, SmfuError};
use crate::snq::Trigger;

/// How long an access waits for the fabric to take its packets.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// SMFU packets behind a store that a device carries out.
#[derive(Default)]
pub(super) struct SmfuInbound {
    store: Option<Ticket>,
    behind: VecDeque<Packet>,
}

impl SmfuInbound {
    /// Whether a device must be waited for.
    pub(super) fn is_waiting(&self) -> bool {
        self.store.is_some()
    }

    /// Packets that wait.
    pub(super) fn len(&self) -> usize {
        self.behind.len()
    }
}

/// The card's registers, for accesses through the SMFU by other nodes.
struct File<'a> {
    core: RefCell<&'a mut Core>,
    nic: &'a Nic,
}

impl RegisterFile for File<'_> {
    fn read(&self, offset: u64) -> u64 {
        self.core.borrow_mut().reg_read(self.nic, offset)
    }

    fn write(&self, offset: u64, value: u64) {
        self.core.borrow_mut().reg_write(self.nic, offset, value);
    }
}

impl Nic {
    /// Makes this process the one that the node's SMFU serves: packets for it come here, accesses to its window
    /// start here. [`Nic::smfu_store`] and [`Nic::smfu_load`] do so too. Without other processes on the node there
    /// is nothing to claim.
    ///
    /// # Errors
    /// [`SmfuError::Elsewhere`].
    pub fn claim_smfu(&self) -> Result<(), SmfuError> {
        self.state.claim_smfu().map_err(|rank| SmfuError::Elsewhere { node: self.node, rank })
    }

    /// Ends [`Nic::claim_smfu`]; another process may claim it then. Packets still under way to this one are treated
    /// as by a disabled unit.
    pub fn release_smfu(&self) {
        self.state.release_smfu();
    }

    /// Stores into the SMFU BAR (trapped, spec 6). Posted: returns when the network has taken it. Stores of one
    /// thread to one node arrive in order.
    ///
    /// # Errors
    /// [`SmfuError`]; [`SmfuError::Timeout`] where the network takes nothing for 10 s.
    pub fn smfu_store(&self, offset: u64, bytes: &[u8]) -> Result<(), SmfuError> {
        self.claim_smfu()?;
        for packet in self.smfu.store(offset, bytes)? {
            self.smfu_send(offset, packet)?;
        }
        self.kick();
        Ok(())
    }

    /// Loads from the SMFU BAR (trapped). Waits for the reply, at most `timeout`, or the card's own timeout if
    /// that is shorter.
    ///
    /// # Errors
    /// [`SmfuError`].
    pub fn smfu_load(&self, offset: u64, out: &mut [u8], timeout: Duration) -> Result<(), SmfuError> {
        self.claim_smfu()?;
        let mut load = self.smfu.load(self.clock.now(), offset, out.len())?;
        while let Some(packet) = load.request() {
            self.smfu_send(offset, packet)?;
        }
        let mut backoff = Backoff::endless(Ladder::NEIGHBOUR, &self.clock);
        loop {
            let moved = self.progress();
            if let Some(outcome) = load.poll(self.clock.now(), timeout, out) {
                if outcome.is_err() && self.smfu.take_expired() {
                    self.with_core(|core| core.snq.raise(Trigger::SmfuTimeout));
                    self.kick();
                }
                return outcome;
            }
            if !moved {
                // The load's own time-out ends this.
                let _ = backoff.pause();
            }
        }
    }

    fn smfu_send(&self, offset: u64, mut packet: Packet) -> Result<(), SmfuError> {
        let mut backoff = Backoff::on(Ladder::NEIGHBOUR, &self.clock, SEND_TIMEOUT);
        loop {
            #[allow(clippy::result_large_err, reason = "as `Fabric::send`")]
            match bell::after(|| self.fabric.send(self.node, packet)) {
                Ok(()) => return Ok(()),
                Err(refused) => packet = refused,
            }
            if self.progress() && backoff.waited() <= SEND_TIMEOUT {
                continue;
            }
            backoff.pause().map_err(|waited| SmfuError::Timeout { offset, waited })?;
        }
    }
}

impl Core {
    /// Takes an SMFU packet, behind a store that a device carries out.
    pub(super) fn smfu_accept(&mut self, nic: &Nic, packet: Packet) {
        if self.smfu.is_waiting() {
            self.smfu.behind.push_back(packet);
            return;
        }
        let file = File { core: RefCell::new(self), nic };
        match nic.smfu.ingress(packet, &*nic.memory, &file) {
            Ingress::Done => {}
            Ingress::Pending(ticket) => self.smfu.store = Some(ticket),
            Ingress::Reply(packet) => self.respond(nic, Job { packet, source: None, report: None }),
        }
    }

    /// Goes on behind a device's store that is done. A failed one is lost, as a store to broken memory is.
    pub(super) fn smfu_continue(&mut self, nic: &Nic) -> bool {
        let Some(ticket) = self.smfu.store else { return false };
        if nic.memory.poll(ticket) == TicketState::Pending {
            return false;
        }
        self.smfu.store = None;
        while !self.smfu.is_waiting() {
            let Some(packet) = self.smfu.behind.pop_front() else { break };
            self.smfu_accept(nic, packet);
        }
        true
    }
}
