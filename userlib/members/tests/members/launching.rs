//! The launcher: exit codes, output, time-outs, and what is left of its processes.

use std::time::{Duration, Instant};

use crate::common::{self, Dir, JOB, SOON, all, err, member, out, run, succeeds};
use ggas_members::launch::{Bind, Exit, Input, Launch, LaunchError, Outcome, Output, Running, Stream};

fn sh(processes: u32, script: &str) -> Launch {
    Launch::new("sh").args(["-c", script]).processes(processes).timeout(JOB).output(Output::Capture)
}

fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn other_programs_run_as_they_are() {
    let outcome = run(sh(3, "echo $GGAS_RANK of $GGAS_SIZE; echo e >&2; read x || echo no input"));
    succeeds(&outcome);
    for rank in 0..3 {
        assert_eq!(out(&outcome, rank), format!("{rank} of 3\nno input\n"));
        assert_eq!(err(&outcome, rank), "e\n");
    }
}

#[test]
fn a_wrapper_may_stand_in_between() {
    let outcome = run(sh(2, &format!("{} join who exchange=9; echo after", common::MEMBER)));
    succeeds(&outcome);
    assert_eq!(out(&outcome, 1), "rank 1 of 2 on node 1 of 2\nafter\n");
}

#[test]
fn the_first_failure_decides() {
    let outcome =
        run(sh(3, "test $GGAS_RANK = 1 && exit 7; exec sleep 100").grace(Duration::from_millis(100)));
    assert_eq!((outcome.code(), outcome.first_failure()), (7, Some(1)), "{}", all(&outcome));
    // By TERM, which is enough for it.
    assert_eq!((outcome.ended(), outcome.exits()[0]), (&[0, 2][..], Exit::Signal(libc::SIGTERM)));
    assert_eq!(outcome.summary(), "rank 1 exited with status 7 first\nranks 0, 2 ended by the launcher\n");
    let killed = run(sh(2, "test $GGAS_RANK = 0 && kill -9 $$; sleep 0.2; exit 4").grace(SOON));
    assert_eq!((killed.code(), killed.first_failure()), (137, Some(0)));
    assert_eq!(killed.exits(), [Exit::Signal(9), Exit::Code(4)]);
    assert!(
        killed.summary().contains("rank 0 was killed by signal 9 (SIGKILL) first"),
        "{}",
        killed.summary()
    );
    assert!(killed.summary().contains("rank 1 exited with status 4"), "{}", killed.summary());
}

#[test]
fn what_the_launcher_ends_is_told_from_what_others_kill() {
    let rank_0_fails = || {
        let job = sh(3, "exec sleep 1000").first("sh", ["-c", "exit 3"]).keep_going();
        let job = job.spawn().expect("it starts");
        while job.exit(0).is_none() {
            std::thread::yield_now();
        }
        job
    };
    let job = rank_0_fails();
    job.end(1).expect("it runs");
    job.end(2).expect("it runs");
    let outcome = job.wait();
    assert_eq!((outcome.code(), outcome.ended()), (3, &[1, 2][..]), "{}", all(&outcome));
    assert_eq!(outcome.summary(), "rank 0 exited with status 3 first\nranks 1, 2 ended by the launcher\n");
    let job = rank_0_fails();
    (1..3).for_each(|rank| job.kill(rank, libc::SIGKILL).expect("it runs"));
    let killed = job.wait();
    assert!(killed.summary().contains("ranks 1, 2 were killed by signal 9"), "{}", killed.summary());
}

#[test]
fn who_does_not_hear_term_is_killed() {
    let time = Duration::from_millis(200);
    let deaf = member(2, "0:deaf join barrier=60000 1:exit=1 sleep=600000").grace(Duration::ZERO);
    let outcome = run(deaf.kill_after(time));
    assert_eq!(outcome.exits(), [Exit::Signal(libc::SIGKILL), Exit::Code(1)]);
    assert_eq!((outcome.ended(), outcome.killed(), outcome.code()), (&[0][..], &[0][..], 1));
    let summary = "rank 1 exited with status 1 first\nrank 0 killed by the launcher: still running 200ms after SIGTERM\n";
    assert_eq!(outcome.summary(), summary);
    // After the time-out, too: it says both.
    let outcome = run(sh(1, "trap '' TERM; while :; do sleep 0.01; done").timeout(time).kill_after(time));
    assert_eq!((outcome.code(), outcome.killed()), (124, &[0][..]), "{}", all(&outcome));
    let said = outcome.summary();
    assert!(said.contains("rank 0 still running, ended") && said.contains("rank 0 killed"), "{said}");
    // One that is stopped hears it, too.
    let stopped = run(member(2, "join 0:stop 1:sleep=100 1:exit=1").grace(Duration::ZERO));
    assert_eq!(stopped.exits()[0], Exit::Signal(libc::SIGTERM), "{}", all(&stopped));
}

