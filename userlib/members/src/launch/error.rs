//! Why a job was not started.

use std::io;
use std::path::PathBuf;

use crate::JobError;

/// Errors of starting a job.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// So many processes do not make a job, or a setting is wrong.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The program cannot be started.
    #[error("{} cannot be started ({source}): {advice}", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// Why not.
        source: io::Error,
        /// What to do.
        advice: &'static str,
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

ggas_errors::debug_as_display!(LaunchError);

impl LaunchError {
    /// Exit code of a launcher that could start nothing, as shells have it: 127 if there is no such program, 126 if it
    /// cannot be executed; else 1.
    pub fn code(&self) -> i32 {
        let LaunchError::Program { source, .. } = self else { return 1 };
        match source.raw_os_error() {
            Some(libc::ENOENT) => 127,
            // Of the system, not of the program.
            Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE) => 1,
            _ => 126,
        }
    }

    pub(super) fn system(what: &'static str) -> impl Fn(io::Error) -> LaunchError {
        move |source| LaunchError::System { what, source }
    }
}
