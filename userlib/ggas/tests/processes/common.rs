//! Jobs of real processes: a test starts this program again, once for each rank, with itself as the only test.

use std::time::{Duration, Instant};

use ggas::members::launch::{Exit, Launch, Output, Stream};
use ggas::{HostBuffer, Job, JobBuilder, Port, PortConfig, Region};

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
pub const SOON: Duration = Duration::from_secs(60);
/// Within this time, far below the bounds of waits, a death is noticed.
pub const NOTICED: Duration = Duration::from_secs(30);
/// Bound of a whole job.
const JOB: Duration = Duration::from_secs(170);

/// How a process is expected to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With success.
    Well,
    /// Killed by SIGKILL.
    Killed,
}

/// Runs `body` in `processes` processes, `per_node` of them on a node, and checks how each ends. `test` is the
/// path of the calling test.
pub fn job(test: &str, processes: u32, per_node: u32, ends: impl Fn(u32) -> End, body: impl FnOnce(Job)) {
    job_of(Job::builder(), test, (processes, per_node), ends, body);
}

/// As [`job`], of processes with settings of their own.
pub fn job_of(
    builder: JobBuilder,
    test: &str,
    (processes, per_node): (u32, u32),
    ends: impl Fn(u32) -> End,
    body: impl FnOnce(Job),
) {
    if std::env::var_os("GGAS_RANK").is_some() {
        return body(builder.join().unwrap());
    }
    let program = std::env::current_exe().unwrap();
    let launch = Launch::new(program).args([test, "--exact", "--nocapture", "--quiet"]);
    // These are tests of the model, whatever card there is. The processes judge each other; the launcher lets them.
    let launch = launch.env("GGAS_DEVICE", "sim").env_remove("EXTOLL_DEVICE");
    let launch =
        launch.processes(processes).per_node(per_node).timeout(JOB).keep_going().output(Output::Capture);
    let outcome = launch.spawn().unwrap().wait();
    for rank in 0..processes {
        let exit = outcome.exits()[rank as usize];
        let as_expected = match ends(rank) {
            End::Well => exit.is_success(),
            End::Killed => exit == Exit::Signal(libc::SIGKILL),
        };
        if outcome.timed_out().is_some() || !as_expected {
            for (rank, stream) in
                (0..processes).flat_map(|rank| [Stream::Out, Stream::Err].map(|s| (rank, s)))
            {
                eprint!("rank {rank}: {}", String::from_utf8_lossy(outcome.output(rank, stream)));
            }
            panic!("rank {rank} did not end as expected: {}", outcome.summary());
        }
    }
}

/// All end well.
pub fn well(_: u32) -> End {
    End::Well
}

/// A port, and a region of `len` zero bytes.
pub fn port_and_region(job: &Job, len: usize) -> (Port, Region) {
    let port = job.node().open_port(PortConfig::default()).unwrap();
    let region = port.register(HostBuffer::zeroed(len).unwrap()).unwrap();
    (port, region)
}

/// Bytes that `seed` selects.
pub fn pattern(len: usize, seed: u32) -> Vec<u8> {
    (0..len)
        .map(|i| ((i as u32).wrapping_mul(31) ^ (i as u32 >> 8) ^ seed.wrapping_mul(0x9e37)) as u8)
        .collect()
}

/// Copies bytes out.
pub fn bytes(region: &Region, offset: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    region.read(offset, &mut bytes).unwrap();
    bytes
}

/// Ends this process as the kernel's out-of-memory killer would.
pub fn die() -> ! {
    signal(std::process::id(), libc::SIGKILL);
    unreachable!("killed")
}

/// Sends a signal.
pub fn signal(process: u32, signal: i32) {
    // SAFETY: no memory is involved.
    assert_eq!(unsafe { libc::kill(process as i32, signal) }, 0);
}

/// Time that `work` takes.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    let result = work();
    (result, started.elapsed())
}
