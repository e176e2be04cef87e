//! What jobs need of PMIx, by which launchers (`mpirun`, `srun --mpi=pmix`) tell processes who they are and pass on what these
//! tell each other: a rank, how many there are, and one value of rank 0 for all. `mpiexec` of MPICH speaks the first version of PMI instead,
//! which needs no library.
//!
//! PMIx's library (`libpmix.so.2`, or the file that `GGAS_LIBPMIX` names) is opened when a launcher that speaks PMIx has started the
//! process, and never else. Where its headers were missing at the build, [`PmixError::NotBuilt`] says so.

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[cfg(pmix)]
mod library;
mod pmi;

/// Variables that launchers set which speak PMIx.
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
    /// A launcher that speaks PMI says something else, or nothing.
    #[error(
        "PMI, by which mpiexec of MPICH starts jobs: {what}: {why}. The socket that PMI_FD names has to come to the program as the launcher \
         opened it; `ggas run --host` needs none"
    )]
    Pmi {
        /// What was asked, or the variable.
        what: &'static str,
        /// What went wrong.
        why: String,
    },
    /// This process has begun already.
    #[error("this process has joined its job under this launcher already: join once, and hand the Job on")]
    Twice,
}

ggas_errors::debug_as_display!(PmixError);

/// Whether a launcher that speaks PMIx, or PMI, has started this process.
pub fn is_launched() -> bool {
    speaks_pmix() || pmi::is_launched()
}

/// Slurm and others speak both.
fn speaks_pmix() -> bool {
    LAUNCHED.iter().all(|name| env::var_os(name).is_some())
}

/// There is one session at a time.
static OPEN: AtomicBool = AtomicBool::new(false);

/// This process as one of those that the launcher started. One at a time; dropping it tells a launcher that speaks PMIx of a good end.
#[derive(Debug)]
pub struct Session {
    told: pmi::Told,
    speaks_pmix: bool,
    /// A fork's copy tells nobody.
    process: u32,
}

impl Session {
    /// Begins.
    ///
    /// # Errors
    /// [`PmixError`].
    pub fn open() -> Result<Session, PmixError> {
        if OPEN.swap(true, Ordering::AcqRel) {
            return Err(PmixError::Twice);
        }
        let speaks_pmix = speaks_pmix();
        let told = if speaks_pmix { library::begin() } else { pmi::begin() };
        let told = told.inspect_err(|_| OPEN.store(false, Ordering::Release))?;
        Ok(Session { told, speaks_pmix, process: std::process::id() })
    }

    /// Everyone gets what rank 0 gives, at most [`VALUE_MAX`] bytes; `own` counts there only. Returns when all have called it; under PMI it
    /// fails where they have not within this time, while PMIx's fence has no limit.
    ///
    /// # Errors
    /// [`PmixError`].
    pub fn of_rank_0(&self, key: &str, own: &[u8], within: Duration) -> Result<Vec<u8>, PmixError> {
        match self.speaks_pmix {
            true => library::of_rank_0(&self.told, key, own),
            false => pmi::of_rank_0(&self.told, key, own, within),
        }
    }

    /// This process's number, from 0.
    pub fn rank(&self) -> u32 {
        self.told.rank
    }

    /// Processes of the job.
    pub fn size(&self) -> u32 {
        self.told.size
    }

    /// The launcher's name of the job.
    pub fn name(&self) -> &str {
        &self.told.name
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            if self.speaks_pmix {
                library::end();
            }
            OPEN.store(false, Ordering::Release);
        }
    }
}

/// Without PMIx's headers there is no session of it.
#[cfg(not(pmix))]
mod library {
    use crate::PmixError;
    use crate::pmi::Told;

    pub fn begin() -> Result<Told, PmixError> {
        Err(PmixError::NotBuilt)
    }

    pub fn of_rank_0(_told: &Told, _key: &str, _own: &[u8]) -> Result<Vec<u8>, PmixError> {
        Err(PmixError::NotBuilt)
    }

    pub fn end() {}
}
