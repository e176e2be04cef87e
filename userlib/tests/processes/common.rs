//! Jobs of real processes: a test starts this program again, once for each rank, with itself as the only test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ggas::{HostBuffer, Job, Port, PortConfig, Region};

/// Bound of every wait that is expected to succeed.
pub const SOON: Duration = Duration::from_secs(20);
/// Within this time a death is noticed.
pub const NOTICED: Duration = Duration::from_secs(2);
/// Bound of a whole job.
const JOB: Duration = Duration::from_secs(60);

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
    if std::env::var_os("GGAS_RANK").is_some() {
        let builder = Job::builder().release_timeout(Duration::from_millis(500));
        return body(builder.join().unwrap());
    }
    let running = Running::start(test, processes, per_node);
    running.finish(ends);
}

/// All end well.
pub fn well(_: u32) -> End {
    End::Well
}

struct Running {
    children: Vec<Child>,
    directory: PathBuf,
}

impl Running {
    fn start(test: &str, processes: u32, per_node: u32) -> Running {
        let name = format!("{}-{}", test.replace(':', "_"), std::process::id());
        let directory = std::env::temp_dir().join(&name);
        fs::create_dir_all(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        let program = std::env::current_exe().unwrap();
        let start = |rank: u32| {
            Command::new(&program)
                .args([test, "--exact", "--nocapture", "--quiet"])
                .env("GGAS_RANK", rank.to_string())
                .env("GGAS_SIZE", processes.to_string())
                .env("GGAS_PER_NODE", per_node.to_string())
                .env("GGAS_JOB", &name)
                .env("GGAS_RUNTIME_DIR", &directory)
                .stdin(Stdio::null())
                .spawn()
                .unwrap()
        };
        let children = (0..processes).map(start).collect();
        Running { children, directory }
    }

    fn finish(mut self, ends: impl Fn(u32) -> End) {
        use std::os::unix::process::ExitStatusExt;
        let deadline = Instant::now() + JOB;
        let mut wrong = Vec::new();
        for (rank, child) in self.children.iter_mut().enumerate() {
            let status = loop {
                match child.try_wait().unwrap() {
                    Some(status) => break Some(status),
                    None if Instant::now() > deadline => break None,
                    None => std::thread::sleep(Duration::from_millis(2)),
                }
            };
            let ok = status.is_some_and(|status| match ends(rank as u32) {
                End::Well => status.success(),
                End::Killed => status.signal() == Some(libc::SIGKILL),
            });
            if !ok {
                wrong.push((rank, status));
            }
        }
        assert!(wrong.is_empty(), "these ranks did not end as expected (None: still running): {wrong:?}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.children {
            // One that has ended is not there to be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
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
