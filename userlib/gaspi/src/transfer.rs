//! Writes, reads and notifications through queues.

use std::sync::Arc;

use extoll_abi::MAX_TRANSFER;
use ggas::{PostError, Spec};
use ggas_clock::Backoff;

use crate::gpu::Near;
use crate::ledger::{Ledger, Way};
use crate::segment::{FLAG, Segment, check_range};
use crate::shared::{Link, Shared};
use crate::stores::Target;
use crate::wire::Place;
use crate::{Counter, GaspiError, Timeout};

/// A part of a local segment, of as many bytes a part of a remote one, and the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Segment of this process.
    pub local: u8,
    /// Offset in it.
    pub local_offset: u64,
    /// Segment of the other process.
    pub remote: u8,
    /// Offset in it.
    pub remote_offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A notification of a segment; its value is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Segment that it is beside.
    pub segment: u8,
    /// Its number there.
    pub id: u32,
    /// Its value.
    pub value: u32,
}

/// A part that was checked.
pub(crate) struct Checked {
    pub segment: Arc<Segment>,
    pub offset: usize,
    pub remote: u64,
    pub remote_offset: u64,
    pub bytes: u64,
    /// The remote side where this process can store to it.
    pub target: Option<Target>,
    /// The remote side as this process's GPU reaches it, and the offset there; mapped until the request is posted.
    pub near: Option<(Arc<Near>, u64)>,
}

impl Shared {
    /// The segment of another rank, or of this one.
    fn remote(&self, rank: u16, id: u8) -> Result<Place, GaspiError> {
        self.segments.check_id(id)?;
        let rank = self.check_rank(rank)?;
        self.segments.place(rank, id).ok_or(GaspiError::Null)
    }

    pub(crate) fn check(&self, part: &Part, rank: u16) -> Result<Checked, GaspiError> {
        let Part { local, local_offset, remote, remote_offset, bytes } = *part;
        let segment = self.segments.get(local)?;
        check_range(local_offset, bytes, segment.data.len() as u64, GaspiError::LocalOffset)?;
        let place = self.remote(rank, remote)?;
        check_range(remote_offset, bytes, place.size, GaspiError::RemoteOffset)?;
        if bytes > self.config.transfer_size_max {
            return Err(GaspiError::CommSize);
        }
        let near = self.gpu.near(rank.into(), remote).map(|near| (near, remote_offset));
        let target = self.target(rank.into(), remote);
        let (offset, remote) = (local_offset as usize, place.data + remote_offset);
        Ok(Checked { segment, offset, remote, remote_offset, bytes, target, near })
    }

    fn check_list(&self, parts: &[Part], rank: u16) -> Result<Vec<Checked>, GaspiError> {
        parts.iter().map(|part| self.check(part, rank)).collect()
    }

    /// Where the notification of another rank lies.
    fn flag(&self, notice: &Notice, rank: u16) -> Result<u64, GaspiError> {
        let place = self.remote(rank, notice.segment)?;
        if notice.id >= self.config.notification_num {
            return Err(GaspiError::NotificationId);
        }
        Ok(place.flags + u64::from(notice.id) * FLAG)
    }

