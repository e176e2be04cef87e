//! The 3-d torus: positions, node ids and neighbours (thesis 2.4.7).
//!
//! A node id has 16 bits: 6 choose a **group**, 10 a node within it, because a card routes by two tables of 64
//! and 1,024 entries (spec 8.2). Up to 1,024 nodes form one group and ids simply count `x + X·(y + Y·z)`. Larger
//! tori are cut into equal boxes, one per group; then ids are `group << 10 | place in the box` and need not be
//! dense, so walk them with [`Torus::ids`].

use thiserror::Error;

/// Nodes that one local route table distinguishes (spec 8.2).
pub const GROUP_NODES: u32 = 1024;
/// Entries of the global route table (spec 8.2).
pub const GROUPS: u32 = 64;
/// Most nodes that 16-bit ids can name.
pub const MAX_NODES: u32 = GROUPS * GROUP_NODES;

/// A torus that cannot be built.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
pub enum TorusError {
    /// A side of length 0.
    #[error("a {0}x{1}x{2} torus has no nodes; every side must be at least 1")]
    Empty(u32, u32, u32),
    /// More nodes than ids.
    #[error("a {0}x{1}x{2} torus has more nodes than the {MAX_NODES} that 16-bit node ids can name")]
    TooLarge(u32, u32, u32),
    /// The shape cannot be cut into boxes that the route tables can name.
    #[error(
        "a {0}x{1}x{2} torus cannot be cut into at most {GROUPS} boxes of at most {GROUP_NODES} nodes, which is \
         what the card's route tables hold; choose sides that divide more evenly"
    )]
    Shape(u32, u32, u32),
}

ggas_errors::debug_as_display!(TorusError);

/// A direction along one axis: one of the six links of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Direction {
    /// Towards larger x.
    XPlus = 0,
    /// Towards smaller x.
    XMinus = 1,
    /// Towards larger y.
    YPlus = 2,
    /// Towards smaller y.
    YMinus = 3,
    /// Towards larger z.
    ZPlus = 4,
    /// Towards smaller z.
    ZMinus = 5,
}

impl Direction {
    /// All directions; the index of each is its link port `lp0`..`lp5`.
    pub const ALL: [Direction; 6] = [
        Direction::XPlus,
        Direction::XMinus,
        Direction::YPlus,
        Direction::YMinus,
        Direction::ZPlus,
        Direction::ZMinus,
    ];

    /// The direction of link port `index`, if it is wired in a torus (ports 0..6).
    pub fn from_index(index: usize) -> Option<Direction> {
        Direction::ALL.get(index).copied()
    }

    /// The link port: 0..6.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The way back.
    pub fn opposite(self) -> Direction {
        Direction::ALL[self.index() ^ 1]
    }

    fn new(axis: usize, plus: bool) -> Direction {
        Direction::ALL[2 * axis + usize::from(!plus)]
    }
}

impl std::fmt::Display for Direction {
    /// `x+`, `x-`, `y+` ...
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(["x+", "x-", "y+", "y-", "z+", "z-"][self.index()])
    }
}

/// A place in the torus: x, y, z.
pub type Position = [u32; 3];

/// A 3-d torus of 1 to 65,536 nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torus {
    size: [u32; 3],
    /// Sides of the box that makes one group.
    block: [u32; 3],
    /// Boxes along each axis.
    boxes: [u32; 3],
}

impl Torus {
    /// A torus of `x · y · z` nodes.
    pub fn new(x: u32, y: u32, z: u32) -> Result<Torus, TorusError> {
        let size = [x, y, z];
        if size.contains(&0) {
            return Err(TorusError::Empty(x, y, z));
        }
        let nodes = size.iter().try_fold(1u32, |n, &side| n.checked_mul(side)).filter(|&n| n <= MAX_NODES);
        match nodes {
            None => Err(TorusError::TooLarge(x, y, z)),
            Some(n) if n <= GROUP_NODES => Ok(Torus { size, block: size, boxes: [1; 3] }),
            Some(_) => Self::cut(size).ok_or(TorusError::Shape(x, y, z)),
        }
    }

