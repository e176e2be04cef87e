//! Volumes between ranks and costs between places as dense matrices: what is searched.

use crate::{MapError, Metric, Pattern, Topology};

/// A quadratic assignment: as many "ranks" as places, those that the pattern does not have being silent.
pub(crate) struct Problem {
    /// Ranks and places.
    pub size: usize,
    /// Symmetric, 0 on the diagonal.
    pub volume: Vec<f64>,
    /// Symmetric, 0 on the diagonal.
    pub cost: Vec<f64>,
}

impl Problem {
    pub fn new(topology: &Topology, pattern: &Pattern, metric: Metric) -> Result<Problem, MapError> {
        let weights = metric.weights(topology)?;
        Problem::with_costs(topology, pattern, |level| 1.0 / weights[level])
    }

    /// `cost` of each level.
    pub fn with_costs(
        topology: &Topology,
        pattern: &Pattern,
        cost: impl Fn(usize) -> f64,
    ) -> Result<Problem, MapError> {
        let (ranks, size) = (pattern.ranks(), topology.places());
        if ranks > size {
            return Err(MapError::Crowded { ranks, places: size, topology: topology.name().to_owned() });
        }
        let mut problem = Problem { size, volume: vec![0.0; size * size], cost: vec![0.0; size * size] };
        for one in 0..size {
            for other in (0..size).filter(|other| *other != one) {
                problem.cost[one * size + other] = cost(topology.level(one, other));
                if one < ranks && other < ranks {
                    problem.volume[one * size + other] = pattern.between(one, other);
                }
            }
        }
        Ok(problem)
    }

    pub fn volume_of(&self, rank: usize) -> &[f64] {
        &self.volume[rank * self.size..][..self.size]
    }

    pub fn cost_of(&self, place: usize) -> &[f64] {
        &self.cost[place * self.size..][..self.size]
    }

    /// Of all pairs.
    pub fn total(&self, place_of: &[usize]) -> f64 {
        let of = |one: usize| {
            let (volumes, costs) = (self.volume_of(one), self.cost_of(place_of[one]));
            (0..one).map(|other| volumes[other] * costs[place_of[other]]).sum::<f64>()
        };
        (0..self.size).map(of).sum()
    }

    /// What changes when two ranks change places.
    pub fn swap_gain(&self, place_of: &[usize], one: usize, other: usize) -> f64 {
        let (va, vb) = (self.volume_of(one), self.volume_of(other));
        let (ca, cb) = (self.cost_of(place_of[one]), self.cost_of(place_of[other]));
        let mut gain = 0.0;
        for (rank, place) in place_of.iter().enumerate() {
            gain += (va[rank] - vb[rank]) * (ca[*place] - cb[*place]);
        }
        // What the two send each other goes between the same places as before: the sum must not have it.
        let between = va[other] * ca[place_of[other]];
        gain - 2.0 * between
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Random volumes, a share of them 0, on places of random levels.
    pub fn random(rng: &mut fastrand::Rng, ranks: usize, places: usize) -> (Topology, Pattern) {
        let channel = |level: usize| crate::Channel {
            name: level.to_string(),
            latency_us: Some(1.0 + level as f64),
            gbytes_per_s: Some(40.0 / (1.0 + level as f64)),
        };
        let levels = rng.usize(1..=5);
        let pairs: Vec<(usize, usize)> =
            (0..places).flat_map(|one| (0..one).map(move |other| (one, other))).collect();
        let mut rows = vec![vec![0; places]; places];
        for (one, other) in pairs {
            let level = rng.u8(0..levels as u8);
            (rows[one][other], rows[other][one]) = (level, level);
        }
        let names = (0..places).map(|place| place.to_string()).collect();
        let channels = (0..levels).map(channel).collect();
        let topology = Topology::new("random".to_owned(), names, channels, &rows).expect("it makes sense");
        let mut pattern = Pattern::new(ranks).expect("a few");
        let silent = rng.f64();
        for from in 0..ranks {
            for to in (0..ranks).filter(|to| *to != from) {
                if rng.f64() > silent {
                    pattern.add(from, to, rng.u64(1..1000));
                }
            }
        }
        (topology, pattern)
    }

    #[test]
    fn a_swap_changes_what_it_says() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..200 {
            let (topology, pattern) = random(&mut rng, 7, 9);
            let problem = Problem::new(&topology, &pattern, Metric::Bandwidth).expect("it fits");
            let mut place_of: Vec<usize> = (0..9).collect();
            rng.shuffle(&mut place_of);
            let before = problem.total(&place_of);
            let one = rng.usize(0..9);
            let other = (one + rng.usize(1..9)) % 9;
            let gain = problem.swap_gain(&place_of, one, other);
            place_of.swap(one, other);
            let after = problem.total(&place_of);
            assert!((before - gain - after).abs() < 1e-6 * before.max(1.0), "{before} {gain} {after}");
        }
    }
}
