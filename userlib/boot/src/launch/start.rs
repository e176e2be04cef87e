//! Starting one process of a job.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{Resource, rlim_t, setrlimit};
use nix::sys::signal::SigSet;
use nix::unistd::{Pid, getpid, getppid};

use super::output::{Source, Stream, without_blocking};
use super::{Bind, Input, LaunchError, Output, Plan};
use crate::channel::Channel;
use crate::{env, pidfd};

/// A process that runs.
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) pidfd: OwnedFd,
    /// The launcher's end of its socket.
    pub(super) channel: Channel,
    pub(super) sources: Vec<Source>,
    /// Where input from a terminal is passed on to.
    pub(super) input: Option<OwnedFd>,
}

/// What is the same for all processes of a launch.
pub(super) struct Common {
    /// Limits of open files that they get, where the launcher has changed its own.
    pub(super) files: Option<(rlim_t, rlim_t)>,
    cores: Vec<usize>,
}

impl Common {
    pub(super) fn new(plan: &Plan, files: Option<(rlim_t, rlim_t)>) -> Result<Common, LaunchError> {
        let mut cores = Vec::new();
        if plan.launch.bind == Bind::Cores {
            let set = sched_getaffinity(Pid::from_raw(0)).map_err(|errno| LaunchError::System {
                what: "see which cores there are",
                source: errno.into(),
            })?;
            cores = (0..CpuSet::count()).filter(|core| set.is_set(*core) == Ok(true)).collect();
        }
        Ok(Common { files, cores })
    }
}

/// Starts `rank`. The calling thread must live as long as the process: the kernel kills it when that thread ends.
pub(super) fn start(plan: &Plan, common: &Common, rank: u32) -> Result<Started, LaunchError> {
    let launch = &plan.launch;
    let (ours, theirs) = Channel::pair().map_err(LaunchError::system("make a socket for a process"))?;
    let mut command = Command::new(&launch.program);
    command.args(&launch.args).process_group(0);
    for (name, value) in &launch.envs {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let socket = theirs.as_fd().as_raw_fd();
    command
        .env(env::RANK, rank.to_string())
        .env(env::SIZE, plan.shape.processes().to_string())
        .env(env::PER_NODE, plan.shape.per_node().to_string())
        .env(env::JOB_FD, socket.to_string())
        .env(env::JOIN_TIMEOUT, plan.join_timeout.as_secs_f64().to_string())
        .env_remove(env::JOB);
    if let Some(dir) = &launch.dir {
        command.current_dir(dir);
    }
    let from_terminal = rank == 0 && launch.input == Input::Inherit && io::stdin().is_terminal();
    command.stdin(match launch.input {
        Input::Inherit if from_terminal => Stdio::piped(),
        Input::Inherit if rank == 0 => Stdio::inherit(),
        _ => Stdio::null(),
    });
    let stream = || match launch.output {
        Output::Inherit => Stdio::inherit(),
        Output::Null => Stdio::null(),
        Output::Lines { .. } | Output::Capture | Output::Each(_) => Stdio::piped(),
    };
    command.stdout(stream()).stderr(stream());
    let core = (!common.cores.is_empty()).then(|| common.cores[rank as usize % common.cores.len()]);
    let (launcher, files) = (getpid(), common.files);
    // SAFETY: only system calls that are allowed between fork and exec; nothing is allocated or locked.
    unsafe { command.pre_exec(move || prepare(launcher, socket, files, core)) };
    let mut child = command
        .spawn()
        .map_err(|source| LaunchError::Program { program: launch.program.clone().into(), source })?;
    match keep(&mut child, rank) {
        Ok((pidfd, sources, input)) => Ok(Started { child, pidfd, channel: ours, sources, input }),
        Err(source) => {
            // Nobody else knows of it yet.
            let _ = child.kill();
            let _ = child.wait();
            Err(LaunchError::System { what: "watch a process", source })
        }
    }
}

/// In the child, before exec.
fn prepare(
    launcher: Pid,
    socket: RawFd,
    files: Option<(rlim_t, rlim_t)>,
    core: Option<usize>,
) -> io::Result<()> {
    // SAFETY: numbers only.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // It may have died before the call above.
    if getppid() != launcher {
        // SAFETY: ends the child without running anything of the launcher's.
        unsafe { libc::_exit(128 + libc::SIGKILL) };
    }
    // SAFETY: its own socket passes through exec; all others close.
    if unsafe { libc::fcntl(socket, libc::F_SETFD, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // The thread that forks handles no signals; its children do.
    SigSet::empty().thread_set_mask()?;
    if let Some((soft, hard)) = files {
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?;
    }
    if let Some(core) = core {
        let mut set = CpuSet::new();
        set.set(core)?;
        sched_setaffinity(Pid::from_raw(0), &set)?;
    }
    Ok(())
}

type Kept = (OwnedFd, Vec<Source>, Option<OwnedFd>);

/// The launcher's ends of everything.
fn keep(child: &mut Child, rank: u32) -> io::Result<Kept> {
    // Our child, not waited for: its id is its own.
    let pidfd = pidfd::open(child.id())?;
    let out = child.stdout.take().map(|pipe| (Stream::Out, OwnedFd::from(pipe)));
    let err = child.stderr.take().map(|pipe| (Stream::Err, OwnedFd::from(pipe)));
    let sources = out.into_iter().chain(err);
    let sources = sources
        .map(|(stream, pipe)| Ok(Source::new(rank, stream, without_blocking(pipe)?)))
        .collect::<io::Result<_>>()?;
    let input = child.stdin.take().map(|pipe| without_blocking(pipe.into())).transpose()?;
    Ok((pidfd, sources, input))
}
