//! Processes of the member program, for all tests. Whatever fails: they end with what started them.
#![allow(dead_code, reason = "each test file uses some of it")]

mod shell;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ggas_members::launch::{Launch, Outcome, Output, Stream};
#[allow(unused_imports, reason = "each test file uses some of it")]
pub use shell::{Shell, ended, main_thread_ended, pid_of};

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
pub const SOON: Duration = Duration::from_secs(60);
/// Bound of a whole job.
pub const JOB: Duration = Duration::from_secs(150);

pub const MEMBER: &str = env!("CARGO_BIN_EXE_ggas-test-member");

/// Variables that a test's own surroundings may have.
pub const VARIABLES: [&str; 10] = [
    "GGAS_MEET",
    "GGAS_SECRET",
    "GGAS_RANK",
    "GGAS_SIZE",
    "GGAS_PER_NODE",
    "GGAS_JOB",
    "GGAS_NETWORK",
    "GGAS_NODE",
    "GGAS_JOIN_TIMEOUT",
    "GGAS_QUIET",
];

/// A launch of the member program with these commands, captured, and killed after [`JOB`].
pub fn member(processes: u32, commands: &str) -> Launch {
    Launch::new(MEMBER)
        .args(commands.split_whitespace())
        .processes(processes)
        .timeout(JOB)
        .output(Output::Capture)
}

pub fn run(launch: Launch) -> Outcome {
    launch.spawn().expect("it starts").wait()
}

pub fn out(outcome: &Outcome, rank: u32) -> String {
    String::from_utf8_lossy(outcome.output(rank, Stream::Out)).into_owned()
}

pub fn err(outcome: &Outcome, rank: u32) -> String {
    String::from_utf8_lossy(outcome.output(rank, Stream::Err)).into_owned()
}

/// Everything that can be said about an outcome, for messages of failed tests.
pub fn all(outcome: &Outcome) -> String {
    let ranks = (0..outcome.exits().len() as u32)
        .map(|rank| format!("[{rank}] {} {}", out(outcome, rank), err(outcome, rank)));
    format!("{:?}\n{}{}", outcome.exits(), outcome.summary(), ranks.collect::<Vec<_>>().join("\n"))
}

#[track_caller]
pub fn succeeds(outcome: &Outcome) {
    assert!(outcome.is_success() && outcome.summary().is_empty(), "{}", all(outcome));
}

/// Looks again and again until it is so.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not in {SOON:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A private directory for networks, which is gone with its guard.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new(name: &str) -> Dir {
        use std::os::unix::fs::DirBuilderExt;
        let path = std::env::temp_dir().join(format!("ggas-members-{}-{name}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).expect("a new directory");
        Dir(path)
    }

    /// The member program in an environment of its own, with these variables: `NETWORK=lab NODE=3`.
    pub fn command(&self, variables: &str) -> std::process::Command {
        let mut command = std::process::Command::new(MEMBER);
        for name in VARIABLES {
            command.env_remove(name);
        }
        command.env("GGAS_RUNTIME_DIR", &self.0).env("GGAS_QUIET", "1");
        for (name, value) in variables.split_whitespace().filter_map(|variable| variable.split_once('=')) {
            command.env(format!("GGAS_{name}"), value);
        }
        command
    }

    /// As [`command`](Self::command), for a script that has the member program run in the end.
    pub fn script(&self, variables: &str, program: &str, args: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(program);
        command.args(args);
        for (name, value) in self.command(variables).get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// A process that takes commands.
    pub fn shell(&self, variables: &str) -> Shell {
        Shell::start(self.command(variables))
    }

    /// Files of a network, sorted; none where it is not there.
    pub fn files(&self, network: &str) -> Vec<String> {
        let Ok(list) = std::fs::read_dir(self.0.join(network)) else { return Vec::new() };
        let mut names: Vec<String> =
            list.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    #[track_caller]
    pub fn is_empty(&self) {
        let left: Vec<_> = std::fs::read_dir(&self.0).expect("it is there").flatten().collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
