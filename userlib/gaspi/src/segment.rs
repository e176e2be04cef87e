//! Segments: memory of this process that others may reach, with notifications beside it.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};

use ggas::kernels::Mapped;
use ggas::{HostBuffer, Port, Region};

use crate::error::because;
use crate::gpu::{Memory, Told};
use crate::stores::{Shown, There};
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
    pub words: Words,
    backing: Backing,
    /// Where others map it to store to it themselves.
    pub shown: Option<Shown>,
}

/// Where the notifications are, for calls of this process.
#[derive(Debug)]
pub(crate) enum Words {
    Own(Arc<HostBuffer>),
    /// In memory that others map, from this offset on.
    Passed(Arc<Memory>, u64),
}

/// Whose memory a segment is.
#[derive(Debug)]
pub(crate) enum Backing {
    /// The region's.
    Region,
    /// A program's.
    Bound,
    /// Others map it.
    Passed(Arc<Memory>, Told),
    /// A program's, which kernels of this process use as well.
    Mapped(Mapped),
    /// A program's, on a GPU.
    Device(ggas_gpu::Gpu),
}

impl Words {
    #[inline]
    pub(crate) fn is_set(&self, id: u32) -> bool {
        let at = u64::from(id) * FLAG;
        match self {
            Words::Own(words) => words.load_u64(at as usize) != 0,
            Words::Passed(memory, start) => memory.load(start + at).is_ok_and(|word| word != 0),
        }
    }

    /// The value of a notification, which is 0 then.
    #[inline]
    pub(crate) fn take(&self, id: u32) -> Result<u32, GaspiError> {
        let at = u64::from(id) * FLAG;
        match self {
            Words::Own(words) => Ok(words.word(at as usize).swap(0, Ordering::AcqRel) as u32),
            Words::Passed(memory, start) => Ok(memory.take(start + at)? as u32),
        }
    }
}

impl Segment {
    /// Over memory that was registered.
    pub(crate) fn new(
        data: Region,
        port: &Port,
        config: &Config,
        backing: Backing,
    ) -> Result<Segment, GaspiError> {
        let words = HostBuffer::zeroed(flag_bytes(config) as usize).map_err(because(GaspiError::Memory))?;
        let words = Arc::new(words);
        let flags = port.register_shared(words.clone()).map_err(because(GaspiError::Memory))?;
        Ok(Segment { data, flags, words: Words::Own(words), backing, shown: None })
    }

    /// Over memory that others map, with its notifications from `flags_at` of `words` on.
    pub(crate) fn passed(
        port: &Port,
        config: &Config,
        bytes: usize,
        (memory, told): (Arc<Memory>, Told),
        (words, flags_at): (Arc<Memory>, u64),
    ) -> Result<Segment, GaspiError> {
        let register = |memory: &Arc<Memory>, offset, len| {
            // SAFETY: the region keeps the memory, which all access by copies and atomics.
            let region = unsafe { port.register_kept(memory.span(offset, len), memory.clone()) };
            region.map_err(because(GaspiError::Memory))
        };
        let data = register(&memory, 0, bytes)?;
        let flags = register(&words, flags_at as usize, flag_bytes(config) as usize)?;
        let words = Words::Passed(words, flags_at);
        Ok(Segment { data, flags, words, backing: Backing::Passed(memory, told), shown: None })
    }

    /// What other processes have to know of it.
    pub(crate) fn place(&self) -> Result<Place, GaspiError> {
        let nla = |region: &Region| region.nla(0).map_err(because(GaspiError::Memory));
        let size = self.data.len() as u64;
        let (data, flags) = (nla(&self.data)?, nla(&self.flags)?);
        Ok(Place { size, data, flags, told: self.told(), shown: self.shown })
    }

    /// Addresses and bytes of data and notifications, where both are host memory that is not passed on.
    pub(crate) fn own_memory(&self) -> Option<((u64, usize), (u64, usize))> {
        match (&self.backing, &self.words) {
            (Backing::Region | Backing::Bound | Backing::Mapped(_), Words::Own(words)) => {
                Some(((self.data.address(), self.data.len()), (words.address(), words.len())))
            }
            _ => None,
        }
    }

