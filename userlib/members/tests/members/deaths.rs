//! Processes that die, stop or leave while others count on them.

use std::time::{Duration, Instant};

use crate::common::{SOON, all, member, out, run, succeeds};
use ggas_members::launch::{Exit, Output};

/// Milliseconds that a `try-barrier` says it took.
fn took(text: &str) -> u64 {
    let (_, rest) = text.rsplit_once('[').expect("it says how long");
    rest.split_once(' ').and_then(|(number, _)| number.parse().ok()).expect("a number")
}

#[test]
fn a_death_inside_a_barrier_is_noticed_at_once() {
    for death in ["2:kill", "2:exit=0", "2:leave 2:sleep=1500", "2:exec=2"] {
        let commands = format!("join barrier=60000 2:sleep=300 {death} try-barrier=120000");
        let outcome = run(member(3, &commands).keep_going());
        for rank in [0, 1] {
            let said = out(&outcome, rank);
            assert!(said.contains("rank 2 is gone"), "{death}: {}", all(&outcome));
            assert!(took(&said) < 60_000, "{death}: {said}");
        }
    }
}

#[test]
fn losses_are_told_once_and_leaving_is_none() {
    let outcome = run(member(4, "join barrier=60000 1:kill 3:kill 2:leave losses=2").keep_going());
    assert_eq!(out(&outcome, 0), "lost [1, 3], [1, 3]\n", "{}", all(&outcome));
    assert_eq!(outcome.exits()[1], Exit::Signal(libc::SIGKILL));
}

#[test]
fn descriptors_of_the_dead() {
    // What was sent before the death arrives; nothing else is waited for.
    let outcome = run(member(2, "join 1:sleep=200 1:kill try-fds=1").keep_going());
    assert!(out(&outcome, 0).contains("rank 1 is gone"), "{}", all(&outcome));
}

#[test]
fn a_stopped_peer_is_a_time_out_and_no_loss() {
    let (tell, hear) = std::sync::mpsc::channel();
    let each = Output::Each(Box::new(move |rank, _, line: &[u8]| {
        let _ = tell.send((rank, String::from_utf8_lossy(line).into_owned()));
    }));
    let commands = "join barrier=60000 1:stop 0:try-barrier=300 2:try-barrier=300 barrier=60000";
    let running = member(3, commands).output(each).spawn().expect("it starts");
    let deadline = Instant::now() + SOON;
    let stopped =
        |pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "));
    while !stopped(running.pid(1).expect("it runs")) {
        assert!(Instant::now() < deadline, "it did not stop");
        std::thread::sleep(Duration::from_millis(5));
    }
    // It goes on once both others have given up.
    for _ in 0..2 {
        let (rank, line) = hear.recv_timeout(SOON).expect("a time-out");
        // The other one may be late, too.
        let named = [
            "rank 1 did not come".to_owned(),
            format!("ranks {} did not", if rank == 0 { "1, 2" } else { "0, 1" }),
        ];
        assert!(named.iter().any(|part| line.contains(part)), "rank {rank}: {line}");
    }
    running.kill(1, libc::SIGCONT).expect("it runs");
    succeeds(&running.wait());
}

/// Members end with their launcher, also those that are no children of its own.
#[test]
fn no_member_outlives_its_launcher() {
    let (tell, hear) = std::sync::mpsc::channel();
    let each = Output::Each(Box::new(move |_, _, line: &[u8]| {
        let _ = tell.send(String::from_utf8_lossy(line).trim().to_owned());
    }));
    let running = member(1, "launch=3").output(each).spawn().expect("it starts");
    let pids: Vec<String> = (0..3).map(|_| hear.recv_timeout(SOON).expect("it joins")).collect();
    running.kill(0, libc::SIGKILL).expect("it runs");
    running.wait();
    let deadline = Instant::now() + SOON;
    let alive = |pid: &String| {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    };
    while pids.iter().any(alive) {
        assert!(Instant::now() < deadline, "{pids:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn killed_at_any_moment() {
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..20 {
        let running = member(4, "join barriers=1000000000").keep_going().spawn().expect("it starts");
        std::thread::sleep(Duration::from_micros(random.u64(0..40_000)));
        let victim = random.u32(0..4);
        running.kill(victim, libc::SIGKILL).expect("it runs");
        let killed = Instant::now();
        let outcome = running.wait();
        assert!(killed.elapsed() < SOON / 2, "round {round}: {:?}", killed.elapsed());
        assert_eq!(outcome.exits()[victim as usize], Exit::Signal(libc::SIGKILL), "round {round}");
        for rank in (0..4).filter(|rank| *rank != victim) {
            assert_eq!(outcome.exits()[rank as usize], Exit::Code(3), "round {round}: {}", all(&outcome));
        }
    }
}
