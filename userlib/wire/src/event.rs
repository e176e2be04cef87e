//! What happened at an endpoint.

use crate::endpoint::Peer;

/// What [`poll`](crate::Endpoint::poll) tells.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A message came.
    Message(&'a [u8]),
    /// A peer's [write](crate::Endpoint::write) with this immediate value is in our memory.
    Written(u32),
    /// A transfer is over: its source may be used again, its data are there.
    Done {
        /// The caller's.
        token: u64,
    },
    /// A transfer failed. Which of its bytes were moved is unknown.
    Failed {
        /// The caller's.
        token: u64,
        /// What the library said.
        why: String,
    },
    /// A message that was taken did not arrive. Not all that are lost are told of.
    Unsent {
        /// Where it should have gone; `None`: that was removed.
        peer: Option<Peer>,
        /// What the library said.
        why: String,
    },
    /// A peer is not reached any more, and will not be: what goes there is an error until it is
    /// [removed](crate::Endpoint::remove). UCX tells of it, libfabric does not.
    Gone {
        /// The peer.
        peer: Peer,
        /// What the library said.
        why: String,
    },
}
