//! Layout of the memory of a node: what its processes share, and a block for each of them. Atomics only.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::plain::PLAIN_WORDS;
use crate::network::links::torus::Direction;
use crate::units::counters::CounterBlock;
use crate::units::smfu::{self, SMFU_PLACES};

/// VPIDs of a node (spec 3.2).
pub(super) const VPIDS: usize = 256;
/// Processes that a node has room for: each needs a VPID to communicate.
pub(super) const PROCESSES: usize = VPIDS;

/// Reset value of the RMA configuration: MTU 512 as the driver writes it (spec 1.3).
const RESET_CONFIG: u64 = 512;

/// What the processes of a node share.
#[repr(C, align(4096))]
pub(crate) struct NodeBlock {
    /// Who serves a VPID, see [`super::owner::Owner`].
    pub owners: [AtomicU64; VPIDS],
    /// When a VPID was given back, in milliseconds of the host's monotonic clock.
    pub released: [AtomicU64; VPIDS],
    /// Who has the parts of windows, by their order on the node, see [`super::smfu`]; where nothing else is said the first is
    /// who has the SMFU.
    pub smfu_owners: [AtomicU64; VPIDS],
    /// Whose part is at each place of the SMFU.
    pub smfu_holders: [AtomicU64; SMFU_PLACES],
    /// Who sets the SMFU up at this moment.
    pub smfu_turn: AtomicU64,
    /// VPID of the last WCB error.
    pub wcb_vpid: AtomicU32,
    _unused: AtomicU32,
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
    /// Packets that the node threw away.
    pub discarded: AtomicU64,
    /// What processes of other nodes counted that acted for this one. Several writers.
    pub deputies: CounterBlock,
    /// Counts at the last clear.
    pub cleared: CounterBlock,
    pub smfu: smfu::Block,
    pub velo: VeloBlock,
    /// Registers without a function, see [`super::plain`].
    pub plain: [AtomicU64; PLAIN_WORDS],
}

impl NodeBlock {
    /// State of a node that has just been switched on, in zeroed memory.
    pub fn reset(&self) {
        self.config.store(RESET_CONFIG, Relaxed);
    }
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

/// What one process of the node counts.
#[repr(C, align(128))]
pub(crate) struct ProcessBlock {
    /// Whose it is, see [`super::owner::Owner`].
    pub owner: AtomicU64,
    /// On cache lines of its own: written all the time.
    pub counters: Line<CounterBlock>,
    /// Of all processes that ever had this block: who takes it goes on.
    pub sent: Sent,
}

/// Network packets that began their way on each of a node's links, by direction. Packets that pass through a node are not
/// counted there.
#[repr(C)]
pub(crate) struct Sent([AtomicU64; 6]);

impl Sent {
    /// Counts packets. One at a time does: there is no atomic step in it.
    #[inline]
    pub fn count(&self, link: Direction, packets: u64) {
        let count = &self.0[link.index()];
        count.store(count.load(Relaxed).wrapping_add(packets), Relaxed);
    }

    pub fn read(&self, link: Direction) -> u64 {
        self.0[link.index()].load(Relaxed)
    }
}

/// Shares no cache line, nor the one that is fetched with it, with what comes before.
#[repr(C, align(128))]
pub(crate) struct Line<T>(pub T);

/// Bytes of a node's memory, and those of the node's own block.
pub(super) const BYTES: usize = process_at(PROCESSES + 1).next_multiple_of(4096);
const NODE_BYTES: usize = size_of::<NodeBlock>();

/// Offset of a process's block.
pub(super) const fn process_at(index: usize) -> usize {
    NODE_BYTES + index * size_of::<ProcessBlock>()
}
