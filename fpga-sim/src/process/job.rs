//! The job segment: one per job, mapped by each of its processes.
//!
//! It lies in a memfd that is sealed against any change of size, has no name in any file system, and is made of
//! atomics only. What other processes write there is never trusted: a rank or state that cannot be is taken for none.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::block::{self, HEADER_BYTES, Header, MAGIC, NodeBlock, ProcessBlock, VERSION};
use super::part::Part;
use super::segment::{self, Mapping, SegmentError};
use super::shape::Shape;
use crate::counters::CounterBlock;

/// In errors: what cannot be mapped.
const WHAT: &str = "the job";
/// VPIDs of a node (spec 3.2).
pub(super) const VPIDS: usize = 256;
/// Barrier words of a process.
pub(super) const BARRIER_WORDS: usize = 8;

/// What is known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PeerState {
    /// It has not joined yet.
    Absent = 0,
    /// It takes part.
    Joined = 1,
    /// It has left in good order.
    Left = 2,
    /// It died.
    Lost = 3,
}

impl PeerState {
    fn of(value: u32) -> PeerState {
        match value {
            0 => PeerState::Absent,
            1 => PeerState::Joined,
            2 => PeerState::Left,
            _ => PeerState::Lost,
        }
    }
}

/// See the module's description.
pub struct JobSegment {
    map: Mapping,
    shape: Shape,
}

impl JobSegment {
    /// A segment of a job that nobody has joined; the descriptor is for its other processes.
    ///
    /// # Errors
    /// What the system says of the memory or the descriptor.
    pub fn create(shape: Shape) -> io::Result<(Arc<JobSegment>, OwnedFd)> {
        let bytes = block::bytes_of(shape);
        let fd = segment::create(c"extoll-job", bytes as u64)?;
        let segment = JobSegment { map: Mapping::new(fd.as_fd(), 0, bytes, true)?, shape };
        segment.initialise(bytes);
        Ok((Arc::new(segment), fd))
    }

    /// State of a node that one process has to itself: no shared memory, no descriptor.
    pub(super) fn private() -> io::Result<Arc<JobSegment>> {
        let shape = Shape::new(1, 1).map_err(io::Error::other)?;
        let bytes = block::bytes_of(shape);
        let segment = JobSegment { map: Mapping::private(bytes)?, shape };
        segment.initialise(bytes);
        Ok(Arc::new(segment))
    }

    /// Maps a segment that another process made. Nothing in it is trusted but what this call has checked.
    ///
    /// # Errors
    /// [`SegmentError`].
    pub fn map(fd: OwnedFd) -> Result<Arc<JobSegment>, SegmentError> {
        let len = segment::sealed_len(fd.as_fd(), WHAT)?;
        if len < HEADER_BYTES as u64 {
            return Err(SegmentError::Mismatch { what: WHAT, detail: "its size" });
        }
        let map = |len| {
            Mapping::new(fd.as_fd(), 0, len, true).map_err(|source| SegmentError::Map { what: WHAT, source })
        };
        let shape = check(&map(HEADER_BYTES)?, len)?;
        Ok(Arc::new(JobSegment { map: map(block::bytes_of(shape))?, shape }))
    }

