use std::path::PathBuf;

/// Why there is no mapping.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// A file that cannot be read.
    #[error("{path}: {source}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A pattern that makes no sense.
    #[error("{origin}: {message}")]
    Pattern {
        /// File, and line where there is one.
        origin: String,
        /// What is wrong, and what to write.
        message: String,
    },
    /// A topology that makes no sense.
    #[error("{origin}: {message}")]
    Topology {
        /// The file, or where it was looked for.
        origin: String,
        /// What is wrong, and what to write.
        message: String,
    },
    /// A pattern has more ranks than there are places.
    #[error(
        "{} do not fit {} of {topology}: give a topology with more, or use fewer ranks", counted(*.ranks, "rank"), counted(*.places, "place")
    )]
    Crowded {
        /// Of the pattern.
        ranks: usize,
        /// Of the topology.
        places: usize,
        /// Its name.
        topology: String,
    },
    /// Patterns of one job that have not as many ranks.
    #[error("one pattern has {}, the other {other}: give both of the same job", counted(*.one, "rank"))]
    Unlike {
        /// Of one pattern.
        one: usize,
        /// Of the other.
        other: usize,
    },
    /// A device that the topology does not have.
    #[error("{topology} has no device `{name}`; it has {known}")]
    UnknownDevice {
        /// The name asked for.
        name: String,
        /// The topology.
        topology: String,
        /// Its devices.
        known: String,
    },
    /// A metric for which the channels were not measured.
    #[error(
        "the channel `{channel}` of {topology} has no {what}: measure it and write it into the topology's file, or use the metric \
         `distance`"
    )]
    Unmeasured {
        /// The channel.
        channel: String,
        /// The topology.
        topology: String,
        /// The entry.
        what: &'static str,
    },
    /// An exact search that would not end.
    #[error("an exact search among {places} places takes too long: the limit is {most}")]
    TooLarge {
        /// Of the topology.
        places: usize,
        /// Most of an exact search.
        most: usize,
    },
}
ggas_errors::debug_as_display!(MapError);

/// So many of what a word names.
pub fn counted(number: usize, word: &str) -> String {
    if number == 1 { format!("1 {word}") } else { format!("{number} {word}s") }
}

/// That there are so many.
pub(crate) fn there_are(number: usize, word: &str) -> String {
    format!("there {} {}", if number == 1 { "is" } else { "are" }, counted(number, word))
}
