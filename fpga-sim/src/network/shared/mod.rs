//! Cards in several processes of a host: shared memory, and the [`Fabric`](crate::Fabric) over it.
//!
//! Each member of a network ([`ggas_members`]) has one card of its own for its node, which serves the VPIDs that its
//! process opened; [`ProcessFabric`] joins the cards. Packets are routed by node, and the node's memory ([`Nodes`])
//! says which process serves a VPID. Rings and arenas lie in sealed memfds that have no name in any file system; two
//! processes hand them to each other when they meet. Bytes that come from another process are checked: a process that
//! breaks the rules is treated as one that died.

mod cables;
pub(in crate::network) mod codec;
mod error;
mod fabric;
mod futex;
mod holds;
mod inbox;
mod incoming;
mod link;
mod losses;
mod managed;
mod meet;
mod outgoing;
mod peer;
mod receive;
mod send;
mod sleep;
mod spin;
mod stage;
mod tally;
mod watch;

pub use crate::node::{Nodes, SmfuTurn};
pub use cables::Cables;
pub use error::JoinError;
pub use fabric::ProcessFabric;
pub use tally::FabricCounters;
