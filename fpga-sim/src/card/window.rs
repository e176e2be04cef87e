//! Accesses of this host to the SMFU's window: what the card's BAR traps goes out as packets (spec 6).

use std::time::Duration;

use extoll_abi::Atomic;
use ggas_clock::{Backoff, Ladder};

use super::{Nic, bell};
use crate::packet::Packet;
use crate::units::smfu::{Label, Load, SmfuError, SmfuErrors};
use crate::units::snq::Trigger;

/// How long an access waits for the fabric to take its packets.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

impl Nic {
    /// Makes this process the one that the node's SMFU serves: packets for it come here, accesses to its window
    /// start here. [`Nic::smfu_store`] and [`Nic::smfu_load`] do so too. Without other processes on the node there
    /// is nothing to claim. Where processes of a node share the unit, this one's seat is meant
    /// ([`Nodes::claim_smfu`](crate::shared::Nodes::claim_smfu)).
    ///
    /// # Errors
    /// [`SmfuError::Elsewhere`].
    pub fn claim_smfu(&self) -> Result<(), SmfuError> {
        self.board.state.claim_smfu().map_err(|rank| SmfuError::Elsewhere { node: self.board.node, rank })
    }

    /// Ends [`Nic::claim_smfu`]; another process may claim it then. Packets still under way to this one are treated
    /// as by a disabled unit.
    pub fn release_smfu(&self) {
        self.board.state.release_smfu();
    }

    /// What is at a place of the unit, which the processes of the node share ([`Smfu::label`](crate::smfu::Smfu::label)).
    pub fn smfu_label(&self, place: usize) -> Option<Label> {
        self.board.smfu.label(place)
    }

    /// As [`Smfu::set_label`](crate::smfu::Smfu::set_label).
    pub fn set_smfu_label(&self, place: usize, label: Option<Label>) {
        self.board.smfu.set_label(place, label);
    }

    /// As [`Smfu::set_part`](crate::smfu::Smfu::set_part).
    pub fn set_smfu_part(&self, place: usize, window: u64) {
        self.board.smfu.set_part(place, window);
    }

    /// What the unit of this process's card could not carry out.
    pub fn smfu_errors(&self) -> SmfuErrors {
        self.board.smfu.errors()
    }

    /// Stores into the SMFU BAR (trapped, spec 6). Posted: returns when the network has taken it. Stores of one
    /// thread to one node arrive in order.
    ///
    /// # Errors
    /// [`SmfuError`]; [`SmfuError::NotTaken`] where the network takes nothing for 10 s.
    pub fn smfu_store(&self, offset: u64, bytes: &[u8]) -> Result<(), SmfuError> {
        self.claim_smfu()?;
        for packet in self.board.smfu.store(offset, bytes)? {
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
        self.smfu_load_unless(offset, out, timeout, &|| false)
    }

    /// As [`smfu_load`](Self::smfu_load), for whoever knows when nobody is there to answer any more: then what has come counts,
    /// and nothing is waited for.
    pub fn smfu_load_unless(
        &self,
        offset: u64,
        out: &mut [u8],
        timeout: Duration,
        is_gone: &dyn Fn() -> bool,
    ) -> Result<(), SmfuError> {
        self.claim_smfu()?;
        let load = self.board.smfu.load(self.board.clock.now(), offset, out.len())?;
        self.smfu_ask(offset, load, out, timeout, is_gone)
    }

    /// An atomic operation on the word at `offset`, which the target's card carries out (of the model; no card has them); gives what
    /// was there. It comes behind stores of the same thread to the same node. Bounded as [`smfu_load`](Self::smfu_load); one that fails
    /// for want of an answer may have been done.
    ///
    /// # Errors
    /// [`SmfuError`].
    pub fn smfu_atomic(&self, offset: u64, atomic: Atomic, timeout: Duration) -> Result<u64, SmfuError> {
        self.smfu_atomic_unless(offset, atomic, timeout, &|| false)
    }

    /// As [`smfu_atomic`](Self::smfu_atomic), and otherwise as [`smfu_load_unless`](Self::smfu_load_unless).
    pub fn smfu_atomic_unless(
        &self,
        offset: u64,
        atomic: Atomic,
        timeout: Duration,
        is_gone: &dyn Fn() -> bool,
    ) -> Result<u64, SmfuError> {
        self.claim_smfu()?;
        let load = self.board.smfu.atomic(self.board.clock.now(), offset, atomic)?;
        let mut old = [0; 8];
        let bytes = atomic.width().bytes();
        self.smfu_ask(offset, load, &mut old[..bytes], timeout, is_gone)?;
        Ok(u64::from_le_bytes(old))
    }

    /// An atomic operation whose result nobody wants: posted as stores are, and in order with them.
    ///
    /// # Errors
    /// As for [`smfu_store`](Self::smfu_store).
    pub fn smfu_reduce(&self, offset: u64, atomic: Atomic) -> Result<(), SmfuError> {
        self.claim_smfu()?;
        self.smfu_send(offset, self.board.smfu.reduce(offset, atomic)?)?;
        self.kick();
        Ok(())
    }

    /// Sends what a load consists of, and waits for its replies.
    fn smfu_ask(
        &self,
        offset: u64,
        mut load: Load<'_>,
        out: &mut [u8],
        mut timeout: Duration,
        is_gone: &dyn Fn() -> bool,
    ) -> Result<(), SmfuError> {
        while let Some(packet) = load.request() {
            self.smfu_send(offset, packet)?;
        }
        let mut backoff = Backoff::endless(Ladder::NEIGHBOUR, &self.board.clock);
        loop {
            let moved = self.progress();
            if let Some(outcome) = load.poll(self.board.clock.now(), timeout, out) {
                if outcome.is_err() && self.board.smfu.take_expired() {
                    self.board.raise(Trigger::SmfuTimeout);
                    self.kick();
                }
                return outcome;
            }
            if !moved {
                // The load's own time-out ends this.
                let _ = backoff.pause();
                if is_gone() {
                    timeout = Duration::ZERO;
                }
            }
        }
    }

    fn smfu_send(&self, offset: u64, mut packet: Packet) -> Result<(), SmfuError> {
        // A network that is full or broken may take seconds: naps grow with the wait.
        let mut backoff = Backoff::on(Ladder::DEVICE, &self.board.clock, SEND_TIMEOUT);
        let (kind, aux) = (packet.kind, packet.aux);
        packet.source.vpid = self.board.state.smfu_seat();
        loop {
            #[allow(clippy::result_large_err, reason = "as `Fabric::send`")]
            match self.smfu_pass_on(packet) {
                Ok(()) => {
                    self.board.smfu.sent(kind, aux);
                    return Ok(());
                }
                Err(refused) => packet = refused,
            }
            if self.progress() && backoff.waited() <= SEND_TIMEOUT {
                continue;
            }
            backoff.pause().map_err(|waited| SmfuError::NotTaken { offset, waited })?;
        }
    }

    /// An access to the node's own memory is carried out here and now. On the network it would have a way of its own, and a load
    /// by another node, which was told of a store, could come before it.
    #[allow(clippy::result_large_err, reason = "as `Fabric::send`")]
    fn smfu_pass_on(&self, packet: Packet) -> Result<(), Packet> {
        let board = &self.board;
        if packet.destination.node != board.node || board.state.is_foreign(&packet) {
            return bell::after(|| board.fabric.send(board.node, packet));
        }
        self.with_core(|core| core.take_own(packet))
    }
}
