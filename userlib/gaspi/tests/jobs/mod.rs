//! Jobs of processes that communicate: a test starts itself as the ranks, by its name with its module. Those in the program `hosts` have their
//! ranks on two hosts by turns, which are two directories of networks.

use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use ggas_gaspi::{Config, GROUP_ALL, Gaspi, Part, Timeout};
use ggas_wire::{WireError, choose};

/// A job that hangs ends after a minute.
pub const BLOCK: Timeout = Timeout::Within(Duration::from_secs(60));

/// Runs `body` in each of `ranks` processes, which meet at the end; in the one that starts them, waits for them.
pub fn job(name: &str, ranks: u16, body: fn(&Gaspi)) {
    let ends = ends(name, ranks, |gaspi| {
        body(gaspi);
        gaspi.barrier(GROUP_ALL, BLOCK).expect("all are done");
    });
    for (rank, status) in ends.into_iter().enumerate() {
        assert!(status.success(), "rank {rank}: {status}");
    }
}

/// How each of `ranks` processes ended; none in those.
pub fn ends(name: &str, ranks: u16, body: impl FnOnce(&Gaspi)) -> Vec<ExitStatus> {
    ends_with(name, ranks, |_| body(&Gaspi::init(Config::default(), BLOCK).expect("joined")))
}

/// The same of processes that begin by themselves; the body gets the rank.
pub fn ends_with(name: &str, ranks: u16, body: impl FnOnce(u16)) -> Vec<ExitStatus> {
    ends_told(name, ranks, &[], body)
}

/// The same with variables for all processes.
pub fn ends_told(
    name: &str,
    ranks: u16,
    variables: &[(&str, &str)],
    body: impl FnOnce(u16),
) -> Vec<ExitStatus> {
    if let Ok(rank) = std::env::var("GGAS_RANK") {
        body(rank.parse().expect("a rank"));
        return Vec::new();
    }
    if is_over_hosts()
        && let Err(
            error @ (WireError::Nothing { .. } | WireError::Missing { .. } | WireError::NotBuilt { .. }),
        ) = choose()
    {
        eprintln!("skipped: {error}");
        return Vec::new();
    }
    let hosts = is_over_hosts().then(Hosts::new);
    let start = |rank: u16| -> Child {
        let mut command = Command::new(std::env::current_exe().expect("a name"));
        command.args([name, "--exact", "--nocapture", "--test-threads", "1"]);
        command.env("GGAS_RANK", rank.to_string()).env("GGAS_SIZE", ranks.to_string());
        // Names of jobs have at most 64 bytes: without the module.
        let job = format!("gaspi-{}-{}", name.rsplit("::").next().unwrap_or(name), std::process::id());
        command.env("GGAS_JOB", job).env("GGAS_DEVICE", "sim");
        command.envs(variables.iter().copied());
        if let Some(hosts) = &hosts {
            hosts.place(&mut command, rank);
        }
        command.spawn().expect("started")
    };
    let children: Vec<Child> = (0..ranks).map(start).collect();
    children.into_iter().map(|mut child| child.wait().expect("ended")).collect()
}

/// Whether the program is the one of hosts.
pub fn is_over_hosts() -> bool {
    module_path!().starts_with("hosts::")
}

/// Two hosts, which are gone with this.
struct Hosts {
    folders: [PathBuf; 2],
    /// Where rank 0 is met.
    meet: String,
}

impl Hosts {
    fn new() -> Hosts {
        // Free a moment ago.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let meet = listener.local_addr().expect("its address").to_string();
        let folders = ["a", "b"].map(|host| {
            let name = format!("ggas-gaspi-{}-{}-{host}", std::process::id(), meet.replace(':', "-"));
            let folder = std::env::temp_dir().join(name);
            std::fs::DirBuilder::new().mode(0o700).create(&folder).expect("a new directory");
            folder
        });
        Hosts { folders, meet }
    }

    fn place(&self, command: &mut Command, rank: u16) {
        command.env("GGAS_RUNTIME_DIR", &self.folders[usize::from(rank) % 2]);
        command.env("GGAS_MEET", &self.meet).env("GGAS_SECRET", "00112233445566778899aabbccddeeff");
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for folder in &self.folders {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

#[allow(dead_code, reason = "not every test binary moves parts")]
pub fn part(local_offset: u64, remote_offset: u64, bytes: u64) -> Part {
    Part { local: 0, local_offset, remote: 0, remote_offset, bytes }
}

#[allow(dead_code, reason = "not every test binary moves parts")]
pub fn pattern(rank: u16, round: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|i| (i * 7 + round * 13 + u64::from(rank) * 101) as u8).collect()
}
