//! The job segment: what all processes of a job share.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::segment::{self, Mapping, SegmentError};
use super::shape::{PROCESSES_MAX, Shape};

const MAGIC: u64 = 0x4558_544a_4f42_3031;
const WHAT: &str = "the job";
/// VPIDs of a node.
const VPIDS: usize = 256;

/// What is known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// Not there yet.
    Absent,
    /// Takes part.
    Joined,
    /// Went in good order.
    Left,
    /// Died, or broke the rules.
    Lost,
}

#[repr(C)]
struct Header {
    magic: AtomicU64,
    processes: AtomicU32,
    per_node: AtomicU32,
}

/// One process, on cache lines of its own.
#[repr(C, align(128))]
struct Process {
    state: AtomicU32,
    barrier: [AtomicU64; 4],
}

/// One node. Owners are rank + 1, 0 for none.
#[repr(C, align(64))]
struct Node {
    smfu: AtomicU32,
    owner: [AtomicU32; VPIDS],
}

/// State of a job, in shared memory made of atomics.
pub struct JobSegment {
    shape: Shape,
    map: Mapping,
}

const PROCESSES_AT: usize = 4096;

fn nodes_at(shape: Shape) -> usize {
    PROCESSES_AT + shape.processes() as usize * size_of::<Process>()
}

fn bytes(shape: Shape) -> u64 {
    let end = nodes_at(shape) + shape.nodes() as usize * size_of::<Node>();
    end.next_multiple_of(segment::PAGE) as u64
}

impl JobSegment {
    /// A job in which nobody takes part yet, and the memory to hand to its processes.
    ///
    /// # Errors
    /// No memory, or no file descriptor.
    pub fn create(shape: Shape) -> io::Result<(Arc<JobSegment>, OwnedFd)> {
        let fd = segment::create(c"extoll-job", bytes(shape))?;
        let map = Mapping::whole(&fd, WHAT, bytes(shape)).map_err(io::Error::other)?;
        let job = JobSegment { shape, map };
        job.header().processes.store(shape.processes(), Ordering::Relaxed);
        job.header().per_node.store(shape.per_node(), Ordering::Relaxed);
        job.header().magic.store(MAGIC, Ordering::Release);
        Ok((Arc::new(job), fd))
    }

    /// Maps a job that another process made.
    ///
    /// # Errors
    /// [`SegmentError`].
    pub fn map(fd: OwnedFd) -> Result<Arc<JobSegment>, SegmentError> {
        use std::os::fd::AsFd;
        let mismatch = |detail| SegmentError::Mismatch { what: WHAT, detail };
        let len = segment::sealed_len(fd.as_fd(), WHAT)?;
        if len < PROCESSES_AT as u64 || len > 64 << 20 {
            return Err(mismatch("its size"));
        }
        let map = Mapping::whole(&fd, WHAT, len)?;
        // SAFETY: atomics only.
        let header: &Header = unsafe { map.at(0) };
        if header.magic.load(Ordering::Acquire) != MAGIC {
            return Err(mismatch("its version"));
        }
        let (processes, per_node) =
            (header.processes.load(Ordering::Relaxed), header.per_node.load(Ordering::Relaxed));
        let shape = Shape::new(processes, per_node).map_err(|_| mismatch("its shape"))?;
        if bytes(shape) != len {
            return Err(mismatch("its size"));
        }
        Ok(Arc::new(JobSegment { shape, map }))
    }

    fn header(&self) -> &Header {
        // SAFETY: atomics only.
        unsafe { self.map.at(0) }
    }

    fn process(&self, rank: u32) -> Option<&Process> {
        let at = PROCESSES_AT + rank as usize * size_of::<Process>();
        // SAFETY: atomics only.
        (rank < self.shape.processes()).then(|| unsafe { self.map.at(at) })
    }

    fn node(&self, node: u16) -> Option<&Node> {
        let at = nodes_at(self.shape) + usize::from(node) * size_of::<Node>();
        // SAFETY: atomics only.
        (u32::from(node) < self.shape.nodes()).then(|| unsafe { self.map.at(at) })
    }

    /// Processes and nodes.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The process that opened a VPID.
    #[inline]
    pub fn owner(&self, node: u16, vpid: u8) -> Option<u32> {
        let owner = self.node(node)?.owner[usize::from(vpid)].load(Ordering::Acquire);
        owner.checked_sub(1).filter(|rank| *rank < PROCESSES_MAX)
    }

    /// Takes the first free VPID below `limit` of the rank's node.
    pub fn take_vpid(&self, rank: u32, limit: u32) -> Option<u8> {
        let owners = &self.node(self.shape.node_of(rank))?.owner;
        let take = |owner: &AtomicU32| {
            owner.compare_exchange(0, rank + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        owners.iter().take(limit as usize).position(take).map(|vpid| vpid as u8)
    }

    /// Gives a VPID back; one that the rank does not own stays as it is.
    pub fn give_vpid(&self, rank: u32, vpid: u8) {
        if let Some(node) = self.node(self.shape.node_of(rank)) {
            let owner = &node.owner[usize::from(vpid)];
            let _ = owner.compare_exchange(rank + 1, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// State of a process; ranks beyond the job are absent.
    #[inline]
    pub fn state(&self, rank: u32) -> PeerState {
        match self.process(rank).map_or(0, |p| p.state.load(Ordering::Acquire)) {
            0 => PeerState::Absent,
            1 => PeerState::Joined,
            2 => PeerState::Left,
            _ => PeerState::Lost,
        }
    }

    /// Sets the state of a process.
    pub fn set_state(&self, rank: u32, state: PeerState) {
        if let Some(process) = self.process(rank) {
            process.state.store(state as u32, Ordering::Release);
        }
    }

    /// A word of a process for barriers, 0 at first; `None` for ranks and words that do not exist.
    pub fn barrier_word(&self, rank: u32, i: usize) -> Option<&AtomicU64> {
        self.process(rank)?.barrier.get(i)
    }

    /// The process that serves a node's SMFU.
    pub fn smfu_owner(&self, node: u16) -> Option<u32> {
        self.node(node)?.smfu.load(Ordering::Acquire).checked_sub(1).filter(|rank| *rank < PROCESSES_MAX)
    }

    /// Makes a process the one that serves its node's SMFU; false where another does.
    pub fn claim_smfu(&self, rank: u32) -> bool {
        let Some(node) = self.node(self.shape.node_of(rank)) else { return false };
        let claimed = node.smfu.compare_exchange(0, rank + 1, Ordering::AcqRel, Ordering::Acquire);
        claimed.is_ok() || claimed == Err(rank + 1)
    }

    /// Takes that back.
    pub fn release_smfu(&self, rank: u32) {
        if let Some(node) = self.node(self.shape.node_of(rank)) {
            let _ = node.smfu.compare_exchange(rank + 1, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}
