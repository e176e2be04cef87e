//! Why the program ends without success, and its exit code.

use crate::out::note;
use ggas_benches::BenchError;
use std::fmt;
use std::process::ExitCode;

/// An error with its exit code.
#[derive(Debug)]
pub enum Failure {
    /// A bad argument: exit code 2.
    Usage(String),
    /// Wrong data, a failed call, missing hardware: exit code 1.
    Failed(String),
    /// Something that was said already, by a process that this one started or beside it; with its exit code.
    Said(i32),
    /// Who read our output has gone away: nothing to say, no error.
    ReaderGone,
}

impl Failure {
    /// Says it on standard error.
    pub fn report(self) -> ExitCode {
        let (text, code) = match self {
            Failure::ReaderGone => return ExitCode::SUCCESS,
            Failure::Said(code) => return ExitCode::from(u8::try_from(code).unwrap_or(1)),
            Failure::Usage(text) => (text, 2),
            Failure::Failed(text) => (text, 1),
        };
        note(&format!("ggas: {text}\n"));
        ExitCode::from(code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(text) | Failure::Failed(text) => f.write_str(text),
            Failure::Said(_) => f.write_str("see above"),
            Failure::ReaderGone => f.write_str("nobody reads the output"),
        }
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        let text = chain(&error);
        match error {
            BenchError::UnknownBench { .. } | BenchError::Option { .. } => Failure::Usage(text),
            _ => Failure::Failed(text),
        }
    }
}

/// An error and its causes, leaving out those that the text before already says.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
