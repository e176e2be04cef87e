//! `ggas run --host`: the processes of a job on several hosts.
//!
//! On each host a *part* (`ggas run-part`) starts the processes that are there, and ends them. It gets what it needs, the
//! secret included, as the first line of its standard input, and then the numbers of signals to pass on. When its input ends,
//! so do its processes. Here a *link* for each host starts its part by an agent (ssh), and passes signals on; the links are
//! the processes of a launch, which brings their output together and ends them all when one fails.

use crate::failure::Failure;
use crate::out::note;
use ggas_members::launch::{Input, Launch, Outcome, Output, Part, Signals};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{BufRead, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// What the links of a launch have to do, as JSON.
const LINKS: &str = "GGAS_RUN_LINKS";
/// What a part has longer than its processes to end.
const LONGER: Duration = Duration::from_secs(5);
/// Variables that go to other hosts.
const CARRIED: [&str; 5] = ["GGAS_", "EXTOLL_", "FI_", "UCX_", "RUST_"];
/// Variables that the launcher sets itself.
const OWN: [&str; 8] =
    ["GGAS_RANK", "GGAS_SIZE", "GGAS_PER_NODE", "GGAS_JOB", "GGAS_MEET", "GGAS_SECRET", "GGAS_NODE", LINKS];
/// Ports for rank 0: below those that systems give to outgoing connections.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A host and how many processes are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    name: String,
    processes: u32,
}

impl Host {
    pub fn processes(&self) -> u32 {
        self.processes
    }
}

