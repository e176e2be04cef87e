//! Calls of segments.

use ggas::HostBuffer;

use crate::create::{Source, Wanted};
use crate::error::because;
use crate::gpu::Policy;
use crate::segment::{Backing, Segment};
use crate::wire::Ask;
use crate::{Counter, Gaspi, GaspiError, Timeout};

impl Gaspi {
    pub(crate) fn alloc(&self, id: u8, bytes: u64, policy: Policy) -> Result<(), GaspiError> {
        let shared = &*self.shared;
        shared.segments.check_new(id, bytes)?;
        if let Some(segment) = self.passed(bytes, policy)? {
            return self.insert(id, segment);
        }
        let bytes = usize::try_from(bytes).map_err(because(GaspiError::Memory))?;
        let buffer = HostBuffer::zeroed(bytes).map_err(because(GaspiError::Memory))?;
        let data = shared.data.register(buffer).map_err(because(GaspiError::Memory))?;
        self.insert(id, Segment::new(data, &shared.data, &shared.config, Backing::Region)?)
    }

    pub(crate) fn insert(&self, id: u8, segment: Segment) -> Result<(), GaspiError> {
        let shared = &*self.shared;
        shared.segments.insert(shared.me, id, segment, |segment| shared.stores.show(id, segment))?;
        let segment = shared.segments.find(id)?;
        shared.gpu.own(shared.me, id, Some(&segment))
    }

    /// Allocates a segment of zeros that only this process knows. Its memory is aligned to a page.
    ///
    /// # Errors
    /// [`GaspiError::SegmentSize`] for 0 bytes; [`GaspiError::Segment`] for an id that is out of range or in use;
    /// [`GaspiError::ManySegments`], [`GaspiError::Memory`].
    pub fn segment_alloc(&self, id: u8, bytes: u64) -> Result<(), GaspiError> {
        self.alloc(id, bytes, Policy::Host)?;
        self.statistics().one(Counter::NumberOfSegmentAlloc);
        Ok(())
    }

    /// Makes a segment of memory that the program has, of any alignment; it is not written. The rest of its first and last
    /// page can be reached by the card as well.
    ///
    /// # Errors
    /// As [`segment_alloc`](Self::segment_alloc); [`GaspiError::Null`].
    ///
    /// # Safety
    /// The memory stays valid until the segment was deleted, and nothing refers to it by reference meanwhile.
    pub unsafe fn segment_bind(&self, id: u8, start: *mut u8, bytes: u64) -> Result<(), GaspiError> {
        // SAFETY: the caller's promise.
        unsafe { self.bind(id, start, bytes) }?;
        self.statistics().one(Counter::NumberOfSegmentBind);
        Ok(())
    }

    /// # Safety
    /// As of [`segment_bind`](Self::segment_bind).
    pub(crate) unsafe fn bind(&self, id: u8, start: *mut u8, bytes: u64) -> Result<(), GaspiError> {
        let shared = &*self.shared;
        shared.segments.check_new(id, bytes)?;
        if start.is_null() {
            return Err(GaspiError::Null);
        }
        // SAFETY: the caller's promise.
        let data = unsafe { shared.data.register_raw(start, bytes as usize) };
        let data = data.map_err(because(GaspiError::Memory))?;
        // What cannot be pinned is a segment for the card all the same.
        let pinned = shared.gpu.processor().and_then(|processor| {
            // SAFETY: the caller's promise; the mapping goes with the segment.
            let pinned = unsafe { processor.map_host(start, bytes as usize) };
            pinned.inspect_err(|error| tracing::info!("a segment is not pinned: {error}")).ok()
        });
        let backing = pinned.map_or(Backing::Bound, Backing::Mapped);
        self.insert(id, Segment::new(data, &shared.data, &shared.config, backing)?)
    }

    /// Lets a rank at a segment of this process; returns once the rank knows it.
    ///
    /// # Errors
    /// [`GaspiError::Null`]: the segment was never there; [`GaspiError::SegmentSize`]: it was deleted;
    /// [`GaspiError::Segment`], [`GaspiError::Rank`], [`GaspiError::Timeout`], [`GaspiError::Failed`].
    pub fn segment_register(&self, id: u8, rank: u16, timeout: Timeout) -> Result<(), GaspiError> {
        let place = self.place(id, rank.into())?;
        let rank = self.shared.check_rank(rank)?;
        self.statistics().one(Counter::NumberOfSegmentRegister);
        if rank == self.shared.me {
            return Ok(());
        }
        self.shared.ask(rank, Ask::Register { segment: id, place }, timeout).map(drop)
    }

