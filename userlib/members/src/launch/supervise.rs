//! The launcher's thread: starts the processes, and sleeps in `poll` until one ends, a signal comes, or time is over.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ggas_clock::Clock;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags};
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use nix::unistd::pipe2;

use super::ending::{Ending, is_end};
use super::output::{LossFn, Source};
use super::running::{Rank, Shared};
use super::start::{Common, Started, start};
use super::{Exit, LaunchError, Outcome, Plan, Signals, input, output};
use crate::channel::poll_until;
use crate::quiet;

/// Descriptors of the launcher for each process: pidfd, two pipes, and input.
const FDS_PER_PROCESS: u64 = 5;
const FDS_SPARE: u64 = 32;
/// After the time-out, or a signal that asks for the end: how long the last output waits for whoever reads it.
const READ_OUT: Duration = Duration::from_secs(2);

type Captured = Vec<[Vec<u8>; 2]>;

/// Runs the job. Says over `tell` whether it was started.
pub(super) fn run(
    plan: Plan,
    shared: &Arc<Shared>,
    (kicked, kick): (OwnedFd, OwnedFd),
    tell: &mpsc::Sender<Result<(), LaunchError>>,
) -> Outcome {
    let mut job = match begin(plan, shared, kicked, kick) {
        Ok(job) => job,
        Err(error) => {
            // Those that were started already.
            Ending::default().kill(&shared.state(), String::new());
            for process in &mut shared.state().ranks {
                let _ = process.child.wait();
            }
            let _ = tell.send(Err(error));
            return no_outcome();
        }
    };
    let _ = tell.send(Ok(()));
    let failed = job.supervise().is_err();
    if failed {
        // Without poll, nothing can be seen to: end it.
        let mut state = shared.state();
        job.ending.kill(&state, "the launcher could not watch it any more".into());
        for process in state.ranks.iter_mut().filter(|process| process.exit.is_none()) {
            process.exit = process.child.wait().map(Exit::from).ok();
        }
    }
    job.finish()
}

/// A job that runs, as its supervisor sees it.
struct Supervised<'a> {
    plan: Plan,
    shared: &'a Arc<Shared>,
    kicked: OwnedFd,
    /// By rank, until the process is over.
    pidfds: Vec<Option<OwnedFd>>,
    ending: Ending,
    first_failure: Option<u32>,
    timeout: Option<Instant>,
    timed_out: Option<Vec<u32>>,
    /// Hangs up with the last process: for the threads of input, output and set-up.
    ended: OwnedFd,
    collector: Option<Collector>,
    passer: Option<JoinHandle<()>>,
}

/// The thread of the output, and a pipe that hangs up when it ends.
struct Collector {
    thread: JoinHandle<Captured>,
    done: OwnedFd,
}

fn begin(
    mut plan: Plan,
    shared: &Arc<Shared>,
    kicked: OwnedFd,
    kick: OwnedFd,
) -> Result<Supervised<'_>, LaunchError> {
    let system = |what| move |errno: nix::errno::Errno| LaunchError::System { what, source: errno.into() };
    let size = plan.launch.processes;
    let common = Common::new(&plan, make_room(size)?)?;
    let (mut pidfds, mut sources, mut terminal) = (Vec::new(), Vec::new(), None);
    for rank in 0..size {
        let Started { child, program, pidfd, sources: streams, input } = start(&plan, &common, rank)?;
        shared.state().ranks.push(Rank { child, program, exit: None });
        pidfds.push(Some(pidfd));
        sources.extend(streams);
        terminal = terminal.or(input);
    }
    let (stop, ended) = pipe2(OFlag::O_CLOEXEC).map_err(system("make a pipe"))?;
    let copy = || stop.try_clone().map_err(LaunchError::system("copy a pipe"));
    let collector = collector(&mut plan, sources, copy()?, lost_to(shared, kick))?;
    let stop_input = copy()?;
    let passer = terminal
        .map(|to| quiet::spawn("ggas-input", move || input::pass_on(to, &stop_input)))
        .transpose()
        .map_err(LaunchError::system("start a thread"))?;
    let timeout = plan.launch.timeout.map(|timeout| Clock::REAL.deadline(timeout));
    let ending = Ending::new(plan.launch.kill_after);
    let (first_failure, timed_out) = (None, None);
    Ok(Supervised {
        plan,
        shared,
        kicked,
        pidfds,
        ending,
        first_failure,
        timeout,
        timed_out,
        ended,
        collector,
        passer,
    })
}

