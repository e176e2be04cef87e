//! What a card holds of payloads that wait in buffers for a device: bytes of other hosts, for memory that only copies reach.

use std::collections::HashMap;

/// Most bytes that are fetched before it is their turn. A payload whose turn it is is fetched all the same: one for each VPID.
const MOST: usize = 32 << 20;

/// Bytes in buffers, of all peers and of each.
#[derive(Default)]
pub(super) struct Ahead {
    bytes: usize,
    of: HashMap<u16, usize>,
}

impl Ahead {
    /// Room for a payload of `node` before its turn; false: there is none. A peer has at most as much as is left for all others: one
    /// alone half of all, and several, as much each, leave as much for one more.
    pub(super) fn take(&mut self, node: u16, len: usize) -> bool {
        let own = self.of.get(&node).copied().unwrap_or(0);
        let fits = own.saturating_add(len) <= MOST.saturating_sub(self.bytes);
        if fits {
            self.add(node, len);
        }
        fits
    }

    /// A payload whose turn it is.
    pub(super) fn add(&mut self, node: u16, len: usize) {
        self.bytes += len;
        *self.of.entry(node).or_default() += len;
    }

    /// Bytes of `node` that are in memory now, or not needed.
    pub(super) fn give_back(&mut self, node: u16, len: usize) {
        self.bytes -= len;
        if let Some(own) = self.of.get_mut(&node) {
            *own -= len;
            if *own == 0 {
                self.of.remove(&node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_share_what_there_is() {
        const PART: usize = 1 << 20;
        let mut ahead = Ahead::default();
        let taken = |ahead: &mut Ahead, node| (0..1000).take_while(|_| ahead.take(node, PART)).count();
        assert_eq!(taken(&mut ahead, 1) * PART, MOST / 2, "one alone");
        assert_eq!(taken(&mut ahead, 2) * PART, MOST / 4, "who comes later finds room");
        assert!(ahead.take(3, PART) && !ahead.take(1, PART));
        // Room that the first one gives back is first that of those with less.
        ahead.give_back(1, 4 * PART);
        assert!(!ahead.take(1, PART));
        assert!(ahead.take(3, PART));
        ahead.add(1, MOST);
        assert!(!ahead.take(4, 1), "no more than there is");
        ahead.give_back(1, MOST + 12 * PART);
        ahead.give_back(2, 8 * PART);
        ahead.give_back(3, 2 * PART);
        assert_eq!((ahead.bytes, ahead.of.len()), (0, 0));
        assert!(!ahead.take(1, usize::MAX));
    }
}