    /// The first byte, where it is host memory.
    pub(crate) fn host_address(&self) -> Option<*mut u8> {
        match &self.backing {
            Backing::Region | Backing::Bound | Backing::Mapped(_) => Some(self.data.address() as *mut u8),
            Backing::Passed(memory, _) => memory.host_address(),
            Backing::Device(_) => None,
        }
    }

    /// What they have to know to map it.
    pub(crate) fn told(&self) -> Option<Told> {
        match &self.backing {
            Backing::Passed(_, told) => Some(*told),
            _ => None,
        }
    }

    /// The descriptors that go with that.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let Backing::Passed(memory, told) = &self.backing else { return Vec::new() };
        let words = match &self.words {
            Words::Passed(words, _) if told.flags_at.is_none() => words.fd(),
            _ => None,
        };
        memory.fd().into_iter().chain(words).collect()
    }

    /// Addresses of data and notifications for kernels of this process, where others map both.
    pub(crate) fn addresses(&self) -> Option<(u64, u64)> {
        match (&self.backing, &self.words) {
            (Backing::Passed(memory, _), Words::Passed(words, at)) => {
                Some((memory.address(), words.address() + at))
            }
            _ => None,
        }
    }

    /// Address of the data for a GPU of this process.
    pub(crate) fn near_address(&self) -> Option<u64> {
        match &self.backing {
            Backing::Region | Backing::Bound => None,
            Backing::Passed(memory, _) => Some(memory.address()),
            Backing::Mapped(mapped) => Some(mapped.address()),
            Backing::Device(_) => Some(self.data.address()),
        }
    }

    /// Addresses of the data, where the memory is the segment's own: what a program bound may go on behind it.
    pub(crate) fn allocated(&self) -> Option<Range<u64>> {
        let start = self.data.address();
        let is_own = matches!(self.backing, Backing::Region | Backing::Passed(..));
        is_own.then(|| start..start + self.data.len() as u64)
    }

    /// A segment in GPU memory, or what stands in for one.
    pub(crate) fn is_gpu(&self) -> bool {
        match &self.backing {
            Backing::Passed(_, told) => told.is_gpu,
            Backing::Device(_) => true,
            _ => false,
        }
    }

    /// Copies out, wherever it is.
    ///
    /// # Errors
    /// [`GaspiError::CommSize`] outside of it.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), GaspiError> {
        let size = self.data.len() as u64;
        let end = offset.checked_add(into.len() as u64).filter(|end| *end <= size);
        end.ok_or(GaspiError::CommSize)?;
        match &self.backing {
            Backing::Passed(memory, _) => memory.read(offset, into),
            // SAFETY: the program's memory, valid until the segment was deleted; the range was checked.
            Backing::Device(gpu) => unsafe { gpu.read_at(self.data.address() + offset, into) }
                .map_err(because(GaspiError::Failed)),
            _ => self.data.read(offset as usize, into).map_err(because(GaspiError::CommSize)),
        }
    }

    /// Copies in, wherever it is.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn write(&self, offset: u64, from: &[u8]) -> Result<(), GaspiError> {
        let size = self.data.len() as u64;
        let end = offset.checked_add(from.len() as u64).filter(|end| *end <= size);
        end.ok_or(GaspiError::CommSize)?;
        match &self.backing {
            Backing::Passed(memory, _) => memory.write(offset, from),
            // SAFETY: as for reading.
            Backing::Device(gpu) => unsafe { gpu.write_at(self.data.address() + offset, from) }
                .map_err(because(GaspiError::Failed)),
            _ => self.data.write(offset as usize, from).map_err(because(GaspiError::CommSize)),
        }
    }
}

/// Bytes of a segment's notifications.
pub(crate) fn flag_bytes(config: &Config) -> u64 {
    u64::from(config.notification_num.max(1)) * FLAG
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
    theirs: RwLock<Vec<Theirs>>,
}

