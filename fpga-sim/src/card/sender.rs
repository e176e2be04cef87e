//! The way out of the requester and the responder: what the fabric has not taken waits here, in order.

use std::collections::VecDeque;
use std::sync::Arc;

use extoll_abi::Kind as Unit;

use super::board::Board;
use super::notifier::Notifier;
use super::per_vpid::PerVpid;
use super::sending::{Sending, Sent, start};
use super::translation::Translation;
use crate::packet::{Kind, Packet};
use crate::units::bits::VpidSet;
use crate::units::report::{Done, Report};
use crate::units::requester::{Job, Requester};
use crate::units::wcb::Command;

pub(super) struct Sender {
    board: Arc<Board>,
    pub(super) requester: Requester,
    /// Commands that the fabric has not taken in whole, one for each VPID in `stalled`.
    commands: PerVpid<Option<Box<Sending>>>,
    /// VPIDs whose requester waits for the fabric or a device.
    stalled: VpidSet,
    /// Responses that the fabric has not taken.
    responses: VecDeque<Box<Sending>>,
}

impl Sender {
    pub(super) fn new(board: Arc<Board>) -> Sender {
        Sender {
            board,
            requester: Requester::default(),
            commands: PerVpid::default(),
            stalled: VpidSet::default(),
            responses: VecDeque::new(),
        }
    }

    /// Whether the last command of a VPID is not out.
    #[inline]
    pub(super) fn is_stalled(&self, vpid: u8) -> bool {
        self.stalled.contains(vpid)
    }

    /// Whether commands wait for the fabric or a device.
    #[inline]
    pub(super) fn has_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    /// Responses that wait for the fabric or a device.
    #[inline]
    pub(super) fn responses(&self) -> usize {
        self.responses.len()
    }

    /// Whether a device's bytes are waited for.
    pub(super) fn waits_for_device(&self) -> bool {
        let command = |vpid: u8| self.commands.get(vpid).and_then(|sending| sending.as_ref());
        self.responses.iter().any(|sending| sending.waits_for_device())
            || self.stalled.iter_from(0).filter_map(command).any(|sending| sending.waits_for_device())
    }

    /// Carries out one command of `vpid`, which is not [stalled](Sender::is_stalled).
    #[inline]
    pub(super) fn execute(
        &mut self,
        translation: &mut Translation,
        notifier: &mut Notifier,
        vpid: u8,
        command: &Command,
    ) {
        span!("requester", node = self.board.node, vpid, command = %command.descriptor.header().command);
        let mut cx = translation.context(vpid);
        let Some(job) = self.requester.execute(&mut cx, vpid, command) else { return };
        self.send(translation, notifier, vpid, job);
    }

    /// As [`Sender::execute`], of an operation that triggers started; its completion word is written once it is over.
    /// Returns the number of a command whose answer says that.
    pub(super) fn execute_triggered(
        &mut self,
        translation: &mut Translation,
        notifier: &mut Notifier,
        vpid: u8,
        command: &Command,
        done: Option<Done>,
    ) -> Option<u32> {
        span!("trigger", node = self.board.node, vpid, command = %command.descriptor.header().command);
        let mut cx = translation.context(vpid);
        let mut job = self.requester.execute(&mut cx, vpid, command)?;
        let packet = &job.packet;
        let answered = matches!(packet.kind, Kind::Get | Kind::Lock).then_some(packet.tag);
        if done.is_some() && answered.is_none() {
            let (remote, code) = (packet.destination, packet.command);
            let silent =
                || Report { silent: true, ..Report::new(Unit::Requester, packet, vpid, remote, code, 0) };
            let report = job.report.unwrap_or_else(silent);
            job.report = Some(Report { done, ..report });
        }
        self.send(translation, notifier, vpid, job);
        answered
    }

    #[inline]
    fn send(&mut self, translation: &mut Translation, notifier: &mut Notifier, vpid: u8, job: Job) {
        match start(&self.board, translation, Unit::Requester, job) {
            Ok(sent) => report(notifier, sent),
            Err(sending) => {
                *self.commands.at(vpid) = Some(sending);
                self.stalled.set(vpid, true);
            }
        }
    }

    /// Sends a response, behind those to the same node that wait.
    pub(super) fn respond(&mut self, translation: &mut Translation, notifier: &mut Notifier, job: Job) {
        let sending = if self.waits_for(job.packet.destination.node) {
            Err(Sending::new(&self.board, translation, Unit::Responder, job))
        } else {
            start(&self.board, translation, Unit::Responder, job)
        };
        match sending {
            Ok(sent) => report(notifier, sent),
            Err(sending) => self.responses.push_back(sending),
        }
    }

    /// Sends a response that is complete and counted, in the same order.
    pub(super) fn respond_with(&mut self, mut packet: Packet) {
        if !self.waits_for(packet.destination.node) {
            match self.board.fabric.send(self.board.node, packet) {
                Ok(()) => return,
                Err(refused) => packet = refused,
            }
        }
        self.responses.push_back(Sending::refused(Unit::Responder, None, packet, None));
    }

    /// Whether a response to a node waits.
    fn waits_for(&self, node: u16) -> bool {
        self.responses.iter().any(|sending| sending.destination() == node)
    }

    /// Tries again what the fabric refused.
    pub(super) fn resume(&mut self, notifier: &mut Notifier, turn: u8) -> bool {
        let mut moved = false;
        for vpid in self.stalled.iter_from(turn) {
            let Some(sending) = self.commands.at(vpid).take() else {
                self.stalled.set(vpid, false);
                continue;
            };
            match sending.pump(&self.board, &mut moved) {
                Ok(sent) => {
                    self.stalled.set(vpid, false);
                    report(notifier, sent);
                }
                Err(sending) => *self.commands.at(vpid) = Some(sending),
            }
        }
        moved
    }

    /// Tries again responses that the fabric refused, in order for each node.
    pub(super) fn resume_responses(&mut self, notifier: &mut Notifier) -> bool {
        let mut moved = false;
        let mut blocked: Vec<u16> = Vec::new();
        for _ in 0..self.responses.len() {
            let Some(sending) = self.responses.pop_front() else { break };
            let node = sending.destination();
            if blocked.contains(&node) {
                self.responses.push_back(sending);
                continue;
            }
            match sending.pump(&self.board, &mut moved) {
                Ok(sent) => report(notifier, sent),
                Err(sending) => {
                    blocked.push(node);
                    self.responses.push_back(sending);
                }
            }
        }
        moved
    }

    /// Forgets the command of a VPID that was closed.
    pub(super) fn close(&mut self, vpid: u8) {
        if let Some(sending) = self.commands.get_mut(vpid).and_then(Option::take) {
            sending.give_up(&self.board);
        }
        self.stalled.set(vpid, false);
    }
}

/// The memory may live on, and would keep what is fetched for a card that is gone.
impl Drop for Sender {
    fn drop(&mut self) {
        for vpid in self.stalled.iter_from(0) {
            self.close(vpid);
        }
        self.responses.drain(..).for_each(|sending| sending.give_up(&self.board));
    }
}

fn report(notifier: &mut Notifier, (report, hold): Sent) {
    if let Some(report) = report {
        notifier.report_after(hold, report);
    }
}
