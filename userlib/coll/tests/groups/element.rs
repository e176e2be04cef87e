//! Element types of the kernels, as bit patterns, and what they must compute.

use ggas_selftest::args::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    Float,
    Double,
    Int32,
    Int64,
    Half,
    Bfloat16,
}

impl Element {
    pub const ALL: [Element; 6] =
        [Self::Float, Self::Double, Self::Int32, Self::Int64, Self::Half, Self::Bfloat16];

    pub fn code(self) -> u32 {
        match self {
            Self::Float => SELFTEST_FLOAT,
            Self::Double => SELFTEST_DOUBLE,
            Self::Int32 => SELFTEST_INT32,
            Self::Int64 => SELFTEST_INT64,
            Self::Half => SELFTEST_HALF,
            Self::Bfloat16 => SELFTEST_BFLOAT16,
        }
    }

    pub fn size(self) -> usize {
        match self {
            Self::Half | Self::Bfloat16 => 2,
            Self::Float | Self::Int32 => 4,
            Self::Double | Self::Int64 => 8,
        }
    }

    pub fn ops(self) -> &'static [u32] {
        let all = &[
            SELFTEST_SUM,
            SELFTEST_PROD,
            SELFTEST_MIN,
            SELFTEST_MAX,
            SELFTEST_AND,
            SELFTEST_OR,
            SELFTEST_XOR,
        ];
        if self.is_whole() { all } else { &all[..4] }
    }

    fn is_whole(self) -> bool {
        matches!(self, Self::Int32 | Self::Int64)
    }

    pub fn is_nan(self, bits: u64) -> bool {
        self.to_float(bits).is_nan()
    }

    /// The bytes of these elements.
    pub fn bytes(self, values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes().into_iter().take(self.size())).collect()
    }

    /// A small whole number: no order of up to 8 of them rounds.
    pub fn whole(self, op: u32, random: &mut fastrand::Rng) -> u64 {
        let value = if op == SELFTEST_PROD { random.i64(1..3) } else { random.i64(-15..16) };
        match self {
            Self::Int32 => u64::from(value as i32 as u32),
            Self::Int64 => value as u64,
            _ => self.of_float(value as f64),
        }
    }

    /// A number whose sums depend on their order.
    pub fn any(self, random: &mut fastrand::Rng) -> u64 {
        self.of_float((random.f64() - 0.5) * 1000.0)
    }

    /// `op` over them in order; elements of 16 bits in float, rounded once.
    pub fn reduce(self, op: u32, values: &[u64]) -> u64 {
        let reduced = values.iter().copied();
        match self {
            Self::Int64 => reduced.reduce(|a, b| whole(op, a as i64, b as i64) as u64).expect("a member"),
            Self::Int32 => {
                let narrow = |a: u64| i64::from(a as u32 as i32);
                reduced.reduce(|a, b| u64::from(whole(op, narrow(a), narrow(b)) as u32)).expect("a member")
            }
            Self::Double => {
                let all = reduced.map(f64::from_bits);
                all.reduce(|a, b| float(op, a, b)).expect("a member").to_bits()
            }
            _ => {
                let all = reduced.map(|bits| self.to_float(bits) as f32);
                // Rounded to float after each step: doubles hold sums and products of two floats well enough.
                let sum = all.reduce(|a, b| float(op, f64::from(a), f64::from(b)) as f32);
                self.of_float(f64::from(sum.expect("a member")))
            }
        }
    }

    fn to_float(self, bits: u64) -> f64 {
        match self {
            Self::Float => f64::from(f32::from_bits(bits as u32)),
            Self::Double => f64::from_bits(bits),
            Self::Bfloat16 => f64::from(f32::from_bits((bits as u32) << 16)),
            Self::Half => {
                let (exponent, fraction) = (bits >> 10 & 0x1f, (bits & 0x3ff) as f64);
                let value = match exponent {
                    0 => fraction * 2f64.powi(-24),
                    0x1f if fraction == 0.0 => f64::INFINITY,
                    0x1f => f64::NAN,
                    _ => (1024.0 + fraction) * 2f64.powi(exponent as i32 - 25),
                };
                if bits >> 15 == 1 { -value } else { value }
            }
            Self::Int32 | Self::Int64 => unreachable!("whole numbers"),
        }
    }

    /// To the nearest, ties to even.
    fn of_float(self, value: f64) -> u64 {
        match self {
            Self::Float => u64::from((value as f32).to_bits()),
            Self::Double => value.to_bits(),
            Self::Half => small_float(value, 10, 5),
            Self::Bfloat16 => small_float(value, 7, 8),
            Self::Int32 | Self::Int64 => unreachable!("whole numbers"),
        }
    }
}

fn whole(op: u32, a: i64, b: i64) -> i64 {
    match op {
        SELFTEST_SUM => a.wrapping_add(b),
        SELFTEST_PROD => a.wrapping_mul(b),
        SELFTEST_MIN => a.min(b),
        SELFTEST_MAX => a.max(b),
        SELFTEST_AND => a & b,
        SELFTEST_OR => a | b,
        _ => a ^ b,
    }
}

fn float(op: u32, a: f64, b: f64) -> f64 {
    match op {
        SELFTEST_SUM => a + b,
        SELFTEST_PROD => a * b,
        // As the kernels do: of two zeros the first.
        SELFTEST_MIN => {
            if b < a {
                b
            } else {
                a
            }
        }
        _ => {
            if a < b {
                b
            } else {
                a
            }
        }
    }
}

/// A binary floating-point number with so many bits of fraction and exponent.
fn small_float(value: f64, fraction_bits: u32, exponent_bits: u32) -> u64 {
    let sign = u64::from(value.is_sign_negative()) << (fraction_bits + exponent_bits);
    let (value, bias) = (value.abs(), (1 << (exponent_bits - 1)) - 1);
    let infinity = ((1_u64 << exponent_bits) - 1) << fraction_bits;
    if value.is_infinite() {
        return sign | infinity;
    }
    // The step between numbers of this size; subnormal numbers have that of the smallest normal ones.
    let exponent =
        if value == 0.0 { 1 - bias } else { ((value.to_bits() >> 52) as i32 - 1023).max(1 - bias) };
    let steps = (value / 2f64.powi(exponent - fraction_bits as i32)).round_ties_even() as u64;
    // A carry out of the fraction goes into the exponent, as it should.
    let bits = ((exponent + bias - 1) as u64) * (1 << fraction_bits) + steps;
    sign | bits.min(infinity)
}
