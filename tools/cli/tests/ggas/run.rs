//! `ggas run` from outside: output, input, exit codes, signals. How jobs begin is tested in ggas-members.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigHandler, Signal, signal};

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
const SOON: Duration = Duration::from_secs(60);

fn ggas(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ggas"));
    // Whatever goes wrong with a test: the launcher ends, and its processes with it.
    command.args(["run", "--timeout", "150s"]).args(args).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let heed_int = || {
        // SAFETY: no handler of this process is set or replaced, in a child that has one thread and runs nothing else.
        unsafe { signal(Signal::SIGINT, SigHandler::SigDfl) }?;
        Ok(())
    };
    // SAFETY: a system call, which allocates nothing. Tests that a shell runs in the background ignore INT, and so would
    // whatever they start.
    unsafe { command.pre_exec(heed_int) };
    command
}

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = ggas(args).output().expect("ggas starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// The launcher, killed with its guard.
struct Launcher(Child);

impl Launcher {
    fn start(args: &[&str]) -> Launcher {
        Launcher(ggas(args).spawn().expect("ggas starts"))
    }

    /// So many lines of output.
    fn lines(&mut self, count: usize) -> Vec<String> {
        let out = BufReader::new(self.0.stdout.as_mut().expect("it is piped"));
        out.lines().take(count).map(|line| line.expect("UTF-8")).collect()
    }

    fn signal(&self, signal: &str) {
        let sent =
            Command::new("kill").args([signal, &self.0.id().to_string()]).status().expect("kill starts");
        assert!(sent.success());
    }

    /// What it said on standard error, until its end.
    fn errors(&mut self) -> String {
        std::io::read_to_string(self.0.stderr.take().expect("it is piped")).expect("UTF-8")
    }

    fn code(&mut self) -> Option<i32> {
        let deadline = Instant::now() + SOON;
        loop {
            if let Some(status) = self.0.try_wait().expect("it is our child") {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it did not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a process is in one of these states (X: gone).
fn wait_for_state(pid: &str, states: &str) {
    let deadline = Instant::now() + SOON;
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('X');
        if states.contains(state) {
            return;
        }
        assert!(Instant::now() < deadline, "process {pid} is {state}, not {states}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn lines_carry_their_rank() {
    let (code, out, err) = run(&["-n", "2", "--", "sh", "-c", "echo a; echo b; echo c >&2; printf d"]);
    assert_eq!(code, Some(0));
    assert_eq!(sorted(&out), ["[0] a", "[0] b", "[0] d", "[1] a", "[1] b", "[1] d"]);
    assert_eq!(sorted(&err), ["[0] c", "[1] c"]);
    let (_, out, _) = run(&["-n", "11", "--", "sh", "-c", "echo $GGAS_RANK"]);
    assert!(out.contains("[ 3] 3\n") && out.contains("[10] 10\n"), "{out}");
    let (_, out, _) = run(&["-n", "2", "--no-prefix", "--", "echo", "a"]);
    assert_eq!(out, "a\na\n");
}

#[test]
fn places_are_as_asked() {
    let place = |args: &[&str]| {
        let program = ["--no-prefix", "--", "sh", "-c", "echo $GGAS_SIZE $GGAS_PER_NODE"];
        run(&[args, &program].concat()).1.lines().next().map(str::to_owned)
    };
    assert_eq!(place(&["-n", "2"]).as_deref(), Some("2 1"));
    assert_eq!(place(&["-n", "6", "--per-node", "4"]).as_deref(), Some("6 4"));
    assert_eq!(place(&["-n", "6", "--nodes", "2"]).as_deref(), Some("6 3"));
    assert_eq!(place(&["--nodes", "2", "--per-node", "3"]).as_deref(), Some("6 3"));
}

#[test]
fn bad_arguments_are_usage_errors() {
    let wrong: [(&[&str], &str); 8] = [
        (&["--", "true"], "--processes"),
        (&["-n", "2"], "PROGRAM"),
        (&["-n", "0", "--", "true"], "1 to 1024 processes"),
        (&["-n", "1025", "--", "true"], "1 to 1024 processes"),
        (&["-n", "4", "--per-node", "0", "--", "true"], "1 or more processes per node"),
        (&["-n", "300", "--per-node", "300", "--", "true"], "at most 256"),
        (&["-n", "5", "--nodes", "2", "--", "true"], "multiple of 2"),
        (&["-n", "5", "--nodes", "2", "--per-node", "2", "--", "true"], "leave one of the three out"),
    ];
    for (args, part) in wrong {
        let (code, out, err) = run(args);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{args:?}: {err}");
        assert!(err.contains(part), "{args:?}: no `{part}` in {err}");
    }
}

#[test]
fn what_cannot_be_started_ends_as_in_a_shell() {
    let wrong = [
        ("/no/such/program", 127, "build it, or check the path"),
        ("no-such-program", 127, "a name in PATH"),
        ("/etc/passwd", 126, "chmod +x"),
        ("/", 126, "it is a directory"),
    ];
    for (program, code, advice) in wrong {
        let (ended, out, err) = run(&["-n", "2", "--", program]);
        assert_eq!((ended, out.as_str(), err.lines().count()), (Some(code), "", 1), "{err}");
        let said = format!("ggas run: {program} cannot be started (");
        assert!(err.starts_with(&said) && err.contains(advice), "{err}");
    }
}

#[test]
fn a_job_that_the_system_refuses_is_no_bad_argument() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 4; exec \"$0\" run -n 2 -- true", env!("CARGO_BIN_EXE_ggas")]);
    let output = shell.output().expect("sh starts");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_help_names_exit_codes_and_times() {
    let help = Command::new(env!("CARGO_BIN_EXE_ggas")).args(["help", "run"]).output().expect("ggas starts");
    let help = String::from_utf8(help.stdout).expect("UTF-8");
    let (options, codes) = help.split_once("Exit codes").expect("it lists them");
    assert!(options.contains("--kill-after <TIME>") && options.contains("[default: 10s]"), "{help}");
    for code in [0, 124, 126, 127, 137, 141, 1, 2] {
        assert!(
            codes.lines().any(|line| line.starts_with(&format!("  {code:<3}  "))),
            "no {code} in {codes}"
        );
    }
}

/// The launcher's streams where nothing can be written.
fn run_full(args: &[&str], out: bool, err: bool) -> (Option<i32>, String) {
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let mut command = ggas(args);
    if out {
        command.stdout(full());
    }
    if err {
        command.stderr(full());
    }
    let output = command.output().expect("ggas starts");
    (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let why = "ggas run: standard output cannot be written: No space left on device (os error 28)\n";
    for program in ["echo", "printf"] {
        let ended = run_full(&["-n", "2", "--grace", "60s", "--", program, "x"], true, false);
        assert_eq!(ended, (Some(1), why.into()));
    }
    assert_eq!(run_full(&["-n", "2", "--", "sh", "-c", "echo x >&2"], false, true).0, Some(1));
    // The job is ended, whatever it does with what it is sent; its own failure counts first.
    let endless = ["sh", "-c", "trap '' PIPE; while :; do echo x; sleep 0.01; done"];
    let (code, err) = run_full(&[&["-n", "2", "--grace", "100ms", "--"], &endless[..]].concat(), true, false);
    assert_eq!((code, err), (Some(1), format!("{why}ggas run: ranks 0, 1 ended by the launcher\n")));
    let late = ["-n", "2", "--keep-going", "--", "sh", "-c", "echo x; sleep 0.3; echo x; exit 7"];
    let (code, err) = run_full(&late, true, false);
    assert_eq!((code, err.matches(why).count()), (Some(7), 1), "{err}");
    assert!(err.contains("rank 1 exited with status 7"), "{err}");
}

#[test]
fn it_ends_as_the_first_failure_does() {
    let script = "test $GGAS_RANK = 1 && exit 9; exec sleep 100";
    let (code, _, err) = run(&["-n", "3", "--grace", "50ms", "--", "sh", "-c", script]);
    assert_eq!(code, Some(9));
    assert_eq!(
        err,
        "ggas run: rank 1 exited with status 9 first\nggas run: ranks 0, 2 ended by the launcher\n"
    );
    let (code, _, err) = run(&["-n", "2", "--", "sh", "-c", "test $GGAS_RANK = 0 || kill -SEGV $$"]);
    assert!(code == Some(139) && err.contains("rank 1 was killed by signal 11 (SIGSEGV)"), "{err}");
    let (code, _, err) = run(&["-n", "2", "--timeout", "200ms", "--", "sleep", "100"]);
    assert!(code == Some(124) && err.contains("ranks 0, 1 still running"), "{err}");
    let (code, out, _) =
        run(&["-n", "2", "--keep-going", "--", "sh", "-c", "sleep 0.$GGAS_RANK; echo x; exit 3"]);
    assert_eq!((code, out.lines().count()), (Some(3), 2));
}

#[test]
fn input_goes_to_rank_zero() {
    let script = "sed s/^/got:/";
    let mut child =
        ggas(&["-n", "2", "--", "sh", "-c", script]).stdin(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("it is piped").write_all(b"one\ntwo\n").expect("it is read");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "[0] got:one\n[0] got:two\n");
}

#[test]
fn signals_reach_every_rank() {
    let script =
        "trap 'echo usr1' USR1; trap 'echo term; exit 5' TERM; echo ready; while :; do sleep 0.01; done";
    let mut job = Launcher::start(&["-n", "2", "--no-prefix", "--", "sh", "-c", script]);
    assert_eq!(job.lines(2), ["ready"; 2]);
    job.signal("-USR1");
    assert_eq!(job.lines(2), ["usr1"; 2]);
    job.signal("-TERM");
    assert_eq!(job.lines(2), ["term"; 2]);
    assert_eq!(job.code(), Some(5));
    // Untrapped: as shells say it.
    let mut job =
        Launcher::start(&["-n", "2", "--no-prefix", "--", "sh", "-c", "echo ready; exec sleep 100"]);
    job.lines(2);
    job.signal("-INT");
    assert_eq!(job.code(), Some(130));
}

#[test]
fn who_ignores_int_is_killed_by_the_second() {
    let mut job =
        Launcher::start(&["-n", "2", "--no-prefix", "--", "sh", "-c", "trap '' INT; echo ready; sleep 100"]);
    job.lines(2);
    job.signal("-INT");
    job.signal("-INT");
    // Signals that are the same merge while they wait: ask until it has come twice.
    let deadline = Instant::now() + SOON;
    while job.0.try_wait().expect("it is our child").is_none() {
        assert!(Instant::now() < deadline);
        job.signal("-INT");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(job.code(), Some(137));
    let said = "ggas run: ranks 0, 1 killed by the launcher: SIGINT came within 1s of the signal before\n";
    assert_eq!(job.errors(), said);
}

#[test]
fn who_does_not_end_at_a_signal_is_killed_in_time() {
    let script = "trap '' INT TERM HUP QUIT; echo ready; while :; do sleep 0.01; done";
    for signal in ["INT", "TERM", "HUP", "QUIT"] {
        let mut job = Launcher::start(&["-n", "2", "--kill-after", "300ms", "--", "sh", "-c", script]);
        job.lines(2);
        job.signal(&format!("-{signal}"));
        assert_eq!(job.code(), Some(137));
        let said =
            format!("ggas run: ranks 0, 1 killed by the launcher: still running 300ms after SIG{signal}\n");
        assert_eq!(job.errors(), said);
    }
}

#[test]
fn stopping_the_launcher_stops_the_job() {
    let mut job = Launcher::start(&["-n", "2", "--no-prefix", "--", "sh", "-c", "echo $$; exec sleep 100"]);
    let pids = job.lines(2);
    job.signal("-TSTP");
    wait_for_state(&job.0.id().to_string(), "T");
    pids.iter().for_each(|pid| wait_for_state(pid, "T"));
    job.signal("-CONT");
    pids.iter().for_each(|pid| wait_for_state(pid, "S"));
    job.signal("-TERM");
    assert_eq!(job.code(), Some(143));
}

#[test]
fn killing_the_launcher_kills_the_job() {
    let mut job = Launcher::start(&["-n", "3", "--no-prefix", "--", "sh", "-c", "echo $$; exec sleep 100"]);
    let pids = job.lines(3);
    job.signal("-KILL");
    job.code();
    // Z: whoever adopts orphans here reaps them at leisure.
    pids.iter().for_each(|pid| wait_for_state(pid, "XZ"));
}

/// Whatever its processes are, whoever started them: in other groups, in other sessions, with no parent left.
#[test]
fn killing_the_launcher_kills_all_that_was_started() {
    let script = "sh -c 'echo $$; exec sleep 300' & sh -c \"sh -c 'echo \\$\\$; exec sleep 300' &\"
        setsid -f sh -c 'echo $$; exec sleep 300'; setsid -f sh -c 'setsid -f sh -c \"echo \\$\\$; exec sleep 300\"'
        echo $PPID; wait";
    let mut job = Launcher::start(&["-n", "2", "--no-prefix", "--", "sh", "-c", script]);
    let mut pids = job.lines(10);
    pids.push(job.0.id().to_string());
    let guards: Vec<_> = pids
        .iter()
        .filter(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "rank-guard\n")
        })
        .collect();
    // Killing by the launcher's name or arguments leaves them to do their work.
    assert_eq!(guards.len(), 2);
    for guard in guards {
        let shown = std::fs::read(format!("/proc/{guard}/cmdline")).expect("it runs");
        assert_eq!(String::from_utf8_lossy(&shown).trim_end_matches('\0'), "rank-guard");
    }
    job.signal("-KILL");
    job.code();
    pids.iter().for_each(|pid| wait_for_state(pid, "XZ"));
}

/// It says nothing, as other programs whose output goes to `head`; nor does it hang where processes do not end by SIGPIPE.
#[test]
fn a_reader_that_goes_away_ends_the_job() {
    let deaf = "trap '' PIPE; while :; do echo x; sleep 0.01; done";
    for program in [&["yes"][..], &["sh", "-c", deaf]] {
        let mut job = Launcher::start(&[&["-n", "2", "--"], program].concat());
        assert_eq!(job.lines(1).len(), 1);
        drop(job.0.stdout.take());
        assert_eq!((job.code(), job.errors()), (Some(141), String::new()));
    }
    // All had ended when it was noticed.
    let mut ended = ggas(&["-n", "2", "--", "echo", "x"]);
    let (reads, writes) = std::io::pipe().expect("a pipe");
    drop(reads);
    let output = ended.stdout(writes).output().expect("ggas starts");
    assert_eq!((output.status.code(), output.stderr), (Some(141), Vec::new()));
}

/// Neither the time-out nor a signal waits for someone who holds the output and does not read it.
#[test]
fn a_reader_that_does_not_read_holds_up_no_end() {
    let mut timed = Launcher::start(&["--timeout", "300ms", "-n", "2", "--", "yes"]);
    assert_eq!(timed.code(), Some(124));
    let mut asked = Launcher::start(&["-n", "2", "--", "sh", "-c", "echo ready; exec yes"]);
    assert_eq!(asked.lines(1).len(), 1);
    asked.signal("-TERM");
    assert_eq!(asked.code(), Some(143));
}
