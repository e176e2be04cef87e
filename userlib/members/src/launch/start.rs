//! Starting one process of a job.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use nix::fcntl::OFlag;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{Resource, rlim_t, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, pipe2};

use super::guard::{self, Birth};
use super::output::{Source, Stream, without_blocking};
use super::program::{Image, Program, Variables};
use super::{Bind, Input, LaunchError, Output, Plan};
use crate::{pidfd, place};

/// A process that runs.
pub(super) struct Started {
    /// Its guard, which ends as it does.
    pub(super) child: Child,
    /// Its own id.
    pub(super) program: u32,
    /// Of the guard.
    pub(super) pidfd: OwnedFd,
    pub(super) sources: Vec<Source>,
    /// Where input from a terminal is passed on to.
    pub(super) input: Option<OwnedFd>,
}

/// What is the same for all processes of a launch.
pub(super) struct Common {
    /// Limits of open files that they get, where the launcher has changed its own.
    pub(super) files: Option<(rlim_t, rlim_t)>,
    cores: Vec<usize>,
    program: Program,
    /// Rank 0's, where that has one of its own.
    first: Option<Program>,
    birth: Birth,
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
        let launch = &plan.launch;
        let program = Program::new(launch, &launch.program, &launch.args)?;
        let first = launch.first.as_ref().map(|(name, args)| Program::new(launch, name, args)).transpose()?;
        Ok(Common { files, cores, program, first, birth: Birth::new() })
    }

    fn program(&self, rank: u32) -> &Program {
        self.first.as_ref().filter(|_| rank == 0).unwrap_or(&self.program)
    }
}

/// Starts `rank`. The calling thread must live as long as the process: its guard ends it when that thread ends.
pub(super) fn start(plan: &Plan, common: &Common, rank: u32) -> Result<Started, LaunchError> {
    let (launch, program) = (&plan.launch, common.program(plan.first() + rank));
    let mut command = Command::new(&program.name);
    // The guard's. Keys of a terminal reach the launcher, not the guards.
    command.process_group(0);
    let image = program.image(launch, &variables(plan, rank))?;
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
    let (birth, files) = (common.birth, common.files);
    let (hear, tell) = pipe2(OFlag::O_CLOEXEC)
        .map_err(|errno| LaunchError::System { what: "make a pipe", source: errno.into() })?;
    let to_tell = tell.as_raw_fd();
    let become_program = move || {
        birth.split(to_tell)?;
        Err(prepare(&image, files, core).unwrap_or_else(|error| error))
    };
    // SAFETY: only system calls that are allowed between fork and exec; nothing is allocated or locked.
    unsafe { command.pre_exec(become_program) };
    let mut child = command.spawn().map_err(|source| program.failed(launch, source))?;
    drop(tell);
    match keep(&mut child, rank, hear) {
        Ok(Kept { program, pidfd, sources, input }) => Ok(Started { child, program, pidfd, sources, input }),
        Err(source) => {
            // Nobody else knows of it yet.
            let _ = guard::signal(child.id(), Signal::SIGKILL);
            let _ = child.wait();
            Err(LaunchError::System { what: "watch a process", source })
        }
    }
}

/// The variables that tell a process its place in the job.
fn variables(plan: &Plan, rank: u32) -> Variables {
    [
        (place::RANK, (plan.first() + rank).to_string()),
        (place::SIZE, plan.shape.processes().to_string()),
        (place::PER_NODE, plan.shape.per_node().to_string()),
        (place::JOB, plan.name.clone()),
        (place::JOIN_TIMEOUT, plan.join_timeout.as_secs_f64().to_string()),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .into()
}

/// In the guard's child: becomes the program, or says why not.
fn prepare(image: &Image, files: Option<(rlim_t, rlim_t)>, core: Option<usize>) -> io::Result<io::Error> {
    // The guard handles no signals; its child does.
    SigSet::empty().thread_set_mask()?;
    if let Some((soft, hard)) = files {
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?;
    }
    if let Some(core) = core {
        let mut set = CpuSet::new();
        set.set(core)?;
        sched_setaffinity(Pid::from_raw(0), &set)?;
    }
    Ok(image.execute())
}

/// The launcher's ends of everything.
struct Kept {
    program: u32,
    pidfd: OwnedFd,
    sources: Vec<Source>,
    input: Option<OwnedFd>,
}

fn keep(child: &mut Child, rank: u32, hear: OwnedFd) -> io::Result<Kept> {
    // Our child, not waited for: its id is its own.
    let pidfd = pidfd::open(child.id())?;
    let mut program = [0; 4];
    File::from(hear).read_exact(&mut program)?;
    let out = child.stdout.take().map(|pipe| (Stream::Out, OwnedFd::from(pipe)));
    let err = child.stderr.take().map(|pipe| (Stream::Err, OwnedFd::from(pipe)));
    let sources = out.into_iter().chain(err);
    let sources = sources
        .map(|(stream, pipe)| Ok(Source::new(rank, stream, without_blocking(pipe)?)))
        .collect::<io::Result<_>>()?;
    let input = child.stdin.take().map(|pipe| without_blocking(pipe.into())).transpose()?;
    Ok(Kept { program: u32::from_ne_bytes(program), pidfd, sources, input })
}
