//! Many members that come, go, stop and die. `GGAS_CHAOS=100` has more rounds, `GGAS_CHAOS_SEED` the same again.

use std::time::{Duration, Instant};

use crate::common::{Dir, SOON, Shell, pid_of, until};

/// Rounds of an ordinary test run.
const FEW: u64 = 4;
/// Processes of an ordinary test run that join one after the other; 10,000 with `GGAS_CHAOS`.
const FEW_PROCESSES: usize = 300;
/// Processes at once.
const CROWD: usize = 12;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A process and what is to be true of it.
struct One {
    shell: Shell,
    joined: bool,
}

struct Chaos {
    dir: Dir,
    random: fastrand::Rng,
    crowd: Vec<One>,
}

impl Chaos {
    fn start(&mut self) {
        let node = self.random.u32(0..8);
        let shell = self.dir.shell(&format!("NETWORK=lab NODE={node} JOIN_TIMEOUT=600"));
        self.crowd.push(One { shell, joined: false });
    }

    /// A moment of a join or leave, or behind it.
    fn moment(&mut self) -> Duration {
        Duration::from_micros(self.random.u64(0..4_000))
    }

    /// One of them does something, and perhaps is ended or stopped in the middle of it.
    fn step(&mut self) {
        let at = self.random.usize(0..self.crowd.len());
        let (what, moment) = (self.random.u32(0..10), self.moment());
        let one = &mut self.crowd[at];
        let command = if one.joined { "leave" } else { "enter" };
        match what {
            // Killed at any moment.
            0..3 => {
                one.shell.begin(if what == 0 { "list" } else { command });
                std::thread::sleep(moment);
                self.crowd.swap_remove(at).shell.kill();
                self.start();
            }
            // Stopped at any moment; it goes on before anyone waits for it.
            3..5 => {
                one.shell.begin(command);
                std::thread::sleep(moment);
                one.shell.signal(libc::SIGSTOP);
                let (shell, joined) = (&mut one.shell, &mut one.joined);
                *joined = !*joined;
                // Another one comes or goes meanwhile, as far as that is possible.
                let pid = shell.pid();
                self.other(at);
                // SAFETY: a signal to our own child, which is not waited for yet.
                unsafe { libc::kill(pid as i32, libc::SIGCONT) };
                let other = self.crowd.iter_mut().find(|one| one.shell.pid() == pid);
                assert_eq!(other.expect("it is there").shell.answer(), "");
            }
            _ => {
                one.shell.does(command);
                one.joined = !one.joined;
            }
        }
    }

    /// Begins something with another one while `stopped` is, and lets that be killed.
    fn other(&mut self, stopped: usize) {
        let at = (stopped + 1 + self.random.usize(0..self.crowd.len() - 1)) % self.crowd.len();
        let moment = self.moment();
        let one = &mut self.crowd[at];
        one.shell.begin(if one.joined { "leave" } else { "enter" });
        std::thread::sleep(moment);
        self.crowd.swap_remove(at).shell.kill();
        self.start();
    }

    /// Who is in it, in the eyes of everyone, are those that joined and live.
    fn check(&mut self, looker: &mut Shell, name: &str) {
        let mut pids: Vec<u32> = self.crowd.iter().filter(|it| it.joined).map(|it| it.shell.pid()).collect();
        pids.sort_unstable();
        // It sees to the dead.
        assert_eq!(looker.ask("nets"), format!("lab (torus 2x2x2) {} stands", pids.len()), "{name}");
        let mut slots = Vec::new();
        for one in self.crowd.iter_mut().filter(|one| one.joined) {
            let list = one.shell.ask("list");
            let mut seen: Vec<u32> = list.split(' ').map(pid_of).collect();
            seen.sort_unstable();
            assert_eq!(seen, pids, "{name}: {list}");
            slots.push(one.shell.ask("me").split('.').next().expect("a slot").to_owned());
        }
        // All reach each other.
        let members: Vec<usize> = (0..self.crowd.len()).filter(|at| self.crowd[*at].joined).collect();
        for (from, to) in members.iter().zip(members.iter().cycle().skip(1)).filter(|(from, to)| from != to) {
            let slot = &slots[members.iter().position(|at| at == to).expect("it is there")];
            assert_eq!(self.crowd[*from].shell.ask(&format!("word={slot},{name}")), "sent", "{name}");
            let deadline = Instant::now() + SOON;
            // Ends come first.
            while !self.crowd[*to].shell.ask("event").contains(name) {
                assert!(Instant::now() < deadline, "{name}");
            }
        }
    }
}