/// Tries with more and more time until what is not to be late is not: a machine may stall.
fn patiently(
    launch: impl Fn(Duration) -> Outcome,
    in_time: impl Fn(&Outcome) -> bool,
) -> (Duration, Outcome) {
    for time in [Duration::from_millis(300), Duration::from_secs(3)] {
        let outcome = launch(time);
        if in_time(&outcome) {
            return (time, outcome);
        }
    }
    (SOON / 3, launch(SOON / 3))
}

#[test]
fn the_time_out_names_who_still_ran() {
    let script = "test $GGAS_RANK = 1 || exec sleep 100";
    let (time, outcome) =
        patiently(|time| run(sh(3, script).timeout(time)), |outcome| outcome.timed_out() == Some(&[0, 2]));
    assert_eq!((outcome.code(), outcome.timed_out()), (124, Some(&[0, 2][..])), "{}", all(&outcome));
    assert_eq!(outcome.summary(), format!("the time of {time:?} is over: ranks 0, 2 still running, ended\n"));
}

#[test]
fn a_program_that_never_joins_is_named() {
    let (time, outcome) = patiently(
        |time| run(member(3, "1:sleep=120000 join").join_timeout(time).grace(time / 3)),
        |outcome| outcome.ended() == [1] && err(outcome, 0).contains("rank 1 did not join"),
    );
    assert!(err(&outcome, 0).contains(&format!("rank 1 did not join in {time:?}")), "{}", all(&outcome));
    assert_eq!((outcome.code(), outcome.ended()), (3, &[1][..]));
}

#[test]
fn what_cannot_be_started_is_said() {
    let error = |launch: Launch| launch.spawn().expect_err("it cannot start");
    let dir = Dir::new("programs");
    let file = |name: &str, bytes: &[u8], mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        let path = dir.0.join(name);
        std::fs::write(&path, bytes).expect("it is written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
        path
    };
    // As shells have it, with a word of what to do.
    let elf: &[u8] = b"\x7fELF\x02\x01\x01";
    let wrong = [
        ("/no/such/program".into(), 127, "give its path"),
        ("no-such-program".into(), 127, "a name in PATH"),
        ("".into(), 127, "a name in PATH"),
        (file("orphan", b"#!/no/such/interpreter\n", 0o755), 127, "interpreter"),
        (file("plain", b"#!/bin/sh\n", 0o644), 126, "chmod +x"),
        (dir.0.clone(), 126, "it is a directory"),
        (file("strange", b"\x01\0\x02\0", 0o755), 126, "no program for this machine"),
        (file("other-machine", &[elf, &[b'\n'; 80]].concat(), 0o755), 126, "no program for this machine"),
        (dir.0.join("plain/program"), 126, "see whether it runs"),
    ];
    for (program, code, advice) in wrong {
        let error = error(Launch::new(&program).processes(2));
        assert!(matches!(error, LaunchError::Program { .. }), "{error}");
        assert!(error.code() == code && error.to_string().contains(advice), "{}: {error}", error.code());
    }
    // In PATH: passed over for one that can be executed, and named if there is none.
    let first = dir.0.display();
    assert_eq!(error(Launch::new("plain").env("PATH", dir.0.as_os_str())).code(), 126);
    std::fs::create_dir(dir.0.join("second")).expect("it is new");
    // A text is the shell's, also without a first line that says so.
    let text = file("second/plain", b"echo $0 $1 $PLACE", 0o755);
    let path = format!("/nowhere:{first}:{first}/second:/usr/bin:/bin");
    let found = Launch::new("plain").arg("one").env("PATH", path).env("PLACE", "here");
    let outcome = run(found.output(Output::Capture));
    assert_eq!(out(&outcome, 0), format!("{} one here\n", text.display()), "{}", all(&outcome));
    // From where the processes begin.
    let there = Launch::new("./plain").current_dir(dir.0.join("second")).output(Output::Capture);
    assert_eq!(out(&run(there), 0), "./plain\n");
    let nowhere = error(Launch::new("true").current_dir(dir.0.join("no")));
    assert!(nowhere.code() == 1 && nowhere.to_string().contains("directory of the processes"), "{nowhere}");
    for (processes, per_node) in [(0, 1), (1025, 1), (2, 0), (300, 300)] {
        let launch = Launch::new("true").processes(processes).per_node(per_node);
        assert!(matches!(error(launch), LaunchError::Job(_)), "{processes} {per_node}");
    }
}

