use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Latency of one operation in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Fastest sample.
    pub min: f64,
    /// 50th percentile, nearest rank.
    pub median: f64,
    /// 99th percentile, nearest rank.
    pub p99: f64,
}

/// Times of one measurement. A sample is the mean over `batch` operations, so with `batch` above 1 the
/// percentiles are those of batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    ns: Vec<f64>,
    batch: u64,
}

impl Samples {
    /// Samples in nanoseconds per operation, each the mean of `batch` operations.
    pub fn new(ns_per_operation: Vec<f64>, batch: u64) -> Self {
        Self { ns: ns_per_operation, batch: batch.max(1) }
    }

    /// Operations timed together per sample.
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.ns.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ns.is_empty()
    }

    /// Minimum, median and 99th percentile; zeros if there are no samples.
    pub fn latency(&self) -> Latency {
        let mut sorted = self.ns.clone();
        sorted.sort_by(f64::total_cmp);
        Latency {
            min: percentile(&sorted, 0.0) / 1e3,
            median: percentile(&sorted, 50.0) / 1e3,
            p99: percentile(&sorted, 99.0) / 1e3,
        }
    }

    /// The samples of several runs with about the same batch.
    pub fn merged(runs: &[Self]) -> Self {
        let batch = runs.iter().map(Self::batch).max().unwrap_or(1);
        Self::new(runs.iter().flat_map(|run| run.ns.iter().copied()).collect(), batch)
    }

    /// Half of every sample: a one-way time from round trips.
    pub fn halved(mut self) -> Self {
        self.ns.iter_mut().for_each(|ns| *ns /= 2.0);
        self
    }

    /// Samples of calls that made `operations` operations each, per operation.
    pub fn divided(mut self, operations: u64) -> Self {
        self.ns.iter_mut().for_each(|ns| *ns /= operations as f64);
        self.batch *= operations;
        self
    }

    /// Operations per second over all samples; `None` without samples.
    pub fn rate_per_s(&self) -> Option<f64> {
        let total: f64 = self.ns.iter().sum();
        (total > 0.0).then(|| self.ns.len() as f64 * 1e9 / total)
    }
}

/// The nearest-rank percentile of sorted values: the smallest one that at least `percent` of the values
/// do not exceed.
fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// Cost of reading the clock, in nanoseconds: the smallest mean of several short loops.
pub(crate) fn clock_cost_ns() -> f64 {
    const READS: u32 = 64;
    (0..16)
        .map(|_| {
            let start = Instant::now();
            for _ in 1..READS {
                std::hint::black_box(Instant::now());
            }
            start.elapsed().as_nanos() as f64 / f64::from(READS)
        })
        .fold(f64::INFINITY, f64::min)
}

/// Calls of the warm-up, each of two times.
fn warm_up(iterations: u64) -> u64 {
    (iterations / 10).clamp(1, 1000)
}

/// How many calls [`time_calls`] makes: another process that takes part in each knows when it is done.
pub(crate) fn calls(iterations: u64) -> u64 {
    2 * warm_up(iterations) + iterations
}

/// Calls of a sample: so many that reading the clock takes no more than a fiftieth of it, and 20 samples are left.
fn batch(iterations: u64, ns_per_call: f64, clock_ns: f64) -> u64 {
    let wanted = (50.0 * clock_ns / ns_per_call.max(0.1)).ceil() as u64;
    wanted.clamp(1, (iterations / 20).max(1))
}

/// Calls `operation` exactly [`calls`] times and times about `iterations` of them: one call per sample, or several
/// where reading the clock would otherwise take more than a fiftieth of the sample.
/// `operation` gets the running number of the call, warm-up included.
pub(crate) fn time_calls<E>(
    iterations: u64,
    mut operation: impl FnMut(u64) -> Result<(), E>,
) -> Result<Samples, E> {
    let warm_up = warm_up(iterations);
    let mut call = 0;
    let mut timed = |calls: u64| -> Result<Duration, E> {
        let start = Instant::now();
        for _ in 0..calls {
            operation(call)?;
            call += 1;
        }
        Ok(start.elapsed())
    };
    // Whoever takes the processor away for a while does so in one of them; the first one may also be slower.
    let quicker = timed(warm_up)?.min(timed(warm_up)?);
    let batch = batch(iterations, quicker.as_nanos() as f64 / warm_up as f64, clock_cost_ns());
    let samples = iterations / batch;
    let mut ns = room_for(samples);
    for _ in 0..samples {
        ns.push(timed(batch)?.as_nanos() as f64 / batch as f64);
    }
    timed(iterations % batch)?;
    Ok(Samples::new(ns, batch))
}

/// Room for samples: of as many as a user likes, for the first ones.
pub(crate) fn room_for(samples: u64) -> Vec<f64> {
    Vec::with_capacity(samples.min(1 << 20) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_rank() {
        let samples = Samples::new((1..=200).rev().map(|n| f64::from(n) * 1000.0).collect(), 1);
        assert_eq!(samples.latency(), Latency { min: 1.0, median: 100.0, p99: 198.0 });
        let one = Samples::new(vec![5000.0], 1);
        assert_eq!(one.latency(), Latency { min: 5.0, median: 5.0, p99: 5.0 });
        assert_eq!(Samples::new(Vec::new(), 0).latency(), Latency::default());
    }

    #[test]
    fn an_outlier_moves_p99_only() {
        let mut ns = vec![1000.0; 50];
        ns.push(1e6);
        assert_eq!(Samples::new(ns, 1).latency(), Latency { min: 1.0, median: 1.0, p99: 1000.0 });
    }

    #[test]
    fn halves() {
        assert_eq!(Samples::new(vec![3000.0], 4).halved().latency().median, 1.5);
    }

    #[test]
    fn short_calls_are_batched() {
        assert_eq!(batch(10_000, 1.0, 6.0), 300);
        assert_eq!(batch(10_000, 300.0, 6.0), 1, "a fiftieth");
        assert_eq!(batch(10_000, 299.0, 6.0), 2);
        assert_eq!((batch(10_000, 0.0, 6.0), batch(10, 0.0, 6.0)), (500, 1), "20 samples, or all calls");
        // A processor that is taken away makes calls look long, but not again and again.
        let is_batched = || time_calls::<()>(10_000, |_| Ok(())).unwrap().batch() > 1;
        assert!((0..100).any(|_| is_batched()), "an empty call is below the clock's resolution");
    }

    #[test]
    fn calls_are_counted_whatever_their_batch() {
        let mut seen = Vec::new();
        let samples = time_calls::<()>(10_000, |n| {
            seen.push(n);
            Ok(())
        })
        .unwrap();
        assert_eq!(samples.len() as u64, 10_000 / samples.batch());
        assert!(seen.iter().enumerate().all(|(i, n)| i as u64 == *n));
        assert_eq!(seen.len() as u64, calls(10_000));
    }

    #[test]
    fn long_calls_are_samples_of_their_own() {
        let samples = time_calls::<()>(40, |_| {
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(50) {}
            Ok(())
        })
        .unwrap();
        assert_eq!((samples.batch(), samples.len()), (1, 40));
        assert!(samples.latency().min >= 50.0);
    }

    #[test]
    fn errors_stop_the_run() {
        let result = time_calls(100, |n| if n == 3 { Err("third") } else { Ok(()) });
        assert_eq!(result, Err("third"));
    }
}