    /// The torus of exactly `nodes` nodes whose sides differ least.
    pub fn with_nodes(nodes: u32) -> Result<Torus, TorusError> {
        let divisors = |n: u32| (1..=n).filter(move |&d| n.is_multiple_of(d));
        if nodes > MAX_NODES {
            return Err(TorusError::TooLarge(nodes, 1, 1));
        }
        divisors(nodes)
            .flat_map(|z| divisors(nodes / z).map(move |y| (nodes / z / y, y, z)))
            .filter(|&(x, y, z)| x >= y && y >= z)
            .filter_map(|(x, y, z)| Torus::new(x, y, z).ok())
            .min_by_key(|torus| torus.size.iter().sum::<u32>())
            .ok_or(TorusError::Empty(nodes, 1, 1))
    }

    /// Cuts a torus into boxes so that routes by group stay as short as possible.
    fn cut(size: [u32; 3]) -> Option<Torus> {
        let cuts = |side: u32| {
            (1..=side.min(GROUPS)).map(move |parts| side.div_ceil(parts)).map(move |b| (b, side.div_ceil(b)))
        };
        let mut best: Option<(u32, u32, Torus)> = None;
        for (bz, gz) in cuts(size[2]) {
            for (by, gy) in cuts(size[1]).filter(|(b, g)| b * bz <= GROUP_NODES && g * gz <= GROUPS) {
                let fits = |&(b, g): &(u32, u32)| b * by * bz <= GROUP_NODES && g * gy * gz <= GROUPS;
                for (bx, gx) in cuts(size[0]).filter(fits) {
                    let torus = Torus { size, block: [bx, by, bz], boxes: [gx, gy, gz] };
                    let key = (torus.detour(), gx * gy * gz);
                    if best.is_none_or(|(detour, groups, _)| key < (detour, groups)) {
                        best = Some((key.0, key.1, torus));
                    }
                }
            }
        }
        best.map(|(_, _, torus)| torus)
    }

    /// Most hops by which a route may exceed the shortest: 0 up to 1,024 nodes and wherever whole axes fit
    /// the tables; otherwise a route to a far box enters it at the near edge, whatever its target inside.
    pub fn detour(&self) -> u32 {
        (0..3).filter(|&axis| self.boxes[axis] > 1).map(|axis| self.block[axis] - 1).sum()
    }

    /// Sides x, y, z.
    pub fn size(&self) -> [u32; 3] {
        self.size
    }

    /// Number of nodes.
    #[allow(clippy::len_without_is_empty, reason = "a torus is never empty")]
    pub fn len(&self) -> usize {
        self.size.iter().product::<u32>() as usize
    }

    /// All node ids, in the order of [`Torus::index`].
    pub fn ids(&self) -> impl Iterator<Item = u16> + use<> {
        let torus = *self;
        (0..torus.len()).map(move |index| torus.id_of_index(index))
    }

    /// Id of the node that counts as number `index` (x fastest). `index` must be below [`Torus::len`].
    pub fn id_of_index(&self, index: usize) -> u16 {
        debug_assert!(index < self.len());
        if self.one_group() {
            return index as u16;
        }
        let (index, [x, y, _]) = (index as u32, self.size);
        self.id([index % x, index / x % y, index / (x * y)])
    }

    /// Number of node `id`, from 0 to [`Torus::len`]; `None` for an id that no node has.
    pub fn index(&self, id: u16) -> Option<usize> {
        if self.one_group() {
            return Some(usize::from(id)).filter(|&index| index < self.len());
        }
        let ([x, y, z], [sx, sy, _]) = (self.position(id)?, self.size);
        Some((x + sx * (y + sy * z)) as usize)
    }