/// `h1:2,h2` of the command line.
pub fn hosts(text: &str) -> Result<Vec<Host>, String> {
    let mut hosts: Vec<Host> = Vec::new();
    for word in text.split(',') {
        let (name, processes) = match word.rsplit_once(':') {
            Some((name, count)) => {
                (name, count.parse().map_err(|_| format!("`{word}`: write HOST:PROCESSES"))?)
            }
            None => (word, 1),
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
        if name.is_empty() || name.starts_with('-') || !name.chars().all(fits) {
            return Err(format!("`{word}`: write HOST:PROCESSES, hosts by name or address"));
        }
        if processes == 0 {
            return Err(format!("`{word}`: leave out hosts without processes"));
        }
        if hosts.iter().any(|host| host.name == name) {
            return Err(format!("{name} is named twice: name it once, with all of its processes"));
        }
        hosts.push(Host { name: name.to_owned(), processes });
    }
    Ok(hosts)
}

/// What `ggas run` was asked for.
pub struct OverHosts {
    pub hosts: Vec<Host>,
    pub agent: String,
    pub port: Option<u16>,
    pub per_node: u32,
    pub timeout: Option<Duration>,
    pub grace: Duration,
    pub kill_after: Duration,
    pub keep_going: bool,
    pub prefix: bool,
    pub program: Vec<OsString>,
}

/// What a link has to do.
#[derive(Serialize, Deserialize)]
struct Link {
    /// As ssh is called: words, then the host and a command.
    agent: Vec<String>,
    host: String,
    /// This program, on the host.
    ggas: PathBuf,
    part: Order,
}

/// What a part has to do.
#[derive(Serialize, Deserialize)]
struct Order {
    version: String,
    job: String,
    first: u32,
    processes: u32,
    size: u32,
    per_node: u32,
    folder: PathBuf,
    variables: Vec<(String, String)>,
    grace: Duration,
    kill_after: Duration,
    keep_going: bool,
    prefix: bool,
    program: Vec<String>,
}

/// Starts the job and waits for it: its exit code is ours.
pub fn run(asked: OverHosts, signals: Signals) -> Result<ExitCode, Failure> {
    let links = serde_json::to_string(&links(&asked)?).map_err(failed)?;
    let own = std::env::current_exe().map_err(failed)?;
    let mut launch = Launch::new(own)
        .arg("run-link")
        .env(LINKS, links)
        .processes(asked.hosts.len() as u32)
        .grace(asked.grace)
        .kill_after(asked.kill_after + LONGER)
        .output(Output::Lines { prefix: false })
        .signals(signals);
    if asked.keep_going {
        launch = launch.keep_going();
    }
    if let Some(timeout) = asked.timeout {
        launch = launch.timeout(timeout);
    }
    let outcome = launch.spawn().map_err(failed)?.wait();
    tell(&outcome, &asked);
    Ok(ExitCode::from(u8::try_from(outcome.code()).unwrap_or(1)))
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

/// Parts say what became of their processes; here is said which parts failed.
fn tell(outcome: &Outcome, asked: &OverHosts) {
    if let Some(first) = outcome.first_failure() {
        let exit = outcome.exits()[first as usize];
        note(&format!("ggas run: the processes on {} {exit} first\n", asked.hosts[first as usize].name));
    }
    if let Some(late) = outcome.timed_out() {
        let names: Vec<&str> = late.iter().map(|host| asked.hosts[*host as usize].name.as_str()).collect();
        note(&format!(
            "ggas run: the time is over: processes on {} still running, ended\n",
            names.join(", ")
        ));
    }
}

fn links(asked: &OverHosts) -> Result<Vec<Link>, Failure> {
    let size = asked.hosts.iter().try_fold(0_u32, |sum, host| sum.checked_add(host.processes));
    let size = size.ok_or_else(|| Failure::Usage("these are too many processes".to_owned()))?;
    let text = |word: &OsString| {
        word.clone().into_string().map_err(|word| Failure::Usage(format!("{} is no UTF-8", word.display())))
    };
    let program = asked.program.iter().map(text).collect::<Result<Vec<_>, _>>()?;
    let agent: Vec<String> = asked.agent.split_whitespace().map(str::to_owned).collect();
    if agent.is_empty() {
        return Err(Failure::Usage("--agent: name a command that is called as ssh is".to_owned()));
    }
    let (job, secret, port) = (random()?, random()?, random()?);
    let port = asked.port.unwrap_or(PORTS.start + (port % u128::from(PORTS.end - PORTS.start)) as u16);
    let is_carried = |name: &str| CARRIED.iter().any(|start| name.starts_with(start)) && !OWN.contains(&name);
    let mut variables: Vec<(String, String)> =
        std::env::vars().filter(|(name, _)| is_carried(name)).collect();
    // As ssh has it, a user before the name.
    let met = asked.hosts[0].name.rsplit('@').next().unwrap_or_default();
    variables.push(("GGAS_MEET".to_owned(), format!("{met}:{port}")));
    variables.push(("GGAS_SECRET".to_owned(), format!("{secret:032x}")));
    let (folder, ggas) = (std::env::current_dir().map_err(failed)?, std::env::current_exe().map_err(failed)?);
    let mut first = 0;
    let link = |host: &Host| {
        let part = Order {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            job: format!("run-{job:032x}"),
            first,
            processes: host.processes,
            size,
            per_node: asked.per_node,
            folder: folder.clone(),
            variables: variables.clone(),
            grace: asked.grace,
            kill_after: asked.kill_after,
            keep_going: asked.keep_going,
            prefix: asked.prefix,
            program: program.clone(),
        };
        first += host.processes;
        Link { agent: agent.clone(), host: host.name.clone(), ggas: ggas.clone(), part }
    };
    Ok(asked.hosts.iter().map(link).collect())
}

/// A number that nobody guesses, and not 0.
fn random() -> Result<u128, Failure> {
    let mut bytes = [0; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| Failure::Failed(format!("/dev/urandom: {error}")))?;
    Ok(u128::from_le_bytes(bytes).max(1))
}

/// `ggas run-link`: has the agent start a part, and passes signals on to it.
pub fn link() -> Result<ExitCode, Failure> {
    let signals = Signals::catch().map_err(failed)?;
    let variable =
        |name: &str| std::env::var(name).map_err(|_| Failure::Usage("this is for `ggas run`".to_owned()));
    let links: Vec<Link> = serde_json::from_str(&variable(LINKS)?).map_err(failed)?;
    let number: usize = variable("GGAS_RANK")?.parse().map_err(failed)?;
    let Some(link) = links.into_iter().nth(number) else { return Err(failed("there is no such link")) };
    let mut agent = Command::new(&link.agent[0]);
    agent
        .args(&link.agent[1..])
        .arg(&link.host)
        .arg(format!("{} run-part", quoted(&link.ggas.to_string_lossy())));
    // In a group of its own: signals go to it by its input, and no other way.
    agent.stdin(Stdio::piped()).process_group(0);
    for name in OWN {
        agent.env_remove(name);
    }
    let mut child = agent.spawn().map_err(|error| {
        Failure::Failed(format!(
            "{} does not start ({error}): --agent names what starts processes",
            link.agent[0]
        ))
    })?;
    let code = attend(&mut child, &link.part, &signals)
        .map_err(|error| failed(format!("{}: {error}", link.host)))?;
    if code == 255 || code == 127 {
        note(&format!(
            "ggas run: {} ended with {code} for {}: see whether it logs in there without a question, and whether {} is \
             there\n",
            link.agent[0],
            link.host,
            link.ggas.display()
        ));
    }
    Ok(ExitCode::from(code))
}

/// Until the agent has ended: its code.
fn attend(child: &mut Child, part: &Order, signals: &Signals) -> std::io::Result<u8> {
    let mut input = child.stdin.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
    // One that has ended reads nothing: its code says why.
    let _ = input.write_all(format!("{}\n", serde_json::to_string(part)?).as_bytes());
    loop {
        if let Some(status) = child.try_wait()? {
            let code = status.code().or_else(|| {
                use std::os::unix::process::ExitStatusExt;
                status.signal().map(|signal| 128 + signal)
            });
            return Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
        }
        if let Some(signal) = signals.wait(Duration::from_millis(50)) {
            let _ = input.write_all(format!("{signal}\n").as_bytes());
        }
    }
}

/// For the shell of the other host.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// `ggas run-part`: the processes of this host.
pub fn part() -> Result<ExitCode, Failure> {
    let signals = Signals::catch().map_err(failed)?;
    let mut input = std::io::BufReader::new(std::io::stdin());
    let mut line = String::new();
    input.read_line(&mut line).map_err(failed)?;
    let order: Order = serde_json::from_str(&line).map_err(|_| {
        Failure::Usage("this is for `ggas run --host`, of the same version on all hosts".to_owned())
    })?;
    if order.version != env!("CARGO_PKG_VERSION") {
        let own = env!("CARGO_PKG_VERSION");
        return Err(failed(format!(
            "ggas is {own} here and {} there: install the same on all hosts",
            order.version
        )));
    }
    let (program, arguments) = order.program.split_first().ok_or_else(|| failed("there is no program"))?;
    let mut launch = Launch::new(program)
        .args(arguments)
        .current_dir(&order.folder)
        .processes(order.processes)
        .per_node(order.per_node)
        .grace(order.grace)
        .kill_after(order.kill_after)
        .input(Input::Null)
        .output(Output::Lines { prefix: order.prefix })
        .signals(signals)
        .part(Part { job: order.job, first: order.first, size: order.size });
    if order.keep_going {
        launch = launch.keep_going();
    }
    for (name, value) in &order.variables {
        launch = launch.env(name, value);
    }
    let running = launch.spawn().map_err(crate::run::failure)?;
    // Signals come as numbers; at the end of the input whoever started this is gone.
    std::thread::spawn(move || {
        for line in input.lines().map_while(Result::ok) {
            pass_on(line.trim().parse().unwrap_or_default());
        }
        pass_on(Signal::SIGTERM as i32);
    });
    let outcome = running.wait();
    for line in outcome.summary().lines() {
        note(&format!("ggas run: {line}\n"));
    }
    Ok(ExitCode::from(u8::try_from(outcome.code()).unwrap_or(1)))
}

/// As if the signal had come from elsewhere, to whoever waits for signals here.
fn pass_on(number: i32) {
    if let Ok(signal) = Signal::try_from(number) {
        let _ = kill(Pid::this(), signal); // this process is there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_names_and_numbers() {
        let host = |name: &str, processes| Host { name: name.to_owned(), processes };
        assert_eq!(hosts("h1:3,me@h2"), Ok(vec![host("h1", 3), host("me@h2", 1)]));
        for (text, part) in [
            ("h1:2,h1:2", "named twice"),
            ("h1:x", "HOST:PROCESSES"),
            ("", "HOST:PROCESSES"),
            ("-oProxyCommand=x", "HOST:PROCESSES"),
            ("h1;ls", "HOST:PROCESSES"),
            ("h1:0", "without processes"),
        ] {
            let said = hosts(text).unwrap_err();
            assert!(said.contains(part), "{text}: {said}");
        }
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
