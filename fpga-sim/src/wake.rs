//! Telling cards that there is work for them.

use std::sync::Arc;

use crate::keep::Keep;
use crate::torus::Torus;

/// Someone who wants to hear of news. A fabric holds one for each attached node.
pub trait Wake: Send + Sync {
    /// Packets or link work arrived. Cheap, never blocks, never runs the receiver's work inside the call, so it
    /// may be called under locks.
    fn wake(&self);
    /// Wakes whoever sleeps until the receiver tells of news, though there may be none for them.
    fn rouse(&self) {}
    /// As [`Wake::wake`], and the receiver's work is done on this thread, which holds no locks. Returns whether anything
    /// moved.
    fn run(&self) -> bool {
        self.wake();
        false
    }
}

/// Whom to tell of news, by index of the node.
pub(crate) struct Wakes(Box<[Keep<Arc<dyn Wake>>]>);

impl Wakes {
    /// Nobody yet.
    pub fn new(torus: &Torus) -> Wakes {
        Wakes((0..torus.len()).map(|_| Keep::default()).collect())
    }

    /// The place for the card at a node.
    pub fn slot(&self, index: usize) -> Option<&Keep<Arc<dyn Wake>>> {
        self.0.get(index)
    }

    /// The card at a node, if one is attached.
    #[inline]
    pub fn at(&self, index: usize) -> Option<&dyn Wake> {
        self.0.get(index)?.get().map(|wake| &**wake)
    }

    pub fn wake_all(&self, torus: &Torus, nodes: Vec<u16>) {
        for node in nodes {
            if let Some(card) = torus.index(node).and_then(|index| self.at(index)) {
                card.wake();
            }
        }
    }
}