    /// Id of the node at `position`, which must lie within the torus.
    pub fn id(&self, position: Position) -> u16 {
        let mut group = 0;
        let mut local = 0;
        for axis in (0..3).rev() {
            group = group * self.boxes[axis] + position[axis] / self.block[axis];
            local = local * self.block[axis] + position[axis] % self.block[axis];
        }
        (group * GROUP_NODES + local) as u16
    }

    /// Position of node `id`; `None` for an id that no node has.
    #[inline]
    pub fn position(&self, id: u16) -> Option<Position> {
        if self.one_group() {
            let ([x, y, z], id) = (self.size, u32::from(id));
            // Most axes of small tori have one node: spare the divisions.
            let (rest, px) = if x == 1 { (id, 0) } else { (id / x, id % x) };
            let (pz, py) = if y == 1 { (rest, 0) } else { (rest / y, rest % y) };
            return (pz < z).then_some([px, py, pz]);
        }
        let (mut group, mut local) = (u32::from(id) / GROUP_NODES, u32::from(id) % GROUP_NODES);
        let mut position = [0; 3];
        for (axis, place) in position.iter_mut().enumerate() {
            let (boxes, block) = (self.boxes[axis], self.block[axis]);
            *place = group % boxes * block + local % block;
            if *place >= self.size[axis] {
                return None;
            }
            group /= boxes;
            local /= block;
        }
        (group == 0 && local == 0).then_some(position)
    }

    /// The node at the other end of a link; `None` if the axis has a single node, hence no link, or for an
    /// unknown id. On an axis of two nodes both directions lead to the same neighbour, over two links.
    pub fn neighbour(&self, id: u16, direction: Direction) -> Option<u16> {
        let mut position = self.position(id)?;
        let axis = direction.index() / 2;
        let side = self.size[axis];
        let step = if direction.index().is_multiple_of(2) { 1 } else { side - 1 };
        position[axis] = (position[axis] + step) % side;
        (side > 1).then(|| self.id(position))
    }

    /// Fewest hops between two nodes.
    pub fn distance(&self, from: u16, to: u16) -> Option<u32> {
        let (from, to) = (self.position(from)?, self.position(to)?);
        let hops = |axis: usize| {
            let ahead = (to[axis] + self.size[axis] - from[axis]) % self.size[axis];
            ahead.min(self.size[axis] - ahead)
        };
        Some((0..3).map(hops).sum())
    }

    /// Dimension-order step from one position to another: first to the target's box, axis by axis, then
    /// within the box. It depends on the target's group alone, or, within a group, on its place alone; that
    /// is what makes it fit the card's two tables. `None` when there.
    #[inline]
    pub fn step(&self, from: Position, to: Position) -> Option<Direction> {
        if !self.one_group()
            && let Some(direction) = self.step_to_box(from, to)
        {
            return Some(direction);
        }
        let axis = (0..3).find(|&axis| from[axis] != to[axis])?;
        let (side, from, to) = (self.size[axis], from[axis], to[axis]);
        let ahead = if to >= from { to - from } else { to + side - from };
        Some(Direction::new(axis, if self.boxes[axis] > 1 { to > from } else { ahead <= side - ahead }))
    }

    /// Whether the way between them stays in one of several groups.
    #[inline]
    pub(crate) fn is_within_group(&self, from: Position, to: Position) -> bool {
        !self.one_group() && (0..3).all(|axis| from[axis] / self.block[axis] == to[axis] / self.block[axis])
    }

    fn step_to_box(&self, from: Position, to: Position) -> Option<Direction> {
        let to_box = (0..3).find(|&axis| from[axis] / self.block[axis] != to[axis] / self.block[axis]);
        let axis = to_box?;
        let first = to[axis] / self.block[axis] * self.block[axis];
        let last = (first + self.block[axis]).min(self.size[axis]) - 1;
        let ahead = (first + self.size[axis] - from[axis]) % self.size[axis];
        let behind = (from[axis] + self.size[axis] - last) % self.size[axis];
        Some(Direction::new(axis, ahead <= behind))
    }

