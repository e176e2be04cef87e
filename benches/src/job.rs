//! Processes that a benchmark starts by itself: what they are told, and what they say.

use std::time::Duration;

use ggas_members::launch::{Launch, Output, Signals, Stream};
use serde::{Deserialize, Serialize};

use crate::error::Doing;
use crate::{BenchError, gaspi, shared_gpu};

/// A job takes seconds; one that takes this long is ended.
const LIMIT: Duration = Duration::from_secs(240);

/// The hidden command by which `ggas` is a process of such a job, with the words of `Job::words` behind it.
pub const COMMAND: &str = "bench-part";

/// What a job is to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Name of the benchmark.
    pub bench: String,
    /// Times that are taken, each of so many operations.
    pub rounds: u32,
    /// Operations of a round.
    pub trips: u32,
    /// Seed of the data.
    pub seed: u64,
    /// Bytes or elements.
    pub sizes: Vec<u64>,
}

impl Job {
    /// As arguments of a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let numbers = [self.rounds.into(), self.trips.into(), self.seed];
        let numbers = numbers.iter().chain(&self.sizes).map(u64::to_string);
        std::iter::once(self.bench.clone()).chain(numbers).collect()
    }

    /// From such; `None`: they are none.
    pub fn of(words: &[String]) -> Option<Job> {
        let [bench, numbers @ ..] = words else { return None };
        let numbers: Vec<u64> = numbers.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let [rounds, trips, seed, sizes @ ..] = &numbers[..] else { return None };
        let count = |number: u64| u32::try_from(number).ok().filter(|count| *count > 0);
        Some(Job {
            bench: bench.clone(),
            rounds: count(*rounds)?,
            trips: count(*trips)?,
            seed: *seed,
            sizes: sizes.to_vec(),
        })
    }

    /// Runs it in processes of this program.
    ///
    /// # Errors
    /// They cannot be started, one of them failed, or what they print is none of our lines.
    pub(crate) fn run(&self, processes: u32) -> Result<Vec<Line>, BenchError> {
        let doing = || format!("running {} in {processes} processes", self.bench);
        let program = std::env::current_exe().doing_with(doing)?;
        let signals = Signals::catch().doing_with(doing)?;
        let launch = Launch::new(program).arg(COMMAND).args(self.words()).processes(processes);
        let launch = launch.output(Output::Capture).timeout(LIMIT).signals(signals);
        let outcome = launch.spawn().doing_with(doing)?.wait();
        if !outcome.is_success() {
            let said = |rank| String::from_utf8_lossy(outcome.output(rank, Stream::Err)).trim().to_owned();
            let said: Vec<String> = (0..processes).map(said).filter(|text| !text.is_empty()).collect();
            return Err(BenchError::Unsupported(format!("{}: {}", doing(), said.join("; "))));
        }
        lines(&String::from_utf8_lossy(outcome.output(0, Stream::Out)))
    }
}

/// A figure as a process of ours or a peer prints it: the format of `benches/peers`, and more of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub peer: String,
    pub bench: String,
    pub nodes: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elements: Option<u64>,
    /// Median of the rounds, in microseconds of one operation.
    pub value: f64,
    /// The fastest round.
    pub min: f64,
    /// Of `gaspi-post-work-wait`: the communication alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<f64>,
    /// Of `shared-gpu-*`: how copies were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<String>,
    /// Of our side of `shared-gpu-*`: operations that were timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<u64>,
    /// Bytes or elements that were wrong.
    #[serde(default)]
    pub errors: u64,
}

/// Is a process of a job that `ggas run`, or `Job::run`, has started.
///
/// # Errors
/// What failed.
pub fn part(job: &Job) -> Result<(), BenchError> {
    match job.bench.starts_with(shared_gpu::NAMES) {
        true => shared_gpu::part(job),
        false => gaspi::part(job),
    }
}

pub(crate) fn lines(text: &str) -> Result<Vec<Line>, BenchError> {
    let line = |line| {
        serde_json::from_str(line)
            .map_err(|error| BenchError::Unsupported(format!("no figure ({error}): {line}")))
    };
    text.lines().filter(|line| line.starts_with('{')).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_what_its_words_say() {
        let job = Job { bench: "gaspi-post".into(), rounds: 3, trips: 5, seed: 7, sizes: vec![8, 1 << 40] };
        assert_eq!(Job::of(&job.words()), Some(job.clone()));
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for bad in ["", "gaspi-post", "gaspi-post 1 2", "gaspi-post 0 1 1", "gaspi-post 1 1 1 -8"] {
            assert_eq!(Job::of(&words(bad)), None, "{bad}");
        }
        assert_eq!(Job::of(&words("gaspi-barrier 1 1 1")).map(|job| job.sizes), Some(Vec::new()));
    }

    #[test]
    fn lines_that_are_no_figures_are_told() {
        let text = "hello\n{\"peer\": \"P\", \"bench\": \"b\", \"nodes\": 2, \"value\": 1.5, \"min\": 1}\n";
        let line = &lines(text).unwrap()[0];
        assert_eq!((line.value, line.bytes, line.errors), (1.5, None, 0));
        assert!(lines("{\"peer\": 1}").is_err());
    }
}
