//! Points of a relaxation that nodes share out, and what the host computes of it.

use std::ops::Range;

use crate::RandomStream;
use crate::args::{BENCH_JACOBI_EAST, BENCH_JACOBI_NORTH, BENCH_JACOBI_SOUTH, BENCH_JACOBI_WEST};

/// Sides of a node's square, in the order of their numbers.
pub(crate) const SIDES: [u32; 4] =
    [BENCH_JACOBI_NORTH, BENCH_JACOBI_SOUTH, BENCH_JACOBI_WEST, BENCH_JACOBI_EAST];

/// The other side of a neighbour.
pub(crate) fn opposite(side: u32) -> u32 {
    side ^ 1
}

/// Nodes in rows and columns, as square as their number allows, each with `side` x `side` points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub side: usize,
    pub rows: u32,
    pub columns: u32,
}

impl Grid {
    pub fn new(side: usize, nodes: u32) -> Grid {
        let divides = |rows: &u32| nodes.is_multiple_of(*rows) && rows * rows <= nodes;
        let rows = (1..=nodes).rev().find(divides).unwrap_or(1);
        Grid { side, rows, columns: nodes / rows }
    }

    /// Of a node's points.
    pub fn shape(&self) -> Shape {
        Shape { rows: self.side, columns: self.side }
    }

    /// The node at a side of another.
    pub fn neighbour(&self, node: u32, side: u32) -> Option<u32> {
        let (row, column) = (node / self.columns, node % self.columns);
        match side {
            BENCH_JACOBI_NORTH => (row > 0).then(|| node - self.columns),
            BENCH_JACOBI_SOUTH => (row + 1 < self.rows).then(|| node + self.columns),
            BENCH_JACOBI_WEST => (column > 0).then(|| node - 1),
            _ => (column + 1 < self.columns).then(|| node + 1),
        }
    }

    pub fn neighbours(&self, node: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        SIDES.into_iter().filter_map(move |side| Some((side, self.neighbour(node, side)?)))
    }

    /// All points of all nodes at the begin, and the border around them.
    pub fn whole(&self, seed: u64) -> Field {
        let (rows, columns) = (self.rows as usize * self.side, self.columns as usize * self.side);
        let mut field = Field::new(Shape { rows, columns });
        let random = RandomStream::new(seed, 0);
        let value = |i| (random.word(i) >> 40) as f32 / (1 << 24) as f32;
        (0..).zip(&mut field.points).for_each(|(i, point)| *point = value(i));
        field
    }

    /// A node's points of all, and the border around them.
    pub fn part(&self, whole: &Field, node: u32) -> Field {
        let (row, column) = (node / self.columns, node % self.columns);
        let (row, column) = (row as usize * self.side, column as usize * self.side);
        let mut part = Field::new(self.shape());
        for r in 0..self.side + 2 {
            let (from, to) = (whole.shape.at(row + r, column), part.shape.at(r, 0));
            part.points[to..to + self.side + 2].copy_from_slice(&whole.points[from..from + self.side + 2]);
        }
        part
    }
}

/// Rows and columns of points; a border of one lies around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    rows: usize,
    columns: usize,
}

impl Shape {
    /// The place of a point; 0, and one more than there are, is the border.
    pub fn at(self, row: usize, column: usize) -> usize {
        row * (self.columns + 2) + column
    }

    /// Points, and the border.
    pub fn len(self) -> usize {
        (self.rows + 2) * (self.columns + 2)
    }

    /// Places of the points beside one side: the last ones, or with `border` those beyond.
    pub fn edge(self, side: u32, border: bool) -> impl Iterator<Item = usize> {
        let (out, width) = (usize::from(border), self.columns + 2);
        let (start, step, count) = match side {
            BENCH_JACOBI_NORTH => (self.at(1 - out, 1), 1, self.columns),
            BENCH_JACOBI_SOUTH => (self.at(self.rows + out, 1), 1, self.columns),
            BENCH_JACOBI_WEST => (self.at(1, 1 - out), width, self.rows),
            _ => (self.at(1, self.columns + out), width, self.rows),
        };
        (0..count).map(move |i| start + i * step)
    }

