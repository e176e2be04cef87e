//! A member of a job that does what its arguments say, in order: `barrier=1000 2:kill exchange=64 exit=3`. A number and
//! a colon in front mean one rank only. It says what it did on standard output, and ends with 3 at the first error.

use std::io::Write;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ggas_boot::launch::Launch;
use ggas_boot::{Job, JobError};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

type Failure = Box<dyn std::error::Error>;

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
const SOON: Duration = Duration::from_secs(60);

fn main() {
    let mut job = None;
    for argument in std::env::args().skip(1) {
        if let Err(error) = run(&mut job, &argument) {
            eprintln!("error in {argument}: {error}");
            std::process::exit(3);
        }
    }
}

fn run(job: &mut Option<Job>, argument: &str) -> Result<(), Failure> {
    let mut command = argument;
    if let Some((rank, rest)) = argument.split_once(':')
        && let Ok(only) = rank.parse::<u32>()
    {
        if std::env::var("GGAS_RANK")?.parse() != Ok(only) {
            return Ok(());
        }
        command = rest;
    }
    let (name, value) = command.split_once('=').unwrap_or((command, ""));
    let time = || Ok::<_, Failure>(Duration::from_millis(value.parse()?));
    let joined = || job.as_ref().ok_or("not joined");
    match name {
        "join" => *job = Some(Job::join()?),
        "again" => match Job::join() {
            Err(JobError::JoinedAlready) => say("joined already"),
            other => return Err(format!("joined twice: {other:?}").into()),
        },
        "who" => {
            let job = joined()?;
            let (rank, size, node, nodes) = (job.rank(), job.size(), job.node(), job.nodes());
            say(&format!("rank {rank} of {size} on node {node} of {nodes}"));
        }
        "barrier" => joined()?.barrier(time()?)?,
        "barriers" => {
            let start = Instant::now();
            let rounds: u32 = value.parse()?;
            (0..rounds).try_for_each(|_| joined()?.barrier(SOON).map_err(Failure::from))?;
            say(&format!("{:?} each", start.elapsed() / rounds));
        }
        // The error, and how long it took, instead of the end.
        "try-barrier" => {
            let start = Instant::now();
            let outcome = joined()?.barrier(time()?);
            say(&match outcome {
                Ok(()) => "ok".into(),
                Err(error) => format!("{error} [{} ms]", start.elapsed().as_millis()),
            });
        }
        "exchange" => exchange(joined()?, value.parse()?)?,
        "try-exchange" => match joined()?.exchange(&vec![7; value.parse()?], SOON) {
            Ok(all) => say(&format!("{} parts", all.len())),
            Err(error) => say(&error.to_string()),
        },
        "fds" => pass_descriptors(joined()?)?,
        "try-fds" => match joined()?.recv_fds(value.parse()?, 1, SOON) {
            Ok(fds) => say(&format!("{} descriptors", fds.len())),
            Err(error) => say(&error.to_string()),
        },
        // A word to another rank, and the wait for one.
        "tell" => joined()?.send_fds(value.parse()?, 2, &[], SOON)?,
        "hear" => drop(joined()?.recv_fds(value.parse()?, 2, SOON)?),
        "letters" => {
            let job = joined()?;
            (0..value.parse()?).try_for_each(|tag| job.send_fds(0, tag, &[], SOON))?;
        }
        "collect" => {
            let job = joined()?;
            for from in 1..job.size() {
                for tag in 0..value.parse()? {
                    job.recv_fds(from, tag, SOON)?;
                }
            }
        }
        "losses" => wait_for_losses(joined()?, value.parse()?),
        "fork" => fork(joined()?)?,
        "leave" => *job = None,
        "sleep" => std::thread::sleep(time()?),
        "print" => say(value),
        "half" => {
            std::io::stdout().write_all(value.as_bytes())?;
            std::io::stdout().flush()?;
        }
        "echo" => {
            let mut line = String::new();
            std::io::stdin().read_line(&mut line)?;
            say(&format!("read {}", line.trim_end()));
        }
        "kill" => nix::sys::signal::raise(nix::sys::signal::SIGKILL)?,
        "stop" => nix::sys::signal::raise(nix::sys::signal::SIGSTOP)?,
        "deaf" => {
            // SAFETY: no handler runs.
            unsafe {
                nix::sys::signal::signal(nix::sys::signal::SIGTERM, nix::sys::signal::SigHandler::SigIgn)?
            };
        }
        "files" => limit(Resource::RLIMIT_NOFILE, value.parse()?)?,
        "filesize" => limit(Resource::RLIMIT_FSIZE, value.parse()?)?,
        "threads" => say(&format!("{} threads", std::fs::read_dir("/proc/self/task")?.count())),
        // Mappings of a job's memory.
        "mapped" => {
            let maps = std::fs::read_to_string("/proc/self/maps")?;
            say(&format!("{} mapped", maps.matches("/memfd:extoll-").count()));
        }
        "cpu" => {
            let used = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
            std::thread::sleep(time()?);
            let used = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID)? - used;
            say(&format!("{} us", Duration::from(used).as_micros()));
        }
        "exec" => {
            use std::os::unix::process::CommandExt;
            return Err(std::process::Command::new("sleep").arg(value).exec().into());
        }
        "pid" => say(&std::process::id().to_string()),
        // A launcher itself, of processes that a shell starts.
        "launch" => {
            let script = format!("{} join pid sleep=60000; true", std::env::current_exe()?.display());
            Launch::new("sh").args(["-c", &script]).processes(value.parse()?).spawn()?.wait();
        }
        "exit" => std::process::exit(value.parse()?),
        _ => return Err(format!("there is no command {name}").into()),
    }
    Ok(())
}

