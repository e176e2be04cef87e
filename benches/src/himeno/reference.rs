//! The benchmark on the host: RIKEN's loop, term by term, with the sums that kernels make.

use std::num::NonZero;
use std::thread;

use super::parts::LANE;
use super::{Data, Grid, Parts};

/// Points of a tile, lanes of a warp, points of a lane: how kernels cut a row to add up its residuals.
const TILE: usize = 128;
const LANES: usize = 32;

const OMEGA: f32 = 0.8;

/// A field after some iterations.
pub(crate) struct Reference {
    /// All points, x first.
    pub field: Vec<f32>,
    /// The squared residuals of the last iteration, added up by planes.
    pub sums: Vec<f64>,
}

/// The residual of all planes: in the order of planes, so that it does not depend on who has which.
pub(crate) fn sum_of_planes(sums: &[f64]) -> f64 {
    sums.iter().sum()
}

impl Parts {
    /// Sums of planes of the whole grid from those of all nodes' own rows in their order: of tiles, or of lanes where a cut goes
    /// through tiles.
    pub fn sums_of_planes(&self, all: &[f64]) -> Vec<f64> {
        let Self { whole, own, .. } = *self;
        let lanes = self.sums_of_tile() > 1;
        let unit = if lanes { LANE } else { super::parts::TILE };
        let whole_row = whole.x.div_ceil(unit) as usize;
        let in_memory = (self.tiles() * self.sums_of_tile()) as usize;
        let used = own.x.div_ceil(unit) as usize;
        let mut sums = vec![0.0; whole_row * whole.y as usize * whole.z as usize];
        for (line, row) in all.chunks_exact(in_memory).enumerate() {
            let (line, node) = (line as u32 % (own.y * own.z), line as u32 / (own.y * own.z));
            let [x, y, z] = self.first(node);
            let (y, z) = (y + line % own.y, z + line / own.y);
            let at = (z as usize * whole.y as usize + y as usize) * whole_row + (x / unit) as usize;
            sums[at..at + used].copy_from_slice(&row[..used]);
        }
        let tile = |lanes: &[f64]| {
            let mut all = [0.0; LANES];
            all[..lanes.len()].copy_from_slice(lanes);
            sum_of_lanes(all)
        };
        let row = |row: &[f64], sum: f64| match lanes {
            true => row.chunks(LANES).fold(sum, |sum, lanes| sum + tile(lanes)),
            false => row.iter().fold(sum, |sum, next| sum + next),
        };
        let planes = sums.chunks_exact(whole_row * whole.y as usize);
        planes.map(|plane| plane.chunks_exact(whole_row).fold(0.0, |sum, line| row(line, sum))).collect()
    }
}

impl Reference {
    /// `iterations` from the first data on, by all cores.
    pub fn after(data: &Data, iterations: u64) -> Self {
        let Grid { x, y, z } = data.whole;
        let (row, plane) = (x as usize, x as usize * y as usize);
        let mut field = vec![0.0; plane * z as usize];
        for (line, row) in field.chunks_exact_mut(row).enumerate() {
            let (y, z) = (line as u32 % y, line as u32 / y);
            (0..).zip(row).for_each(|(x, p)| *p = data.field(x, y, z));
        }
        let mut next = field.clone();
        let mut sums = vec![0.0; z as usize];
        let inner = plane..next.len() - plane;
        let each = (z as usize - 2).div_ceil(thread::available_parallelism().map_or(1, NonZero::get));
        for _ in 0..iterations {
            thread::scope(|scope| {
                let last = z as usize - 1;
                let parts = next[inner.clone()].chunks_mut(each * plane).zip(sums[1..last].chunks_mut(each));
                for (part, (planes, sums)) in parts.enumerate() {
                    let from = &field;
                    scope.spawn(move || {
                        for (i, (out, sum)) in planes.chunks_exact_mut(plane).zip(sums).enumerate() {
                            *sum = one_plane(data, from, out, (1 + part * each + i) as u32);
                        }
                    });
                }
            });
            std::mem::swap(&mut field, &mut next);
        }
        Self { field, sums }
    }
}