#[test]
fn members_that_come_go_stop_and_die() {
    let rounds = setting("GGAS_CHAOS").unwrap_or(FEW);
    let seed = setting("GGAS_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("{rounds} rounds with GGAS_CHAOS_SEED={seed}");
    let mut chaos =
        Chaos { dir: Dir::new("chaos"), random: fastrand::Rng::with_seed(seed), crowd: Vec::new() };
    (0..CROWD).for_each(|_| chaos.start());
    let mut looker = chaos.dir.shell("");
    looker.ask("up=lab");
    for round in 0..rounds {
        let name = format!("round {round} of GGAS_CHAOS_SEED={seed}");
        (0..40).for_each(|_| chaos.step());
        chaos.check(&mut looker, &name);
    }
    // Half of them leave, the others are killed; then nobody is there, and nothing.
    for (at, mut one) in chaos.crowd.drain(..).enumerate() {
        if at % 2 == 0 {
            assert_eq!(one.shell.ask("leave"), "");
        }
        one.shell.kill();
    }
    assert_eq!(looker.ask("nets"), "lab (torus 2x2x2) 0 stands");
    assert_eq!(looker.ask("down=lab"), "0 members");
    chaos.dir.is_empty();
}

/// The same without one that stands: the network itself comes and goes all the time.
#[test]
fn a_network_that_comes_and_goes() {
    let rounds = setting("GGAS_CHAOS").unwrap_or(FEW);
    let seed = setting("GGAS_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("{rounds} rounds with GGAS_CHAOS_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let dir = Dir::new("goes");
    let mut looker = dir.shell("");
    for round in 0..rounds {
        let name = format!("round {round} of GGAS_CHAOS_SEED={seed}");
        let mut shells: Vec<Shell> = (0..4).map(|_| dir.shell("JOIN_TIMEOUT=600")).collect();
        shells.iter_mut().for_each(|it| it.begin("churn=100000"));
        std::thread::sleep(Duration::from_micros(random.u64(0..60_000)));
        // All but one are killed at any moment, while they make it, join, leave, clear it.
        let last = shells.pop().expect("four of them");
        for shell in shells {
            shell.kill();
            std::thread::sleep(Duration::from_micros(random.u64(0..3_000)));
        }
        let mut other = dir.shell("");
        other.does("enter");
        assert!(other.ask("list").contains(&format!(":{}", other.pid())), "{name}");
        last.kill();
        other.does("leave");
        assert_eq!(looker.ask("nets"), "", "{name}");
        dir.is_empty();
    }
}

#[test]
fn processes_one_after_the_other() {
    let processes = if setting("GGAS_CHAOS").is_some() { 10_000 } else { FEW_PROCESSES };
    let dir = Dir::new("one-by-one");
    let mut one = dir.shell("");
    one.does("enter");
    let (open, threads, files) = (one.ask("open"), one.ask("threads"), dir.files("default"));
    let mut times = Vec::new();
    for process in 0..processes {
        let args = ["churn=1", "enter", "word=0,hello", "leave"];
        let output = dir.command("").args(args).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let (time, rest) = said.split_once(" us\n").expect("how long it took");
        assert_eq!((rest, output.status.success()), ("sent\n", true), "process {process}");
        times.push(time.parse::<u64>().expect("a number"));
        // What it says of them, which is all.
        assert!(one.ask("event").ends_with(" says hello with 0"));
        assert!(one.ask("event").ends_with(" is Left"));
        if process % 100 == 0 {
            assert_eq!(dir.files("default"), files, "process {process}");
        }
    }
    until("all to be closed", || one.ask("open") == open);
    assert_eq!((one.ask("threads"), dir.files("default")), (threads, files));
    times.sort_unstable();
    eprintln!("{processes} processes: joining takes {} us (median)", times[times.len() / 2]);
    one.does("leave");
    dir.is_empty();
}
