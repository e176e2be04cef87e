//! Barrier and allreduce of a process: from the call to its end.

use std::sync::Arc;
use std::time::Instant;

use crate::collective::{Kind, Progress};
use crate::meeting::{Meeting, Reach};
use crate::passive::turn;
use crate::shared::Shared;
use crate::{Counter, Datatype, GaspiError, Operation, Reduction, Timeout, reduce};

impl Shared {
    /// Frees memory of deleted groups as far as no put reads it; `meeting`: of one more.
    pub(crate) fn free_meetings(&self, meeting: Option<Arc<Meeting>>) {
        self.puts.take(&self.control);
        let gone = &mut self.groups.state().gone;
        gone.extend(meeting.map(|meeting| {
            let mark = self.puts.mark(meeting.ranks().map(|(_, rank)| rank));
            (mark, meeting)
        }));
        gone.retain(|(mark, _)| !self.puts.are_done(mark));
    }

    /// Waits until no put of a collective reads memory any more, as long as a post may take.
    pub(crate) fn finish_puts(&self) {
        let mark = self.puts.mark(0..self.size());
        let time = Timeout::Within(self.control.config().post_timeout);
        let done = time.wait(self.clock(), || {
            self.puts.take(&self.control);
            Ok(self.puts.are_done(&mark).then_some(()))
        });
        if done.is_err() {
            tracing::warn!("puts of collectives are not done: their targets do not take them");
        }
    }

    /// Goes on with a collective until it is over. `shape`: what the members must have in common.
    fn meet<T>(
        &self,
        group: u8,
        (kind, shape): (Kind, u64),
        (timeout, began): (Timeout, Instant),
        begin: impl FnOnce(&mut Progress, &Reach<'_>),
        mut advance: impl FnMut(&mut Progress, &Reach<'_>) -> Result<Option<T>, GaspiError>,
    ) -> Result<T, GaspiError> {
        let meeting = self.groups.meeting(group);
        let meeting = meeting.as_ref().ok_or(GaspiError::Group)?;
        let reach = Reach { shared: self, meeting };
        let mut progress = turn(self, &meeting.progress, timeout)?;
        if progress.enter(kind, shape)? {
            begin(&mut progress, &reach);
        }
        let mut looks = 0u32;
        let left = timeout.left(self.clock(), began);
        let done = left.wait_on(self.pace.ladder, self.clock(), || {
            // At first nothing holds it up.
            for _ in 0..if looks == 0 { self.pace.looks } else { 1 } {
                if let Some(result) = advance(&mut progress, &reach)? {
                    return Ok(Some(result));
                }
            }
            // On the model, a caller that waits may do the card's work.
            if reach.uses_card() {
                self.puts.take(&self.control);
            }
            looks = looks.wrapping_add(1);
            if !self.is_time_for_losses(looks) || !self.is_hopeless(&mut progress, &reach) {
                return Ok(None);
            }
            // A dead member may have left behind its part in this: what it had sent is taken in first.
            self.control.device().drain_lost();
            if let Some(result) = advance(&mut progress, &reach)? {
                return Ok(Some(result));
            }
            if self.is_hopeless(&mut progress, &reach) { Err(GaspiError::Dead) } else { Ok(None) }
        });
        match done {
            Err(GaspiError::Timeout) => return done,
            // Others may wait for a member that waits no more.
            Err(GaspiError::Dead | GaspiError::Device | GaspiError::Memory) => progress.abort(&reach),
            _ => {}
        }
        progress.leave();
        done
    }

    /// Whether a collective cannot come to an end: whom it waits for is gone, another member has found that out, or one
    /// has died, and the time is over in which those that live get through what it had joined in.
    fn is_hopeless(&self, progress: &mut Progress, reach: &Reach<'_>) -> bool {
        let others = || reach.meeting.ranks().filter(|(_, rank)| *rank != self.me);
        let awaited = others().find(|(member, rank)| self.is_gone(*rank) && progress.awaits(*member, reach));
        if let Some((_, rank)) = awaited {
            self.mark(rank);
            return true;
        }
        if progress.is_aborted(reach) {
            return true;
        }
        if !others().any(|(_, rank)| self.is_lost(rank)) {
            return false;
        }
        let since = *progress.noticed.get_or_insert_with(|| self.clock().now());
        self.clock().since(since) >= self.config.failure_timeout
    }

    pub(crate) fn barrier(&self, group: u8, timeout: Timeout) -> Result<(), GaspiError> {
        let began = self.clock().now();
        let done = self.meet(
            group,
            (Kind::Barrier, 0),
            (timeout, began),
            |_, _| (),
            |progress, reach| Ok(progress.barrier(reach)?.then_some(())),
        );
        self.statistics.waited(Counter::TimeInBarrier, began);
        if done.is_ok() {
            self.statistics.one(Counter::NumberOfBarriers);
        }
        done
    }

    /// Combines vectors of the group's members; all get the result. `send` is looked at when the collective begins; `how`
    /// stands for what is done with it, and for how many elements it has.
    pub(crate) fn allreduce(
        &self,
        group: u8,
        (kind, how): (Kind, u64),
        send: &[u8],
        combine: &mut Reduction<'_>,
        timeout: Timeout,
    ) -> Result<Vec<u8>, GaspiError> {
        let shape = how ^ send.len() as u64;
        self.meet(
            group,
            (kind, shape),
            (timeout, self.clock().now()),
            |progress, _| progress.give(send),
            |progress, reach| progress.allreduce(reach, combine),
        )
    }

    pub(crate) fn allreduce_of(
        &self,
        group: u8,
        send: &[u8],
        (operation, datatype): (Operation, Datatype),
        timeout: Timeout,
    ) -> Result<Vec<u8>, GaspiError> {
        let mut combine = |one: &mut [u8], two: &[u8]| {
            reduce::combine(operation, datatype, one, two);
            Ok(())
        };
        // Never that of a function of the program, which is 0.
        let how = (1 + operation as u64 * 8 + datatype as u64) << 56;
        self.allreduce(group, (Kind::Allreduce, how), send, &mut combine, timeout)
    }
}
