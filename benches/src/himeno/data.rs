//! What the arrays hold at first, as `bench_himeno_fill` writes it.

use super::Grid;

/// The data of a grid: the benchmark's own, in which all planes are alike but for the field, or by a seed, in which all
/// points differ, so that no mistake in a place goes unseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    pub whole: Grid,
    /// 0: the benchmark's own.
    pub seed: u64,
}

/// The number of the field among a point's values; those before are a0 to a3, b0 to b2, c0 to c2, bnd and wrk1.
const FIELD: usize = 12;

/// Least value, and what lies between it and the greatest one.
const RANGES: [(f32, f32); 13] = [
    (0.9, 0.2),
    (0.9, 0.2),
    (0.9, 0.2),
    (0.15, 0.02),
    (-0.05, 0.1),
    (-0.05, 0.1),
    (-0.05, 0.1),
    (0.9, 0.2),
    (0.9, 0.2),
    (0.9, 0.2),
    (0.0, 1.0),
    (0.0, 1.0),
    (0.0, 1.0),
];

const OWN: [f32; 12] = [1.0, 1.0, 1.0, 1.0 / 6.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0];

impl Data {
    /// The coefficients of a point.
    pub fn coefficients(&self, x: u32, y: u32, z: u32) -> [f32; 12] {
        if self.seed == 0 { OWN } else { std::array::from_fn(|which| self.varied(which, x, y, z)) }
    }

    /// The field at a point.
    pub fn field(&self, x: u32, y: u32, z: u32) -> f32 {
        if self.seed != 0 {
            return self.varied(FIELD, x, y, z);
        }
        let (z, last) = (u64::from(z), u64::from(self.whole.z - 1));
        (z * z) as f32 / (last * last) as f32
    }

    fn varied(&self, which: usize, x: u32, y: u32, z: u32) -> f32 {
        let point =
            (u64::from(z) * u64::from(self.whole.y) + u64::from(y)) * u64::from(self.whole.x) + u64::from(x);
        let (base, span) = RANGES[which];
        base + span * unit(self.seed, point * 16 + which as u64)
    }
}

/// Number `index` of a stream, from 0 up to 1 in steps of 2^-24 (SplitMix64).
fn unit(seed: u64, index: u64) -> f32 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 40) as f32 * (1.0 / 16_777_216.0)
}