fn collector(
    plan: &mut Plan,
    sources: Vec<Source>,
    ended: OwnedFd,
    lost: LossFn,
) -> Result<Option<Collector>, LaunchError> {
    if sources.is_empty() {
        return Ok(None);
    }
    let to = std::mem::take(&mut plan.launch.output);
    let (first, size) = (plan.first(), plan.shape.processes());
    let (done, until) = pipe2(OFlag::O_CLOEXEC)
        .map_err(|errno| LaunchError::System { what: "make a pipe", source: errno.into() })?;
    let collect = move || {
        let _until = until;
        output::collect(sources, to, (first, size), &ended, lost)
    };
    quiet::spawn("ggas-output", collect)
        .map(|thread| Some(Collector { thread, done }))
        .map_err(LaunchError::system("start a thread"))
}

/// Notes output that could not be written, and kicks.
fn lost_to(shared: &Arc<Shared>, kick: OwnedFd) -> LossFn {
    let shared = shared.clone();
    Box::new(move |stream, errno| {
        shared.state().unwritten.get_or_insert((stream, errno));
        // A full pipe kicks as well.
        let _ = nix::unistd::write(&kick, &[0]);
    })
}

impl Collector {
    /// Waits until all is passed on: `false` if it is not. Who reads it may take its time, unless there is a `hurry`,
    /// or a signal asks for the end.
    fn is_read_out(&self, signals: Option<&Signals>, hurry: bool) -> bool {
        let until = hurry.then(|| Clock::REAL.now() + READ_OUT);
        loop {
            let mut fds = vec![PollFd::new(self.done.as_fd(), PollFlags::POLLIN)];
            fds.extend(signals.map(|signals| PollFd::new(signals.as_fd(), PollFlags::POLLIN)));
            match poll_until(&mut fds, until) {
                Ok(0) => return false,
                Ok(_) if fds[0].any() == Some(false) => {}
                Ok(_) | Err(_) => return true,
            }
            if signals.and_then(Signals::next).is_some_and(is_end) {
                return false;
            }
        }
    }
}

