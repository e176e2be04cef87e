//! What the FFT computes: the host's own result, bit by bit, and how far that is from one in double precision.

use std::f64::consts::TAU;

use crate::RandomStream;

/// A complex number, as kernels have it.
pub(super) type Number = [f32; 2];

/// Numbers and their transform.
pub(super) struct Spectrum {
    pub before: Vec<Number>,
    /// exp(-2 pi i k / n), for k below n / 2.
    pub twiddles: Vec<Number>,
    /// In bit-reversed order, where decimation in frequency leaves it.
    pub after: Vec<Number>,
    /// Root of the mean squared difference from double precision, over that of the numbers.
    pub error: f64,
}

impl Spectrum {
    /// Of `points` random numbers, a power of two.
    pub fn new(points: usize, seed: u64) -> Spectrum {
        let random = RandomStream::new(seed, 0);
        let number = |i: usize| (random.word(i as u64) >> 40) as f32 / (1 << 23) as f32 - 1.0;
        let before: Vec<Number> = (0..points).map(|i| [number(2 * i), number(2 * i + 1)]).collect();
        let exact: Vec<[f64; 2]> = (0..points / 2).map(|k| twiddle(k, points)).collect();
        let twiddles: Vec<Number> = exact.iter().map(|w| w.map(|part| part as f32)).collect();
        let mut after = before.clone();
        transform(&mut after, &twiddles);
        let mut wanted: Vec<[f64; 2]> = before.iter().map(|x| x.map(f64::from)).collect();
        transform(&mut wanted, &exact);
        let error = distance(&after, &wanted);
        Spectrum { before, twiddles, after, error }
    }
}

fn twiddle(k: usize, points: usize) -> [f64; 2] {
    let angle = TAU * k as f64 / points as f64;
    [angle.cos(), -angle.sin()]
}

fn distance(seen: &[Number], wanted: &[[f64; 2]]) -> f64 {
    let squares = |x: [f64; 2]| x[0] * x[0] + x[1] * x[1];
    let far = |(seen, wanted): (&Number, &[f64; 2])| {
        squares([f64::from(seen[0]) - wanted[0], f64::from(seen[1]) - wanted[1]])
    };
    let all: f64 = seen.iter().zip(wanted).map(far).sum();
    (all / wanted.iter().map(|x| squares(*x)).sum::<f64>().max(f64::MIN_POSITIVE)).sqrt()
}

/// A number type whose operations round one by one.
trait Real:
    Copy + std::ops::Add<Output = Self> + std::ops::Sub<Output = Self> + std::ops::Mul<Output = Self>
{
}
impl Real for f32 {}
impl Real for f64 {}

/// Radix-2 decimation in frequency, product by product as `bench_hpe_fft.cu` has it.
fn transform<T: Real>(data: &mut [[T; 2]], twiddles: &[[T; 2]]) {
    let mut half = data.len() / 2;
    while half > 0 {
        let stride = data.len() / (2 * half);
        for block in data.chunks_mut(2 * half) {
            let (first, second) = block.split_at_mut(half);
            for (i, (a, b)) in first.iter_mut().zip(second).enumerate() {
                let (x, y, w) = (*a, *b, twiddles[i * stride]);
                let d = [x[0] - y[0], x[1] - y[1]];
                *a = [x[0] + y[0], x[1] + y[1]];
                *b = [d[0] * w[0] - d[1] * w[1], d[0] * w[1] + d[1] * w[0]];
            }
        }
        half /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transform_is_that_of_the_definition() {
        for bits in [1u32, 3, 6] {
            let points = 1usize << bits;
            let spectrum = Spectrum::new(points, 7);
            let coefficient = |k: usize| {
                let term = |(i, x): (usize, &Number)| {
                    let w = twiddle(i * k % points, points);
                    let x = x.map(f64::from);
                    [x[0] * w[0] - x[1] * w[1], x[0] * w[1] + x[1] * w[0]]
                };
                let terms = spectrum.before.iter().enumerate().map(term);
                terms.fold([0.0, 0.0], |sum, x| [sum[0] + x[0], sum[1] + x[1]])
            };
            let reversed = |i: usize| i.reverse_bits() >> (usize::BITS - bits);
            let wanted: Vec<_> = (0..points).map(|i| coefficient(reversed(i))).collect();
            assert!(distance(&spectrum.after, &wanted) < 1e-6, "{points} points");
            assert!(spectrum.error < 1e-6);
        }
    }
}