/// A segment of a rank.
#[derive(Clone, Debug, Default)]
struct Theirs {
    /// `None`: the rank has told of none.
    place: Option<Place>,
    /// Where this process stores to it itself.
    there: Option<Arc<There>>,
}

impl Segments {
    pub(crate) fn new(ranks: usize, max: u32) -> Segments {
        let (own, theirs) = (vec![Slot::Never; IDS], vec![Theirs::default(); IDS * ranks]);
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
        if self.list().len() as u32 >= self.max {
            return Err(GaspiError::ManySegments);
        }
        let is_used = matches!(self.own()[usize::from(id)], Slot::Here(_));
        if is_used { Err(GaspiError::Segment) } else { Ok(()) }
    }

    /// `show` lets others at a segment that has got its id.
    pub(crate) fn insert(
        &self,
        me: usize,
        id: u8,
        mut segment: Segment,
        show: impl FnOnce(&Segment) -> Option<Shown>,
    ) -> Result<(), GaspiError> {
        let place;
        {
            let mut own = self.own.write().unwrap_or_else(PoisonError::into_inner);
            let slot = &mut own[usize::from(id)];
            if matches!(slot, Slot::Here(_)) {
                return Err(GaspiError::Segment);
            }
            segment.shown = show(&segment);
            place = segment.place()?;
            *slot = Slot::Here(Arc::new(segment));
        }
        self.learn(me, id, Some(place), None);
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
        self.learn(me, id, None, None);
        drop(segment);
        Ok(())
    }

    /// Ids in use, ascending.
    pub(crate) fn list(&self) -> Vec<u8> {
        let own = self.own();
        let here = |(id, slot): (usize, &Slot)| matches!(slot, Slot::Here(_)).then_some(id as u8);
        own.iter().enumerate().filter_map(here).collect()
    }

    /// The segment of memory of its own that has this address.
    pub(crate) fn allocated_at(&self, address: u64) -> Option<Arc<Segment>> {
        let has = |segment: &Arc<Segment>| segment.allocated().is_some_and(|place| place.contains(&address));
        self.own().iter().find_map(|slot| match slot {
            Slot::Here(segment) if has(segment) => Some(segment.clone()),
            _ => None,
        })
    }

    /// What a rank said of its segment.
    pub(crate) fn learn(&self, rank: usize, id: u8, place: Option<Place>, there: Option<There>) {
        let mut theirs = self.theirs.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = theirs.get_mut(rank * IDS + usize::from(id)) {
            *slot = Theirs { place, there: there.map(Arc::new) };
        }
    }

    /// A segment of a rank where this process stores to it itself.
    #[inline]
    pub(crate) fn there(&self, rank: usize, id: u8) -> Option<Arc<There>> {
        let theirs = self.theirs.read().unwrap_or_else(PoisonError::into_inner);
        theirs.get(rank * IDS + usize::from(id))?.there.clone()
    }

    /// A segment of a rank, which exists; `None`: it has told of none.
    #[inline]
    pub(crate) fn place(&self, rank: usize, id: u8) -> Option<Place> {
        let theirs = self.theirs.read().unwrap_or_else(PoisonError::into_inner);
        theirs.get(rank * IDS + usize::from(id)).and_then(|theirs| theirs.place)
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
        let place = Place { size: 8, data: 0x1000, flags: 0x2000, told: None, shown: None };
        segments.learn(1, 3, Some(place), None);
        assert_eq!((segments.place(1, 3), segments.place(0, 3)), (Some(place), None));
        segments.learn(7, 3, Some(place), None);
        assert_eq!(segments.delete(0, 3), Err(GaspiError::Null));
        assert_eq!(segments.find(4).err(), Some(GaspiError::Segment));
        assert_eq!(segments.check_new(4, 1), Err(GaspiError::Segment));
        assert_eq!(segments.check_new(3, 0), Err(GaspiError::SegmentSize));
        assert_eq!(segments.place(1, 3), Some(place));
    }
}
