//! Sizes of grids.

use std::fmt;
use std::str::FromStr;

use crate::BenchError;

/// Points of a grid: x is the fastest direction in memory, z the one that nodes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Points of a row.
    pub x: u32,
    /// Rows of a plane.
    pub y: u32,
    /// Planes.
    pub z: u32,
}

/// The sizes of RIKEN's program; thesis Table 4.2 has M and L.
const NAMED: [(&str, Grid); 5] = [
    ("XS", Grid { x: 32, y: 32, z: 64 }),
    ("S", Grid { x: 64, y: 64, z: 128 }),
    ("M", Grid { x: 128, y: 128, z: 256 }),
    ("L", Grid { x: 256, y: 256, z: 512 }),
    ("XL", Grid { x: 512, y: 512, z: 1024 }),
];

/// Most points of a direction, and of a grid: fields of a node are addressed by 64 bits, their planes by 32.
const MOST: u32 = 1 << 16;
const MOST_POINTS: u64 = 1 << 36;

impl Grid {
    /// Points of all planes.
    pub fn points(self) -> u64 {
        u64::from(self.x) * u64::from(self.y) * u64::from(self.z)
    }

    /// Floating-point operations of an iteration: 34 for each point that is not on the border.
    pub fn flop(self) -> u64 {
        let inner = |n: u32| u64::from(n.saturating_sub(2));
        34 * inner(self.x) * inner(self.y) * inner(self.z)
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.x, self.y, self.z)
    }
}

impl FromStr for Grid {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        if let Some((_, grid)) = NAMED.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
            return Ok(*grid);
        }
        let refused = || {
            let names = NAMED.map(|(name, _)| name).join(", ");
            let advice = format!("write XxYxZ of 3 to {MOST} points each, 2^36 in all, or one of {names}");
            BenchError::option("grid", text, advice)
        };
        let mut points = text.split(['x', 'X']).map(|part| part.parse::<u32>().ok());
        match [points.next(), points.next(), points.next(), points.next()] {
            [Some(Some(x)), Some(Some(y)), Some(Some(z)), None] => Some(Grid { x, y, z })
                .filter(|grid| {
                    [x, y, z].iter().all(|n| (3..=MOST).contains(n)) && grid.points() <= MOST_POINTS
                })
                .ok_or_else(refused),
            _ => Err(refused()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_have_names_and_numbers() {
        assert_eq!("m".parse::<Grid>().unwrap(), "128x128x256".parse().unwrap());
        let large: Grid = "L".parse().unwrap();
        assert_eq!((large.to_string().as_str(), large.points()), ("256x256x512", 1 << 25));
        // Thesis Table 4.2: 137.1 and 1,118.7 million operations an iteration.
        assert_eq!("M".parse::<Grid>().unwrap().flop(), 34 * 126 * 126 * 254);
        assert_eq!((large.flop() as f64 / 1e5).round(), 11_187.0);
    }

    #[test]
    fn what_is_no_grid_says_what_to_write() {
        for text in [
            "",
            "64",
            "64x64",
            "64x64x64x64",
            "2x64x64",
            "65537x3x3",
            "64x-1x64",
            "65536x65536x65536",
            "huge",
        ] {
            let error = text.parse::<Grid>().unwrap_err().to_string();
            assert!(error.contains("XxYxZ") && error.contains("XS"), "{text}: {error}");
        }
    }
}
