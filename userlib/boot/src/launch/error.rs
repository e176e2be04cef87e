//! Why a job was not started.

use std::io;
use std::path::PathBuf;

use crate::JobError;

/// Errors of starting a job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// So many processes do not make a job, or a setting is wrong.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The program cannot be started.
    #[error("{} cannot be started ({source}): {}", program.display(), advice(source))]
    Program {
        /// The program.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The limit of open files is too low for the launcher.
    #[error(
        "starting {processes} processes needs {needed} file descriptors, the limit is {limit}: `ulimit -n {needed}` \
         (the hard limit, `ulimit -Hn`, must allow it), or fewer processes"
    )]
    Descriptors {
        /// Processes asked for.
        processes: u32,
        /// Needed.
        needed: u64,
        /// The limit.
        limit: u64,
    },
    /// The system refused.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl LaunchError {
    pub(super) fn system(what: &'static str) -> impl Fn(io::Error) -> LaunchError {
        move |source| LaunchError::System { what, source }
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "give its path, such as ./program, or a name in PATH",
        io::ErrorKind::PermissionDenied => "make it executable (chmod +x)",
        io::ErrorKind::WouldBlock => "raise the limit on processes (ulimit -u), or start fewer",
        _ => "see whether it runs by itself",
    }
}
