//! Cards in several processes of a host: shared memory, and the [`Fabric`](crate::Fabric) over it.
//!
//! A *job* is a number of processes (ranks), some on each node. Each process has one card of its own for its node,
//! which serves the VPIDs that the process opened; [`ProcessFabric`] joins the cards and routes by (node, VPID).
//! Everything shared lies in sealed memfds that have no name in any file system; whoever starts a job hands them
//! round ([`Membership`]). Bytes that come from another process are checked: a process that breaks the rules is
//! treated as one that died.

mod arena;
mod block;
mod codec;
mod fabric;
mod futex;
mod inbox;
mod job;
mod lane;
mod local;
mod node;
mod part;
mod peer;
mod receive;
mod segment;
mod shape;
mod sleep;
mod spin;
mod stage;
mod tally;
mod watch;

pub use arena::{ARENA_BYTES, Arena, ArenaBlock};
pub use fabric::{Membership, Peer, ProcessFabric};
pub use inbox::Inbox;
pub use job::{JobSegment, PeerState};
pub use local::local;
pub(crate) use node::NodeState;
pub(crate) use part::Part;
pub use segment::{SegmentError, check_file_size};
pub use shape::{Shape, ShapeError};
pub use stage::Staged;
pub use tally::FabricCounters;

use std::sync::Arc;

/// What a card of a job shares with the other processes: its node's registers and VPIDs.
#[derive(Clone)]
pub struct SharedNode {
    /// The job's shared state.
    pub job: Arc<JobSegment>,
    /// This process.
    pub rank: u32,
}
