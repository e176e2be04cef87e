//! The windows that this process has open on its node, and their numbers.

use std::collections::HashMap;

use extoll_sim::smfu::SMFU_WINDOW_BITS;

use crate::SmfuMap;

/// See the module's description.
#[derive(Debug, Default)]
pub(in crate::sim) struct Opened {
    windows: Vec<OpenWindow>,
    /// Of windows that nobody numbered, by what they look like.
    alike: HashMap<u64, Alike>,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenWindow {
    /// What packets name it by.
    pub(super) number: u64,
    /// Which of the node's processes has this process's part.
    pub(super) seat: u8,
    /// Of all nodes.
    pub(super) parts: usize,
    /// What it looks like, if nobody numbered it.
    alike: Option<u64>,
}

/// Windows that look the same.
#[derive(Clone, Copy, Debug, Default)]
struct Alike {
    open: usize,
    made: u64,
}

impl Opened {
    /// A window with this map: its number is the same in all processes that have parts of it. Where they did not agree on one, it
    /// follows from the nodes and sizes, and from how many such windows were made here since there was none: so it is the same where all make
    /// and drop them in the same order, and who began anew meets others that have dropped all of theirs.
    pub(super) fn next(&self, map: &SmfuMap, seat: u8) -> OpenWindow {
        let parts = map.nodes.len();
        if let Some(agreed) = map.window {
            return OpenWindow { number: number(1, [agreed]), seat, parts, alike: None };
        }
        let nodes = map.nodes.iter().map(|id| u64::from(*id));
        let alike = number(2, [map.stride].into_iter().chain(nodes));
        let made = self.alike.get(&alike).map_or(0, |alike| alike.made);
        OpenWindow { number: number(3, [alike, made]), seat, parts, alike: Some(alike) }
    }

    pub(super) fn add(&mut self, window: OpenWindow) {
        if let Some(alike) = window.alike {
            let alike = self.alike.entry(alike).or_default();
            (alike.open, alike.made) = (alike.open + 1, alike.made + 1);
        }
        self.windows.push(window);
    }

    pub(super) fn remove(&mut self, number: u64) {
        let Some(at) = self.windows.iter().position(|window| window.number == number) else { return };
        let Some(key) = self.windows.swap_remove(at).alike else { return };
        let Some(alike) = self.alike.get_mut(&key) else { return };
        alike.open -= 1;
        if alike.open == 0 {
            self.alike.remove(&key);
        }
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.windows.iter().any(|window| window.number == number)
    }

    /// How many parts a window has.
    pub(super) fn parts(&self, number: u64) -> Option<usize> {
        self.windows.iter().find(|window| window.number == number).map(|window| window.parts)
    }

    pub(super) fn count(&self) -> usize {
        self.windows.len()
    }

    pub(super) fn first(&self) -> Option<&OpenWindow> {
        self.windows.first()
    }
}

/// A number for these words, other than that of other words, and not 0.
fn number(kind: u64, words: impl IntoIterator<Item = u64>) -> u64 {
    // The finalizer of splitmix64, over all words.
    let mix = |hash: u64, word: u64| {
        let hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ word;
        let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ hash >> 31
    };
    (words.into_iter().fold(mix(0, kind), mix) >> (u64::BITS - SMFU_WINDOW_BITS)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(nodes: &[u16], stride: u64, window: Option<u64>) -> SmfuMap {
        SmfuMap { nodes: nodes.to_vec(), stride, part_bytes: stride, local: None, uncached: false, window }
    }

    #[test]
    fn windows_have_numbers_of_their_own() {
        let opened = Opened::default();
        let maps = [
            map(&[0, 1], 4096, None),
            map(&[1, 0], 4096, None),
            map(&[0, 1, 1], 4096, None),
            map(&[0, 1], 8192, None),
            map(&[0, 1], 4096, Some(0)),
            map(&[0, 1], 4096, Some(1)),
        ];
        let numbers = maps.each_ref().map(|map| opened.next(map, 0).number);
        for (at, number) in numbers.iter().enumerate() {
            assert!((1..1 << SMFU_WINDOW_BITS).contains(number));
            assert!(!numbers[..at].contains(number), "{:?}", maps[at]);
        }
        assert_eq!(opened.next(&map(&[7], 8192, Some(1)), 0).number, numbers[5], "what was agreed on counts");
    }

    #[test]
    fn windows_that_look_the_same_are_numbered_in_the_order_in_which_they_are_made() {
        let map = map(&[0, 1], 4096, None);
        let (mut one, mut other) = (Opened::default(), Opened::default());
        let open = |opened: &mut Opened| {
            let window = opened.next(&map, 0);
            opened.add(window);
            window.number
        };
        let first = [open(&mut one), open(&mut other)];
        let second = [open(&mut one), open(&mut other)];
        assert_eq!((first[0], second[0]), (first[1], second[1]));
        assert_ne!(first[0], second[0]);
        // Each drops another one: the next is neither of those that are left.
        one.remove(first[0]);
        other.remove(second[0]);
        let third = [open(&mut one), open(&mut other)];
        assert_eq!(third[0], third[1]);
        assert!(![first[0], second[0]].contains(&third[0]));
        assert!(one.has(second[0]) && !one.has(first[0]) && one.has(third[0]));
        // Who has none is as one that is new.
        [second[0], third[0]].into_iter().for_each(|number| one.remove(number));
        assert_eq!((one.first().is_none(), open(&mut one)), (true, first[0]));
    }
}
