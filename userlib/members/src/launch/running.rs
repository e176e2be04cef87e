//! [`Running`]: a job that was started, and what its threads share.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::unistd::pipe2;

use super::{Exit, Launch, LaunchError, Outcome, Plan, Stream, guard, supervise};
use crate::network::Kept;
use crate::shape::{NetworkShape, Shape};
use crate::{place, quiet, seat};

/// A job that was started. Dropping it kills the processes that still run.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    kick: OwnedFd,
    thread: Option<JoinHandle<Outcome>>,
}

/// What the launch's threads share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) ranks: Vec<Rank>,
    /// Ranks that [`Running::end`] was called for.
    pub(super) ended: Vec<u32>,
    /// Output that the launcher could not write: where to, and why.
    pub(super) unwritten: Option<(Stream, Errno)>,
    /// [`Running`] is gone.
    pub(super) abandoned: bool,
}

#[derive(Debug)]
pub(super) struct Rank {
    /// Its guard.
    pub(super) child: Child,
    /// The program's id.
    pub(super) program: u32,
    pub(super) exit: Option<Exit>,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a process is over; its guard has killed what it left.
    pub(super) fn reap(&self, rank: u32) -> io::Result<Option<Exit>> {
        let mut state = self.state();
        let Some(process) = state.ranks.get_mut(rank as usize) else { return Ok(None) };
        process.exit = process.child.try_wait()?.map(Exit::from);
        let exit = process.exit;
        self.changed.notify_all();
        Ok(exit)
    }
}

impl State {
    /// Sends a signal to a process and all that it started in its group, or SIGKILL to all that it started; not to one
    /// that is over, whose id may be another's.
    pub(super) fn signal(&self, rank: u32, signal: Signal) -> io::Result<()> {
        match self.ranks.get(rank as usize) {
            Some(Rank { child, exit: None, .. }) => guard::signal(child.id(), signal),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Ranks that still run.
    pub(super) fn running(&self) -> Vec<u32> {
        (0..).zip(&self.ranks).filter(|(_, process)| process.exit.is_none()).map(|(rank, _)| rank).collect()
    }
}

pub(super) fn spawn(launch: Launch, shape: Shape) -> Result<Running, LaunchError> {
    let join_timeout = launch.join_timeout_or_default()?;
    let name = launch.part.as_ref().map_or_else(seat::private_name, |part| part.job.clone());
    let network = format!("{}{name}", place::JOB_PREFIX);
    let kept = Kept::make(&network, &NetworkShape::of_job(shape))?;
    let plan = Plan { launch, shape, join_timeout, name, kept };
    let shared = Arc::new(Shared::default());
    let (kicked, kick) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)
        .map_err(|errno| LaunchError::System { what: "make a pipe", source: errno.into() })?;
    let (tell, started) = mpsc::channel();
    let to_share = shared.clone();
    // A thread of its own starts the processes and stays until they have ended: their guards end them with the
    // thread that forked those, as PR_SET_PDEATHSIG has it.
    let to_kick = kick.try_clone().map_err(LaunchError::system("copy a pipe"))?;
    let thread =
        quiet::spawn("ggas-launch", move || supervise::run(plan, &to_share, (kicked, to_kick), &tell))
            .map_err(LaunchError::system("start a thread"))?;
    match started.recv() {
        Ok(Ok(())) => Ok(Running { shared, kick, thread: Some(thread) }),
        Ok(Err(error)) => {
            let _ = thread.join();
            Err(error)
        }
        Err(_) => {
            Err(LaunchError::System { what: "start the processes", source: io::ErrorKind::Other.into() })
        }
    }
}

impl Running {
    /// Waits until all processes have ended: by themselves, at the launch's time-out, or after a failure and the
    /// launch's grace.
    pub fn wait(mut self) -> Outcome {
        self.join().unwrap_or_else(|| Outcome {
            exits: Vec::new(),
            first: 0,
            first_failure: None,
            broken: true,
            timed_out: None,
            ended: Vec::new(),
            killed: None,
            unwritten: None,
            captured: Vec::new(),
        })
    }

    /// The process id of a rank; where the rank's program runs as the child of a wrapper, the id of the wrapper.
    pub fn pid(&self, rank: u32) -> Option<u32> {
        self.shared.state().ranks.get(rank as usize).map(|process| process.program)
    }

    /// How a rank ended, if it has.
    pub fn exit(&self, rank: u32) -> Option<Exit> {
        self.shared.state().ranks.get(rank as usize)?.exit
    }

    /// Sends a signal to a rank's process group; `libc::SIGKILL` goes to all processes that the rank has started.
    ///
    /// # Errors
    /// `NotFound` if there is no such rank or it has ended; `InvalidInput` for no signal.
    pub fn kill(&self, rank: u32, signal: i32) -> io::Result<()> {
        let signal = Signal::try_from(signal).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        self.shared.state().signal(rank, signal)
    }

    /// Kills all processes that a rank has started; it counts as ended by the launcher, not as one that failed.
    ///
    /// # Errors
    /// `NotFound` if there is no such rank or it has ended.
    pub fn end(&self, rank: u32) -> io::Result<()> {
        let mut state = self.shared.state();
        state.signal(rank, Signal::SIGKILL)?;
        state.ended.push(rank);
        Ok(())
    }

    fn join(&mut self) -> Option<Outcome> {
        self.thread.take()?.join().ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.shared.state().abandoned = true;
            // A full pipe kicks as well.
            let _ = nix::unistd::write(&self.kick, &[0]);
            let _ = self.join();
        }
    }
}
