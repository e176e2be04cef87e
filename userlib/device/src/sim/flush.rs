//! Waiting until the card confirms flushes of translations (spec 4.2).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use extoll_abi::{AtuCommand, regs};
use extoll_sim::Nic;

use super::peers::Peers;
use super::wait::wait_until;
use crate::{DeviceError, HostBuffer};

/// A confirmation that the card owes: byte offset of its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owed(usize);

/// The card did not confirm in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Late {
    pub(super) waited: Duration,
    /// It may still: see [`Flushes::settled`].
    pub(super) owed: Option<Owed>,
}

const FLUSH: &str = "a flush of address translations";

/// What a wait adds while an earlier one is overdue. The card confirms in order, so that one is all there is to wait
/// for: however much memory is released, a peer that stands still costs its time-out once.
const BEHIND_OVERDUE: Duration = Duration::from_millis(1);

/// The words that the card's notify command writes. One that it may still write, since a wait for it ran out of
/// time, serves no other flush: the late write would confirm that one too early.
pub(super) struct Flushes {
    nic: Arc<Nic>,
    peers: Peers,
    timeout: Duration,
    memory: Arc<HostBuffer>,
    free: Vec<usize>,
    /// The confirmation that a wait gave up last.
    overdue: Option<Owed>,
}

impl Flushes {
    /// The words are the 8-byte words of `memory` from byte `from` on, which is declared to the card.
    pub(super) fn new(
        nic: Arc<Nic>,
        peers: Peers,
        timeout: Duration,
        memory: Arc<HostBuffer>,
        from: usize,
    ) -> Flushes {
        let free = (from..memory.len()).step_by(8).rev().collect();
        Flushes { nic, peers, timeout, memory, free, overdue: None }
    }

    /// Carries out a flush command.
    pub(super) fn command(&self, command: AtuCommand) {
        match command.encode() {
            Ok(value) => self.nic.reg_write(regs::EXTOLL_RF_ATU_COMMAND, value),
            // Counts and pages are within their fields, and addresses are ours.
            Err(error) => tracing::error!("ATU command: {error}"),
        }
    }

    /// Waits until all flushes before are complete and the card uses nothing of what they removed.
    pub(super) fn confirm(&mut self) -> Result<(), Late> {
        let Some(at) = self.free.pop() else { return Err(Late { waited: Duration::ZERO, owed: None }) };
        let word = self.memory.word(at);
        word.store(0, Ordering::Release);
        self.command(AtuCommand::Notify(self.memory.address() + at as u64));
        let started = self.nic.clock().now();
        let confirmed = || word.load(Ordering::Acquire) != 0;
        let behind = self.overdue.is_some_and(|owed| !self.has_come(owed));
        let timeout = if behind { self.timeout.min(BEHIND_OVERDUE) } else { self.timeout };
        if wait_until(&self.nic, timeout, FLUSH, confirmed).is_err() {
            self.overdue = Some(Owed(at));
            return Err(Late { waited: self.nic.clock().since(started), owed: Some(Owed(at)) });
        }
        self.overdue = None;
        self.free.push(at);
        Ok(())
    }

    fn has_come(&self, owed: Owed) -> bool {
        self.memory.word(owed.0).load(Ordering::Acquire) != 0
    }

    /// Whether an owed confirmation has come. Then its word is free again: ask no more.
    pub(super) fn settled(&mut self, owed: Owed) -> Result<(), DeviceError> {
        self.nic.progress();
        if !self.has_come(owed) {
            return Err(self.explain(Duration::ZERO));
        }
        if self.overdue == Some(owed) {
            self.overdue = None;
        }
        self.free.push(owed.0);
        Ok(())
    }

    /// Why the card does not confirm: most likely others hold references to this process's memory and do not run.
    pub(super) fn explain(&self, waited: Duration) -> DeviceError {
        let (node, ranks) = (self.nic.node(), self.peers.holders());
        if ranks.is_empty() {
            return DeviceError::Timeout { what: FLUSH, node, waited };
        }
        DeviceError::HeldByPeers { node, ranks, waited }
    }
}
