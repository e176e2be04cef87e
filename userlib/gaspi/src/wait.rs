//! Waits for requests of queues, and for notifications.

use crate::shared::Shared;
use crate::{Counter, GaspiError, Timeout};

impl Shared {
    pub(crate) fn wait(&self, queue: u8, timeout: Timeout) -> Result<(), GaspiError> {
        // Stores are over when they are posted.
        if self.ledger().collect_idle(queue)? {
            self.statistics.one(Counter::NumberOfWaits);
            return Ok(());
        }
        let began = self.clock().now();
        let mut looks = 0u32;
        let done = timeout.wait_on(self.pace.ladder, self.clock(), || {
            let mut ledger = self.ledger();
            self.take_notifications(&mut ledger);
            self.cover(&mut ledger, queue);
            self.take_copies(&mut ledger, queue);
            looks = looks.wrapping_add(1);
            if self.is_time_for_losses(looks) {
                self.look_for_losses(&mut ledger);
            }
            ledger.collect(queue)
        });
        self.statistics.waited(Counter::TimeInWait, began);
        self.statistics.one(Counter::NumberOfWaits);
        done
    }

    /// As [`wait`](Self::wait), but failures are forgotten.
    pub(crate) fn purge(&self, queue: u8, timeout: Timeout) -> Result<(), GaspiError> {
        loop {
            match self.wait(queue, timeout) {
                Err(GaspiError::Failed) => {}
                other => return other,
            }
        }
    }

    /// The lowest notification of a range that is set; `None` for an empty range.
    pub(crate) fn waitsome(
        &self,
        segment: u8,
        first: u32,
        count: u32,
        timeout: Timeout,
    ) -> Result<Option<u32>, GaspiError> {
        let segment = self.segments.get(segment)?;
        let end = first.checked_add(count).filter(|end| *end <= self.config.notification_num);
        let end = end.ok_or(GaspiError::NotificationId)?;
        if count == 0 {
            return Ok(None);
        }
        let is_set = |id: &u32| segment.words.is_set(*id);
        // Mostly it is there, or about to be stored.
        for _ in 0..(self.pace.looks / count).max(1) {
            if let Some(id) = (first..end).find(is_set) {
                return Ok(Some(id));
            }
        }
        let (began, heard) = (self.clock().now(), self.deaths.heard());
        let found = timeout.wait_on(self.pace.ladder, self.clock(), || {
            self.data.progress();
            let found = (first..end).find(is_set);
            if found.is_none() && timeout == Timeout::Block && self.deaths.are_news(heard) {
                return Err(GaspiError::Failed);
            }
            Ok(found)
        });
        self.statistics.waited(Counter::TimeInWaitSome, began);
        found.map(Some)
    }

    /// The value of a notification, which is 0 then; one of several callers gets it.
    pub(crate) fn notify_reset(&self, segment: u8, id: u32) -> Result<u32, GaspiError> {
        let segment = self.segments.get(segment)?;
        if id >= self.config.notification_num {
            return Err(GaspiError::NotificationId);
        }
        if !segment.words.is_set(id) {
            self.data.progress();
        }
        segment.words.take(id)
    }
}
