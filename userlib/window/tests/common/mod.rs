//! Tests in real processes: a test runs itself again, once for each rank of a job.

use std::io::Read;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ggas_members::Job;

/// Bound of a whole job.
const JOB: Duration = Duration::from_secs(170);
/// How a rank ends whose `member` has returned. The harness of one that finds no test of that name ends with 0.
pub const WELL: i32 = 86;

/// Runs `member` in `size` processes that form a job with `per_node` of them on a node; all must end well.
/// `test` is the name of the calling test function, with its modules: `across::barriers`.
#[allow(dead_code, reason = "some have hosts only")]
pub fn in_job(test: &str, (size, per_node): (u32, u32), member: fn(&Job)) {
    expect_ends(test, &vec![0; size as usize], per_node, None, member);
}

/// As `in_job`; rank `victim` must end by SIGKILL, and all others well.
#[allow(dead_code, reason = "not every test binary kills")]
pub fn in_job_with_death(test: &str, size: u32, victim: u32, member: fn(&Job)) {
    expect_ends(test, &vec![0; size as usize], 1, Some(victim), member);
}

/// As `in_job`, or with a `victim` as `in_job_with_death`, with each rank on one of several hosts, which are directories of networks:
/// processes of different ones share no memory of the job.
#[allow(dead_code, reason = "not every test binary has hosts")]
pub fn on_hosts(test: &str, hosts: &[usize], per_node: u32, victim: Option<u32>, member: fn(&Job)) {
    expect_ends(test, hosts, per_node, victim, member);
}

/// As `on_hosts`, with a node for each rank.
#[allow(dead_code, reason = "not every test binary has hosts")]
pub fn in_job_over(test: &str, hosts: &[usize], member: fn(&Job)) {
    on_hosts(test, hosts, 1, None, member);
}

/// The same; rank `victim` must end by SIGKILL.
#[allow(dead_code, reason = "not every test binary has hosts")]
pub fn in_job_over_with_death(test: &str, hosts: &[usize], victim: u32, member: fn(&Job)) {
    on_hosts(test, hosts, 1, Some(victim), member);
}

/// As `in_job`, with a variable for all processes.
#[allow(dead_code, reason = "few have one")]
pub fn in_job_with(test: &str, size: u32, variable: (&str, &str), member: fn(&Job)) {
    on_hosts_with(test, &vec![0; size as usize], 1, variable, member);
}

/// As `on_hosts`, with a variable for all processes.
#[allow(dead_code, reason = "few have one")]
pub fn on_hosts_with(test: &str, hosts: &[usize], per_node: u32, variable: (&str, &str), member: fn(&Job)) {
    for (rank, status) in ends(test, hosts, per_node, &[variable], member).iter().enumerate() {
        assert_eq!(status.code(), Some(WELL), "rank {rank} of {test}: {status}");
    }
}

fn expect_ends(test: &str, hosts: &[usize], per_node: u32, victim: Option<u32>, member: fn(&Job)) {
    let dies = victim.map(|victim| victim.to_string());
    let variables: Vec<(&str, &str)> = dies.iter().map(|rank| ("GGAS_TEST_VICTIM", rank.as_str())).collect();
    for (rank, status) in (0..).zip(ends(test, hosts, per_node, &variables, member)) {
        let died = status.signal() == Some(libc::SIGKILL);
        let expected = if Some(rank) == victim { died } else { status.code() == Some(WELL) };
        assert!(expected, "rank {rank} of {test}: {status}");
    }
}

/// In a process of `in_job_with_death`: who shall die. `None` in one of `in_job`.
#[allow(dead_code, reason = "not every test binary kills")]
pub fn victim() -> Option<u32> {
    std::env::var("GGAS_TEST_VICTIM").ok()?.parse().ok()
}

/// The first ranks wait for each other, also where others have left, with which no barrier ends well.
#[allow(dead_code, reason = "in few tests somebody leaves")]
pub fn all_of_first(ranks: u32, job: &Job) {
    const TAG: u64 = 1 << 40;
    let hear = |rank: u32| job.recv_bytes(rank, TAG, JOB).expect("it is there");
    let tell = |rank: u32| job.send_bytes(rank, TAG, &[], JOB).expect("it is there");
    match job.rank() {
        0 => {
            (1..ranks).for_each(|rank| drop(hear(rank)));
            (1..ranks).for_each(tell);
        }
        _ => {
            tell(0);
            hear(0);
        }
    }
}