    /// Allocates a segment and makes it known to the members of a group, who all call this with the same id; their sizes
    /// may differ. What fails behind the allocation leaves the local segment; after [`GaspiError::Timeout`] the same call
    /// goes on with it.
    ///
    /// # Errors
    /// [`GaspiError::Group`], as [`segment_alloc`](Self::segment_alloc), [`GaspiError::Timeout`], [`GaspiError::Failed`].
    pub fn segment_create(&self, id: u8, bytes: u64, group: u8, timeout: Timeout) -> Result<(), GaspiError> {
        let wanted = Wanted { id, bytes, group, source: Source::New(Policy::Host) };
        self.create(wanted, timeout, || self.alloc(id, bytes, Policy::Host))?;
        self.statistics().one(Counter::NumberOfSegmentCreate);
        Ok(())
    }

    /// As [`segment_create`](Self::segment_create), of memory that the program has.
    ///
    /// # Errors
    /// As there and of [`segment_bind`](Self::segment_bind).
    ///
    /// # Safety
    /// As of [`segment_bind`](Self::segment_bind).
    pub unsafe fn segment_use(
        &self,
        id: u8,
        start: *mut u8,
        bytes: u64,
        group: u8,
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        let wanted = Wanted { id, bytes, group, source: Source::Program(start as usize) };
        // SAFETY: the caller's promise.
        self.create(wanted, timeout, || unsafe { self.segment_bind(id, start, bytes) })?;
        self.statistics().one(Counter::NumberOfSegmentUse);
        Ok(())
    }

    /// Deletes a segment of this process; others are not told. What this process knows of segments of others that have the
    /// same id stays.
    ///
    /// # Errors
    /// [`GaspiError::Segment`], [`GaspiError::Null`], [`GaspiError::SegmentSize`].
    pub fn segment_delete(&self, id: u8) -> Result<(), GaspiError> {
        let shared = &*self.shared;
        let segment = shared.segments.find(id)?;
        shared.unfinished.forget(id);
        shared.gpu.own(shared.me, id, None)?;
        if let Err(error) = shared.stores.end(id, |rank| rank != shared.me && shared.is_gone(rank)) {
            tracing::warn!(
                "memory of segment {id} is not given back: a process has stopped that stores to it ({error})"
            );
            std::mem::forget(segment.clone());
        }
        shared.segments.delete(shared.me, id)?;
        shared.gpu.segment_deleted(&segment);
        self.statistics().one(Counter::NumberOfSegmentDelete);
        Ok(())
    }

    /// Address of a segment's first byte. Others write it at any time: raw access only.
    ///
    /// # Errors
    /// As of [`segment_delete`](Self::segment_delete).
    pub fn segment_ptr(&self, id: u8) -> Result<*mut u8, GaspiError> {
        Ok(self.shared.segments.find(id)?.data.address() as *mut u8)
    }

    /// Bytes of the segment of a rank.
    ///
    /// # Errors
    /// [`GaspiError::SegmentSize`]: it is not known here. [`GaspiError::Segment`], [`GaspiError::Rank`].
    pub fn segment_size(&self, id: u8, rank: u16) -> Result<u64, GaspiError> {
        self.shared.segments.check_id(id)?;
        let rank = self.shared.check_rank(rank)?;
        Ok(self.shared.segments.place(rank, id).ok_or(GaspiError::SegmentSize)?.size)
    }

    /// Ids of the segments of this process, ascending.
    pub fn segment_list(&self) -> Vec<u8> {
        self.shared.segments.list()
    }

    /// The lowest free id.
    ///
    /// # Errors
    /// [`GaspiError::ManySegments`].
    pub fn segment_available(&self) -> Result<u8, GaspiError> {
        let used = self.segment_list();
        let free = (0..self.config().segment_max).map(|id| id as u8).find(|id| !used.contains(id));
        free.ok_or(GaspiError::ManySegments)
    }

    /// Copies bytes of a segment of this process out.
    ///
    /// # Errors
    /// [`GaspiError::Null`], [`GaspiError::Segment`]; [`GaspiError::CommSize`] outside of it.
    pub fn load(&self, id: u8, offset: u64, into: &mut [u8]) -> Result<(), GaspiError> {
        let segment = self.shared.segments.get(id)?;
        segment.read(offset, into)
    }

    /// Copies bytes into a segment of this process.
    ///
    /// # Errors
    /// As of [`load`](Self::load).
    pub fn store(&self, id: u8, offset: u64, from: &[u8]) -> Result<(), GaspiError> {
        let segment = self.shared.segments.get(id)?;
        segment.write(offset, from)
    }
}
