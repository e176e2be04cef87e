//! What a card asks of a network of hosts, whatever carries the packets. Processes are those that [places](super::places) say.

use super::core::Core;
use super::message::{LEAST, RUNS};
use super::shared::Shared;
use super::wire::Wire;
use crate::memory::runs::Runs;
use crate::network::fabric::{Carriage, First, Pending};
use crate::packet::{ANYONE, Class, Packet};
use crate::short_put::ShortPut;

impl<W: Wire> Shared<W> {
    #[allow(clippy::result_large_err, reason = "as `Fabric::send`")]
    pub fn send(&self, mut packet: Packet) -> Result<(), Packet> {
        let sent = self.with_core_as_card(|core| core.send(&mut packet));
        if self.is_sent(sent) { Ok(()) } else { Err(packet) }
    }

    #[allow(clippy::result_large_err, reason = "as `Fabric::send_read`")]
    pub fn send_read(
        &self,
        mut packet: Packet,
        read: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<(), Packet> {
        let sent = self.with_core_as_card(|core| core.send_read(&mut packet, read));
        if self.is_sent(sent) { Ok(()) } else { Err(packet) }
    }

    /// As [`send`](Self::send), of a short put that has nothing in its way; `false`: nothing was done.
    pub fn send_short(&self, put: &ShortPut, bytes: &[u8]) -> bool {
        self.with_core_as_card(|core| core.send_short(put, bytes))
    }

    #[inline]
    pub fn process_at(&self, process: u16) -> u32 {
        let era = self.seen.era(process);
        if era == ANYONE {
            self.expect(process);
        }
        era
    }

    /// A command for a process that was never met was posted. Commands before it may wait for others to be met: all are met at once.
    #[cold]
    fn expect(&self, process: u16) {
        if process != self.me {
            self.with_core(|core| core.expect(process));
        }
    }

    #[inline]
    pub fn take(&self, class: Class) -> Option<Packet> {
        match self.seen.has_arrivals_of(class) {
            true => self.with_core_as_card(|core| core.take(class)),
            false => None,
        }
    }

    #[inline]
    pub fn carriage(&self, process: u16, runs: &Runs) -> Carriage {
        if process == self.me {
            return Carriage::Reference;
        }
        let lands = runs.more.is_empty() && self.seen.lands(process);
        let most = self.most;
        let least = if lands { most + 1 } else { LEAST };
        let devices = if self.gpus { LEAST } else { u32::MAX };
        Carriage::Granted { least, devices, runs: RUNS, most }
    }

    /// Who sleeps posts nothing that could go with what is held back.
    pub fn rest_card(&self) {
        if self.seen.asks.holds() {
            self.with_core_as_card(Core::let_all_go);
        }
        self.rest();
    }

    #[inline]
    pub fn pending(&self, first: &mut dyn First) -> Pending {
        self.polled();
        let seen = &self.seen;
        if seen.asks.ends_hold() {
            self.with_core_as_card(Core::let_all_go);
        }
        // The card may wait for what the wire brings, and take no packets until then.
        let moves = self.desk.is_busy() && seen.asks.is_due() && self.pump_as_card(first);
        let come = moves || seen.has_arrivals() || seen.asks.is_due() && self.pump_as_card(first);
        match come {
            false => Pending::Nothing,
            true if !seen.has_arrivals() => Pending::First,
            true => Pending::Packets,
        }
    }
}
