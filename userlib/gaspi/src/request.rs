//! What is written, read and told, and whether it is inside.

use std::sync::Arc;

use crate::GaspiError;
use crate::gpu::Near;
use crate::segment::{FLAG, Segment, check_range};
use crate::shared::Shared;
use crate::stores::Target;
use crate::wire::Place;

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

pub(crate) fn check_value(notice: &Notice) -> Result<(), GaspiError> {
    if notice.value == 0 { Err(GaspiError::NotificationValue) } else { Ok(()) }
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

    pub(crate) fn check_list(&self, parts: &[Part], rank: u16) -> Result<Vec<Checked>, GaspiError> {
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
    pub(crate) fn tell(&self, notice: &Notice, rank: u16) -> Result<End<'_>, GaspiError> {
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

    /// Elements of a list: 1 to as many as are configured.
    pub(crate) fn check_length(&self, parts: usize) -> Result<(), GaspiError> {
        let most = self.config.rw_list_elem_max as usize;
        if (1..=most).contains(&parts) { Ok(()) } else { Err(GaspiError::Number) }
    }
}
