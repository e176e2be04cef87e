//! Jobs of the member program, for all tests. Whatever fails: dropping the launch ends its processes.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::time::Duration;

use ggas_boot::launch::{Launch, Outcome, Output, Stream};

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
pub const SOON: Duration = Duration::from_secs(60);
/// Bound of a whole job.
pub const JOB: Duration = Duration::from_secs(150);

pub const MEMBER: &str = env!("CARGO_BIN_EXE_ggas-boot-member");

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

/// One process without a launcher's help, as a shell or another launcher would start it: by variables alone.
pub fn plain(dir: &std::path::Path, variables: &str, commands: &str) -> Launch {
    let without = ["GGAS_JOB_FD", "GGAS_RANK", "GGAS_SIZE", "GGAS_PER_NODE", "GGAS_JOIN_TIMEOUT"];
    Launch::new("env")
        .args(without.iter().flat_map(|name| ["-u", name]))
        .arg(format!("GGAS_RUNTIME_DIR={}", dir.display()))
        .args(variables.split_whitespace().map(|variable| format!("GGAS_{variable}")))
        .arg(MEMBER)
        .args(commands.split_whitespace())
        .timeout(JOB)
        .output(Output::Capture)
}

/// A private directory that is gone with its guard.
pub struct Dir(pub std::path::PathBuf);

impl Dir {
    pub fn new(name: &str) -> Dir {
        use std::os::unix::fs::DirBuilderExt;
        let path = std::env::temp_dir().join(format!("ggas-boot-{}-{name}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).expect("a new directory");
        Dir(path)
    }

    #[track_caller]
    pub fn is_empty(&self) {
        let left: Vec<_> = std::fs::read_dir(&self.0).expect("it is there").flatten().collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    /// Waits until a file is there.
    #[track_caller]
    pub fn wait_for(&self, file: &str) {
        let deadline = std::time::Instant::now() + SOON;
        while !self.0.join(file).exists() {
            assert!(std::time::Instant::now() < deadline, "{file} did not come");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
