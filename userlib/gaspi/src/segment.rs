//! Segments: memory of this process that others may reach, with notifications beside it.

use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use ggas::{HostBuffer, Port, Region};

use crate::error::because;
use crate::wire::Place;
use crate::{Config, GaspiError};

/// Ids of segments.
const IDS: usize = 256;
/// Bytes of a notification: a word, since shorter stores of a card may be seen in parts.
pub(crate) const FLAG: u64 = 8;

/// A segment of this process.
#[derive(Debug)]
pub(crate) struct Segment {
    pub data: Region,
    /// Notifications; the segment's, and in no user's memory.
    pub flags: Region,
    pub words: Arc<HostBuffer>,
}

impl Segment {
    /// Over memory that was registered.
    pub(crate) fn new(data: Region, port: &Port, config: &Config) -> Result<Segment, GaspiError> {
        let bytes = u64::from(config.notification_num.max(1)) * FLAG;
        let words = Arc::new(HostBuffer::zeroed(bytes as usize).map_err(because(GaspiError::Memory))?);
        let flags = port.register_shared(words.clone()).map_err(because(GaspiError::Memory))?;
        Ok(Segment { data, flags, words })
    }

    /// What other processes have to know of it.
    pub(crate) fn place(&self) -> Result<Place, GaspiError> {
        let nla = |region: &Region| region.nla(0).map_err(because(GaspiError::Memory));
        Ok(Place { size: self.data.len() as u64, data: nla(&self.data)?, flags: nla(&self.flags)? })
    }
}

/// What became of an id.
#[derive(Clone, Debug, Default)]
enum Slot {
    #[default]
    Never,
    Deleted,
    Here(Arc<Segment>),
}

/// The segments of this process, and what it knows of those of others.
#[derive(Debug)]
pub(crate) struct Segments {
    max: u32,
    own: RwLock<Vec<Slot>>,
    /// By rank and id.
    theirs: RwLock<Vec<Option<Place>>>,
}

impl Segments {
    pub(crate) fn new(ranks: usize, max: u32) -> Segments {
        let (own, theirs) = (vec![Slot::Never; IDS], vec![None; IDS * ranks]);
        Segments { max, own: RwLock::new(own), theirs: RwLock::new(theirs) }
    }

    fn own(&self) -> std::sync::RwLockReadGuard<'_, Vec<Slot>> {
        self.own.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn check_id(&self, id: u8) -> Result<(), GaspiError> {
        if u32::from(id) < self.max { Ok(()) } else { Err(GaspiError::Segment) }
    }

    /// Whether a new segment may have this id.
    pub(crate) fn check_new(&self, id: u8, bytes: u64) -> Result<(), GaspiError> {
        self.check_id(id)?;
        if bytes == 0 {
            return Err(GaspiError::SegmentSize);
        }
        if matches!(self.own()[usize::from(id)], Slot::Here(_)) {
            return Err(GaspiError::Segment);
        }
        if self.list().len() as u32 >= self.max { Err(GaspiError::ManySegments) } else { Ok(()) }
    }

    pub(crate) fn insert(&self, me: usize, id: u8, segment: Segment) -> Result<(), GaspiError> {
        let place = segment.place()?;
        {
            let mut own = self.own.write().unwrap_or_else(PoisonError::into_inner);
            let slot = &mut own[usize::from(id)];
            if matches!(slot, Slot::Here(_)) {
                return Err(GaspiError::Segment);
            }
            *slot = Slot::Here(Arc::new(segment));
        }
        self.learn(me, id, Some(place));
        Ok(())
    }

    /// A segment that is to be used for transfers.
    #[inline]
    pub(crate) fn get(&self, id: u8) -> Result<Arc<Segment>, GaspiError> {
        self.check_id(id)?;
        match &self.own()[usize::from(id)] {
            Slot::Here(segment) => Ok(segment.clone()),
            _ => Err(GaspiError::Null),
        }
    }

    /// A segment that is asked about; one that was deleted has an error of its own.
    pub(crate) fn find(&self, id: u8) -> Result<Arc<Segment>, GaspiError> {
        self.check_id(id)?;
        match &self.own()[usize::from(id)] {
            Slot::Here(segment) => Ok(segment.clone()),
            Slot::Deleted => Err(GaspiError::SegmentSize),
            Slot::Never => Err(GaspiError::Null),
        }
    }

    /// Its memory is given back when no call uses it any more.
    pub(crate) fn delete(&self, me: usize, id: u8) -> Result<(), GaspiError> {
        let segment = self.find(id)?;
        self.own.write().unwrap_or_else(PoisonError::into_inner)[usize::from(id)] = Slot::Deleted;
        self.learn(me, id, None);
        drop(segment);
        Ok(())
    }

    /// Ids in use, ascending.
    pub(crate) fn list(&self) -> Vec<u8> {
        let own = self.own();
        let here = |(id, slot): (usize, &Slot)| matches!(slot, Slot::Here(_)).then_some(id as u8);
        own.iter().enumerate().filter_map(here).collect()
    }

    /// What a rank said of its segment.
    pub(crate) fn learn(&self, rank: usize, id: u8, place: Option<Place>) {
        let mut theirs = self.theirs.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = theirs.get_mut(rank * IDS + usize::from(id)) {
            *slot = place;
        }
    }

    /// A segment of a rank, which exists; `None`: it has told of none.
    #[inline]
    pub(crate) fn place(&self, rank: usize, id: u8) -> Option<Place> {
        let theirs = self.theirs.read().unwrap_or_else(PoisonError::into_inner);
        theirs.get(rank * IDS + usize::from(id)).copied().flatten()
    }
}

/// Checks a range: an offset outside is `outside`, an end outside [`GaspiError::CommSize`].
#[inline]
pub(crate) fn check_range(
    offset: u64,
    bytes: u64,
    size: u64,
    outside: GaspiError,
) -> Result<Range<u64>, GaspiError> {
    if offset >= size {
        return Err(outside);
    }
    match offset.checked_add(bytes) {
        Some(end) if end <= size => Ok(offset..end),
        _ => Err(GaspiError::CommSize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_leave_a_segment_with_the_code_of_the_side() {
        let check = |offset, bytes| check_range(offset, bytes, 16, GaspiError::RemoteOffset);
        assert_eq!(check(0, 16), Ok(0..16));
        assert_eq!(check(15, 1), Ok(15..16));
        assert_eq!(check(15, 0), Ok(15..15));
        assert_eq!(check(16, 0), Err(GaspiError::RemoteOffset));
        assert_eq!(check(8, 9), Err(GaspiError::CommSize));
        assert_eq!(check(1, u64::MAX), Err(GaspiError::CommSize));
        assert_eq!(check(u64::MAX, 1), Err(GaspiError::RemoteOffset));
    }

    #[test]
    fn what_others_said_stays_when_the_own_segment_goes() {
        let segments = Segments::new(2, 4);
        let place = Place { size: 8, data: 0x1000, flags: 0x2000 };
        segments.learn(1, 3, Some(place));
        assert_eq!((segments.place(1, 3), segments.place(0, 3)), (Some(place), None));
        segments.learn(7, 3, Some(place));
        assert_eq!(segments.delete(0, 3), Err(GaspiError::Null));
        assert_eq!(segments.find(4).err(), Some(GaspiError::Segment));
        assert_eq!(segments.check_new(4, 1), Err(GaspiError::Segment));
        assert_eq!(segments.check_new(3, 0), Err(GaspiError::SegmentSize));
        assert_eq!(segments.place(1, 3), Some(place));
    }
}