    /// Header last: who finds the magic finds the rest.
    fn initialise(&self, bytes: usize) {
        (0..=u16::MAX).map_while(|index| self.node(index)).for_each(super::node::reset);
        // SAFETY: a header is made of atomics.
        let header: &Header = unsafe { self.map.at(0) };
        header.version.store(VERSION, Ordering::Relaxed);
        header.processes.store(self.shape.processes(), Ordering::Relaxed);
        header.per_node.store(self.shape.per_node(), Ordering::Relaxed);
        header.bytes.store(bytes as u64, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
    }

    /// Block of a node, by its place in the segment.
    fn node(&self, index: u16) -> Option<&NodeBlock> {
        // SAFETY: a block is made of atomics.
        (u32::from(index) < self.shape.nodes()).then(|| unsafe { self.map.at(block::node_at(index.into())) })
    }

    fn process(&self, rank: u32) -> Option<&ProcessBlock> {
        let at = block::process_at(self.shape, rank);
        // SAFETY: as above.
        (rank < self.shape.processes()).then(|| unsafe { self.map.at(at) })
    }

    /// Counts of the processes of a node.
    pub(super) fn counters_of(&self, node: u16) -> impl Iterator<Item = &CounterBlock> + Clone {
        self.shape.ranks_of(node).filter_map(|rank| self.process(rank)).map(|process| &process.counters.0)
    }

    /// Block of a node, with the segment.
    pub(super) fn node_part(self: &Arc<Self>, node: u16) -> Option<Part<NodeBlock>> {
        Part::find(self, |job| job.node(node))
    }

    /// Block of a process, with the segment.
    pub(super) fn process_part(self: &Arc<Self>, rank: u32) -> Option<Part<ProcessBlock>> {
        Part::find(self, |job| job.process(rank))
    }

    /// Processes of the job.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Rank that a word of the segment names (rank + 1), if there is one.
    fn rank(&self, word: &AtomicU32) -> Option<u32> {
        word.load(Ordering::Acquire).checked_sub(1).filter(|rank| *rank < self.shape.processes())
    }

    /// Who serves a VPID; also processes that left or died without giving it back.
    #[inline]
    pub fn owner(&self, node: u16, vpid: u8) -> Option<u32> {
        self.rank(&self.node(node)?.owners[usize::from(vpid)])
    }

    /// Takes the lowest VPID below `limit` that nobody on the rank's node has. VPIDs of processes that died stay
    /// taken: packets for them may still be under way.
    pub fn take_vpid(&self, rank: u32, limit: u32) -> Option<u8> {
        let owners = &self.node_of(rank)?.owners;
        let take = |word: &AtomicU32| {
            word.compare_exchange(0, rank + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        owners.iter().take(limit as usize).position(take).map(|vpid| vpid as u8)
    }

    /// Gives a VPID back; one that is not the rank's stays as it is.
    pub fn give_vpid(&self, rank: u32, vpid: u8) {
        if let Some(node) = self.node_of(rank) {
            let word = &node.owners[usize::from(vpid)];
            let _ = word.compare_exchange(rank + 1, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Makes a process the one that has its node's SMFU; false where another has it.
    pub fn claim_smfu(&self, rank: u32) -> bool {
        let Some(node) = self.node_of(rank) else { return false };
        let taken = node.smfu_owner.compare_exchange(0, rank + 1, Ordering::AcqRel, Ordering::Acquire);
        taken.is_ok() || taken == Err(rank + 1)
    }

    /// Takes that back; nothing happens where another process has it.
    pub fn release_smfu(&self, rank: u32) {
        if let Some(node) = self.node_of(rank) {
            let _ = node.smfu_owner.compare_exchange(rank + 1, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Who has the SMFU of a node.
    pub fn smfu_owner(&self, node: u16) -> Option<u32> {
        self.rank(&self.node(node)?.smfu_owner)
    }

    fn node_of(&self, rank: u32) -> Option<&NodeBlock> {
        self.process(rank).and_then(|_| self.node(self.shape.node_of(rank)))
    }

    /// What is known of a process; ranks beyond the job are absent.
    #[inline]
    pub fn state(&self, rank: u32) -> PeerState {
        self.process(rank).map_or(PeerState::Absent, |p| PeerState::of(p.state.load(Ordering::Acquire)))
    }

    /// Notes what became of a process. It may join, and then leave or be lost, once. Returns whether this call
    /// changed anything: of several that find a process lost, one is told so.
    pub fn set_state(&self, rank: u32, state: PeerState) -> bool {
        let next = |now: u32| {
            let over = matches!(PeerState::of(now), PeerState::Left | PeerState::Lost);
            (!over && state as u32 > now).then_some(state as u32)
        };
        self.process(rank)
            .is_some_and(|p| p.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok())
    }

    /// A word of a process for barriers, 0 at first; `None` for ranks and words that do not exist.
    pub fn barrier_word(&self, rank: u32, i: usize) -> Option<&AtomicU64> {
        self.process(rank)?.barrier.get(i)
    }
}

impl std::fmt::Debug for JobSegment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobSegment").field("shape", &self.shape).finish_non_exhaustive()
    }
}

/// The shape that a segment of `len` bytes has, by its header. Each word is read once.
fn check(map: &Mapping, len: u64) -> Result<Shape, SegmentError> {
    let mismatch = |detail| SegmentError::Mismatch { what: WHAT, detail };
    // SAFETY: a header is made of atomics.
    let header: &Header = unsafe { map.at(0) };
    if header.magic.load(Ordering::Acquire) != MAGIC {
        return Err(mismatch("it is something else"));
    }
    if header.version.load(Ordering::Relaxed) != VERSION {
        return Err(mismatch("its version"));
    }
    let (processes, per_node) =
        (header.processes.load(Ordering::Relaxed), header.per_node.load(Ordering::Relaxed));
    let shape = Shape::new(processes, per_node).map_err(|_| mismatch("its shape"))?;
    let expected = block::bytes_of(shape) as u64;
    let stated = header.bytes.load(Ordering::Relaxed);
    if stated == expected && len == expected { Ok(shape) } else { Err(mismatch("its size")) }
}
