//! Puts that the card holds until they were triggered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::node::Put;

/// A put that its node's card holds until it was triggered often enough ([`Node::prepare`](super::Node::prepare)). Copies
/// are the same put.
#[derive(Clone)]
pub struct Trigger {
    held: Arc<Mutex<Held>>,
    node: u32,
}

struct Held {
    put: Option<Put>,
    /// The card has it.
    held: bool,
    count: u64,
    threshold: u64,
}

impl Held {
    fn ready(&mut self) -> Option<Put> {
        if self.held && self.count >= self.threshold { self.put.take() } else { None }
    }
}

impl Trigger {
    pub(super) fn new(node: u32, put: Put, threshold: u64) -> Trigger {
        Trigger {
            held: Arc::new(Mutex::new(Held { put: Some(put), held: false, count: 0, threshold })),
            node,
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often it was triggered.
    pub fn count(&self) -> u64 {
        self.held().count
    }

    /// Whether the put was handed to the requester.
    pub fn has_fired(&self) -> bool {
        self.held().put.is_none()
    }

    pub(super) fn node(&self) -> u32 {
        self.node
    }

    /// Counts; gives the put where this was the last time that it took. It fires once.
    pub(super) fn count_up(&self) -> Option<Put> {
        let mut held = self.held();
        held.count += 1;
        held.ready()
    }

    /// It has come to its card; gives the put where it was triggered often enough before.
    pub(super) fn hold(&self) -> Option<Put> {
        let mut held = self.held();
        held.held = true;
        held.ready()
    }
}

impl std::fmt::Debug for Trigger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let held = self.held();
        f.debug_struct("Trigger").field("count", &held.count).field("threshold", &held.threshold).finish()
    }
}
