//! Sets of VPIDs.

use std::sync::atomic::{AtomicU64, Ordering};

/// A set of VPIDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VpidSet([u64; 4]);

impl VpidSet {
    /// Adds or removes one.
    #[inline]
    pub fn set(&mut self, vpid: u8, on: bool) {
        let (word, bit) = (usize::from(vpid / 64), 1 << (vpid % 64));
        if on {
            self.0[word] |= bit;
        } else {
            self.0[word] &= !bit;
        }
    }

    /// Whether it is in the set.
    #[inline]
    pub fn contains(&self, vpid: u8) -> bool {
        self.0[usize::from(vpid / 64)] >> (vpid % 64) & 1 != 0
    }

    /// Whether nothing is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// All members of both.
    #[inline]
    pub fn union(self, other: VpidSet) -> VpidSet {
        VpidSet([0, 1, 2, 3].map(|i| self.0[i] | other.0[i]))
    }

    /// Word `i` of four, 64 VPIDs each.
    pub fn word(&self, i: usize) -> u64 {
        self.0[i % 4]
    }

    /// The same, and removes its members.
    pub fn take_word(&mut self, i: usize) -> u64 {
        std::mem::take(&mut self.0[i % 4])
    }

    /// Members in order, from `start` on and around.
    pub fn iter_from(&self, start: u8) -> impl Iterator<Item = u8> + use<> {
        let set = *self;
        let mut rest = set;
        (0..start).for_each(|vpid| rest.set(vpid, false));
        let mut wrapped = false;
        std::iter::from_fn(move || {
            loop {
                if let Some(word) = rest.0.iter().position(|w| *w != 0) {
                    let vpid = (64 * word) as u8 + rest.0[word].trailing_zeros() as u8;
                    if wrapped && vpid >= start {
                        return None;
                    }
                    rest.set(vpid, false);
                    return Some(vpid);
                }
                if wrapped || start == 0 {
                    return None;
                }
                wrapped = true;
                rest = set;
            }
        })
    }
}

/// A set of VPIDs that several threads add to and one takes from.
#[derive(Debug, Default)]
pub struct AtomicVpidSet([AtomicU64; 4]);

impl AtomicVpidSet {
    /// Adds one. Everything written before is seen by whoever takes it.
    #[inline]
    pub fn add(&self, vpid: u8) {
        self.0[usize::from(vpid / 64)].fetch_or(1 << (vpid % 64), Ordering::AcqRel);
    }

    /// Takes all.
    #[inline]
    pub fn take(&self) -> VpidSet {
        VpidSet([0, 1, 2, 3].map(|i| match self.0[i].load(Ordering::Relaxed) {
            0 => 0,
            _ => self.0[i].swap(0, Ordering::AcqRel),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn iterates_each_member_once_and_fairly(
            members in proptest::collection::btree_set(any::<u8>(), 0..40),
            start: u8,
        ) {
            let mut set = VpidSet::default();
            members.iter().for_each(|v| set.set(*v, true));
            let seen: Vec<u8> = set.iter_from(start).collect();
            let expected: Vec<u8> =
                members.range(start..).chain(members.range(..start)).copied().collect();
            prop_assert_eq!(seen, expected);
            prop_assert_eq!(set.is_empty(), members.is_empty());
        }
    }
}