/// Plane `z` of the next field, and the sum of its squared residuals.
fn one_plane(data: &Data, field: &[f32], out: &mut [f32], z: u32) -> f64 {
    let Grid { x, y, .. } = data.whole;
    let (row, plane) = (x as usize, x as usize * y as usize);
    let line = |z: u32, y: u32| {
        let at = z as usize * plane + y as usize * row;
        &field[at..at + row]
    };
    let rows = |z: u32, y: u32| [line(z, y - 1), line(z, y), line(z, y + 1)];
    let mut squares = vec![0.0; row];
    let mut sum = 0.0;
    for line in 1..y - 1 {
        let [up, mid, down] = [rows(z + 1, line), rows(z, line), rows(z - 1, line)];
        let out = &mut out[line as usize * row..][..row];
        for i in 1..row - 1 {
            let ss = residual([up, mid, down], &data.coefficients(i as u32, line, z), i);
            out[i] = mid[1][i] + OMEGA * ss;
            squares[i] = ss * ss;
        }
        for tile in squares.chunks(TILE) {
            sum += sum_of_tile(tile);
        }
    }
    sum
}

/// The residual of point `i` of the middle one of the rows [y - 1, y, y + 1] of planes [z + 1, z, z - 1].
#[inline]
fn residual([up, mid, down]: [[&[f32]; 3]; 3], c: &[f32; 12], i: usize) -> f32 {
    let mut s = c[0] * up[1][i] + c[1] * mid[2][i] + c[2] * mid[1][i + 1];
    s += c[4] * (up[2][i] - up[0][i] - down[2][i] + down[0][i]);
    s += c[5] * (mid[2][i + 1] - mid[0][i + 1] - mid[2][i - 1] + mid[0][i - 1]);
    s += c[6] * (up[1][i + 1] - down[1][i + 1] - up[1][i - 1] + down[1][i - 1]);
    s += c[7] * down[1][i];
    s += c[8] * mid[0][i];
    s += c[9] * mid[1][i - 1];
    s += c[11];
    (s * c[3] - mid[1][i]) * c[10]
}

/// As a warp adds: each lane its points, then lanes whose numbers differ in one bit, the highest first.
fn sum_of_tile(tile: &[f32]) -> f64 {
    let mut lanes = [0.0; LANES];
    for (lane, points) in lanes.iter_mut().zip(tile.chunks(TILE / LANES)) {
        points.iter().for_each(|square| *lane += f64::from(*square));
    }
    sum_of_lanes(lanes)
}

fn sum_of_lanes(mut lanes: [f64; LANES]) -> f64 {
    let mut step = LANES / 2;
    while step > 0 {
        for lane in 0..step {
            lanes[lane] += lanes[lane + step];
        }
        step /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_residual_falls_and_the_border_stays() {
        let whole = Grid { x: 33, y: 32, z: 65 };
        let data = Data { whole, seed: 0 };
        let residual = |iterations| sum_of_planes(&Reference::after(&data, iterations).sums);
        let [one, ten, hundred] = [1, 10, 100].map(residual);
        assert!(one > ten && ten > hundred && hundred > 0.0, "{one} {ten} {hundred}");
        let after = Reference::after(&data, 10);
        let plane = 33 * 32;
        assert!(after.field[..plane].iter().all(|p| *p == 0.0));
        assert!(after.field[64 * plane..].iter().all(|p| *p == 1.0));
        assert_eq!(after.field[30 * plane + 5], data.field(5, 0, 30));
    }

    #[test]
    fn residuals_are_those_of_a_plain_sum() {
        let data = Data { whole: Grid { x: 16, y: 12, z: 20 }, seed: 7 };
        let before = Reference::after(&data, 2);
        let after = Reference::after(&data, 3);
        // p' - p is omega times the residual, rounded.
        let steps = before.field.iter().zip(&after.field).map(|(old, new)| f64::from(new - old) / 0.8);
        let plain: f64 = steps.map(|ss| ss * ss).sum();
        let sum = sum_of_planes(&after.sums);
        assert!((plain - sum).abs() < 1e-4 * sum, "{plain} and {sum}");
    }
}
