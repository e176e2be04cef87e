//! What jobs need of PMIx, by which launchers (`mpirun`, `srun --mpi=pmix`) tell processes who they are and pass on what these
//! tell each other: a rank, how many there are, and one value of rank 0 for all.
//!
//! The library (`libpmix.so.2`, or the file that `GGAS_LIBPMIX` names) is opened when a launcher that speaks PMIx has started the
//! process, and never else. Where its headers were missing at the build, [`PmixError::NotBuilt`] says so.

use std::env;

#[cfg(pmix)]
mod library;

/// Variables that such launchers set.
const LAUNCHED: [&str; 2] = ["PMIX_RANK", "PMIX_NAMESPACE"];
/// Most bytes of a value.
pub const VALUE_MAX: usize = 4096;

/// Errors of a process that was started under PMIx.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PmixError {
    /// The headers were missing at the build.
    #[error(
        "this process was started under PMIx (mpirun, srun), and was built without it: apt-get install libpmix-dev pkg-config, \
         and build again; or start it by `ggas run --host`"
    )]
    NotBuilt,
    /// The library does not open.
    #[error(
        "PMIx does not open ({0}): apt-get install libpmix2, or name the launcher's own libpmix.so.2 with GGAS_LIBPMIX"
    )]
    Library(String),
    /// A call failed.
    #[error("PMIx: {what} failed with status {status}: see what the launcher says")]
    Call {
        /// Which.
        what: &'static str,
        /// PMIx's number.
        status: i32,
    },
    /// This process has begun with PMIx already.
    #[error("this process has joined its job under PMIx already: join once, and hand the Job on")]
    Twice,
}

ggas_errors::debug_as_display!(PmixError);

/// Whether a launcher that speaks PMIx has started this process.
pub fn is_launched() -> bool {
    LAUNCHED.iter().all(|name| env::var_os(name).is_some())
}

/// This process as one of those that the launcher started. One at a time; dropping it tells the launcher of a good end.
pub struct Session {
    rank: u32,
    size: u32,
    name: String,
    /// A fork's copy tells nobody.
    #[cfg_attr(not(pmix), allow(dead_code, reason = "there is no session then"))]
    process: u32,
}

impl Session {
    /// This process's number, from 0.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Processes of the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The launcher's name of the job.
    pub fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(not(pmix))]
impl Session {
    /// Begins.
    ///
    /// # Errors
    /// [`PmixError`].
    pub fn open() -> Result<Session, PmixError> {
        Err(PmixError::NotBuilt)
    }

    /// Everyone gets what rank 0 gives, at most [`VALUE_MAX`] bytes; `own` counts there only. Returns when all have called it.
    ///
    /// # Errors
    /// [`PmixError`].
    pub fn of_rank_0(&self, _key: &str, _own: &[u8]) -> Result<Vec<u8>, PmixError> {
        Err(PmixError::NotBuilt)
    }
}
