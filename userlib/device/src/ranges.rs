//! First-fit allocation of contiguous ranges of translation entries (spec 4.2). What was given back rests, as
//! `EXTOLL_NLA_REST_PAGES` says (`kmod/uapi/extoll/atu.h`).

use std::collections::{BTreeMap, VecDeque};

use extoll_abi::Nla;

/// Free ranges of numbers, start to length; neighbours are always joined.
#[derive(Debug)]
pub(crate) struct Ranges {
    free: BTreeMap<u64, u64>,
    /// Starts and lengths of those that rest, oldest first, and their numbers together.
    resting: VecDeque<(u64, u64)>,
    resting_count: u64,
}

impl Ranges {
    pub(crate) fn new(start: u64, end: u64) -> Ranges {
        let free = BTreeMap::from([(start, end - start)]);
        Ranges { free, resting: VecDeque::new(), resting_count: 0 }
    }

    /// The first free range of `count` numbers that has rested; where there is none, those that have not are free, too.
    pub(crate) fn take(&mut self, count: u64) -> Option<u64> {
        loop {
            if let Some((&start, &len)) = self.free.iter().find(|(_, len)| **len >= count) {
                self.free.remove(&start);
                if len > count {
                    self.free.insert(start + count, len - count);
                }
                return Some(start);
            }
            self.wake()?;
        }
    }

    /// Gives back a range that [`take`](Self::take) gave.
    pub(crate) fn give(&mut self, start: u64, count: u64) {
        self.resting.push_back((start, count));
        self.resting_count += count;
        while let Some((_, oldest)) = self.resting.front() {
            let (numbers, ranges) = (self.resting_count - oldest, self.resting.len() as u64 - 1);
            if numbers < Nla::REST_PAGES && ranges < Nla::REST_RANGES {
                break;
            }
            self.wake();
        }
    }

    /// The range that has rested longest is free.
    fn wake(&mut self) -> Option<()> {
        let (mut start, mut count) = self.resting.pop_front()?;
        self.resting_count -= count;
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
        Some(())
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
                            // First fit may only refuse when no gap is large enough, and then nothing rests.
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
            while ranges.wake().is_some() {}
            prop_assert_eq!((ranges.free, ranges.resting_count), (BTreeMap::from([(100, 256)]), 0));
        }
    }

    #[test]
    fn what_was_given_back_rests() {
        let mut ranges = Ranges::new(0, 4 * Nla::REST_PAGES);
        let kept = ranges.take(1);
        // Until as many others were given back.
        let first = ranges.take(1).unwrap();
        ranges.give(first, 1);
        for others in 0..Nla::REST_RANGES {
            let other = ranges.take(1).unwrap();
            assert_ne!(other, first, "after {others}");
            ranges.give(other, 1);
        }
        assert_eq!((kept, ranges.take(1)), (Some(0), Some(first)));
        // Or as many pages of them: a range that is longer rests for one other.
        let long = ranges.take(Nla::REST_PAGES).unwrap();
        ranges.give(long, Nla::REST_PAGES);
        let other = ranges.take(Nla::REST_PAGES).unwrap();
        assert!(other >= long + Nla::REST_PAGES);
        ranges.give(other, Nla::REST_PAGES);
        assert_eq!(ranges.take(Nla::REST_PAGES), Some(2), "where it was, and what is free before it");
    }

    #[test]
    fn what_rests_is_given_before_none_is() {
        let mut ranges = Ranges::new(0, 8);
        let taken = [0, 4].map(|start| ranges.take(4).filter(|at| *at == start).unwrap());
        taken.into_iter().rev().for_each(|start| ranges.give(start, 4));
        assert_eq!([1, 1].map(|count| ranges.take(count)), [Some(4), Some(5)], "the longest at rest first");
        assert_eq!((ranges.take(4), ranges.take(4)), (Some(0), None));
    }
}