    /// Walks the route of [`Torus::step`] without looking anything up, calling `hop` with the index of each node
    /// that is left and the link taken. `false` if either id is unknown.
    #[inline]
    pub fn walk(&self, from: u16, to: u16, mut hop: impl FnMut(usize, Direction)) -> bool {
        let (Some(mut at), Some(to)) = (self.position(from), self.position(to)) else { return false };
        let strides = [1, self.size[0], self.size[0] * self.size[1]];
        let mut index = at[0] + at[1] * strides[1] + at[2] * strides[2];
        while let Some(direction) = self.step(at, to) {
            let axis = direction.index() / 2;
            let (side, stride) = (self.size[axis], strides[axis]);
            // As far as this leg goes: to the target's coordinate, or to the near edge of its box.
            let plus = direction.index().is_multiple_of(2);
            let end = self.leg_end(axis, at[axis], to[axis], plus);
            while at[axis] != end {
                hop(index as usize, direction);
                let wraps = at[axis] == if plus { side - 1 } else { 0 };
                (at[axis], index) = match (plus, wraps) {
                    (true, false) => (at[axis] + 1, index + stride),
                    (true, true) => (0, index - (side - 1) * stride),
                    (false, false) => (at[axis] - 1, index - stride),
                    (false, true) => (side - 1, index + (side - 1) * stride),
                };
            }
        }
        true
    }

    fn leg_end(&self, axis: usize, from: u32, to: u32, plus: bool) -> u32 {
        if self.boxes[axis] == 1 {
            return to;
        }
        let block = self.block[axis];
        let first = to / block * block;
        if from / block * block == first {
            to
        } else if plus {
            first
        } else {
            (first + block).min(self.size[axis]) - 1
        }
    }

    fn one_group(&self) -> bool {
        self.boxes == [1; 3]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_shapes_that_cannot_be() {
        assert_eq!(Torus::new(0, 1, 1), Err(TorusError::Empty(0, 1, 1)));
        assert_eq!(Torus::new(65_537, 1, 1), Err(TorusError::TooLarge(65_537, 1, 1)));
        assert_eq!(Torus::new(u32::MAX, u32::MAX, 2), Err(TorusError::TooLarge(u32::MAX, u32::MAX, 2)));
        assert_eq!(Torus::new(3, 3, 7281), Err(TorusError::Shape(3, 3, 7281)));
        assert_eq!(Torus::with_nodes(0), Err(TorusError::Empty(0, 1, 1)));
    }

    #[test]
    fn with_nodes_is_as_cubic_as_it_can_be() {
        for (nodes, size) in
            [(1, [1, 1, 1]), (2, [2, 1, 1]), (7, [7, 1, 1]), (12, [3, 2, 2]), (1000, [10, 10, 10])]
        {
            assert_eq!(Torus::with_nodes(nodes).unwrap().size(), size);
        }
        assert_eq!(Torus::with_nodes(MAX_NODES).unwrap().len(), 65_536);
    }

    #[test]
    fn ids_and_indices_are_inverse_and_neighbours_mutual() {
        for size in [(1, 1, 1), (2, 1, 1), (3, 2, 2), (32, 32, 1), (40, 40, 40), (32, 32, 64), (65_536, 1, 1)]
        {
            let torus = Torus::new(size.0, size.1, size.2).unwrap();
            let step = (torus.len() / 997).max(1);
            for index in (0..torus.len()).step_by(step) {
                let id = torus.id_of_index(index);
                assert_eq!(torus.index(id), Some(index), "{size:?} id {id}");
                for direction in Direction::ALL {
                    let Some(next) = torus.neighbour(id, direction) else { continue };
                    assert_eq!(torus.neighbour(next, direction.opposite()), Some(id), "{size:?} id {id}");
                    assert_eq!(torus.distance(id, next), Some(1), "{size:?} id {id}");
                }
            }
            let unknown = (0..=u16::MAX).filter(|&id| torus.index(id).is_none()).count();
            assert_eq!(unknown, 65_536 - torus.len(), "{size:?}: ids that no node has");
        }
    }
}
