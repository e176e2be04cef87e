//! MPS, by which a GPU runs the work of several processes at once; without it they take turns (5.1).

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use ggas_gpu::GpuError;
use ggas_kernels::{LaunchError, MemoryError};

use crate::SharedGpuError;

/// Where the daemon's files are unless `CUDA_MPS_PIPE_DIRECTORY` says otherwise.
const FOLDER: &str = "/tmp/nvidia-mps";

/// Whether processes that start now reach the daemon of MPS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mps {
    /// A daemon runs, with its files here.
    On(PathBuf),
    /// None has its files here.
    Off(PathBuf),
}

impl Mps {
    /// Looks where the driver would.
    pub fn find() -> Mps {
        let folder = std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").filter(|folder| !folder.is_empty());
        Mps::at(folder.map_or_else(|| FOLDER.into(), PathBuf::from))
    }

    fn at(folder: PathBuf) -> Mps {
        if is_served(&folder) { Mps::On(folder) } else { Mps::Off(folder) }
    }

    /// Whether there is one.
    pub fn is_on(&self) -> bool {
        matches!(self, Mps::On(_))
    }

    pub(crate) fn folder(&self) -> &Path {
        let (Mps::On(folder) | Mps::Off(folder)) = self;
        folder
    }
}

/// MPS as it was when ranks set up what they share.
pub(crate) struct Before {
    mps: Mps,
    /// Processes in which its daemon served this user then.
    servers: Vec<u32>,
}

impl Before {
    /// Behind this process's first use of the GPU, which has the daemon start a server.
    pub(crate) fn find() -> Before {
        let mps = Mps::find();
        // SAFETY: only asks.
        let user = unsafe { libc::geteuid() };
        let servers = if mps.is_on() { servers(mps.folder(), user) } else { Vec::new() };
        Before { mps, servers }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.mps.is_on()
    }

    /// Of a failure at this rank of the job: where the driver says that MPS is why, or where the daemon or its server has ended since, that is
    /// why work on the GPU failed, or does not end, here or at another rank.
    pub(crate) fn explain(&self, error: SharedGpuError, rank: usize) -> SharedGpuError {
        let may_follow = matches!(
            error,
            SharedGpuError::Gpu(_)
                | SharedGpuError::Memory(_)
                | SharedGpuError::Launch(_)
                | SharedGpuError::Timeout { .. }
                | SharedGpuError::Elsewhere { .. }
                | SharedGpuError::MpsEnded { folder: None, .. }
        );
        if may_follow && (is_of_mps(&error) || (self.is_on() && self.has_ended())) {
            let what = match &error {
                SharedGpuError::MpsEnded { rank, .. } => format!("as rank {rank} found, too"),
                error => error.to_string(),
            };
            return SharedGpuError::MpsEnded { rank, folder: Some(self.mps.folder().into()), what };
        }
        error
    }

    fn has_ended(&self) -> bool {
        !is_served(self.mps.folder()) || self.servers.iter().any(|server| !runs(*server))
    }
}

/// Whether the driver says that the server of MPS is gone, or has ended this process.
fn is_of_mps(error: &SharedGpuError) -> bool {
    let of_gpu = match error {
        SharedGpuError::Gpu(error) | SharedGpuError::Memory(MemoryError::Gpu(error)) => Some(error),
        SharedGpuError::Launch(LaunchError::Gpu(error)) => Some(error),
        _ => None,
    };
    of_gpu.is_some_and(GpuError::is_of_mps)
}

impl fmt::Display for Mps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mps::On(folder) => write!(f, "MPS is on ({})", folder.display()),
            Mps::Off(folder) => write!(
                f,
                "MPS is off: processes take turns on the GPU; `nvidia-cuda-mps-control -d` starts it (no daemon in {})",
                folder.display()
            ),
        }
    }
}

/// Somebody hears at the daemon's pipe, and the daemon that left its number beside it runs. One that was told to quit takes the number away
/// and leaves the pipe.
fn is_served(folder: &Path) -> bool {
    is_heard(&folder.join("control")) && daemon(folder).is_none_or(runs)
}

/// Whether a pipe has a reader, or a socket somebody who listens.
fn is_heard(place: &Path) -> bool {
    let Ok(about) = fs::metadata(place) else { return false };
    if about.file_type().is_socket() {
        // Of another kind of socket (`EPROTOTYPE`), but there.
        return UnixStream::connect(place)
            .err()
            .is_none_or(|error| error.kind() != ErrorKind::ConnectionRefused);
    }
    let open = || OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(place);
    // Who may not write there cannot ask, nor reach the daemon.
    about.file_type().is_fifo() && open().is_ok()
}

/// The daemon's process, where it has left its number. One that cannot be read is no process's.
fn daemon(folder: &Path) -> Option<u32> {
    let number = fs::read_to_string(folder.join("nvidia-cuda-mps-control.pid")).ok()?;
    Some(number.trim().parse().unwrap_or(0))
}

