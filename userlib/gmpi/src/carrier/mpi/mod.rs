//! An MPI library carries calls: Open MPI, MPICH and what is like them. It is opened at run time, by a shim that the library's
//! own mpicc compiles when it is first used, since MPI libraries share no binary interface. The daemon's thread makes all calls.

mod begin;
mod carry;
mod compile;
mod meet;
mod shim;
mod stage;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use ggas_clock::Clock;

use self::shim::{Shim, Told};
use self::stage::{Copied, Stage};
use super::{Comm, Place, Token, Type, Win};
use crate::memory::{Landed, Span};
use crate::{Class, GmpiError, Status};

/// When data goes through host memory on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Staging {
    /// Memory of a GPU, where the library does not take it.
    #[default]
    Needed,
    /// All, for tests.
    Always,
}

/// An operation, and copies that the library uses in place of kernels' memory.
struct Started {
    receives: bool,
    /// What arrives is stored, and nothing where it fails.
    fills: bool,
    /// Bytes that it has room for.
    room: u64,
    /// Where what arrives goes in the end.
    to: Option<Span>,
    from_copy: Copied,
    to_copy: Copied,
    /// What arrives is kept, not stored.
    keeps: bool,
    status: Status,
}

/// A window: its part is host memory where the library does not reach the kernels'.
struct Window {
    comm: Comm,
    parts: Vec<u64>,
}

/// Calls by an MPI library.
pub struct Mpi {
    shim: Shim,
    staging: Staging,
    takes_gpu: bool,
    /// Of attached memory, by its number: whether it is a GPU's that the library may not have, as one that opens IPC handles fails, or
    /// worse, where there is none.
    unshareable: Vec<bool>,
    stage: Stage,
    comms: Vec<Option<Place>>,
    windows: Vec<Option<Window>>,
    started: HashMap<Token, Started>,
    /// Sends that nobody will ask for, and from copies that live as long as they are under way.
    forgotten: VecDeque<Token>,
    landed: HashMap<Token, Landed>,
    /// Puts and gets that no flush has waited for.
    one_sided: Vec<(Win, u32, Token)>,
    flushed: HashMap<Token, Result<(), Class>>,
    next_flush: Token,
    /// Meetings of communicators that not all members came to in time.
    meetings: HashMap<Comm, Token>,
    timeout: Duration,
    clock: Clock,
}

/// Most requests of the library.
const MOST: usize = 16_384;

/// What is said of `MPI_ERR_WIN` where a window is made, or written or read.
const NO_WINDOW: &str = "the MPI library has no way to make or use a window between these processes (MPI_ERR_WIN, class 45): Open MPI 4.1 has none \
     between processes of a host with OMPI_MCA_btl_vader_single_copy_mechanism=none; set OMPI_MCA_osc=pt2pt, too, or do not set that \
     variable, or use our own messages (GGAS_GMPI=own, started by ggas run)";

/// Flushes are no requests of the library.
const FLUSH: Token = 1 << 63;

fn class(code: i32) -> Result<(), Class> {
    match u32::try_from(code) {
        Ok(0) => Ok(()),
        Ok(code) => Err(Class(code)),
        Err(_) => Err(Class::OTHER),
    }
}

fn status_of(told: Told) -> Status {
    Status { source: told.source, tag: told.tag, bytes: told.bytes.max(0) as u64, error: None }
}

/// Elements of a span.
fn count(bytes: usize, of: Type) -> Result<i32, Class> {
    i32::try_from(bytes / of.size().max(1)).map_err(|_| Class::COUNT)
}

/// A put, get or flush of a kernel, which gets the class alone, failed in the library: the host is told what to do.
fn say_why(class: Class) {
    match class {
        Class::WIN => tracing::error!("a kernel's put, get or flush failed: {NO_WINDOW}"),
        class => tracing::error!("a kernel's put, get or flush failed in the MPI library: {class}"),
    }
}

/// Variables that launchers of MPI libraries set.
const LAUNCHERS: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_FD", "PMIX_RANK"];

fn has_launcher() -> bool {
    LAUNCHERS.into_iter().any(|name| std::env::var_os(name).is_some())
}

