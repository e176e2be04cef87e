//! How good a channel is: the three metrics of the thesis (6.3.1), and what a mapping costs by them.

use crate::{MapError, Mapping, Pattern, Topology};

/// What the weight of a pair of places is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Latency of the farthest level over that of the pair.
    Latency,
    /// Bandwidth of the pair over that of the farthest level.
    Bandwidth,
    /// Number of levels less the pair's.
    Distance,
}

impl Metric {
    /// All three.
    pub const ALL: [Metric; 3] = [Metric::Latency, Metric::Bandwidth, Metric::Distance];

    /// On the command line.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Latency => "latency",
            Metric::Bandwidth => "bandwidth",
            Metric::Distance => "distance",
        }
    }

    /// The weight of each level, from the nearest on: higher is better, and the farthest has 1.
    ///
    /// # Errors
    /// [`MapError::Unmeasured`]
    pub fn weights(self, topology: &Topology) -> Result<Vec<f64>, MapError> {
        let channels = topology.channels();
        let measured = |what: &'static str, value: fn(&crate::Channel) -> Option<f64>| {
            let values = channels.iter().map(|channel| {
                value(channel).ok_or_else(|| MapError::Unmeasured {
                    channel: channel.name.clone(),
                    topology: topology.name().to_owned(),
                    what,
                })
            });
            values.collect::<Result<Vec<f64>, _>>()
        };
        let over = |values: Vec<f64>, weight: fn(f64, f64) -> f64| {
            let far = values.last().copied().unwrap_or(1.0);
            values.into_iter().map(|value| weight(value, far)).collect()
        };
        Ok(match self {
            Metric::Latency => over(measured("latency_us", |c| c.latency_us)?, |value, far| far / value),
            Metric::Bandwidth => {
                over(measured("gbytes_per_s", |c| c.gbytes_per_s)?, |value, far| value / far)
            }
            Metric::Distance => (0..channels.len()).map(|level| (channels.len() - level) as f64).collect(),
        })
    }

    /// What a mapping costs: the sum over all pairs of ranks of their bytes over the weight of their places. By the bandwidth
    /// it is the time of all transfers, one after the other, in units of the farthest channel's.
    ///
    /// # Errors
    /// [`MapError::Unmeasured`]; [`MapError::Unlike`] for the mapping of another pattern.
    pub fn cost(self, topology: &Topology, pattern: &Pattern, mapping: &Mapping) -> Result<f64, MapError> {
        let weights = self.weights(topology)?;
        mapping.must_be_of(pattern)?;
        let pairs = (0..pattern.ranks()).flat_map(|one| (0..one).map(move |other| (one, other)));
        let cost = |(one, other)| {
            pattern.between(one, other) / weights[topology.level(mapping.place(one), mapping.place(other))]
        };
        // The sum of nothing is -0.
        Ok(pairs.map(cost).sum::<f64>() + 0.0)
    }
}

impl std::str::FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Metric, String> {
        let known = Metric::ALL.map(Metric::name).join(", ");
        let found = Metric::ALL.into_iter().find(|metric| metric.name() == text);
        found.ok_or_else(|| format!("`{text}` is no metric: use one of {known}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thesis has the ratios of 6.4.2 only; the weights follow from them by its formulas.
    #[test]
    fn weights_of_the_thesis() {
        let helios = Topology::named("helios").expect("built in");
        let near = |metric: Metric, expected: [f64; 4]| {
            let weights = metric.weights(&helios).expect("measured");
            let close = weights.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.005);
            assert!(close && weights.len() == 4, "{metric:?}: {weights:?}");
        };
        near(Metric::Latency, [1.57, 1.554, 1.342, 1.0]);
        near(Metric::Bandwidth, [4.47, 1.81, 1.06, 1.0]);
        near(Metric::Distance, [4.0, 3.0, 2.0, 1.0]);
    }

    #[test]
    fn a_cost_is_the_sum_over_pairs() {
        let helios = Topology::named("helios").expect("built in");
        let pattern = Pattern::parse("0 3 0\n1 0 5\n0 0 9", "p").expect("3 ranks");
        let mapping = Mapping::of(vec![0, 1, 8]);
        // 3 + 1 bytes at level 0, 5 at level 3, and none of a rank with itself.
        assert_eq!(Metric::Distance.cost(&helios, &pattern, &mapping).expect("measured"), 4.0 / 4.0 + 5.0);
    }

    #[test]
    fn what_was_not_measured_is_named() {
        let pascal = Topology::named("pascal").expect("built in");
        let error = Metric::Latency.weights(&pascal).expect_err("no latencies").to_string();
        assert!(error.contains("`two NVLinks` of pascal has no latency_us"), "{error}");
        assert_eq!(Metric::Bandwidth.weights(&pascal).expect("measured"), [2.0, 1.0]);
        assert!("speed".parse::<Metric>().expect_err("unknown").contains("latency, bandwidth, distance"));
    }
}
