//! Jobs of processes that communicate: a test starts itself as the ranks.

use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use ggas_gaspi::{Config, GROUP_ALL, Gaspi, Part, Timeout};

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
    if let Ok(rank) = std::env::var("GGAS_RANK") {
        body(rank.parse().expect("a rank"));
        return Vec::new();
    }
    let start = |rank: u16| -> Child {
        let mut command = Command::new(std::env::current_exe().expect("a name"));
        command.args([name, "--exact", "--nocapture", "--test-threads", "1"]);
        command.env("GGAS_RANK", rank.to_string()).env("GGAS_SIZE", ranks.to_string());
        command.env("GGAS_JOB", format!("gaspi-{name}-{}", std::process::id())).env("GGAS_DEVICE", "sim");
        command.spawn().expect("started")
    };
    let children: Vec<Child> = (0..ranks).map(start).collect();
    children.into_iter().map(|mut child| child.wait().expect("ended")).collect()
}

pub fn part(local_offset: u64, remote_offset: u64, bytes: u64) -> Part {
    Part { local: 0, local_offset, remote: 0, remote_offset, bytes }
}

pub fn pattern(rank: u16, round: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|i| (i * 7 + round * 13 + u64::from(rank) * 101) as u8).collect()
}
