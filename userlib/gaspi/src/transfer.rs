//! Writes, reads and notifications through queues.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use extoll_abi::MAX_TRANSFER;
use ggas::{PostError, Spec};

use crate::ledger::Way;
use crate::segment::{FLAG, Segment, check_range};
use crate::shared::Shared;
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
struct Checked {
    segment: Arc<Segment>,
    offset: usize,
    remote: u64,
    bytes: u64,
}

impl Shared {
    /// The segment of another rank, or of this one.
    fn remote(&self, rank: u16, id: u8) -> Result<Place, GaspiError> {
        self.segments.check_id(id)?;
        let rank = self.check_rank(rank)?;
        self.segments.place(rank, id).ok_or(GaspiError::Null)
    }

    fn check(&self, part: &Part, rank: u16) -> Result<Checked, GaspiError> {
        let Part { local, local_offset, remote, remote_offset, bytes } = *part;
        let segment = self.segments.get(local)?;
        check_range(local_offset, bytes, segment.data.len() as u64, GaspiError::LocalOffset)?;
        let place = self.remote(rank, remote)?;
        check_range(remote_offset, bytes, place.size, GaspiError::RemoteOffset)?;
        if bytes > self.config.transfer_size_max {
            return Err(GaspiError::CommSize);
        }
        Ok(Checked { segment, offset: local_offset as usize, remote: place.data + remote_offset, bytes })
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

    /// Posts what the parts say, then the notification; in the order of posts, and nothing where the queue has no room.
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
        let link = &self.links[rank].data;
        let mut left = count;
        let mut transfers = || -> Result<Way, PostError> {
            for part in parts.iter().filter(|part| part.bytes > 0) {
                left -= 1;
                for at in (0..part.bytes).step_by(MAX_TRANSFER as usize) {
                    let piece = (part.bytes - at).min(MAX_TRANSFER.into()) as usize;
                    let is_last = left == 0 && at + piece as u64 == part.bytes && end.is_none();
                    let (offset, remote) = (part.offset + at as usize, part.remote + at);
                    match (is_read, is_last) {
                        (true, true) => {
                            link.get(&part.segment.data, offset, piece, remote, Spec::COMPLETER)?
                        }
                        (true, false) => {
                            link.get(&part.segment.data, offset, piece, remote, Spec::empty())?
                        }
                        (false, true) => {
                            link.put(&part.segment.data, offset, piece, remote, Spec::REQUESTER)?
                        }
                        (false, false) => {
                            link.put(&part.segment.data, offset, piece, remote, Spec::empty())?
                        }
                    }
                }
            }
            match &end {
                Some(End::Tell { value, flag }) => {
                    link.immediate_put(u64::from(*value), 8, *flag, Spec::REQUESTER)?;
                    Ok(Way::Immediate)
                }
                // Behind the data, of the same process: a word that is 1.
                Some(End::Fetch { segment, id }) => {
                    let offset = u64::from(*id) * FLAG;
                    link.get(&segment.flags, offset as usize, 8, self.links[rank].one, Spec::COMPLETER)?;
                    Ok(Way::Get)
                }
                None => Ok(if is_read { Way::Get } else { Way::Put }),
            }
        };
        match transfers() {
            Ok(way) => ledger.posted(queue, rank, cost, way),
            Err(PostError::Timeout { .. }) => return Err(GaspiError::Timeout),
            // As of a card: the post is taken, and the wait tells what became of it.
            Err(error) => {
                tracing::warn!("a request to rank {rank} was not posted: {error}");
                self.mark(rank);
                ledger.refused(queue);
            }
        }
        Ok(())
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
        let flag = self.flag(notice, rank)?;
        self.ledger().size(queue)?;
        check_value(notice)?;
        self.post(queue, rank, &[], Some(End::Tell { value: notice.value, flag }), false)
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
        let flag = self.flag(notice, rank)?;
        check_value(notice)?;
        self.post(queue, rank, &checked, Some(End::Tell { value: notice.value, flag }), false)?;
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
        let began = self.clock().now();
        let mut looks = 0u32;
        let done = timeout.wait(self.clock(), || {
            let mut ledger = self.ledger();
            self.take_notifications(&mut ledger);
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(256) {
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
        let words = &*segment.words;
        let is_set = |id: &u32| words.load_u64((u64::from(*id) * FLAG) as usize) != 0;
        // Mostly it is there.
        if let Some(id) = (first..end).find(is_set) {
            return Ok(Some(id));
        }
        let began = self.clock().now();
        let found = timeout.wait(self.clock(), || {
            self.data.progress();
            Ok((first..end).find(is_set))
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
        let word = segment.words.word((u64::from(id) * FLAG) as usize);
        if word.load(Ordering::Acquire) == 0 {
            self.data.progress();
        }
        Ok(word.swap(0, Ordering::AcqRel) as u32)
    }
}

/// What comes behind the data.
enum End<'a> {
    Tell { value: u32, flag: u64 },
    Fetch { segment: &'a Segment, id: u32 },
}

fn check_value(notice: &Notice) -> Result<(), GaspiError> {
    if notice.value == 0 { Err(GaspiError::NotificationValue) } else { Ok(()) }
}
