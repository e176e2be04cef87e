//! Layout of a job segment: a header, a block for each node, a block for each process. Atomics only.

use std::sync::atomic::{AtomicU32, AtomicU64};

use super::job::{BARRIER_WORDS, VPIDS};
use super::shape::Shape;
use crate::counters::CounterBlock;
use crate::smfu;

/// First word of every job segment.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"ggas job");
/// Version of this layout: changes with every change of this file and of what it holds.
pub(super) const VERSION: u32 = 2;

/// Where the blocks begin.
pub(super) const HEADER_BYTES: usize = 4096;

#[repr(C)]
pub(super) struct Header {
    pub magic: AtomicU64,
    pub version: AtomicU32,
    pub processes: AtomicU32,
    pub per_node: AtomicU32,
    _unused: AtomicU32,
    /// Of the whole segment.
    pub bytes: AtomicU64,
}

/// What the processes of a node share.
#[repr(C, align(4096))]
pub(crate) struct NodeBlock {
    /// Who serves a VPID: rank + 1, 0 nobody.
    pub owners: [AtomicU32; VPIDS],
    /// Who has the SMFU: rank + 1, 0 nobody.
    pub smfu_owner: AtomicU32,
    /// VPID of the last WCB error.
    pub wcb_vpid: AtomicU32,
    /// VPID table (spec 8.3).
    pub vpids: [AtomicU64; VPIDS],
    /// RMA configuration register.
    pub config: AtomicU64,
    pub lock_config: AtomicU64,
    pub bq_general: AtomicU64,
    pub bq_timeout: AtomicU64,
    pub wcb_timeout: AtomicU64,
    /// SMFU packets that met no process that has the unit.
    pub smfu_refused: AtomicU64,
    /// What processes of other nodes counted that acted for this one. Several writers.
    pub deputies: CounterBlock,
    /// Counts at the last clear.
    pub cleared: CounterBlock,
    pub smfu: smfu::Block,
    pub velo: VeloBlock,
    /// Registers without a function, see [`super::node`].
    pub plain: [AtomicU64; super::node::PLAIN_WORDS],
}

/// Registers of VELO that are the node's (spec 7).
#[repr(C)]
pub(crate) struct VeloBlock {
    /// What VPIDs send as.
    pub tx: [AtomicU64; VPIDS],
    /// What they receive.
    pub rx: [AtomicU64; VPIDS],
    pub bq_general: AtomicU64,
    pub timeout: AtomicU64,
    pub completer: AtomicU64,
    pub wcb_timeout: AtomicU64,
    /// VPID of the last WCB error.
    pub wcb_vpid: AtomicU64,
}

/// What one process says of itself.
#[repr(C, align(128))]
pub(crate) struct ProcessBlock {
    /// A [`super::PeerState`].
    pub state: AtomicU32,
    _unused: AtomicU32,
    pub barrier: [AtomicU64; BARRIER_WORDS],
    /// On cache lines of its own: written all the time.
    pub counters: Line<CounterBlock>,
}

/// Shares no cache line, nor the one that is fetched with it, with what comes before.
#[repr(C, align(128))]
pub(crate) struct Line<T>(pub T);

/// Bytes of a segment of this shape.
pub(super) fn bytes_of(shape: Shape) -> usize {
    process_at(shape, shape.processes()).next_multiple_of(4096)
}

/// Offset of a node's block.
pub(super) fn node_at(index: u32) -> usize {
    HEADER_BYTES + index as usize * size_of::<NodeBlock>()
}

/// Offset of a process's block.
pub(super) fn process_at(shape: Shape, rank: u32) -> usize {
    node_at(shape.nodes()) + rank as usize * size_of::<ProcessBlock>()
}

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);