impl Supervised<'_> {
    fn supervise(&mut self) -> io::Result<()> {
        while self.pidfds.iter().any(Option::is_some) {
            let due = self.ending.due().into_iter().chain(self.timeout).min();
            let over = self.wait(due)?;
            self.note_exits(&over)?;
            self.hear_kicks();
            self.pass_on_signals();
            let state = self.shared.state();
            if self.timeout.is_some_and(|at| Clock::REAL.now() >= at) {
                self.timeout = None;
                let running = state.running();
                // What ended in the last moment has ended in time.
                if !running.is_empty() {
                    self.timed_out = Some(running);
                    self.ending.terminate(&state);
                }
            }
            self.ending.step(&state);
        }
        Ok(())
    }

    /// Waits until something happens, and gives the ranks whose processes are over.
    fn wait(&self, due: Option<Instant>) -> io::Result<Vec<u32>> {
        let mut fds = vec![PollFd::new(self.kicked.as_fd(), PollFlags::POLLIN)];
        let signals = self.plan.launch.signals.iter();
        fds.extend(signals.map(|signals| PollFd::new(signals.as_fd(), PollFlags::POLLIN)));
        let first = fds.len();
        let living = || (0..).zip(&self.pidfds).filter_map(|(rank, pidfd)| Some((rank, pidfd.as_ref()?)));
        fds.extend(living().map(|(_, pidfd)| PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)));
        poll_until(&mut fds, due)?;
        let over = living().zip(&fds[first..]).filter(|(_, fd)| fd.any().unwrap_or(true));
        Ok(over.map(|((rank, _), _)| rank).collect())
    }

    fn note_exits(&mut self, over: &[u32]) -> io::Result<()> {
        let mut failed = Vec::new();
        for &rank in over {
            let Some(exit) = self.shared.reap(rank)? else { continue };
            self.pidfds[rank as usize] = None;
            self.plan.kept.ended(self.plan.first() + rank, exit.code());
            let is_ours = self.ending.ended.contains(&rank) || self.shared.state().ended.contains(&rank);
            if !exit.is_success() && !is_ours {
                failed.push((rank, exit));
            }
        }
        // Of those seen together, one that was killed is the likelier cause: the others may have failed for it.
        failed.sort_by_key(|(rank, exit)| (matches!(exit, Exit::Code(_)), *rank));
        if let Some((rank, _)) = failed.first() {
            self.first_failure.get_or_insert(*rank);
            if let Some(grace) = self.plan.launch.grace {
                self.ending.begin(grace);
            }
        }
        Ok(())
    }

    fn hear_kicks(&mut self) {
        let mut bytes = [0; 64];
        if !matches!(nix::unistd::read(&self.kicked, &mut bytes), Ok(n) if n > 0) {
            return;
        }
        let state = self.shared.state();
        if state.abandoned {
            return self.ending.kill(&state, String::new());
        }
        match (state.unwritten, self.plan.launch.grace) {
            // As SIGPIPE would end the launcher, and its processes with it.
            (Some((_, Errno::EPIPE)), _) => self.ending.terminate(&state),
            (Some(_), Some(grace)) => self.ending.begin(grace),
            _ => {}
        }
    }

    fn pass_on_signals(&mut self) {
        while let Some(signal) = self.plan.launch.signals.as_ref().and_then(Signals::next) {
            self.ending.pass_on(&self.shared.state(), signal);
        }
    }

    fn finish(self) -> Outcome {
        drop(self.ended);
        let signals = self.plan.launch.signals.as_ref();
        let hurry = self.timed_out.is_some() || self.ending.is_asked();
        let collector = self.collector.filter(|it| it.is_read_out(signals, hurry));
        let captured = collector.and_then(|it| it.thread.join().ok()).unwrap_or_default();
        let _ = self.passer.map(JoinHandle::join);
        let state = self.shared.state();
        let exits: Vec<Exit> =
            state.ranks.iter().map(|process| process.exit.unwrap_or(Exit::Signal(0))).collect();
        let mut ended = self.ending.ended;
        // Some may have ended in the last moment.
        let is_killed = |rank: &&u32| exits[**rank as usize] == Exit::Signal(libc::SIGKILL);
        ended.extend(state.ended.iter().filter(is_killed));
        ended.sort_unstable();
        ended.dedup();
        let killed = self.ending.killed.map(|(mut ranks, why)| {
            ranks.retain(|rank| exits[*rank as usize] == Exit::Signal(libc::SIGKILL));
            (ranks, why)
        });
        Outcome {
            exits,
            first: self.plan.first(),
            first_failure: self.first_failure,
            broken: false,
            timed_out: self.plan.launch.timeout.zip(self.timed_out),
            ended,
            killed: killed.filter(|(ranks, _)| !ranks.is_empty()),
            unwritten: state.unwritten,
            captured,
        }
    }
}

fn no_outcome() -> Outcome {
    let (exits, ended, captured) = (Vec::new(), Vec::new(), Vec::new());
    let (first_failure, broken, timed_out, killed, unwritten) = (None, false, None, None, None);
    Outcome { exits, first: 0, first_failure, broken, timed_out, ended, killed, unwritten, captured }
}

/// Raises our own limit of open files where that is needed; gives the limits that the processes shall have then.
fn make_room(processes: u32) -> Result<Option<(rlim_t, rlim_t)>, LaunchError> {
    let failed = |errno: nix::errno::Errno| LaunchError::System {
        what: "look at the limit of open files",
        source: errno.into(),
    };
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed)?;
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |list| list.count() as u64);
    let needed = open + FDS_SPARE + FDS_PER_PROCESS * u64::from(processes);
    if needed <= soft {
        return Ok(None);
    }
    if needed > hard {
        return Err(LaunchError::Descriptors { processes, needed, limit: hard });
    }
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard).map_err(failed)?;
    Ok(Some((soft, hard)))
}
