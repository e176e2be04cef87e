//! What a card is made with, and what it refuses.

use std::sync::Arc;

use super::Driver;
#[cfg(doc)]
use super::Nic;
use crate::memory::Memory;
use crate::network::fabric::{Fabric, FabricError};
use crate::node::Nodes;
use ggas_clock::Clock;

/// What a card is made with.
pub struct NicConfig {
    /// Node id.
    pub node: u16,
    /// All memory that the card may reach; usually shared by all cards of the process.
    pub memory: Arc<dyn Memory>,
    /// The network.
    pub fabric: Arc<dyn Fabric>,
    /// What runs the card in the background; `None`: only [`Nic::progress`] does.
    pub driver: Option<Arc<dyn Driver>>,
    /// What time is for the card.
    pub clock: Clock,
    /// Run the card on the caller's thread as well, within [`Nic::requester_store`] and [`Nic::kick`].
    pub inline: bool,
    /// The nodes of its network, where other processes have cards of the same node; `None`: it is its node's only one.
    pub shared: Option<Arc<Nodes>>,
}

impl NicConfig {
    /// A card with inline progress, in real time, that nothing runs in the background.
    pub fn new(node: u16, memory: Arc<dyn Memory>, fabric: Arc<dyn Fabric>) -> NicConfig {
        NicConfig { node, memory, fabric, driver: None, clock: Clock::real(), inline: true, shared: None }
    }
}

/// Why the card refused a call of its model-only part.
#[derive(thiserror::Error)]
pub enum NicError {
    /// The fabric did not take the node.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The card's node is not the one of its process ([`NicConfig::shared`]).
    #[error("this process is a member of the network on node {member}, the card shall be on node {node}")]
    Elsewhere {
        /// The node asked for.
        node: u16,
        /// The member's node.
        member: u16,
    },
    /// No address space for the register pages, or no memory that the processes of the node share.
    #[error("the card's registers cannot be mapped: {0}{advice}", advice = advice(.0))]
    Pages(#[from] std::io::Error),
    /// A slot ring must have a power of two of slots, be aligned to 8 bytes, and the VPID must have none yet.
    #[error("slot ring of VPID {vpid}: {reason}")]
    SlotRing {
        /// The VPID.
        vpid: u8,
        /// What is wrong, and what to do.
        reason: &'static str,
    },
}

ggas_errors::debug_as_display!(NicError);

/// What to do where the system says that it has no memory: it has no mappings.
fn advice(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::OutOfMemory => "; allow more memory mappings or start fewer cards",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::NicError;

    #[test]
    fn mappings_are_spoken_of_where_they_are_missing() {
        let text = |kind: ErrorKind| NicError::from(Error::from(kind)).to_string();
        assert!(text(ErrorKind::OutOfMemory).ends_with("allow more memory mappings or start fewer cards"));
        assert!(!text(ErrorKind::StorageFull).contains("mappings"));
    }
}