#[test]
fn lines_stay_whole() {
    let script = "for i in 1 2 3 4 5 6 7 8 9; do printf half; printf ' %d\\n' $i; done; printf end";
    let (tell, hear) = std::sync::mpsc::channel();
    let each = Output::Each(Box::new(move |rank, stream, line: &[u8]| {
        let _ = tell.send((rank, stream, line.to_vec()));
    }));
    assert!(run(sh(4, script).output(each)).is_success());
    let lines: Vec<_> = hear.into_iter().collect();
    assert_eq!(lines.len(), 40);
    for rank in 0..4 {
        let text: Vec<u8> =
            lines.iter().filter(|(of, _, _)| *of == rank).flat_map(|(_, _, line)| line.clone()).collect();
        let want: String = (1..10).map(|i| format!("half {i}\n")).chain(["end\n".to_string()]).collect();
        assert_eq!(String::from_utf8_lossy(&text), want);
    }
    assert!(lines.iter().all(|(_, stream, line)| *stream == Stream::Out && line.ends_with(b"\n")));
}

#[test]
fn much_output_arrives_whole() {
    let outcome = run(sh(2, "seq 1 100000; printf 'x%.0s' $(seq 1 300) >&2"));
    succeeds(&outcome);
    let text = out(&outcome, 1);
    assert_eq!((text.lines().count(), text.lines().last()), (100_000, Some("100000")));
    assert_eq!(err(&outcome, 0).len(), 301);
}

#[test]
fn nothing_stays_behind() {
    // Rank 0 leaves a process in its group; rank 1 is killed with the rest.
    let (tell, hear) = std::sync::mpsc::channel();
    let each = Output::Each(Box::new(move |_, _, line: &[u8]| {
        let _ = tell.send(String::from_utf8_lossy(line).trim().parse().expect("a number"));
    }));
    let script = "sleep 1000 & echo $!; test $GGAS_RANK = 0 && exit 0; wait";
    let running = sh(2, script).output(each).spawn().expect("it starts");
    let pids = [running.pid(0), running.pid(1)].map(|pid| pid.expect("it runs"));
    let left: Vec<u32> = (0..2).map(|_| hear.recv_timeout(SOON).expect("it starts one")).collect();
    running.kill(1, libc::SIGTERM).expect("it runs");
    let outcome = running.wait();
    assert_eq!(outcome.exits(), [Exit::Code(0), Exit::Signal(libc::SIGTERM)]);
    let deadline = Instant::now() + SOON;
    while left.iter().any(|pid| is_alive(*pid)) {
        assert!(Instant::now() < deadline, "one of {left:?} is alive");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(pids.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()), "a zombie");
}

/// What a rank says of its processes' ids: one a line.
fn ids(count: usize, launch: Launch) -> (Running, Vec<u32>) {
    let (tell, hear) = std::sync::mpsc::channel();
    let each = Output::Each(Box::new(move |_, _, line: &[u8]| {
        let _ = tell.send(String::from_utf8_lossy(line).trim().parse().expect("a number"));
    }));
    let running = launch.output(each).spawn().expect("it starts");
    let ids = (0..count).map(|_| hear.recv_timeout(SOON).expect("it starts one")).collect();
    (running, ids)
}

fn exists(id: &u32) -> bool {
    std::path::Path::new(&format!("/proc/{id}")).exists()
}

/// In a session of their own, their parents gone: out of reach of whoever knows the rank alone.
const ESCAPE: &str = "setsid -f sh -c 'echo $$; exec sleep 300'; (sh -c 'echo $$; exec sleep 300' &)";

#[test]
fn who_slips_away_ends_with_its_rank() {
    let script = format!("{ESCAPE}; echo $PPID; exec sleep 1000");
    let (running, left) = ids(9, sh(3, &script));
    assert!(left.iter().all(exists));
    running.kill(0, libc::SIGTERM).expect("it runs");
    running.kill(1, libc::SIGKILL).expect("it runs");
    running.kill(2, libc::SIGKILL).expect("it runs");
    let outcome = running.wait();
    assert_eq!(outcome.exits(), [Exit::Signal(15), Exit::Signal(9), Exit::Signal(9)]);
    // Not even as a zombie; the guards neither.
    let left: Vec<_> = left.into_iter().filter(exists).collect();
    assert!(left.is_empty(), "{left:?} are there");
    // By itself, and when the launch is dropped.
    let outcome = run(sh(2, "setsid -f sleep 1000; exit 3"));
    assert_eq!(outcome.exits(), [Exit::Code(3); 2]);
    let (running, left) = ids(2, sh(1, &format!("{ESCAPE}; exec sleep 1000")));
    drop(running);
    assert!(!left.iter().any(exists), "{left:?}");
}