/// Lowers a limit.
fn limit(resource: Resource, to: u64) -> Result<(), Failure> {
    let (_, hard) = getrlimit(resource)?;
    Ok(setrlimit(resource, to, hard)?)
}

fn say(text: &str) {
    println!("{text}");
}

/// Every part is its rank's, of a length of its own.
fn exchange(job: &Job, len: usize) -> Result<(), Failure> {
    let part = |rank: u32| vec![rank as u8; len.saturating_sub(rank as usize)];
    let all = job.exchange(&part(job.rank()), SOON)?;
    if (0..).zip(&all).any(|(rank, bytes)| *bytes != part(rank)) || all.len() != job.size() as usize {
        return Err("a part of the exchange is wrong".into());
    }
    Ok(())
}

/// Everyone sends everyone a pipe's reading end, with its rank in the pipe; itself, too.
fn pass_descriptors(job: &Job) -> Result<(), Failure> {
    let timeout = SOON;
    for to in 0..job.size() {
        let (read, write) = nix::unistd::pipe()?;
        nix::unistd::write(&write, &[job.rank() as u8, to as u8])?;
        job.send_fds(to, 9, &[read.as_fd()], timeout)?;
        job.send_fds(to, 8, &[], timeout)?;
    }
    for from in (0..job.size()).rev() {
        let fds = job.recv_fds(from, 9, timeout)?;
        let mut bytes = [0; 2];
        let [pipe] = &fds[..] else { return Err(format!("{} descriptors", fds.len()).into()) };
        if nix::unistd::read(pipe, &mut bytes)? != 2 || bytes != [from as u8, job.rank() as u8] {
            return Err("another pipe came".into());
        }
        if !job.recv_fds(from, 8, timeout)?.is_empty() {
            return Err("descriptors where none were sent".into());
        }
    }
    say("pipes are right");
    Ok(())
}

fn wait_for_losses(job: &Job, count: usize) {
    let (tell, hear) = std::sync::mpsc::channel();
    let _guard = job.on_loss(Box::new(move |rank| {
        let _ = tell.send(rank);
    }));
    let mut heard: Vec<u32> = (0..count).filter_map(|_| hear.recv_timeout(SOON).ok()).collect();
    heard.sort_unstable();
    say(&format!("lost {heard:?}, {:?}", job.lost()));
}

fn fork(job: &Job) -> Result<(), Failure> {
    // SAFETY: the child calls what takes no lock that another thread may hold, and ends at once.
    match unsafe { nix::unistd::fork()? } {
        nix::unistd::ForkResult::Parent { child } => {
            let status = nix::sys::wait::waitpid(child, None)?;
            say(&format!("{status:?}").replace(&child.to_string(), "child"));
        }
        nix::unistd::ForkResult::Child => {
            let forked = |outcome: Result<(), JobError>| matches!(outcome, Err(JobError::Forked { .. }));
            let all = forked(job.barrier(Duration::ZERO))
                && forked(job.exchange(&[], Duration::ZERO).map(drop))
                && forked(job.send_fds(0, 0, &[], Duration::ZERO))
                && forked(job.recv_fds(0, 0, Duration::ZERO).map(drop))
                && forked(Job::join().map(drop));
            // SAFETY: ends the child as a killed one would, after dropping its copy of the job.
            unsafe {
                std::ptr::from_ref(job).read();
                libc::_exit(if all { 7 } else { 8 })
            }
        }
    }
    Ok(())
}
