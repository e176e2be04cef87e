//! What a card asks of whatever runs it in the background.

use std::sync::Arc;

use super::Nic;

/// Runs cards that nobody else runs: what posters leave undone, packets for cards that nobody polls, slots that GPUs
/// fill, queues that wait for room or time.
pub trait Driver: Send + Sync {
    /// Has a card run soon, and then for as long as it needs. Never runs it inside the call, and may be called under
    /// locks of the network.
    fn submit(&self, nic: &Arc<Nic>);
    /// As [`Driver::submit`], by who just committed a command or a message to the card's queues.
    fn posted(&self, nic: &Arc<Nic>) {
        self.submit(nic);
    }
}
