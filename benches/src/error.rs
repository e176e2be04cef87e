use std::error::Error;
use std::time::Duration;

/// Why a benchmark did not run, or its result does not count.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// No benchmark of that name.
    #[error("no benchmark is called `{name}`; there are: {known}")]
    UnknownBench {
        /// The name asked for.
        name: String,
        /// All names, separated by commas.
        known: String,
    },
    /// An option does not fit this benchmark.
    #[error("--{option} {value}: {advice}")]
    Option {
        /// Name of the option, without dashes.
        option: &'static str,
        /// The value given.
        value: String,
        /// What would fit.
        advice: String,
    },
    /// This machine or this build cannot run it.
    #[error("{0}")]
    Unsupported(String),
    /// A call of the library failed.
    #[error("{doing}: {source}")]
    Library {
        /// What the benchmark was doing.
        doing: String,
        /// The library's own error.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Other processes of the run did not come to where all of them meet.
    #[error(
        "ranks {ranks:?} did not come in {waited:?}: they are stopped, or still busy with a row; if busy, give a longer \
         --timeout"
    )]
    Absent {
        /// Who is missing.
        ranks: Vec<u32>,
        /// How long was waited.
        waited: Duration,
    },
    /// The network answered a command of the benchmark with an error notification.
    #[error("a command was refused: {0}")]
    Refused(String),
    /// A kernel ended early, or a wait of it failed.
    #[error("kernel {kernel}: {reason}")]
    Kernel {
        /// Its name.
        kernel: String,
        /// What it reported.
        reason: String,
    },
    /// Data did not arrive as sent.
    #[error("{bench}: not verified ({errors} errors): {first}")]
    WrongData {
        /// The benchmark.
        bench: String,
        /// How many bytes, words or table entries were wrong.
        errors: u64,
        /// Where the first one was, and what stood there.
        first: String,
    },
    /// A peer gave no figures.
    #[error("no figures of peers from {path}: {reason}")]
    Peer {
        /// The file or program.
        path: String,
        /// Why not.
        reason: String,
    },
    /// The plot or the JSON could not be written.
    #[error("cannot write {0}")]
    Output(String),
    /// What was to be drawn cannot be.
    #[error("no result that `ggas bench --json` wrote: {0}")]
    NoReport(String),
}

impl BenchError {
    /// An option that does not fit.
    pub(crate) fn option(option: &'static str, value: impl ToString, advice: impl Into<String>) -> Self {
        Self::Option { option, value: value.to_string(), advice: advice.into() }
    }
}

/// Says what the benchmark was doing when a library call failed.
pub(crate) trait Doing<T>: Sized {
    fn doing(self, what: impl Into<String>) -> Result<T, BenchError> {
        self.doing_with(|| what.into())
    }

    /// Where saying it costs something.
    fn doing_with(self, what: impl FnOnce() -> String) -> Result<T, BenchError>;
}

impl<T, E: Error + Send + Sync + 'static> Doing<T> for Result<T, E> {
    fn doing_with(self, what: impl FnOnce() -> String) -> Result<T, BenchError> {
        self.map_err(|error| BenchError::Library { doing: what(), source: Box::new(error) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_library_says_what_and_why() {
        let failed: Result<(), _> = Err(std::io::Error::other("no room"));
        let error = failed.doing("opening a port").expect_err("failed");
        assert_eq!(error.to_string(), "opening a port: no room");
    }
}
