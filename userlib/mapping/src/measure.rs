//! How quick the channels of a topology are.

use std::time::Duration;

use crate::Topology;

/// Most pairs of places of which a channel's figures are the mean; of more these are chosen, spread over all.
const MOST_PAIRS: usize = 8;

/// Bytes of copies for latencies: 1 B to 2 KiB, as the thesis (6.3.1) has it.
const SHORT: std::ops::RangeInclusive<u32> = 0..=11;
/// Bytes of copies for rates: 2 KiB to 16 MiB.
const LONG: std::ops::RangeInclusive<u32> = 11..=24;

impl Topology {
    /// Most bytes of a copy that [`measured`](Self::measured) asks for.
    pub const LONGEST_COPY: u64 = 1 << *LONG.end();

    /// The same, with the figures of those channels over which any two places reach each other: the latency as the mean of copies of 1 B
    /// to 2 KiB, the rate as that of 2 KiB to 16 MiB (thesis 6.3.1), over up to eight pairs and both directions. `time` says how long a
    /// copy from one place to another takes that waits for the one before it.
    ///
    /// # Errors
    /// The first one of `time`.
    pub fn measured<E>(
        &self,
        mut time: impl FnMut(usize, usize, u64) -> Result<Duration, E>,
    ) -> Result<Topology, E> {
        let mut channels = self.channels().to_vec();
        for (level, channel) in channels.iter_mut().enumerate() {
            let pairs = spread(self.pairs_at(level));
            if pairs.is_empty() {
                continue;
            }
            let (mut latencies, mut rates) = (Mean::default(), Mean::default());
            for (from, to) in pairs.into_iter().flat_map(|(one, other)| [(one, other), (other, one)]) {
                for bytes in SHORT.map(|shift| 1 << shift) {
                    latencies.add(time(from, to, bytes)?.as_secs_f64() * 1e6);
                }
                for bytes in LONG.map(|shift| 1u64 << shift) {
                    // A clock that stood still: no rate is infinite.
                    let seconds = time(from, to, bytes)?.max(Duration::from_nanos(1)).as_secs_f64();
                    rates.add(bytes as f64 / seconds / 1e9);
                }
            }
            channel.latency_us = Some(latencies.value().max(1e-3));
            channel.gbytes_per_s = Some(rates.value());
        }
        Ok(self.with_channels(channels))
    }

    /// Those that reach each other over this channel.
    fn pairs_at(&self, level: usize) -> Vec<(usize, usize)> {
        let pairs =
            (0..self.places()).flat_map(|one| (one + 1..self.places()).map(move |other| (one, other)));
        pairs.filter(|(one, other)| self.level(*one, *other) == level).collect()
    }
}

fn spread(pairs: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    let count = pairs.len().min(MOST_PAIRS);
    (0..count).map(|at| pairs[at * pairs.len() / count]).collect()
}

#[derive(Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn value(&self) -> f64 {
        self.sum / f64::from(self.count.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metric;

    #[test]
    fn channels_get_the_figures_of_their_copies() {
        let helios = Topology::named("helios").expect("built in");
        let (mut copies, mut one_way) = (0, Vec::new());
        let time = |from: usize, to: usize, bytes: u64| -> Result<Duration, String> {
            copies += 1;
            one_way.push((from, to));
            let farther = 1.0 + helios.level(from, to) as f64;
            Ok(Duration::from_secs_f64(farther * 10e-6 + bytes as f64 * farther / 20e9))
        };
        let measured = helios.measured(time).expect("no copy fails");
        let figures: Vec<_> = measured.channels().iter().map(|channel| channel.latency_us.unwrap()).collect();
        for (level, latency) in figures.iter().enumerate() {
            let farther = 1.0 + level as f64;
            assert!((latency / (10.0 * farther) - 1.0).abs() < 0.01, "level {level}: {latency}");
        }
        let rates = Metric::Bandwidth.weights(&measured).expect("measured");
        assert!(rates.windows(2).all(|pair| pair[0] > pair[1]), "{rates:?}");
        assert!(copies <= helios.channels().len() * 2 * MOST_PAIRS * 26, "{copies} copies");
        assert!(one_way.iter().all(|(from, to)| one_way.contains(&(*to, *from))));
        assert_eq!(Topology::parse(&measured.text(), "text").expect("it reads what it writes"), measured);
    }

    #[test]
    fn nothing_is_said_of_what_nobody_uses_and_failures_end_it() {
        let pascal = Topology::named("pascal").expect("built in");
        let alone = pascal.only(&["0"]).expect("one of them");
        let alone = alone.measured(|_, _, _| -> Result<Duration, String> { Err("asked".to_owned()) });
        assert_eq!(alone.expect("nobody is asked").places(), 1);
        let failed = pascal.measured(|_, _, _| Err("lost"));
        assert_eq!(failed.expect_err("the first copy"), "lost");
    }
}
