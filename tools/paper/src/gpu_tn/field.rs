//! Values of a Jacobi relaxation: the mean of four neighbours, on a grid with a border that does not change.

/// A square grid and a border of one around it, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    side: usize,
    points: Vec<f32>,
}

/// Neighbours, in the order of [`Side::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    North,
    South,
    West,
    East,
}

impl Side {
    pub(super) const ALL: [Side; 4] = [Side::North, Side::South, Side::West, Side::East];

    pub(super) fn opposite(self) -> Side {
        match self {
            Side::North => Side::South,
            Side::South => Side::North,
            Side::West => Side::East,
            Side::East => Side::West,
        }
    }
}

impl Field {
    /// A grid of `side` x `side` points.
    pub(super) fn new(side: usize) -> Field {
        Field { side, points: vec![0.0; (side + 2) * (side + 2)] }
    }

    /// The place of a point; 0 and side + 1 are the border.
    fn at(&self, row: usize, column: usize) -> usize {
        row * (self.side + 2) + column
    }

    /// Any values, border included.
    pub(super) fn random(side: usize, seed: u64) -> Field {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut field = Field::new(side);
        field.points.fill_with(|| random.f32());
        field
    }

    /// Copies `side` x `side` points and the border around them from a larger field.
    pub(super) fn part(&self, side: usize, row: usize, column: usize) -> Field {
        let mut part = Field::new(side);
        for r in 0..side + 2 {
            let (from, to) = (self.at(row + r, column), part.at(r, 0));
            part.points[to..to + side + 2].copy_from_slice(&self.points[from..from + side + 2]);
        }
        part
    }

    /// The points without the border.
    pub(super) fn inner(&self) -> Vec<f32> {
        let row = |row: usize| &self.points[self.at(row, 1)..self.at(row, self.side + 1)];
        (1..=self.side).flat_map(row).copied().collect()
    }

    /// Writes rows (from 0) of the next iteration into `next`.
    pub(super) fn relax(&self, rows: std::ops::Range<usize>, next: &mut Field) {
        for row in rows.start + 1..rows.end + 1 {
            for column in 1..=self.side {
                let at = self.at(row, column);
                let (above, below) = (self.points[at - self.side - 2], self.points[at + self.side + 2]);
                next.points[at] = 0.25 * (above + below + self.points[at - 1] + self.points[at + 1]);
            }
        }
    }

    /// Places of the points next to a side: of the grid, or of the border.
    fn edge(&self, side: Side, border: bool) -> impl Iterator<Item = usize> + use<> {
        let (n, stride, out) = (self.side, self.side + 2, usize::from(border));
        let (start, step) = match side {
            Side::North => ((1 - out) * stride + 1, 1),
            Side::South => ((n + out) * stride + 1, 1),
            Side::West => (stride + 1 - out, stride),
            Side::East => (stride + n + out, stride),
        };
        (0..n).map(move |i| start + i * step)
    }

    /// Copies the edge of a neighbour, which lies at `side`, into the border.
    pub(super) fn take_edge(&mut self, side: Side, neighbour: &Field) {
        for (to, from) in self.edge(side, true).zip(neighbour.edge(side.opposite(), false)) {
            self.points[to] = neighbour.points[from];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_exchange_edges_are_the_whole() {
        let whole = [Field::random(8, 3), Field::random(8, 3)];
        let mut next = whole[0].clone();
        whole[0].relax(0..8, &mut next);
        let parts: Vec<Field> =
            [(0, 0), (0, 4), (4, 0), (4, 4)].map(|(r, c)| whole[1].part(4, r, c)).to_vec();
        let mut step: Vec<Field> = parts.clone();
        for (part, next) in parts.iter().zip(&mut step) {
            part.relax(0..2, next);
            part.relax(2..4, next);
        }
        assert_eq!(step[3].inner(), next.part(4, 4, 4).inner());
        // What the right neighbour of part 0 wrote is in part 0's border afterwards.
        let neighbours = step.clone();
        step[0].take_edge(Side::East, &neighbours[1]);
        step[0].take_edge(Side::South, &neighbours[2]);
        let mut expected = next.part(4, 0, 0);
        // Corners are read by nobody.
        let corner = expected.at(5, 5);
        expected.points[corner] = step[0].points[corner];
        assert_eq!(step[0], expected);
    }
}
