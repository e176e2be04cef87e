//! Starts the processes of a job and ends them: the library behind `ggas run`.
//!
//! ```no_run
//! use std::time::Duration;
//! use ggas_members::launch::Launch;
//!
//! let job = Launch::new("./program").arg("--fast").processes(4).timeout(Duration::from_secs(60)).spawn()?;
//! let outcome = job.wait();
//! eprint!("{}", outcome.summary());
//! std::process::exit(outcome.code());
//! # Ok::<(), ggas_members::launch::LaunchError>(())
//! ```
//!
//! Each rank leads a process group of its own. When a rank ends, all processes that it started are killed, in every
//! group and session. When the launcher dies, for whatever reason, all ranks and all processes that they started are
//! killed. A *guard*, a small process beside each rank, does this.

mod ending;
mod error;
mod guard;
mod input;
mod outcome;
mod output;
mod program;
mod running;
mod signals;
mod start;
mod supervise;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::network::Kept;
use crate::shape::Shape;
pub use error::LaunchError;
pub use outcome::{Exit, Outcome};
pub use output::{LineFn, Output, Stream};
pub use running::Running;
pub use signals::Signals;

/// Where the processes' standard input comes from. It is rank 0's; the others read nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Input {
    /// Nothing, for rank 0 either.
    #[default]
    Null,
    /// The launcher's own. From a terminal, it is passed on as it is typed.
    Inherit,
}

/// Which cores the processes may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bind {
    /// The cores that the launcher may use.
    #[default]
    None,
    /// One core for each process, in turn.
    Cores,
}

/// The part of a job over hosts that is on this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The job's name, the same on all hosts.
    pub job: String,
    /// The first rank here; the others follow it.
    pub first: u32,
    /// Ranks of the whole job.
    pub size: u32,
}

/// A job to be started.
#[derive(Debug)]
pub struct Launch {
    program: OsString,
    args: Vec<OsString>,
    /// Rank 0's program and its arguments, where they are others.
    first: Option<(OsString, Vec<OsString>)>,
    envs: Vec<(OsString, Option<OsString>)>,
    dir: Option<PathBuf>,
    processes: u32,
    per_node: u32,
    timeout: Option<Duration>,
    join_timeout: Option<Duration>,
    grace: Option<Duration>,
    kill_after: Duration,
    input: Input,
    output: Output,
    bind: Bind,
    signals: Option<Signals>,
    part: Option<Part>,
}

impl Launch {
    /// One process of `program`, which is looked for in PATH if it has no slash.
    pub fn new(program: impl AsRef<OsStr>) -> Launch {
        Launch {
            program: program.as_ref().into(),
            args: Vec::new(),
            first: None,
            envs: Vec::new(),
            dir: None,
            processes: 1,
            per_node: 1,
            timeout: None,
            join_timeout: None,
            grace: Some(Duration::from_secs(5)),
            kill_after: Duration::from_secs(10),
            input: Input::default(),
            output: Output::Inherit,
            bind: Bind::default(),
            signals: None,
            part: None,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Launch {
        self.args.push(arg.as_ref().into());
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Launch {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().into()));
        self
    }

    /// Another program for rank 0, with arguments of its own.
    pub fn first<A: AsRef<OsStr>>(
        mut self,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = A>,
    ) -> Launch {
        let args = args.into_iter().map(|arg| arg.as_ref().into()).collect();
        self.first = Some((program.as_ref().into(), args));
        self
    }

    /// Sets a variable of the environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Launch {
        self.envs.push((name.as_ref().into(), Some(value.as_ref().into())));
        self
    }

    /// Takes a variable out of the environment.
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Launch {
        self.envs.push((name.as_ref().into(), None));
        self
    }

    /// Directory in which the processes begin.
    pub fn current_dir(mut self, dir: impl AsRef<Path>) -> Launch {
        self.dir = Some(dir.as_ref().into());
        self
    }

    /// Number of processes (default: 1).
    pub fn processes(mut self, processes: u32) -> Launch {
        self.processes = processes;
        self
    }

    /// Number of processes on each node (default: 1).
    pub fn per_node(mut self, per_node: u32) -> Launch {
        self.per_node = per_node;
        self
    }

    /// Ends the job after this time.
    pub fn timeout(mut self, timeout: Duration) -> Launch {
        self.timeout = Some(timeout);
        self
    }

    /// How long `Job::join` waits for all ranks (`GGAS_JOIN_TIMEOUT`, else 30 s).
    pub fn join_timeout(mut self, timeout: Duration) -> Launch {
        self.join_timeout = Some(timeout);
        self
    }

    /// Once a process has failed, the other processes have this long to end (5 s) before they get TERM.
    pub fn grace(mut self, grace: Duration) -> Launch {
        self.grace = Some(grace);
        self
    }

    /// Lets the others go on when a process has failed, for programs that outlive their peers.
    pub fn keep_going(mut self) -> Launch {
        self.grace = None;
        self
    }

    /// Processes that still run this long (10 s) after TERM, or after a forwarded INT, TERM, HUP or QUIT, are killed.
    pub fn kill_after(mut self, time: Duration) -> Launch {
        self.kill_after = time;
        self
    }

    /// Standard input of rank 0.
    pub fn input(mut self, input: Input) -> Launch {
        self.input = input;
        self
    }

    /// Where standard output and standard error of the processes go.
    pub fn output(mut self, output: Output) -> Launch {
        self.output = output;
        self
    }

    /// Which cores the processes may use.
    pub fn bind(mut self, bind: Bind) -> Launch {
        self.bind = bind;
        self
    }

    /// Passes these signals on to the processes.
    pub fn signals(mut self, signals: Signals) -> Launch {
        self.signals = Some(signals);
        self
    }

    /// The processes are part of a job over several hosts, whose ranks find each other by `GGAS_MEET` and `GGAS_SECRET`.
    pub fn part(mut self, part: Part) -> Launch {
        self.part = Some(part);
        self
    }

    /// Starts the processes.
    ///
    /// # Errors
    /// [`LaunchError`]; no process runs then.
    pub fn spawn(self) -> Result<Running, LaunchError> {
        let size = self.part.as_ref().map_or(self.processes, |part| {
            // One that is too large is refused by its size.
            part.size.max(part.first.saturating_add(self.processes))
        });
        let shape = crate::place::checked_shape(size, self.per_node)?;
        running::spawn(self, shape)
    }

    fn join_timeout_or_default(&self) -> Result<Duration, crate::JobError> {
        match self.join_timeout {
            Some(timeout) => Ok(timeout),
            None => crate::place::join_timeout(&|name| {
                let set = self.envs.iter().rev().find(|(key, _)| key == name);
                set.map_or_else(|| std::env::var_os(name), |(_, value)| value.clone())
            }),
        }
    }
}

/// A launch with everything checked.
struct Plan {
    launch: Launch,
    /// Of the whole job.
    shape: Shape,
    join_timeout: Duration,
    /// Name of the job, and its network, which stays as long as the launch.
    name: String,
    kept: Kept,
}

impl Plan {
    /// The rank of the first process.
    fn first(&self) -> u32 {
        self.launch.part.as_ref().map_or(0, |part| part.first)
    }
}
