//! Sets of VPIDs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A set of VPIDs. Knows its size, since it is empty nearly always and asked about that all the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VpidSet {
    word: [u64; 4],
    len: u32,
}

impl VpidSet {
    /// Adds or removes one.
    #[inline]
    pub fn set(&mut self, vpid: u8, on: bool) {
        if self.contains(vpid) != on {
            self.word[usize::from(vpid / 64)] ^= 1 << (vpid % 64);
            self.len = if on { self.len + 1 } else { self.len - 1 };
        }
    }

    /// Whether it is in the set.
    #[inline]
    pub fn contains(&self, vpid: u8) -> bool {
        self.word[usize::from(vpid / 64)] >> (vpid % 64) & 1 != 0
    }

    /// Members.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether nothing is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Word `i` of four, 64 VPIDs each.
    pub fn word(&self, i: usize) -> u64 {
        self.word[i % 4]
    }

    /// The same, and removes its members.
    pub fn take_word(&mut self, i: usize) -> u64 {
        let word = std::mem::take(&mut self.word[i % 4]);
        self.len -= word.count_ones();
        word
    }

    /// Members in order, from `start` on and around.
    #[inline]
    pub fn iter_from(&self, start: u8) -> impl Iterator<Item = u8> + use<> {
        let (words, mut members) = (self.word, self.len);
        let (first, mask) = (usize::from(start / 64), u64::MAX << (start % 64));
        // The first word comes twice: what is from `start` on at the beginning, the rest at the end.
        let (mut step, mut left) = (0, words[first] & mask);
        std::iter::from_fn(move || {
            // Checked first: most sets have one member or none, and all words need not be looked at then.
            members = members.checked_sub(1)?;
            while left == 0 {
                step += 1;
                left = words[(first + step) % 4] & if step < 4 { u64::MAX } else { !mask };
            }
            let bit = left.trailing_zeros();
            left &= left - 1;
            Some(((first + step) % 4 * 64) as u8 + bit as u8)
        })
    }
}

/// A set of VPIDs that several threads add to and one takes from.
#[derive(Debug, Default)]
pub struct AtomicVpidSet {
    word: [AtomicU64; 4],
    /// Something was added since the last take.
    any: AtomicBool,
}

impl AtomicVpidSet {
    /// Adds one. Everything written before is seen by whoever takes it.
    #[inline]
    pub fn add(&self, vpid: u8) {
        self.word[usize::from(vpid / 64)].fetch_or(1 << (vpid % 64), Ordering::AcqRel);
        self.any.store(true, Ordering::Release);
    }

    /// Whether there are any to take.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Moves all into `set`.
    #[inline]
    pub fn take_into(&self, set: &mut VpidSet) {
        if !self.any() {
            return;
        }
        self.any.swap(false, Ordering::AcqRel);
        for (from, to) in self.word.iter().zip(&mut set.word) {
            if from.load(Ordering::Relaxed) != 0 {
                let added = from.swap(0, Ordering::AcqRel) & !*to;
                *to |= added;
                set.len += added.count_ones();
            }
        }
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
            let (mut set, shared) = (VpidSet::default(), AtomicVpidSet::default());
            members.iter().for_each(|v| shared.add(*v));
            shared.take_into(&mut set);
            prop_assert_eq!(set.len as usize, members.len());
            shared.take_into(&mut set);
            let seen: Vec<u8> = set.iter_from(start).collect();
            let expected: Vec<u8> =
                members.range(start..).chain(members.range(..start)).copied().collect();
            prop_assert_eq!(seen, expected);
            prop_assert_eq!(set.is_empty(), members.is_empty());
            members.iter().for_each(|v| set.set(*v, false));
            prop_assert_eq!(set, VpidSet::default());
        }
    }
}