/// Ends this process as if by a crash.
#[allow(dead_code, reason = "not every test binary kills")]
pub fn die() -> ! {
    signal(std::process::id(), libc::SIGKILL);
    unreachable!("killed")
}

/// Sends a signal to a process of this test.
pub fn signal(process: u32, signal: libc::c_int) {
    // SAFETY: sends a signal, to this process or another of the test.
    assert_eq!(unsafe { libc::kill(process as libc::pid_t, signal) }, 0);
}

fn ends(
    test: &str,
    hosts: &[usize],
    per_node: u32,
    variables: &[(&str, &str)],
    member: fn(&Job),
) -> Vec<ExitStatus> {
    if std::env::var("GGAS_TEST").as_deref() == Ok(test) {
        let job = Job::join().expect("a job");
        member(&job);
        drop(job);
        // The test harness has nothing to add.
        std::process::exit(WELL);
    }
    static JOBS: AtomicU32 = AtomicU32::new(0);
    let name = format!("{}-{}", std::process::id(), JOBS.fetch_add(1, Ordering::Relaxed));
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(&name);
    let host = |host: &usize| directory.join(host.to_string());
    for host in hosts.iter().map(host) {
        std::fs::create_dir_all(&host).expect("a directory");
        std::fs::set_permissions(&host, std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .expect("permissions");
    }
    let meet = hosts.iter().any(|host| *host != hosts[0]).then(meeting);
    let start = |rank: usize| {
        Command::new(std::env::current_exe().expect("this program"))
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env("GGAS_TEST", test)
            .envs(variables.iter().copied())
            .env("GGAS_RANK", rank.to_string())
            .env("GGAS_SIZE", hosts.len().to_string())
            .env("GGAS_PER_NODE", per_node.to_string())
            .env("GGAS_JOB", &name)
            .env("GGAS_RUNTIME_DIR", host(&hosts[rank]))
            .envs(meet.iter().flat_map(|(_, place)| place).map(|(name, value)| (name, value)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process")
    };
    let mut children = Children((0..hosts.len()).map(start).collect());
    let ends = children.wait(Instant::now() + JOB);
    let _ = std::fs::remove_dir_all(&directory);
    ends
}

/// How ranks on several hosts find rank 0: at a port that is free, and none of those that the system gives to others meanwhile. A name
/// in the kernel keeps it from other tests until rank 0 listens there; it goes with what is returned.
pub fn meeting() -> (UnixListener, [(&'static str, String); 2]) {
    let free = (0..12_000).find_map(|i| {
        let place = format!("127.0.0.1:{}", 20_000 + (std::process::id() * 31 + i) % 12_000);
        let name = SocketAddr::from_abstract_name(format!("ggas test at {place}")).expect("a name");
        let kept = UnixListener::bind_addr(&name).ok()?;
        TcpListener::bind(&place).is_ok().then_some((kept, place))
    });
    let (kept, place) = free.expect("a port");
    let secret = "00112233445566778899aabbccddeeff".to_owned();
    (kept, [("GGAS_MEET", place), ("GGAS_SECRET", secret)])
}

/// Processes that do not outlive the test.
struct Children(Vec<Child>);

impl Children {
    fn wait(&mut self, deadline: Instant) -> Vec<ExitStatus> {
        let mut ends = vec![None; self.0.len()];
        while ends.contains(&None) && Instant::now() < deadline {
            for (child, end) in self.0.iter_mut().zip(&mut ends) {
                if end.is_none() {
                    *end = child.try_wait().expect("a child");
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let missing: Vec<usize> = (0..ends.len()).filter(|rank| ends[*rank].is_none()).collect();
        self.kill();
        for (rank, child) in self.0.iter_mut().enumerate() {
            let mut text = String::new();
            if let Some(mut stderr) = child.stderr.take() {
                let _ = stderr.read_to_string(&mut text);
            }
            if !text.is_empty() {
                eprintln!("rank {rank}: {}", text.trim_end());
            }
        }
        assert!(missing.is_empty(), "ranks {missing:?} did not end");
        ends.into_iter().flatten().collect()
    }

    fn kill(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.kill();
    }
}
