//! Calls that post requests to queues.

use crate::request::{End, Notice, Part, check_value};
use crate::shared::Shared;
use crate::{Counter, Gaspi, GaspiError, Timeout};

/// Posts that wait for room so long only: see [`Gaspi::within`].
#[derive(Clone, Copy, Debug)]
pub struct Within<'a> {
    gaspi: &'a Gaspi,
    timeout: Timeout,
}

impl Within<'_> {
    /// [`Gaspi::write`].
    ///
    /// # Errors
    /// As there; [`GaspiError::Timeout`].
    #[inline]
    pub fn write(&self, part: &Part, rank: u16, queue: u8) -> Result<(), GaspiError> {
        self.gaspi.shared.write(part, rank, queue, self.timeout)
    }

    /// [`Gaspi::read`].
    ///
    /// # Errors
    /// As there; [`GaspiError::Timeout`].
    #[inline]
    pub fn read(&self, part: &Part, rank: u16, queue: u8) -> Result<(), GaspiError> {
        self.gaspi.shared.read(part, rank, queue, self.timeout)
    }

    /// [`Gaspi::write_list`].
    ///
    /// # Errors
    /// As there; [`GaspiError::Timeout`].
    pub fn write_list(&self, parts: &[Part], rank: u16, queue: u8) -> Result<(), GaspiError> {
        self.gaspi.shared.write_list(parts, rank, queue, self.timeout)
    }

    /// [`Gaspi::read_list`].
    ///
    /// # Errors
    /// As there; [`GaspiError::Timeout`].
    pub fn read_list(&self, parts: &[Part], rank: u16, queue: u8) -> Result<(), GaspiError> {
        self.gaspi.shared.read_list(parts, rank, queue, self.timeout)
    }

    /// [`Gaspi::notify`].
    ///
    /// # Errors
    /// As there; [`GaspiError::Timeout`].
    #[inline]
    pub fn notify(&self, notice: &Notice, rank: u16, queue: u8) -> Result<(), GaspiError> {
        self.gaspi.shared.notify(notice, rank, queue, self.timeout)
    }

    /// [`Gaspi::write_notify`].
    ///
    /// # Errors
    /// As there; [`GaspiError::Timeout`].
    #[inline]
    pub fn write_notify(
        &self,
        parts: &[Part],
        notice: &Notice,
        rank: u16,
        queue: u8,
    ) -> Result<(), GaspiError> {
        self.gaspi.shared.write_notify(parts, notice, rank, queue, self.timeout)
    }

    /// [`Gaspi::read_notify`]; the notification by its segment and number.
    ///
    /// # Errors
    /// As there; [`GaspiError::Timeout`].
    pub fn read_notify(
        &self,
        parts: &[Part],
        (segment, id): (u8, u32),
        rank: u16,
        queue: u8,
    ) -> Result<(), GaspiError> {
        self.gaspi.shared.read_notify(parts, (segment, id), rank, queue, self.timeout)
    }
}

impl Gaspi {
    /// Posts with a limit: where the card has no room for a request as long, since a process that others write to stands still,
    /// they end with [`GaspiError::Timeout`] and are to be posted again, as a whole. A limit below 100 ms counts as that. The
    /// posts of `Gaspi` itself wait until there is room.
    #[inline]
    pub fn within(&self, timeout: Timeout) -> Within<'_> {
        Within { gaspi: self, timeout }
    }

    /// Posts a write and returns; [`wait`](Self::wait) says when the source may be changed.
    ///
    /// # Errors
    /// In this order: [`GaspiError::Segment`], [`Null`](GaspiError::Null), [`LocalOffset`](GaspiError::LocalOffset),
    /// [`CommSize`](GaspiError::CommSize) of the local side; [`Segment`](GaspiError::Segment),
    /// [`Rank`](GaspiError::Rank), [`Null`](GaspiError::Null), [`RemoteOffset`](GaspiError::RemoteOffset),
    /// [`CommSize`](GaspiError::CommSize) of the remote one; [`Queue`](GaspiError::Queue);
    /// [`QueueFull`](GaspiError::QueueFull), and nothing is posted.
    #[inline]
    pub fn write(&self, part: &Part, rank: u16, queue: u8) -> Result<(), GaspiError> {
        self.within(Timeout::Block).write(part, rank, queue)
    }

    /// Posts a read and returns; after [`wait`](Self::wait) the data are there.
    ///
    /// # Errors
    /// As of [`write`](Self::write).
    #[inline]
    pub fn read(&self, part: &Part, rank: u16, queue: u8) -> Result<(), GaspiError> {
        self.within(Timeout::Block).read(part, rank, queue)
    }

    /// Posts several writes to one rank.
    ///
    /// # Errors
    /// [`GaspiError::Number`] for none or too many; as of [`write`](Self::write).
    pub fn write_list(&self, parts: &[Part], rank: u16, queue: u8) -> Result<(), GaspiError> {
        self.within(Timeout::Block).write_list(parts, rank, queue)
    }

    /// Posts several reads from one rank.
    ///
    /// # Errors
    /// As of [`write_list`](Self::write_list).
    pub fn read_list(&self, parts: &[Part], rank: u16, queue: u8) -> Result<(), GaspiError> {
        self.within(Timeout::Block).read_list(parts, rank, queue)
    }

    /// Posts a notification: it is set at the rank once all that was posted to the rank before has arrived.
    ///
    /// # Errors
    /// [`GaspiError::NotificationId`], [`GaspiError::NotificationValue`]; as of [`write`](Self::write).
    #[inline]
    pub fn notify(&self, notice: &Notice, rank: u16, queue: u8) -> Result<(), GaspiError> {
        self.within(Timeout::Block).notify(notice, rank, queue)
    }

    /// Posts writes and a notification behind them; with one part it is one request of the queue.
    ///
    /// # Errors
    /// As of [`write_list`](Self::write_list) and [`notify`](Self::notify).
    #[inline]
    pub fn write_notify(
        &self,
        parts: &[Part],
        notice: &Notice,
        rank: u16,
        queue: u8,
    ) -> Result<(), GaspiError> {
        self.within(Timeout::Block).write_notify(parts, notice, rank, queue)
    }

    /// Posts reads, behind which notification `id` of `segment` of this process becomes 1.
    ///
    /// # Errors
    /// As of [`write_notify`](Self::write_notify).
    pub fn read_notify(
        &self,
        parts: &[Part],
        segment: u8,
        id: u32,
        rank: u16,
        queue: u8,
    ) -> Result<(), GaspiError> {
        self.within(Timeout::Block).read_notify(parts, (segment, id), rank, queue)
    }
}

