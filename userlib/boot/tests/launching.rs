//! The launcher: exit codes, output, time-outs, and what is left of its processes.

mod common;

use std::time::{Duration, Instant};

use common::{JOB, SOON, all, err, member, out, run, succeeds};
use ggas_boot::launch::{Bind, Exit, Input, Launch, LaunchError, Outcome, Output, Stream};

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
fn who_does_not_hear_term_is_killed() {
    let started = Instant::now();
    let outcome = run(member(2, "0:deaf join 1:exit=1 sleep=60000").grace(Duration::ZERO));
    assert_eq!(outcome.exits(), [Exit::Signal(libc::SIGKILL), Exit::Code(1)]);
    assert!(started.elapsed() < SOON / 2);
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
    assert!(outcome.summary().contains("the job did not begin: rank 1 did not join"), "{}", all(&outcome));
    assert_eq!((outcome.code(), outcome.ended()), (3, &[1][..]));
}

#[test]
fn an_end_before_joining_is_told_at_once() {
    for (end, how) in [("exit=0", "exited with status 0"), ("kill", "was killed by signal 9 (SIGKILL)")] {
        let started = Instant::now();
        let outcome = run(member(3, &format!("1:sleep=100 1:{end} join")).join_timeout(2 * SOON));
        for rank in [0, 2] {
            let said = err(&outcome, rank);
            assert!(said.contains(&format!("rank 1 {how} before all had joined")), "{}", all(&outcome));
        }
        assert_ne!(outcome.code(), 0);
        assert!(started.elapsed() < SOON);
    }
}

#[test]
fn ranks_that_lie_are_refused() {
    let script = format!("test $GGAS_RANK = 1 && export GGAS_RANK=0; exec {} join", common::MEMBER);
    let outcome = run(sh(2, &script));
    assert!(err(&outcome, 1).contains("started this process as rank 1, it says rank 0"), "{}", all(&outcome));
    assert_ne!(outcome.code(), 0);
    let script = format!(
        "exec 9>&$GGAS_JOB_FD {}; exec {} join",
        "; eval \"exec $GGAS_JOB_FD>&-\"; exec 9>&-",
        common::MEMBER
    );
    let outcome = run(Launch::new("bash").args(["-c", &script]).processes(2).output(Output::Capture));
    assert!(err(&outcome, 0).contains("is no connection to a launcher"), "{}", all(&outcome));
}

#[test]
fn what_cannot_be_started_is_said() {
    let error = |launch: Launch| launch.spawn().expect_err("it cannot start");
    assert!(matches!(error(Launch::new("/no/such/program")), LaunchError::Program { .. }));
    assert!(error(Launch::new("/etc/passwd").processes(2)).to_string().contains("chmod +x"));
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