impl Mpi {
    /// Whether a launcher of MPI programs started this process, and not `ggas run`.
    pub fn is_launched() -> bool {
        std::env::var_os("GGAS_RANK").is_none() && has_launcher()
    }

    /// Fails in one of several processes that `ggas run` has started: MPI's own launchers alone tell its library of the others, so each
    /// would go on as if it were the only one.
    ///
    /// # Errors
    /// [`GmpiError::Mpi`] says what to do.
    pub fn must_have_a_launcher() -> Result<(), GmpiError> {
        let ranks = std::env::var("GGAS_SIZE").ok().and_then(|size| size.parse::<u32>().ok()).unwrap_or(1);
        if ranks < 2 || has_launcher() {
            return Ok(());
        }
        Err(GmpiError::Mpi(format!(
            "GGAS_GMPI is mpi, but `ggas run` started this process, one of {ranks}, and an MPI library would take each for a job of its \
             own: start the program by mpirun, or leave GGAS_GMPI out (our own messages)"
        )))
    }

    /// Begins, in the thread that makes all calls: initializes MPI if the program has not.
    ///
    /// # Errors
    /// [`GmpiError::Mpi`] says what is missing: a library, `MPI_THREAD_MULTIPLE` where the program has initialized MPI itself.
    pub fn open(staging: Staging) -> Result<Mpi, GmpiError> {
        let shim = Shim::load(&compile::shim()?)?;
        let mut code = 0;
        // SAFETY: the text is written within its room.
        let why = Shim::text(|text, room| code = unsafe { (shim.open)(text, room) });
        if let Err(class) = class(code) {
            return Err(GmpiError::Mpi(if why.is_empty() {
                format!("MPI cannot be used: {class}")
            } else {
                why
            }));
        }
        // SAFETY: takes nothing.
        let takes_gpu = unsafe { (shim.takes_gpu)() } != 0;
        let mut mpi = Mpi {
            shim,
            staging,
            takes_gpu,
            unshareable: Vec::new(),
            stage: Stage::default(),
            comms: Vec::new(),
            windows: Vec::new(),
            started: HashMap::new(),
            forgotten: VecDeque::new(),
            landed: HashMap::new(),
            one_sided: Vec::new(),
            flushed: HashMap::new(),
            next_flush: FLUSH,
            meetings: HashMap::new(),
            timeout: Duration::from_secs(30),
            clock: Clock::real(),
        };
        mpi.note_comm(0)
            .and_then(|()| mpi.note_comm(1))
            .map_err(|class| mpi.failed("MPI_Comm_dup", class))?;
        Ok(mpi)
    }

    fn failed(&self, what: &'static str, class: Class) -> GmpiError {
        GmpiError::Failed { what, class }
    }

    fn place_of(&self, comm: Comm) -> Result<Place, Class> {
        self.comms.get(comm).copied().flatten().ok_or(Class::COMM)
    }

    /// An operation is over: what has arrived in a copy is kept, or goes to its place, `bytes` of a receive.
    fn arrive(
        &mut self,
        token: Token,
        started: Started,
        ended: Result<(), Class>,
        bytes: usize,
    ) -> Result<(), Class> {
        let Started { receives, fills, room, to, from_copy, to_copy, keeps, .. } = started;
        self.stage.give_back(from_copy);
        let Some(at) = to else { return Ok(()) };
        match to_copy {
            Copied::Own(mut came) if keeps => {
                match ended {
                    Ok(()) if receives => came.truncate(bytes),
                    Ok(()) | Err(Class::TRUNCATE) => {}
                    Err(_) => came.clear(),
                }
                if !came.is_empty() {
                    self.landed.insert(token, Landed { at, bytes: came });
                }
                Ok(())
            }
            // How much of a longer message a library leaves is its own matter.
            copied if fills && ended.is_err() => {
                self.stage.give_back(copied);
                Ok(())
            }
            copied => {
                let len = if receives { bytes } else { room as usize };
                self.stage.write(&copied, &at, len).map_err(|_| Class::INTERN)?;
                self.stage.give_back(copied);
                Ok(())
            }
        }
    }

    /// A member of the world.
    fn rank(&self, rank: u32) -> Result<i32, Class> {
        let size = self.place_of(0)?.size;
        if rank < size { Ok(rank as i32) } else { Err(Class::RANK) }
    }
}
