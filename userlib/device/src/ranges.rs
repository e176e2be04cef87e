//! First-fit allocation of contiguous ranges of translation entries (spec 4.2).

use std::collections::BTreeMap;

/// Free ranges of numbers, start to length; neighbours are always joined.
#[derive(Debug)]
pub(crate) struct Ranges {
    free: BTreeMap<u64, u64>,
}

impl Ranges {
    pub(crate) fn new(start: u64, end: u64) -> Ranges {
        Ranges { free: BTreeMap::from([(start, end - start)]) }
    }

    /// The first free range of `count` numbers.
    pub(crate) fn take(&mut self, count: u64) -> Option<u64> {
        let (&start, &len) = self.free.iter().find(|(_, len)| **len >= count)?;
        self.free.remove(&start);
        if len > count {
            self.free.insert(start + count, len - count);
        }
        Some(start)
    }

    /// Gives back a range that [`take`](Self::take) gave.
    pub(crate) fn give(&mut self, mut start: u64, mut count: u64) {
        if let Some((&before, &len)) = self.free.range(..start).next_back()
            && before + len == start
        {
            self.free.remove(&before);
            (start, count) = (before, len + count);
        }
        if let Some(len) = self.free.remove(&(start + count)) {
            count += len;
        }
        self.free.insert(start, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain map of who owns each number.
        #[test]
        fn ranges_never_overlap_and_are_joined_again(ops in prop::collection::vec((any::<bool>(), 1u64..40), 1..200)) {
            let mut ranges = Ranges::new(100, 356);
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (take, n) in ops {
                if take {
                    match ranges.take(n) {
                        Some(start) => {
                            prop_assert!(start >= 100 && start + n <= 356);
                            prop_assert!(taken.iter().all(|(s, l)| start + n <= *s || s + l <= start));
                            taken.push((start, n));
                        }
                        None => {
                            // First fit may only refuse when no gap is large enough.
                            let mut sorted = taken.clone();
                            sorted.push((356, 0));
                            sorted.sort();
                            let mut at = 100;
                            for (s, l) in sorted {
                                prop_assert!(s - at < n);
                                at = s + l;
                            }
                        }
                    }
                } else if !taken.is_empty() {
                    let (start, len) = taken.swap_remove(n as usize % taken.len());
                    ranges.give(start, len);
                }
            }
            for (start, len) in taken {
                ranges.give(start, len);
            }
            prop_assert_eq!(ranges.free, BTreeMap::from([(100, 256)]));
        }
    }
}
