//! The network of a test, and its processes: this program again, as the same test in another role.

use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use ggas::members::{NetworkShape, put_up, take_down};

use crate::SOON;
use crate::board::{Board, State};

const NETWORK: &str = "lab";
pub const NODES: u32 = 8;
/// Variables of a test's own surroundings that say something to members.
const VARIABLES: [&str; 6] =
    ["GGAS_RANK", "GGAS_SIZE", "GGAS_JOB", "GGAS_PER_NODE", "GGAS_DEVICE", "EXTOLL_DEVICE"];

/// A network that stands, in a directory of its own; all goes with this value.
pub struct Stage {
    test: String,
    dir: PathBuf,
    pub board: &'static Board,
}

/// A process in a role. It is killed with this value, if it has not ended.
pub struct Actor {
    pub member: u32,
    pub child: Child,
}

/// Plays the role that this process was started for, if it was: `play` gets its name and its number.
pub fn plays(play: impl FnOnce(&str, &'static Board, u32)) -> bool {
    let Ok(role) = std::env::var("GGAS_CHAOS_ROLE") else { return false };
    match role.split_once(' ') {
        None if role == "up" => drop(put_up(NETWORK, &shape()).unwrap()),
        None => assert!(take_down(NETWORK).unwrap().is_empty(), "somebody is still there"),
        Some((name, number)) => {
            let board = std::env::var_os("GGAS_CHAOS_BOARD").expect("where the board is");
            play(name, Board::open(Path::new(&board)), number.parse().expect("a number"));
        }
    }
    true
}

/// Links that lose a packet now and then, which are repeated: of every third seed.
fn shape() -> NetworkShape {
    let board = std::env::var_os("GGAS_CHAOS_BOARD").expect("where the board is");
    let seed = Board::open(Path::new(&board)).seed.load(SeqCst);
    let faults = if seed.is_multiple_of(3) { format!("drop=0.01,seed={seed}") } else { String::new() };
    NetworkShape::torus(2, 2, 2).unwrap().with_faults(&faults).unwrap()
}

impl Stage {
    pub fn new(test: &str, seed: u64) -> Stage {
        let dir = std::env::temp_dir().join(format!("ggas-chaos-{}-{test}", std::process::id()));
        for path in [&dir, &dir.join("run")] {
            std::fs::DirBuilder::new().mode(0o700).create(path).expect("a new directory");
        }
        let board = Board::create(&dir.join("board"));
        board.seed.store(seed, SeqCst);
        let stage = Stage { test: test.to_owned(), dir, board };
        stage.run("up");
        stage
    }

    /// Starts a member that is not born yet.
    pub fn start(&self, role: &str, member: u32, node: u32) -> Actor {
        self.board.entry(member).set_state(State::Joins);
        let mut command = self.command(&format!("{role} {member}"));
        let child = command.env("GGAS_NODE", node.to_string()).spawn().expect("it starts");
        Actor { member, child }
    }

    /// Nobody is there any more, and nothing is left of anyone.
    pub fn end(&self) {
        self.run("down");
        let left: Vec<_> = std::fs::read_dir(self.dir.join("run")).expect("it is there").flatten().collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    fn run(&self, role: &str) {
        let status = self.command(role).status().expect("it starts");
        assert!(status.success(), "`{role}`: {status}");
    }

    fn command(&self, role: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args([&self.test, "--exact", "--nocapture", "--quiet"]);
        for name in VARIABLES {
            command.env_remove(name);
        }
        command.envs([("GGAS_CHAOS_ROLE", role), ("GGAS_NETWORK", NETWORK), ("GGAS_QUIET", "1")]);
        // One that is stopped while it joins or leaves may hold others up.
        command.env("GGAS_JOIN_TIMEOUT", "600");
        command.env("GGAS_CHAOS_BOARD", self.dir.join("board")).env("GGAS_RUNTIME_DIR", self.dir.join("run"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // SAFETY: a system call that is allowed between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        command
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Actor {
    pub fn signal(&self, signal: i32) {
        // SAFETY: a signal to our own child, which is not waited for yet.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Stops it, and returns once it stands still.
    pub fn stop(&self) {
        self.signal(libc::SIGSTOP);
        until("it stands still", || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        });
    }

    /// Kills it; nobody finds it there who sees its end.
    pub fn kill(&mut self, board: &Board) {
        board.entry(self.member).set_state(State::Dying);
        self.signal(libc::SIGKILL);
        self.child.wait().expect("our child");
        board.entry(self.member).set_state(State::Gone);
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // One that was waited for is no process any more.
        if let Ok(None) = self.child.try_wait() {
            self.signal(libc::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

/// Looks again and again until it is so.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not in {SOON:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until a member has come so far, as it says by its epoch.
#[track_caller]
pub fn until_step(board: &Board, member: u32, step: u64) {
    until(&format!("step {step} of {member}"), || board.entry(member).epoch.load(SeqCst) >= step);
}