/// Of a rank that goes on, those that lost their parents are waited for when they end.
#[test]
fn no_zombie_stays_below_a_rank() {
    let dir = Dir::new("orphans");
    let orphan = "(sh -c 'echo $$; until test -e go; do sleep 0.01; done' &)";
    let script = format!("{orphan}; {orphan}; echo $$; exec sleep 1000");
    let (running, mut orphans) = ids(3, sh(1, &script).current_dir(&dir.0));
    orphans.retain(|id| Some(*id) != running.pid(0));
    assert!(orphans.len() == 2 && orphans.iter().all(exists));
    std::fs::write(dir.0.join("go"), "").expect("it is written");
    let deadline = Instant::now() + SOON;
    while orphans.iter().any(exists) {
        assert!(Instant::now() < deadline, "one of {orphans:?} is there");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(running.exit(0), None);
}

/// A process that is ended with its guard.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that uses the launcher, while its other threads allocate and take locks.
#[test]
fn who_slips_away_ends_with_a_launcher_that_is_killed() {
    use std::io::BufRead;
    let script = format!("{ESCAPE}; echo $PPID; wait; exec sleep 1000");
    let mut launcher = std::process::Command::new(common::MEMBER);
    let launcher = launcher.args(["busy", &format!("run={script}")]).stdout(std::process::Stdio::piped());
    let mut launcher = Ended(launcher.spawn().expect("it starts"));
    let mut said = std::io::BufReader::new(launcher.0.stdout.take().expect("it is piped")).lines();
    let left: Vec<u32> =
        (0..9).map(|_| said.next().expect("a line").expect("text").parse().expect("a number")).collect();
    drop(launcher);
    let deadline = Instant::now() + SOON;
    while left.iter().any(|pid| is_alive(*pid)) {
        assert!(Instant::now() < deadline, "one of {left:?} is alive");
        std::thread::sleep(Duration::from_millis(2));
    }
    // Nobody has the pipe any more.
    assert!(said.next().is_none());
}

/// They pass through the guard, in their order.
#[test]
fn signals_reach_a_rank() {
    // Nothing is started: a shell whose child is stopped before it is a program waits for it, and is not stopped itself.
    let script = "trap 'echo 1' USR1; echo $$; while :; do :; done";
    let (tell, hear) = std::sync::mpsc::channel();
    let each = Output::Each(Box::new(move |_, stream, line: &[u8]| {
        // What the shell says of a command that the signal has ended goes elsewhere.
        if stream == Stream::Out {
            let _ = tell.send(String::from_utf8_lossy(line).trim().to_owned());
        }
    }));
    let running = sh(1, script).output(each).spawn().expect("it starts");
    let pid = running.pid(0).expect("it runs");
    assert_eq!(hear.recv_timeout(SOON), Ok(pid.to_string()));
    let is_stopped =
        || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "));
    running.kill(0, libc::SIGSTOP).expect("it runs");
    let deadline = Instant::now() + SOON;
    while !is_stopped() {
        assert!(Instant::now() < deadline, "it did not stop");
        std::thread::sleep(Duration::from_millis(2));
    }
    for _ in 0..100 {
        running.kill(0, libc::SIGSTOP).expect("it runs");
        running.kill(0, libc::SIGCONT).expect("it runs");
    }
    running.kill(0, libc::SIGUSR1).expect("it runs");
    assert_eq!(hear.recv_timeout(SOON).as_deref(), Ok("1"));
    running.kill(0, libc::SIGSEGV).expect("it runs");
    assert_eq!(running.wait().exits(), [Exit::Signal(libc::SIGSEGV)]);
}

#[test]
fn dropping_a_launch_ends_it() {
    let running = sh(2, "exec sleep 1000").spawn().expect("it starts");
    let pids = [0, 1].map(|rank| running.pid(rank).expect("it runs"));
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    drop(running);
    assert!(pids.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()));
}

#[test]
fn processes_can_have_a_core_each() {
    let outcome = run(sh(2, "grep Cpus_allowed_list /proc/self/status").bind(Bind::Cores));
    succeeds(&outcome);
    assert!((0..2).all(|rank| !out(&outcome, rank).contains([',', '-'])), "{}", all(&outcome));
}

#[test]
fn input_is_rank_zeros() {
    // The test's own input, whatever it is, at most: rank 1 reads an end.
    let outcome = run(sh(2, "test $GGAS_RANK = 0 || wc -c").input(Input::Inherit));
    succeeds(&outcome);
    assert_eq!(out(&outcome, 1).trim(), "0");
}
