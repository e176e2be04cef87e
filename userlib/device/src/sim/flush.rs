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

/// The words that the card's notify command writes. One that it may still write, since a wait for it ran out of
/// time, serves no other flush: the late write would confirm that one too early.
pub(super) struct Flushes {
    nic: Arc<Nic>,
    peers: Peers,
    timeout: Duration,
    memory: Arc<HostBuffer>,
    free: Vec<usize>,
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
        Flushes { nic, peers, timeout, memory, free }
    }

    /// Carries out a flush command.
    pub(super) fn command(&self, command: AtuCommand) {
        match command.encode() {
            Ok(value) => self.nic.reg_write(regs::EXTOLL_RF_ATU_COMMAND, value),
            // Counts and pages are within their fields, and addresses are ours.
            Err(error) => tracing::error!("ATU command: {error}"),
        }
    }

    /// Waits until all flushes before are complete and the card uses nothing of what they removed. On an error the
    /// confirmation may still come: [`settled`](Self::settled).
    pub(super) fn confirm(&mut self) -> Result<(), (DeviceError, Option<Owed>)> {
        let Some(at) = self.free.pop() else { return Err((self.late(Duration::ZERO), None)) };
        let word = self.memory.word(at);
        word.store(0, Ordering::Release);
        self.command(AtuCommand::Notify(self.memory.address() + at as u64));
        let confirmed = || word.load(Ordering::Acquire) != 0;
        let waited = wait_until(&self.nic, self.timeout, "a flush of address translations", confirmed);
        match waited {
            Ok(()) => {
                self.free.push(at);
                Ok(())
            }
            Err(DeviceError::Timeout { waited, .. }) => Err((self.late(waited), Some(Owed(at)))),
            Err(error) => Err((error, Some(Owed(at)))),
        }
    }

    /// Whether an owed confirmation has come. Then its word is free again: ask no more.
    pub(super) fn settled(&mut self, owed: Owed) -> Result<(), DeviceError> {
        self.nic.progress();
        if self.memory.word(owed.0).load(Ordering::Acquire) == 0 {
            return Err(self.late(Duration::ZERO));
        }
        self.free.push(owed.0);
        Ok(())
    }

    /// Why the card does not confirm: most likely others hold references to this process's memory and do not run.
    fn late(&self, waited: Duration) -> DeviceError {
        let (node, ranks) = (self.nic.node(), self.peers.holders());
        if ranks.is_empty() {
            let what = "a flush of address translations";
            return DeviceError::Timeout { what, node, waited };
        }
        DeviceError::HeldByPeers { node, ranks, waited }
    }
}
