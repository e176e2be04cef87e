//! How nodes share a grid, and where its parts lie in their windows.

use super::{Grid, Split};
use crate::{BenchError, Scaling};

/// Equal parts of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub whole: Grid,
    pub split: Split,
    /// Points of a node.
    pub own: Grid,
}

/// Points of a row are filled up to so many, so that rows begin at multiples of 128 bytes.
const PITCH: u32 = 32;

/// Points of a row that a warp adds up (`HIMENO_TILE`), and those of a lane: sums of lanes are never cut.
pub(super) const TILE: u32 = 128;
pub(super) const LANE: u32 = 4;

/// Words in front of the fields: iterations of the node below, and of the one above.
pub(crate) const FROM_BELOW: u64 = 0;
pub(crate) const FROM_ABOVE: u64 = 128;
const WORDS: u64 = 256;

/// Where a neighbour's boundary plane is, and its words.
pub(crate) struct Edge {
    pub node: u32,
    pub to: [u64; 2],
    pub signal: u64,
    pub seen: u64,
    pub plane: u64,
}

impl Parts {
    /// Of a grid that each node has (weak scaling), or that all have together.
    pub fn new(grid: Grid, scaling: Scaling, split: Split) -> Result<Self, BenchError> {
        let refused = |advice: String| Err(BenchError::option("grid", grid, advice));
        let nodes = split.nodes();
        if scaling == Scaling::Weak {
            let all = |points: u32, parts: u32| points.checked_mul(parts);
            let (Some(x), Some(y), Some(z)) =
                (all(grid.x, split.x), all(grid.y, split.y), all(grid.z, split.z))
            else {
                return refused(format!(
                    "{nodes} nodes have more than 2^32 points of a direction together; use fewer"
                ));
            };
            return Self { whole: Grid { x, y, z }, split, own: grid }.checked(grid);
        }
        if !split.is_of_slices() {
            let own = Grid { x: grid.x / split.x, y: grid.y / split.y, z: grid.z / split.z };
            let whole = Grid { x: own.x * split.x, y: own.y * split.y, z: own.z * split.z };
            if whole != grid {
                let up = |points: u32, parts: u32| points.next_multiple_of(parts);
                return refused(format!(
                    "{split} parts have as many points each; use {}x{}x{}, or another --split",
                    grid.x.next_multiple_of(split.x * if split.x > 1 { LANE } else { 1 }),
                    up(grid.y, split.y),
                    up(grid.z, split.z)
                ));
            }
            return Self { whole, split, own }.checked(grid);
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
        Self { whole: grid, split, own: Grid { z: grid.z / nodes, ..grid } }.checked(grid)
    }

    /// Parts that neighbours share have two points in that direction, and whole lanes of a row.
    fn checked(self, grid: Grid) -> Result<Self, BenchError> {
        let Self { split, own, .. } = self;
        let refused = |advice: String| Err(BenchError::option("grid", grid, advice));
        if split.x > 1 && !own.x.is_multiple_of(LANE) {
            return refused(format!(
                "a thread adds up {LANE} points of a row, so each part's points of it are a multiple of {LANE}, not {}; use \
                 another grid or --split",
                own.x
            ));
        }
        if split.z > 1 && own.z < 2 && split.is_of_slices() {
            let (least, nodes) = (2 * split.z, split.z);
            return refused(format!(
                "each of {nodes} nodes needs two planes; use {}x{}x{least}",
                grid.x, grid.y
            ));
        }
        let few = |parts: u32, points: u32| parts > 1 && points < 2;
        if few(split.y, own.y) || few(split.z, own.z) {
            return refused(format!(
                "each of {split} parts needs two rows and planes; use fewer parts or more points"
            ));
        }
        Ok(self)
    }

    pub fn nodes(&self) -> u32 {
        self.split.nodes()
    }

    /// Floats of a row in memory. Where rows are cut, the point before a row lies at the end of the row before it in memory,
    /// and the one behind it behind its own.
    pub fn pitch(&self) -> u32 {
        (self.own.x + if self.split.x > 1 { 2 } else { 0 }).next_multiple_of(PITCH)
    }

    /// Rows of a plane in memory: where planes are cut, one more at each side.
    pub fn rows(&self) -> u32 {
        self.own.y + if self.split.y > 1 { 2 } else { 0 }
    }

    /// The first row of a plane that is a node's own, and how many rows there are with those of its neighbours.
    pub fn rows_of(&self, node: u32) -> (u32, u32) {
        let has = |side: i32| u32::from(self.split.neighbour(node, [0, side, 0]).is_some());
        (has(-1), self.own.y + has(-1) + has(1))
    }

    /// The first own point of a node in the whole grid.
    pub fn first(&self, node: u32) -> [u32; 3] {
        let [x, y, z] = self.split.place(node);
        [x * self.own.x, y * self.own.y, z * self.own.z]
    }

    /// Bytes of a plane in memory: what a node that has whole planes sends to a neighbour in an iteration.
    pub fn plane_bytes(&self) -> u64 {
        u64::from(self.rows()) * u64::from(self.pitch()) * 4
    }

    /// Bytes of one array of a node, neighbours' planes included.
    pub fn array_bytes(&self) -> u64 {
        (u64::from(self.own.z) + 2) * self.plane_bytes()
    }

    /// Tiles of 128 points of a row: each has a sum of its own, or one for each lane.
    pub fn tiles(&self) -> u32 {
        self.own.x.div_ceil(TILE)
    }

    /// Sums of a tile: where a cut goes through tiles of the whole grid, those of its lanes.
    pub fn sums_of_tile(&self) -> u32 {
        if self.split.x > 1 && !self.own.x.is_multiple_of(TILE) { TILE / LANE } else { 1 }
    }

    /// Most sums of a plane.
    pub fn sums_of_plane(&self) -> u64 {
        u64::from(self.rows()) * u64::from(self.tiles() * self.sums_of_tile())
    }

    /// Offsets of both fields in the window.
    pub fn fields(&self) -> [u64; 2] {
        [WORDS, WORDS + self.array_bytes().next_multiple_of(256)]
    }

    /// Where the fields end. Behind the last row the stencil reads a float too many.
    pub fn fields_end(&self) -> u64 {
        self.fields()[1] + self.array_bytes().next_multiple_of(256) + 256
    }

    /// Offset of a node's plane, from 0, its neighbour's, on.
    pub fn plane_at(&self, field: usize, plane: u32) -> u64 {
        self.fields()[field] + u64::from(plane) * self.plane_bytes()
    }

    /// The neighbours below and above, in the direction of planes.
    pub fn edges(&self, node: u32) -> [Option<Edge>; 2] {
        let places = |plane| [self.plane_at(0, plane), self.plane_at(1, plane)];
        let below = self.split.neighbour(node, [0, 0, -1]).map(|below| Edge {
            node: below,
            to: places(self.own.z + 1),
            signal: FROM_ABOVE,
            seen: FROM_BELOW,
            plane: 1,
        });
        let above = self.split.neighbour(node, [0, 0, 1]).map(|above| Edge {
            node: above,
            to: places(0),
            signal: FROM_BELOW,
            seen: FROM_ABOVE,
            plane: self.own.z.into(),
        });
        [below, above]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: Grid = Grid { x: 20, y: 9, z: 12 };

    fn slices(grid: Grid, scaling: Scaling, nodes: u32) -> Result<Parts, BenchError> {
        Parts::new(grid, scaling, Split::slices(nodes))
    }

    #[test]
    fn nodes_share_planes_or_have_as_many_each() {
        let strong = slices(GRID, Scaling::Strong, 4).unwrap();
        assert_eq!((strong.whole, strong.own.z, strong.pitch(), strong.tiles()), (GRID, 3, 32, 1));
        let weak = slices(GRID, Scaling::Weak, 4).unwrap();
        assert_eq!((weak.whole.z, weak.own.z), (48, 12));
        assert_eq!(strong.array_bytes(), 5 * 9 * 32 * 4);
    }

    #[test]
    fn planes_that_do_not_divide_are_refused_with_sizes_that_do() {
        let error = slices(GRID, Scaling::Strong, 5).unwrap_err().to_string();
        assert!(error.contains("use 20x9x10, 20x9x15"), "{error}");
        assert!(slices(GRID, Scaling::Strong, 8).unwrap_err().to_string().contains("use 20x9x8, 20x9x16"));
        assert!(slices(GRID, Scaling::Strong, 12).unwrap_err().to_string().contains("use 20x9x24"));
        assert!(slices(Grid { z: u32::MAX, ..GRID }, Scaling::Weak, 2).is_err());
    }

    #[test]
    fn parts_of_three_directions_have_room_for_what_neighbours_have() {
        let split = Split { x: 2, y: 3, z: 2 };
        let whole = Grid { x: 64, y: 9, z: 12 };
        let parts = Parts::new(whole, Scaling::Strong, split).unwrap();
        assert_eq!(parts.own, Grid { x: 32, y: 3, z: 6 });
        assert_eq!((parts.pitch(), parts.rows(), parts.sums_of_tile()), (64, 5, 32));
        assert_eq!([0, 2, 4].map(|node| parts.rows_of(node)), [(0, 4), (1, 5), (1, 4)]);
        assert_eq!(parts.first(11), [32, 6, 6]);
        let weak = Parts::new(whole, Scaling::Weak, split).unwrap();
        assert_eq!(weak.whole, Grid { x: 128, y: 27, z: 24 });
    }

    #[test]
    fn parts_that_do_not_divide_are_refused() {
        let refused =
            |grid, x, y, z| Parts::new(grid, Scaling::Strong, Split { x, y, z }).unwrap_err().to_string();
        assert!(refused(GRID, 2, 2, 1).contains("use 24x10x12"), "{}", refused(GRID, 2, 2, 1));
        assert!(refused(GRID, 2, 1, 1).contains("multiple of 4, not 10"));
        assert!(refused(GRID, 1, 9, 1).contains("two rows"));
    }

    #[test]
    fn edges_lead_to_the_planes_beside_the_neighbours_own() {
        let parts = slices(GRID, Scaling::Strong, 3).unwrap();
        let [below, above] = parts.edges(0);
        assert!(below.is_none());
        let above = above.unwrap();
        assert_eq!((above.node, above.plane, above.to[0]), (1, 4, parts.plane_at(0, 0)));
        let [below, _] = parts.edges(1);
        let below = below.unwrap();
        assert_eq!((below.node, below.plane, below.to[1]), (0, 1, parts.plane_at(1, 5)));
        assert_eq!((above.signal, above.seen), (below.seen, below.signal));
        assert!(parts.edges(2)[1].is_none());
    }
}
