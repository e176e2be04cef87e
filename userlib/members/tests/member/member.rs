//! A process that does what its arguments say, in order: `join barrier=1000 2:kill exchange=64 exit=3`. A number and a
//! colon in front mean one rank only. It says what it did on standard output, and ends with 3 at the first error. With
//! `-` it takes commands from standard input, one in a line, and answers each with lines up to one with a dot.

mod fork;
mod network;
mod ranks;

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ggas_members::launch::Launch;
use ggas_members::{Job, Member};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

type Failure = Box<dyn std::error::Error>;

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
const SOON: Duration = Duration::from_secs(60);

/// What the process has joined.
#[derive(Default)]
struct State {
    job: Option<Job>,
    member: Option<Arc<Member>>,
    events: Option<network::Events>,
    nodes: Vec<ggas_members::NodeMemory>,
    doors: Vec<std::os::fd::OwnedFd>,
}

impl State {
    fn job(&self) -> Result<&Job, Failure> {
        Ok(self.job.as_ref().ok_or("not joined")?)
    }

    /// Also that of a job.
    fn member(&self) -> Result<&Arc<Member>, Failure> {
        let of_job = self.job.as_ref().map(Job::member);
        Ok(self.member.as_ref().or(of_job).ok_or("in no network")?)
    }
}

fn main() {
    let mut state = State::default();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["-"] {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if let Err(error) = run(&mut state, &line) {
                say(&format!("error: {error}"));
            }
            say(".");
        }
        return;
    }
    for argument in arguments {
        if let Err(error) = run(&mut state, &argument) {
            eprintln!("error in {argument}: {error}");
            std::process::exit(3);
        }
    }
}

fn run(state: &mut State, argument: &str) -> Result<(), Failure> {
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
    if ranks::run(state, name, value)? || network::run(state, name, value)? || fork::run(state, name)? {
        return Ok(());
    }
    let time = || Ok::<_, Failure>(Duration::from_millis(value.parse()?));
    match name {
        "leave" => *state = State::default(),
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
        // As programs in C begin.
        "mortal" => {
            // SAFETY: no handler runs.
            unsafe {
                nix::sys::signal::signal(nix::sys::signal::SIGPIPE, nix::sys::signal::SigHandler::SigDfl)?
            };
        }
        "files" => limit(Resource::RLIMIT_NOFILE, value.parse()?)?,
        "filesize" => limit(Resource::RLIMIT_FSIZE, value.parse()?)?,
        "threads" => say(&format!("{} threads", std::fs::read_dir("/proc/self/task")?.count())),
        // Mappings of what members share.
        "mapped" => {
            let maps = std::fs::read_to_string("/proc/self/maps")?;
            let directory = std::env::var("GGAS_RUNTIME_DIR").unwrap_or("/dev/shm/ggas-".into());
            say(&format!("{} mapped", maps.matches(&directory).count()));
        }
        "open" => say(&format!("{} open", std::fs::read_dir("/proc/self/fd")?.count())),
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
        // The same program anew, in this process: commands with commas between them.
        "exec-again" => {
            use std::os::unix::process::CommandExt;
            let commands = value.split(',');
            return Err(std::process::Command::new(std::env::current_exe()?).args(commands).exec().into());
        }
        "pid" => say(&std::process::id().to_string()),
        // A launcher itself, of processes that a shell starts.
        "launch" => {
            let script = format!("{} join pid sleep=60000; true", std::env::current_exe()?.display());
            Launch::new("sh").args(["-c", &script]).processes(value.parse()?).spawn()?.wait();
        }
        // A launcher of what a shell runs, three times, beside threads that allocate and take the locks that there are.
        "busy" => (0..3).for_each(|_| {
            std::thread::spawn(|| {
                loop {
                    std::hint::black_box(std::env::vars().collect::<Vec<_>>());
                }
            });
        }),
        "run" => drop(Launch::new("sh").args(["-c", value]).processes(3).spawn()?.wait()),
        "exit" => std::process::exit(value.parse()?),
        // As the C function of that name does it: the other threads go on.
        "end-main-thread" => {
            let last = std::thread::spawn(|| std::thread::sleep(SOON));
            say("ends");
            say(".");
            // SAFETY: this thread ends here; it holds no lock, and what it has on its stack nobody else uses.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
            let _ = last.join();
        }
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

/// How long something took, for tests that look at it.
fn milliseconds(since: Instant) -> u128 {
    since.elapsed().as_millis()
}
