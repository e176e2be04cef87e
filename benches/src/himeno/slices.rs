//! How nodes share a grid, and where its parts lie in their windows.

use super::Grid;
use crate::{BenchError, Scaling};

/// Slices in the direction of planes, as many planes for each node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slices {
    pub whole: Grid,
    pub nodes: u32,
    /// Planes of a node.
    pub planes: u32,
}

/// Points of a row are filled up to so many, so that rows begin at multiples of 128 bytes.
const PITCH: u32 = 32;

/// Words in front of the fields: iterations of the node below, and of the one above.
pub(crate) const FROM_BELOW: u64 = 0;
pub(crate) const FROM_ABOVE: u64 = 128;
const WORDS: u64 = 256;

/// Where a neighbour's boundary is, and its words.
pub(crate) struct Edge {
    pub node: u32,
    pub to: [u64; 2],
    pub signal: u64,
    pub seen: u64,
    pub plane: u64,
}

impl Slices {
    /// Of a grid that each node has (weak scaling), or that all have together.
    pub fn new(grid: Grid, scaling: Scaling, nodes: u32) -> Result<Self, BenchError> {
        let refused = |advice: String| Err(BenchError::option("grid", grid, advice));
        if scaling == Scaling::Weak {
            let Some(z) = grid.z.checked_mul(nodes) else {
                return refused(format!("{nodes} nodes have more than 2^32 planes together; use fewer"));
            };
            return Ok(Self { whole: Grid { z, ..grid }, nodes, planes: grid.z });
        }
        if !grid.z.is_multiple_of(nodes) {
            let (down, up) = (grid.z / nodes * nodes, grid.z.div_ceil(nodes) * nodes);
            return refused(format!(
                "{nodes} nodes share its planes, as many each; use {}x{}x{}, or another number of nodes",
                grid.x,
                grid.y,
                if down >= 3 { format!("{down}, {}x{}x{up}", grid.x, grid.y) } else { up.to_string() }
            ));
        }
        if nodes > 1 && grid.z / nodes < 2 {
            let least = 2 * nodes;
            return refused(format!(
                "each of {nodes} nodes needs two planes; use {}x{}x{least}",
                grid.x, grid.y
            ));
        }
        Ok(Self { whole: grid, nodes, planes: grid.z / nodes })
    }

    /// Floats of a row in memory.
    pub fn pitch(&self) -> u32 {
        self.whole.x.next_multiple_of(PITCH)
    }

    /// Bytes of a plane in memory: what a node sends to a neighbour in an iteration.
    pub fn plane_bytes(&self) -> u64 {
        u64::from(self.whole.y) * u64::from(self.pitch()) * 4
    }

    /// Bytes of one array of a node, neighbours' planes included.
    pub fn array_bytes(&self) -> u64 {
        (u64::from(self.planes) + 2) * self.plane_bytes()
    }

    /// Tiles of 128 points of a row: each has a sum of its own.
    pub fn tiles(&self) -> u32 {
        self.whole.x.div_ceil(128)
    }

    /// Sums of a plane.
    pub fn sums_of_plane(&self) -> u64 {
        u64::from(self.whole.y) * u64::from(self.tiles())
    }

    /// Offsets of both fields in the window.
    pub fn fields(&self) -> [u64; 2] {
        [WORDS, WORDS + self.array_bytes().next_multiple_of(256)]
    }

    /// Bytes of the window. Behind the last row the stencil reads a float too many.
    pub fn window_bytes(&self) -> u64 {
        self.fields()[1] + self.array_bytes().next_multiple_of(256) + 256
    }

    /// Offset of a node's plane, from 0, its neighbour's, on.
    pub fn plane_at(&self, field: usize, plane: u32) -> u64 {
        self.fields()[field] + u64::from(plane) * self.plane_bytes()
    }

    /// The neighbours below and above.
    pub fn edges(&self, node: u32) -> [Option<Edge>; 2] {
        let places = |plane| [self.plane_at(0, plane), self.plane_at(1, plane)];
        let below = node.checked_sub(1).map(|below| Edge {
            node: below,
            to: places(self.planes + 1),
            signal: FROM_ABOVE,
            seen: FROM_BELOW,
            plane: 1,
        });
        let above = (node + 1 < self.nodes).then(|| Edge {
            node: node + 1,
            to: places(0),
            signal: FROM_BELOW,
            seen: FROM_ABOVE,
            plane: self.planes.into(),
        });
        [below, above]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: Grid = Grid { x: 20, y: 9, z: 12 };

    #[test]
    fn nodes_share_planes_or_have_as_many_each() {
        let strong = Slices::new(GRID, Scaling::Strong, 4).unwrap();
        assert_eq!((strong.whole, strong.planes, strong.pitch(), strong.tiles()), (GRID, 3, 32, 1));
        let weak = Slices::new(GRID, Scaling::Weak, 4).unwrap();
        assert_eq!((weak.whole.z, weak.planes), (48, 12));
        assert_eq!(strong.array_bytes(), 5 * 9 * 32 * 4);
    }

    #[test]
    fn planes_that_do_not_divide_are_refused_with_sizes_that_do() {
        let error = Slices::new(GRID, Scaling::Strong, 5).unwrap_err().to_string();
        assert!(error.contains("use 20x9x10, 20x9x15"), "{error}");
        assert!(
            Slices::new(GRID, Scaling::Strong, 8).unwrap_err().to_string().contains("use 20x9x8, 20x9x16")
        );
        assert!(Slices::new(GRID, Scaling::Strong, 12).unwrap_err().to_string().contains("use 20x9x24"));
        assert!(Slices::new(Grid { z: u32::MAX, ..GRID }, Scaling::Weak, 2).is_err());
    }

    #[test]
    fn edges_lead_to_the_planes_beside_the_neighbours_own() {
        let slices = Slices::new(GRID, Scaling::Strong, 3).unwrap();
        let [below, above] = slices.edges(0);
        assert!(below.is_none());
        let above = above.unwrap();
        assert_eq!((above.node, above.plane, above.to[0]), (1, 4, slices.plane_at(0, 0)));
        let [below, _] = slices.edges(1);
        let below = below.unwrap();
        assert_eq!((below.node, below.plane, below.to[1]), (0, 1, slices.plane_at(1, 5)));
        assert_eq!((above.signal, above.seen), (below.seen, below.signal));
        assert!(slices.edges(2)[1].is_none());
    }
}