impl Shared {
    pub(crate) fn write(
        &self,
        part: &Part,
        rank: u16,
        queue: u8,
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        let checked = self.check(part, rank)?;
        self.post(queue, rank, &[checked], None, false, timeout)?;
        self.statistics.moved(part.bytes, Counter::BytesWritten, Counter::NumberOfWrites);
        Ok(())
    }

    pub(crate) fn read(&self, part: &Part, rank: u16, queue: u8, timeout: Timeout) -> Result<(), GaspiError> {
        let checked = self.check(part, rank)?;
        self.post(queue, rank, &[checked], None, true, timeout)?;
        self.statistics.moved(part.bytes, Counter::BytesRead, Counter::NumberOfReads);
        Ok(())
    }

    pub(crate) fn write_list(
        &self,
        parts: &[Part],
        rank: u16,
        queue: u8,
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        self.check_length(parts.len())?;
        self.post(queue, rank, &self.check_list(parts, rank)?, None, false, timeout)?;
        self.statistics.moved(total(parts), Counter::BytesWritten, Counter::NumberOfWrites);
        Ok(())
    }

    pub(crate) fn read_list(
        &self,
        parts: &[Part],
        rank: u16,
        queue: u8,
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        self.check_length(parts.len())?;
        self.post(queue, rank, &self.check_list(parts, rank)?, None, true, timeout)?;
        self.statistics.moved(total(parts), Counter::BytesRead, Counter::NumberOfReads);
        Ok(())
    }

    pub(crate) fn notify(
        &self,
        notice: &Notice,
        rank: u16,
        queue: u8,
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        let end = self.tell(notice, rank)?;
        self.ledger().size(queue)?;
        check_value(notice)?;
        self.post(queue, rank, &[], Some(end), false, timeout)
    }

    pub(crate) fn write_notify(
        &self,
        parts: &[Part],
        notice: &Notice,
        rank: u16,
        queue: u8,
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        self.check_length(parts.len())?;
        let checked = self.check_list(parts, rank)?;
        let end = self.tell(notice, rank)?;
        check_value(notice)?;
        self.post(queue, rank, &checked, Some(end), false, timeout)?;
        self.statistics.moved(total(parts), Counter::BytesWritten, Counter::NumberOfWriteNotifys);
        Ok(())
    }

    /// Reads, then sets notification `id` of the local `segment` to 1.
    pub(crate) fn read_notify(
        &self,
        parts: &[Part],
        (segment, id): (u8, u32),
        rank: u16,
        queue: u8,
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        self.check_length(parts.len())?;
        let checked = self.check_list(parts, rank)?;
        if id >= self.config.notification_num {
            return Err(GaspiError::NotificationId);
        }
        let segment = self.segments.get(segment)?;
        self.post(queue, rank, &checked, Some(End::Fetch { segment: &segment, id }), true, timeout)?;
        self.statistics.moved(total(parts), Counter::BytesRead, Counter::NumberOfReadNotifys);
        Ok(())
    }
}

fn total(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.bytes).sum()
}