    /// The notification that a request ends with.
    fn tell(&self, notice: &Notice, rank: u16) -> Result<End<'_>, GaspiError> {
        let (flag, at) = (self.flag(notice, rank)?, u64::from(notice.id) * FLAG);
        let near = self.gpu.near(rank.into(), notice.segment).map(|near| (near, at));
        let target = self.target(rank.into(), notice.segment);
        Ok(End::Tell { id: notice.id, value: notice.value, flag, target, near })
    }

    /// Whether a notification is possible.
    pub(crate) fn check_notice(&self, notice: &Notice, rank: u16) -> Result<(), GaspiError> {
        self.flag(notice, rank)?;
        check_value(notice)
    }

    /// Posts what the parts say, then the notification; in the order of posts, and nothing where the queue has no room.
    /// What ran out of time halfway is waited for, and is posted again as a whole by the next call.
    fn post(
        &self,
        queue: u8,
        rank: u16,
        parts: &[Checked],
        end: Option<End<'_>>,
        is_read: bool,
    ) -> Result<(), GaspiError> {
        let count = parts.iter().filter(|part| part.bytes > 0).count() as u32;
        // A part and its notification are one request.
        let cost = if parts.len() > 1 { count + u32::from(end.is_some()) } else { 1 };
        let mut ledger = self.ledger();
        if count == 0 && end.is_none() {
            return ledger.size(queue).map(drop);
        }
        ledger.check(queue, cost)?;
        let rank = usize::from(rank);
        if let Some(direct) = self.direct(parts, end.as_ref(), is_read) {
            return self.post_direct(&mut ledger, queue, rank, cost, direct);
        }
        if end.is_some() {
            self.settle_direct(rank)?;
        }
        if !is_read && self.store(&mut ledger, rank, parts, end.as_ref()) {
            let life = ledger.began(queue, cost);
            ledger.ended(queue, life);
            return Ok(());
        }
        if self.deaths.has_any_departed() && self.is_gone(rank) {
            self.refuse(&mut ledger, queue, rank, "its process has ended");
            return Ok(());
        }
        self.gpu.card_used(rank);
        let way = match &end {
            Some(End::Tell { .. }) => Way::Immediate,
            _ if is_read => Way::Get,
            _ => Way::Put,
        };
        let commands =
            || parts.iter().map(|part| part.bytes.div_ceil(MAX_TRANSFER.into()) as u32).sum::<u32>();
        let notifications = if is_read { commands() + u32::from(end.is_some()) } else { 1 };
        ledger.begin(queue, rank, cost, way, notifications);
        let mut posted = Posted::default();
        let sent = self.transfer(&mut ledger, rank, parts, end.as_ref(), is_read, &mut posted);
        if !is_read {
            self.went_through_card(&mut ledger, rank, parts, end.as_ref());
        }
        let Err(error) = sent else { return Ok(()) };
        let is_timeout = matches!(error, PostError::Timeout { .. });
        let is_bare = is_timeout && posted.commands > posted.notifications;
        ledger.cut(rank, cost, way, notifications - posted.notifications, is_bare);
        if is_timeout {
            return Err(GaspiError::Timeout);
        }
        self.refuse(&mut ledger, queue, rank, error);
        Ok(())
    }

    /// As of a card: the post is taken, and the wait tells what became of it.
    #[cold]
    fn refuse(&self, ledger: &mut Ledger, queue: u8, rank: usize, why: impl std::fmt::Display) {
        tracing::warn!("a request to rank {rank} was not posted: {why}");
        self.mark(rank);
        ledger.refused(queue);
    }

    /// Hands the commands of a request to the card, and counts them.
    fn transfer(
        &self,
        ledger: &mut Ledger,
        rank: usize,
        parts: &[Checked],
        end: Option<&End<'_>>,
        is_read: bool,
        posted: &mut Posted,
    ) -> Result<(), PostError> {
        let Link { data: link, one, .. } = &self.links[rank];
        let mut left: u64 = parts.iter().map(|part| part.bytes).sum();
        for part in parts {
            for at in (0..part.bytes).step_by(MAX_TRANSFER as usize) {
                let bytes = (part.bytes - at).min(MAX_TRANSFER.into());
                left -= bytes;
                let (data, offset) = (&part.segment.data, part.offset + at as usize);
                let (bytes, remote) = (bytes as usize, part.remote + at);
                self.make_room(ledger)?;
                let is_told = is_read || left == 0 && end.is_none();
                if is_read {
                    link.get(data, offset, bytes, remote, Spec::COMPLETER)?;
                } else {
                    let spec = if is_told { Spec::REQUESTER } else { Spec::empty() };
                    link.put(data, offset, bytes, remote, spec)?;
                }
                posted.count(ledger, is_told);
            }
        }
        let Some(end) = end else { return Ok(()) };
        self.make_room(ledger)?;
        match end {
            End::Tell { value, flag, .. } => {
                link.immediate_put((*value).into(), 8, *flag, Spec::REQUESTER)?
            }
            // Behind the data, of the same process: a word that is 1.
            End::Fetch { segment, id } => {
                let offset = u64::from(*id) * FLAG;
                link.get(&segment.flags, offset as usize, 8, *one, Spec::COMPLETER)?;
            }
        }
        posted.count(ledger, true);
        Ok(())
    }

    /// Waits until the card can write one more notification: one that finds no room stops it.
    #[inline]
    pub(crate) fn make_room(&self, ledger: &mut Ledger) -> Result<(), PostError> {
        if ledger.under_way() < self.notifications { Ok(()) } else { self.wait_for_room(ledger) }
    }

    #[cold]
    fn wait_for_room(&self, ledger: &mut Ledger) -> Result<(), PostError> {
        let port = &self.data;
        let mut backoff = Backoff::new(self.clock(), port.config().post_timeout);
        loop {
            port.progress();
            self.take_notifications(ledger);
            self.look_for_losses(ledger);
            if ledger.under_way() < self.notifications {
                return Ok(());
            }
            backoff.pause().map_err(|waited| PostError::Timeout {
                port: port.address(),
                path: port.config().path.unwrap_or_default(),
                outstanding: ledger.under_way().into(),
                waited,
            })?;
        }
    }

    /// Posts the notifications that are missing behind puts whose request was cut off: a word of each rank that is 1
    /// becomes 1 again.
    fn cover(&self, ledger: &mut Ledger, queue: u8) {
        let Some(rank) = ledger.bare(queue) else { return };
        let Link { data, one, .. } = &self.links[rank];
        match data.try_immediate_put(1, 8, *one, Spec::REQUESTER) {
            Ok(()) => {
                ledger.begin(queue, rank, 0, Way::Immediate, 1);
                ledger.posted();
                ledger.covered(queue, rank);
            }
            Err(PostError::WouldBlock) => {}
            Err(error) => {
                tracing::warn!("rank {rank}: {error}");
                self.mark(rank);
                ledger.covered(queue, rank);
                ledger.refused(queue);
            }
        }
    }

    pub(crate) fn write(&self, part: &Part, rank: u16, queue: u8) -> Result<(), GaspiError> {
        let checked = self.check(part, rank)?;
        self.post(queue, rank, &[checked], None, false)?;
        self.statistics.add(Counter::BytesWritten, part.bytes);
        self.statistics.one(Counter::NumberOfWrites);
        Ok(())
    }

    pub(crate) fn read(&self, part: &Part, rank: u16, queue: u8) -> Result<(), GaspiError> {
        let checked = self.check(part, rank)?;
        self.post(queue, rank, &[checked], None, true)?;
        self.statistics.add(Counter::BytesRead, part.bytes);
        self.statistics.one(Counter::NumberOfReads);
        Ok(())
    }

    pub(crate) fn write_list(&self, parts: &[Part], rank: u16, queue: u8) -> Result<(), GaspiError> {
        self.check_length(parts.len())?;
        self.post(queue, rank, &self.check_list(parts, rank)?, None, false)?;
        self.statistics.add(Counter::BytesWritten, parts.iter().map(|part| part.bytes).sum());
        self.statistics.one(Counter::NumberOfWrites);
        Ok(())
    }

    pub(crate) fn read_list(&self, parts: &[Part], rank: u16, queue: u8) -> Result<(), GaspiError> {
        self.check_length(parts.len())?;
        self.post(queue, rank, &self.check_list(parts, rank)?, None, true)?;
        self.statistics.add(Counter::BytesRead, parts.iter().map(|part| part.bytes).sum());
        self.statistics.one(Counter::NumberOfReads);
        Ok(())
    }

    /// Elements of a list: 1 to as many as are configured.
    pub(crate) fn check_length(&self, parts: usize) -> Result<(), GaspiError> {
        let most = self.config.rw_list_elem_max as usize;
        if (1..=most).contains(&parts) { Ok(()) } else { Err(GaspiError::Number) }
    }

    pub(crate) fn notify(&self, notice: &Notice, rank: u16, queue: u8) -> Result<(), GaspiError> {
        let end = self.tell(notice, rank)?;
        self.ledger().size(queue)?;
        check_value(notice)?;
        self.post(queue, rank, &[], Some(end), false)
    }

    pub(crate) fn write_notify(
        &self,
        parts: &[Part],
        notice: &Notice,
        rank: u16,
        queue: u8,
    ) -> Result<(), GaspiError> {
        self.check_length(parts.len())?;
        let checked = self.check_list(parts, rank)?;
        let end = self.tell(notice, rank)?;
        check_value(notice)?;
        self.post(queue, rank, &checked, Some(end), false)?;
        self.statistics.add(Counter::BytesWritten, parts.iter().map(|part| part.bytes).sum());
        self.statistics.one(Counter::NumberOfWriteNotifys);
        Ok(())
    }

    /// Reads, then sets notification `id` of the local `segment` to 1.
    pub(crate) fn read_notify(
        &self,
        parts: &[Part],
        (segment, id): (u8, u32),
        rank: u16,
        queue: u8,
    ) -> Result<(), GaspiError> {
        self.check_length(parts.len())?;
        let checked = self.check_list(parts, rank)?;
        if id >= self.config.notification_num {
            return Err(GaspiError::NotificationId);
        }
        let segment = self.segments.get(segment)?;
        self.post(queue, rank, &checked, Some(End::Fetch { segment: &segment, id }), true)?;
        self.statistics.add(Counter::BytesRead, parts.iter().map(|part| part.bytes).sum());
        self.statistics.one(Counter::NumberOfReadNotifys);
        Ok(())
    }

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

/// What of a request the card has.
#[derive(Default)]
struct Posted {
    commands: u32,
    notifications: u32,
}

impl Posted {
    #[inline]
    fn count(&mut self, ledger: &mut Ledger, is_told: bool) {
        self.commands += 1;
        if is_told {
            self.notifications += 1;
            ledger.posted();
        }
    }
}

/// What comes behind the data.
pub(crate) enum End<'a> {
    /// `near`: the segment as this process's GPU reaches it, and the offset of the notification.
    Tell {
        id: u32,
        value: u32,
        flag: u64,
        target: Option<Target>,
        near: Option<(Arc<Near>, u64)>,
    },
    Fetch {
        segment: &'a Segment,
        id: u32,
    },
}

fn check_value(notice: &Notice) -> Result<(), GaspiError> {
    if notice.value == 0 { Err(GaspiError::NotificationValue) } else { Ok(()) }
}