    /// The points of a row without the border.
    pub fn inner(self, row: usize) -> Range<usize> {
        self.at(row, 1)..self.at(row, self.columns + 1)
    }
}

/// Points in rows, with a border.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub shape: Shape,
    pub points: Vec<f32>,
}

impl Field {
    fn new(shape: Shape) -> Field {
        Field { shape, points: vec![0.0; shape.len()] }
    }

    /// After so many iterations.
    pub fn relaxed(self, iterations: u64) -> Field {
        let Field { shape, points } = self;
        let (mut now, mut next) = (points.clone(), points);
        for _ in 0..iterations {
            let inner = shape.at(1, 0)..shape.at(shape.rows + 1, 0);
            relax(&now, &mut next[inner], shape, 1..shape.rows + 1);
            std::mem::swap(&mut now, &mut next);
        }
        Field { shape, points: now }
    }

    /// The same with other values but the border's.
    pub fn poisoned(mut self) -> Field {
        for row in 1..=self.shape.rows {
            self.points[self.shape.inner(row)].fill(f32::NAN);
        }
        self
    }
}

/// Floats as they lie in memory.
pub(crate) fn bytes<'a>(floats: impl IntoIterator<Item = &'a f32>) -> Vec<u8> {
    let floats = floats.into_iter();
    let mut bytes = Vec::with_capacity(4 * floats.size_hint().0);
    floats.for_each(|float| bytes.extend_from_slice(&float.to_le_bytes()));
    bytes
}

/// The next values of some rows, `next`, from all points. The order of the additions is the kernel's.
pub(crate) fn relax(now: &[f32], next: &mut [f32], shape: Shape, rows: Range<usize>) {
    let width = shape.columns + 2;
    for (row, next) in rows.zip(next.chunks_exact_mut(width)) {
        let line = |row: usize| &now[row * width..(row + 1) * width];
        let (above, here, below) = (line(row - 1), line(row), line(row + 1));
        for column in 1..width - 1 {
            next[column] = 0.25 * (above[column] + below[column] + here[column - 1] + here[column + 1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_as_square_as_the_number_of_nodes_allows() {
        let shape = |nodes| (Grid::new(4, nodes).rows, Grid::new(4, nodes).columns);
        assert_eq!([2, 3, 4, 6, 9, 12].map(shape), [(1, 2), (1, 3), (2, 2), (2, 3), (3, 3), (3, 4)]);
        let grid = Grid::new(4, 6);
        assert_eq!(grid.neighbours(4).collect::<Vec<_>>(), [(0, 1), (2, 3), (3, 5)]);
    }

    #[test]
    fn an_iteration_takes_the_mean_of_four_and_leaves_the_border() {
        let whole = Grid::new(3, 2).whole(1);
        let next = whole.clone().relaxed(1);
        let value = |row, column| whole.points[whole.shape.at(row, column)];
        let mean = 0.25 * (value(1, 4) + value(3, 4) + value(2, 3) + value(2, 5));
        assert_eq!(next.points[next.shape.at(2, 4)], mean);
        assert_eq!(next.points[..8], whole.points[..8]);
        assert_eq!(next.points[8 * 4..], whole.points[8 * 4..]);
    }

    #[test]
    fn parts_and_their_edges_are_those_of_the_whole() {
        let grid = Grid::new(3, 4);
        let whole = grid.whole(1);
        let parts: Vec<Field> = (0..4).map(|node| grid.part(&whole, node)).collect();
        for node in 0..4 {
            for (side, other) in grid.neighbours(node) {
                let (own, theirs) = (&parts[node as usize], &parts[other as usize]);
                let beyond = own.shape.edge(side, true).map(|at| own.points[at]);
                let last = theirs.shape.edge(opposite(side), false).map(|at| theirs.points[at]);
                assert!(beyond.eq(last), "{node} {side}");
            }
        }
    }
}
