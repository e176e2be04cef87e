//! What nodes of a ring send each other in an allreduce, step by step (GPU-TN, section 5.4.1).

use std::ops::Range;

/// Elements of one access of a kernel (`unit` of `bench_tn_allreduce.cu`): parts and slices are whole ones.
pub(crate) const UNIT: usize = 4;

/// A vector that nodes share out: as many parts as nodes. In step s a node sends part node - s to the next one and gets
/// part node - s - 1; the first nodes - 1 steps add what comes, the others bring sums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    pub nodes: usize,
    pub elements: usize,
}

impl Ring {
    pub fn steps(self) -> usize {
        2 * (self.nodes - 1)
    }

    /// Whether what comes in this step is added.
    pub fn adds(self, step: usize) -> bool {
        step + 1 < self.nodes
    }

    pub fn next(self, node: usize) -> usize {
        (node + 1) % self.nodes
    }

    /// The part that a node sends.
    pub fn sent(self, node: usize, step: usize) -> usize {
        (node + 2 * self.nodes - step) % self.nodes
    }

    /// The part that comes to it.
    pub fn came(self, node: usize, step: usize) -> usize {
        self.sent(node, step + 1)
    }

    /// Elements of a slice of a part; `share` of the kernel says the same.
    pub fn range(self, part: usize, slice: usize, slices: usize) -> Range<usize> {
        let share = |length: usize, number: usize, shares: usize| match number == shares {
            true => length,
            false => length * number / shares / UNIT * UNIT,
        };
        let (from, to) = (share(self.elements, part, self.nodes), share(self.elements, part + 1, self.nodes));
        from + share(to - from, slice, slices)..from + share(to - from, slice + 1, slices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_sends_comes_to_the_next_and_all_parts_are_sent() {
        let ring = Ring { nodes: 5, elements: 1003 };
        for step in 0..ring.steps() {
            for node in 0..5 {
                assert_eq!(ring.sent(node, step), ring.came(ring.next(node), step));
            }
        }
        assert!((0..ring.steps()).all(|step| ring.adds(step) == (step < 4)));
        let ranges = (0..5).flat_map(|part| (0..3).map(move |slice| ring.range(part, slice, 3)));
        let ends: Vec<_> = ranges.collect();
        assert!(ends.windows(2).all(|two| two[0].end == two[1].start && two[1].start % 4 == 0));
        assert_eq!((ends[0].start, ends[14].end), (0, 1003));
    }
}
