//! What is iterated over, and what has to come out of it.

use super::{Data, Grid, Reference};
use crate::{Device, Options};

/// Updates of points by each core for which the field of the timed iterations is computed by the host, too.
const AFFORDABLE: u64 = 400_000_000;

/// The fields that iterations begin with, and those that they end with as the host computes them.
pub(crate) struct Problem {
    /// Timed ones.
    pub(crate) iterations: u64,
    pub(crate) tested: Data,
    /// After [`Problem::TESTED`] iterations.
    pub(crate) after_test: Reference,
    pub(crate) timed: Data,
    /// Where the host can afford it.
    pub(crate) after_timed: Option<Reference>,
}

impl Problem {
    /// Iterations of the test, on data of which all points differ: both fields are read and written.
    pub(crate) const TESTED: u64 = 3;

    pub(crate) fn new(whole: Grid, options: &Options) -> Problem {
        let usual = if options.device == Device::Gpu { 1000 } else { 10 };
        let iterations = options.iterations.unwrap_or(usual);
        let tested = Data { whole, seed: options.seed.max(1) };
        let timed = Data { whole, seed: 0 };
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let affordable = whole.points().saturating_mul(iterations) <= AFFORDABLE * cores;
        Problem {
            iterations,
            after_test: Reference::after(&tested, Problem::TESTED),
            tested,
            after_timed: affordable.then(|| Reference::after(&timed, iterations)),
            timed,
        }
    }
}