/// Whether a process is there that has not ended, and does not end just now: its connections may be closed already then.
fn runs(process: u32) -> bool {
    /// Of the kernel's flags of a process (`PF_EXITING`).
    const ENDS: u32 = 4;
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The state stands behind the name, which is in brackets and may be any; the flags are the sixth word behind it.
    let Some((_, rest)) = stat.rsplit_once(") ") else { return false };
    let mut words = rest.split(' ');
    let has_ended = words.next().is_none_or(|state| matches!(state, "Z" | "X"));
    let flags = words.nth(5).and_then(|flags| flags.parse::<u32>().ok()).unwrap_or(0);
    !has_ended && flags & ENDS == 0
}

/// Processes that a daemon has started to serve a user: any of its threads may have. A server runs as the user whom it serves; where none
/// does, one serves all.
fn servers(folder: &Path, user: u32) -> Vec<u32> {
    let Some(daemon) = daemon(folder) else { return Vec::new() };
    let threads = fs::read_dir(format!("/proc/{daemon}/task")).into_iter().flatten().flatten();
    let children = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let all: Vec<u32> = children.flat_map(|all| numbers(&all)).filter(|child| serves(*child)).collect();
    let is_own = |server: &&u32| fs::metadata(format!("/proc/{server}")).is_ok_and(|of| of.uid() == user);
    let own: Vec<u32> = all.iter().filter(is_own).copied().collect();
    if own.is_empty() { all } else { own }
}

