//! What belongs to a node, whichever of its processes looks: registers, counters, and who serves which VPID.
//!
//! A card that has its node to itself has the same state, in memory of its own. `README.md` says which register is the
//! node's and which the process's that serves a VPID.

mod block;
mod nodes;
mod owner;
mod plain;
mod smfu;
mod state;

pub use nodes::Nodes;
pub(crate) use owner::{Owner, process_of};
pub use smfu::SmfuTurn;
pub(crate) use state::NodeState;
