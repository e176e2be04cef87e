//! What the stencil computes, and the host's own result, bit by bit.

use crate::RandomStream;

/// Of a point, and of its neighbours by faces, edges and corners. Their sum is 1, so that numbers stay what they are.
pub(super) const WEIGHTS: [f32; 4] = [0.4, 0.05, 0.02, 0.0075];

/// What is nowhere in a cube.
pub(super) const POISON: f32 = -1e30;

/// A cube of numbers whose outer points stay as they are, and what it is after some steps.
pub(super) struct Cube {
    pub side: usize,
    pub steps: u64,
    pub before: Vec<f32>,
    pub after: Vec<f32>,
}

impl Cube {
    pub fn new(side: usize, steps: u64, seed: u64) -> Cube {
        let random = RandomStream::new(seed, 0);
        let number = |i: usize| (random.word(i as u64) >> 40) as f32 / (1 << 24) as f32;
        let before: Vec<f32> = (0..side * side * side).map(number).collect();
        let (mut after, mut other) = (before.clone(), before.clone());
        for _ in 0..steps {
            step(side, &after, &mut other);
            std::mem::swap(&mut after, &mut other);
        }
        Cube { side, steps, before, after }
    }

    /// Numbers of a plane.
    pub fn plane(&self) -> usize {
        self.side * self.side
    }

    /// What these planes hold before they are computed: their outer points.
    pub fn poisoned(&self, planes: std::ops::Range<usize>) -> Vec<f32> {
        let side = self.side;
        let inner = 1..side - 1;
        let number = |i: usize| {
            let (z, y, x) = (i / self.plane(), i / side % side, i % side);
            let is_inner = inner.contains(&z) && inner.contains(&y) && inner.contains(&x);
            if is_inner { POISON } else { self.before[i] }
        };
        (planes.start * self.plane()..planes.end * self.plane()).map(number).collect()
    }
}

/// One step by all cores, sum by sum as `bench_hpe_stencil.cu` has it.
fn step(side: usize, from: &[f32], to: &mut [f32]) {
    let plane = side * side;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let share = side.div_ceil(cores);
    std::thread::scope(|scope| {
        for (part, planes) in to.chunks_mut(share * plane).enumerate() {
            scope.spawn(move || {
                for (i, to) in planes.chunks_mut(plane).enumerate() {
                    let z = part * share + i;
                    if (1..side - 1).contains(&z) {
                        let around = |z: usize| &from[z * plane..][..plane];
                        update(side, [around(z - 1), around(z), around(z + 1)], to);
                    }
                }
            });
        }
    });
}

/// Sums of a plane around a point: itself, the 4 beside it, the 4 at its corners.
fn around(plane: &[f32], at: usize, side: usize) -> [f32; 3] {
    let (before, behind) = (at - side, at + side);
    let cross = (plane[at - 1] + plane[at + 1]) + (plane[before] + plane[behind]);
    let corners = (plane[before - 1] + plane[before + 1]) + (plane[behind - 1] + plane[behind + 1]);
    [plane[at], cross, corners]
}

fn update(side: usize, from: [&[f32]; 3], to: &mut [f32]) {
    let [own, by_faces, by_edges, by_corners] = WEIGHTS;
    for y in 1..side - 1 {
        let row = y * side + 1..(y + 1) * side - 1;
        for (at, to) in row.clone().zip(&mut to[row]) {
            let [below, here, above] = from.map(|plane| around(plane, at, side));
            let faces = here[1] + (below[0] + above[0]);
            let edges = here[2] + (below[1] + above[1]);
            let corners = below[2] + above[2];
            *to = ((own * here[0] + by_faces * faces) + by_edges * edges) + by_corners * corners;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cube_of_equal_numbers_stays_and_a_point_spreads_by_the_weights() {
        let side = 5;
        let (mut from, mut to) = (vec![0.0; 125], vec![0.0; 125]);
        from[62] = 1.0; // the middle
        step(side, &from, &mut to);
        assert_eq!([to[62], to[63], to[62 - 25], to[62 + 5 + 1], to[62 + 25 + 5 + 1]], {
            let [own, face, edge, corner] = WEIGHTS;
            [own, face, face, edge, corner]
        });
        let sum: f32 = to.iter().sum();
        assert!((sum - 1.0).abs() < 1e-5, "{sum}");
        assert_eq!(to[0], 0.0, "outer points stay");
    }

    #[test]
    fn planes_that_are_to_be_computed_hold_no_result() {
        let cube = Cube::new(4, 1, 1);
        let poisoned = cube.poisoned(0..4);
        assert_eq!(poisoned.iter().filter(|number| **number == POISON).count(), 8);
        assert_eq!(poisoned[..16], cube.before[..16]);
        assert_ne!(cube.after, cube.before);
    }
}
