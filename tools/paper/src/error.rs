use extoll_sim::timed::{SystemError, TimedError};

/// Why a figure was not run.
#[derive(thiserror::Error)]
pub enum PaperError {
    /// No paper of that name.
    #[error("no paper is called `{name}`; there are: {known}")]
    UnknownPaper {
        /// The name asked for.
        name: String,
        /// All names, separated by commas.
        known: String,
    },
    /// No figure of that number.
    #[error("{paper} has no figure `{number}` that is built; there are: {known}")]
    UnknownFigure {
        /// The paper.
        paper: &'static str,
        /// The number asked for.
        number: String,
        /// All numbers, separated by commas.
        known: String,
    },
    /// Parameters of a system that are missing or make no sense.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A file of results lacks a row that the figure rests on.
    #[error("benches/results/{0} lacks a row: run the benchmark of its name again, and write its JSON there")]
    Kept(&'static str),
    /// The driver refused what the figure asked of it.
    #[error("the timed model: {0}")]
    Timed(#[from] TimedError),
    /// A mapping that cannot be.
    #[error(transparent)]
    Map(#[from] ggas_mapping::MapError),
}
ggas_errors::debug_as_display!(PaperError);
