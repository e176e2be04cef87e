//! How many parts a grid has in each direction.

use std::fmt;
use std::str::FromStr;

use crate::BenchError;

/// Parts of a grid in the directions x, y and z, a node for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Parts of a row.
    pub x: u32,
    /// Parts of a plane's rows.
    pub y: u32,
    /// Slices of planes.
    pub z: u32,
}

/// Most parts in all.
const MOST: u32 = 1024;

impl Split {
    /// Slices of planes only.
    pub fn slices(nodes: u32) -> Self {
        Self { x: 1, y: 1, z: nodes }
    }

    /// Parts in all: as many as nodes.
    pub fn nodes(self) -> u32 {
        self.x * self.y * self.z
    }

    /// Whether parts have whole planes.
    pub fn is_of_slices(self) -> bool {
        self.x == 1 && self.y == 1
    }

    /// Which part a node has, by directions: nodes next to each other are neighbours in x.
    pub(crate) fn place(self, node: u32) -> [u32; 3] {
        [node % self.x, node / self.x % self.y, node / self.x / self.y]
    }

    /// The node of the part that is so many parts further on, if there is one.
    pub(crate) fn neighbour(self, node: u32, direction: [i32; 3]) -> Option<u32> {
        let place = self.place(node);
        let at = |axis: usize, parts: u32| {
            place[axis].checked_add_signed(direction[axis]).filter(|part| *part < parts)
        };
        Some((at(2, self.z)? * self.y + at(1, self.y)?) * self.x + at(0, self.x)?)
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.x, self.y, self.z)
    }
}

impl FromStr for Split {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        let mut parts = text.split(['x', 'X']).map(|part| part.parse::<u32>().ok());
        let split = match [parts.next(), parts.next(), parts.next(), parts.next()] {
            [Some(Some(x)), Some(Some(y)), Some(Some(z)), None] => Some(Self { x, y, z }),
            _ => None,
        };
        let fits = |split: &Self| {
            let Self { x, y, z } = *split;
            [x, y, z].iter().all(|n| (1..=MOST).contains(n)) && x * y <= MOST && x * y * z <= MOST
        };
        split.filter(fits).ok_or_else(|| {
            let advice = format!(
                "write PxQxR: parts in x, y and z, {MOST} in all at most; 1x1xN are slices of planes"
            );
            BenchError::option("split", text, advice)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_three_numbers() {
        let split: Split = "2x3x4".parse().unwrap();
        assert_eq!((split, split.nodes()), (Split { x: 2, y: 3, z: 4 }, 24));
        for text in ["", "2", "2x2", "2x2x2x2", "0x1x1", "2x-1x1", "64x64x64", "1024x1024x1024", "1x1x1025"] {
            let error = text.parse::<Split>().unwrap_err().to_string();
            assert!(error.contains("PxQxR"), "{text}: {error}");
        }
    }

    #[test]
    fn nodes_next_to_each_other_are_neighbours_in_x() {
        let split = Split { x: 2, y: 3, z: 2 };
        assert_eq!(split.place(9), [1, 1, 1]);
        assert_eq!(split.neighbour(9, [-1, 0, 0]), Some(8));
        assert_eq!(split.neighbour(9, [0, 1, -1]), Some(5));
        assert_eq!(split.neighbour(9, [1, 0, 0]), None);
        assert_eq!(split.neighbour(0, [0, -1, 0]), None);
        assert_eq!(Split::slices(4).neighbour(2, [0, 0, 1]), Some(3));
    }
}