fn numbers(text: &str) -> Vec<u32> {
    text.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

fn serves(process: u32) -> bool {
    let line = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
    line.split('\0').next().is_some_and(|program| program.ends_with("nvidia-cuda-mps-server"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};
    use std::sync::Mutex;
    use std::time::Duration;

    use ggas_gpu::DriverError;

    use super::*;
    use crate::plan::Fault;

    /// As the daemon's.
    fn pipe(folder: &Path) -> UnixListener {
        UnixListener::bind(folder.join("control")).expect("a socket")
    }

    #[test]
    fn a_daemon_is_found_by_its_pipe_while_it_runs() {
        let folder = std::env::temp_dir().join(format!("ggas-mps-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let find = || Mps::at(folder.clone());
        assert!(!find().is_on(), "nothing is there");
        let listens = pipe(&folder);
        assert!(find().is_on(), "a pipe alone");
        let number = folder.join("nvidia-cuda-mps-control.pid");
        fs::write(&number, format!("{}\n", std::process::id())).expect("a file");
        assert_eq!(find(), Mps::On(folder.clone()));
        fs::write(&number, "4294967295\n").expect("a file");
        assert!(!find().is_on(), "its daemon ended");
        fs::remove_file(&number).expect("ours");
        assert!(find().is_on());
        drop(listens);
        assert!(!find().is_on(), "it quit, and left the socket of nobody");
        fs::remove_file(folder.join("control")).expect("ours");
        fs::write(folder.join("control"), "").expect("a file");
        assert!(!find().is_on(), "nobody hears at a file");
        assert!(find().to_string().contains("nvidia-cuda-mps-control -d"));
        fs::remove_dir_all(&folder).expect("ours");
    }

    fn driver(code: u32) -> SharedGpuError {
        let (name, text) = ("CUDA_ERROR_X".to_owned(), "x".to_owned());
        GpuError::from(DriverError { call: "cuStreamQuery", code, name, text }).into()
    }

    fn late() -> SharedGpuError {
        SharedGpuError::Timeout { rank: 1, what: "the GPU", waited: Duration::from_secs(1) }
    }

    /// The rank that asks.
    const OWN: usize = 5;

    fn explain(before: &Before, error: SharedGpuError) -> SharedGpuError {
        before.explain(error, OWN)
    }

    /// Children of this process are one test's servers at a time.
    static SERVERS: Mutex<()> = Mutex::new(());

    fn user() -> u32 {
        // SAFETY: only asks.
        unsafe { libc::geteuid() }
    }

    fn names_mps(error: &SharedGpuError, first: &str) {
        assert!(matches!(error, SharedGpuError::MpsEnded { rank: OWN, folder: Some(_), .. }), "{error}");
        let text = error.to_string();
        let names = ["MPS", first, "nvidia-cuda-mps-control -d", "new job"];
        assert!(names.iter().all(|name| text.contains(name)), "{text}");
    }

    #[test]
    fn a_daemon_that_ended_since_the_set_up_explains_what_failed() {
        let folder = std::env::temp_dir().join(format!("ggas-mps-ended-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let _pipe = pipe(&folder);
        let before = Before { mps: Mps::at(folder.clone()), servers: Vec::new() };
        let gpu = || GpuError::Invalid("the GPU answers nothing".to_owned()).into();
        let elsewhere = || SharedGpuError::Elsewhere { rank: 1, how: "failed" };
        assert!(matches!(explain(&before, gpu()), SharedGpuError::Gpu(_)), "the daemon runs");
        assert!(matches!(explain(&before, elsewhere()), SharedGpuError::Elsewhere { .. }));
        fs::remove_dir_all(&folder).expect("ours");
        for error in [gpu(), late(), elsewhere(), driver(999)] {
            let first = error.to_string();
            names_mps(&explain(&before, error), &first);
            names_mps(&explain(&before, late()), folder.to_str().expect("text"));
        }
        let died = explain(&before, SharedGpuError::PeerLost { rank: 1 });
        assert!(matches!(died, SharedGpuError::PeerLost { .. }));
        let without = Before { mps: Mps::at(folder), servers: Vec::new() };
        assert!(matches!(explain(&without, gpu()), SharedGpuError::Gpu(_)), "there was none");
    }

    /// It is on another GPU or host, or has another daemon.
    #[test]
    fn what_another_rank_found_is_named_by_that_one_while_the_own_mps_runs() {
        let folder = std::env::temp_dir().join(format!("ggas-mps-other-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let _pipe = pipe(&folder);
        let before = Before { mps: Mps::at(folder.clone()), servers: Vec::new() };
        let found = || Fault::check(Fault::Mps.word(3)).expect_err("it is a fault");
        let told = explain(&before, found());
        assert!(matches!(told, SharedGpuError::MpsEnded { rank: 3, folder: None, .. }), "{told}");
        let text = told.to_string();
        assert!(text.contains("rank 3") && !text.contains("its files"), "{text}");
        fs::remove_dir_all(&folder).expect("ours");
        names_mps(&explain(&before, found()), "as rank 3 found, too");
    }

    #[test]
    fn what_the_driver_says_of_mps_needs_no_daemon_that_ended() {
        let folder = std::env::temp_dir().join(format!("ggas-mps-said-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let _pipe = pipe(&folder);
        let before = Before { mps: Mps::at(folder.clone()), servers: Vec::new() };
        for code in [805, 806, 807, 810] {
            names_mps(&explain(&before, driver(code)), &format!(", {code})"));
            let SharedGpuError::Gpu(GpuError::Driver(error)) = driver(code) else { unreachable!() };
            let memory = SharedGpuError::Memory(GpuError::Lost { gpu: 0, error }.into());
            names_mps(&explain(&before, memory), "GPU 0 failed earlier");
        }
        for code in [2, 700, 808, 809, 999] {
            assert!(matches!(explain(&before, driver(code)), SharedGpuError::Gpu(_)), "{code}");
        }
        fs::remove_dir_all(&folder).expect("ours");
    }

    /// A process that is called as the server is, of a user.
    fn server(user: u32) -> Child {
        let mut program = Command::new("sleep");
        let child = program.arg0("/usr/bin/nvidia-cuda-mps-server").arg("600").uid(user).spawn();
        let child = child.expect("a child");
        // The system lets this process go on before the child has its own command line.
        while !serves(child.id()) {
            std::thread::yield_now();
        }
        child
    }

    /// A daemon serves several users, each by a process of theirs.
    #[test]
    fn a_server_of_another_user_that_ended_explains_nothing() {
        let folder = std::env::temp_dir().join(format!("ggas-mps-users-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let _pipe = pipe(&folder);
        fs::write(folder.join("nvidia-cuda-mps-control.pid"), format!("{}\n", std::process::id()))
            .expect("a file");
        if user() != 0 {
            return eprintln!("skipped: only root begins processes of other users");
        }
        let _one = SERVERS.lock();
        let (mut own, mut other) = (server(0), server(65_534));
        assert_eq!(servers(&folder, 0), [own.id()]);
        assert_eq!(servers(&folder, 65_534), [other.id()]);
        let all = servers(&folder, 65_533);
        assert!(all.contains(&own.id()) && all.contains(&other.id()), "one of them serves all");
        let before = Before { servers: servers(&folder, 0), mps: Mps::at(folder.clone()) };
        other.kill().expect("ours");
        other.wait().expect("it ended");
        assert!(matches!(explain(&before, late()), SharedGpuError::Timeout { .. }), "its own runs");
        own.kill().expect("ours");
        own.wait().expect("it ended");
        names_mps(&explain(&before, late()), "rank 1 did not");
        fs::remove_dir_all(&folder).expect("ours");
    }

    /// A process that is called as the server is, a child of this one, which is the daemon.
    #[test]
    fn a_server_that_ended_explains_what_failed_though_the_daemon_runs() {
        let folder = std::env::temp_dir().join(format!("ggas-mps-server-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let _pipe = pipe(&folder);
        fs::write(folder.join("nvidia-cuda-mps-control.pid"), format!("{}\n", std::process::id()))
            .expect("a file");
        let _one = SERVERS.lock();
        let other = Command::new("sleep").arg("600").spawn();
        let mut server = server(user());
        let mut other = other.expect("a child");
        let before = Before { servers: servers(&folder, user()), mps: Mps::at(folder.clone()) };
        assert_eq!(before.servers, [server.id()], "and no other child");
        assert!(matches!(explain(&before, late()), SharedGpuError::Timeout { .. }), "it runs");
        server.kill().expect("ours");
        // It stays in the table until it is waited for.
        while runs(server.id()) {
            std::thread::yield_now();
        }
        names_mps(&explain(&before, late()), "rank 1 did not");
        server.wait().expect("it ended");
        names_mps(&explain(&before, late()), "rank 1 did not");
        other.kill().expect("ours");
        other.wait().expect("it ended");
        fs::remove_dir_all(&folder).expect("ours");
    }
}
