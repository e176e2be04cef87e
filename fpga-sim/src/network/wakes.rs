//! Whom a fabric tells of news.

use std::sync::Arc;

use crate::keep::Keep;
use crate::network::links::torus::Torus;
use crate::wake::Wake;

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
