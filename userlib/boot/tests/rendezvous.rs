//! Job start by variables alone: the directory, the name, and who may come.

mod common;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Dir, SOON, all, err, out, plain, run, succeeds};
use ggas_boot::launch::{Exit, Running};

fn rank(dir: &Path, rank: u32, more: &str, commands: &str) -> Running {
    plain(dir, &format!("RANK={rank} SIZE=3 JOB=trio JOIN_TIMEOUT=120 {more}"), commands)
        .spawn()
        .expect("it starts")
}

/// Fails with this text on standard error.
#[track_caller]
fn is_refused(running: Running, part: &str) {
    let outcome = running.wait();
    assert_eq!(outcome.exits(), [Exit::Code(3)], "{}", all(&outcome));
    assert!(err(&outcome, 0).contains(part), "no `{part}` in {}", all(&outcome));
}

#[test]
fn three_processes_find_each_other_in_any_order() {
    let dir = Dir::new("any-order");
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let commands = "join who exchange=90 fds barrier=60000";
        let ranks = order.map(|number| rank(&dir.0, number, "PER_NODE=2", commands));
        for (number, running) in order.into_iter().zip(ranks) {
            let outcome = running.wait();
            succeeds(&outcome);
            assert!(out(&outcome, 0).starts_with(&format!("rank {number} of 3 on node {} of 2", number / 2)));
        }
        dir.is_empty();
    }
}

#[test]
fn a_second_job_of_the_name_is_refused_and_the_first_begins() {
    let dir = Dir::new("two-jobs");
    let first = rank(&dir.0, 0, "", "join barrier=60000");
    dir.wait_for("trio.sock");
    is_refused(rank(&dir.0, 0, "", "join"), "another job named trio is being started");
    is_refused(rank(&dir.0, 1, "SIZE=4", "join"), "this process says that the job has 4 processes");
    is_refused(
        rank(&dir.0, 1, "PER_NODE=3", "join"),
        "give all processes the same GGAS_SIZE and GGAS_PER_NODE",
    );
    let others = [1, 2].map(|number| rank(&dir.0, number, "", "join barrier=60000"));
    succeeds(&first.wait());
    others.into_iter().for_each(|running| succeeds(&running.wait()));
    dir.is_empty();
}

#[test]
fn a_rank_given_twice_is_refused() {
    let dir = Dir::new("twice");
    let first = rank(&dir.0, 0, "", "join barrier=60000");
    let second = one_of_two(&dir.0);
    let third = rank(&dir.0, 2, "", "join barrier=60000");
    [first, second, third].into_iter().for_each(|running| succeeds(&running.wait()));
}

/// Two processes say that they are rank 1: the one that came first, of which the other one was told.
fn one_of_two(dir: &Path) -> Running {
    let [one, two] = [(); 2].map(|()| rank(dir, 1, "", "join barrier=60000"));
    let deadline = Instant::now() + SOON;
    let (refused, kept) = loop {
        if one.exit(0).is_some() {
            break (one, two);
        }
        if two.exit(0).is_some() {
            break (two, one);
        }
        assert!(Instant::now() < deadline, "none was refused");
        std::thread::sleep(Duration::from_millis(2));
    };
    is_refused(refused, "rank 1 has joined already");
    kept
}

#[test]
fn what_a_killed_job_left_is_taken_over() {
    let dir = Dir::new("stale");
    let dead = rank(&dir.0, 0, "", "join");
    dir.wait_for("trio.sock");
    dead.kill(0, libc::SIGKILL).expect("it runs");
    dead.wait();
    assert!(dir.0.join("trio.sock").exists() && dir.0.join("trio.lock").exists());
    // The others look first, and find nobody listening.
    let ranks = [2, 1, 0].map(|number| rank(&dir.0, number, "", "join barrier=60000"));
    ranks.into_iter().for_each(|running| succeeds(&running.wait()));
    dir.is_empty();
}

#[test]
fn who_never_came_is_named() {
    let dir = Dir::new("missing");
    // Rank 2 is there in time unless the machine stalls.
    let named = [("0.6", "600ms"), ("6", "6s"), ("30", "30s")].into_iter().any(|(seconds, time)| {
        let first = rank(&dir.0, 0, &format!("JOIN_TIMEOUT={seconds}"), "join");
        let third = rank(&dir.0, 2, "JOIN_TIMEOUT=60", "join");
        let first = first.wait();
        dir.is_empty();
        let part = format!("rank 1 did not join in {time}");
        assert_eq!(first.exits(), [Exit::Code(3)], "{}", all(&first));
        let named = err(&first, 0).contains(&part);
        if named {
            is_refused(third, &part);
        }
        named
    });
    assert!(named, "rank 1 is not named");
    is_refused(rank(&dir.0, 1, "JOIN_TIMEOUT=0.3", "join"), "rank 0 of job trio was not found");
    dir.is_empty();
}

#[test]
fn a_death_before_all_have_joined_is_told_at_once() {
    let dir = Dir::new("early-death");
    let first = rank(&dir.0, 0, "", "join");
    // It has said hello, and is then killed.
    let second = one_of_two(&dir.0);
    second.kill(0, libc::SIGKILL).expect("it runs");
    let started = Instant::now();
    is_refused(first, "rank 1 ended, or gave up");
    assert!(started.elapsed() < SOON);
    dir.is_empty();
}

#[test]
fn directories_of_others_are_refused() {
    let dir = Dir::new("directories");
    let open = dir.0.join("open");
    std::fs::create_dir(&open).expect("a directory");
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o755)).expect("its mode");
    is_refused(rank(&open, 0, "", "join"), "others may enter it (mode 0755); chmod 700 it");
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o700)).expect("its mode");
    let link = dir.0.join("link");
    symlink(&open, &link).expect("a link");
    is_refused(rank(&link, 0, "", "join"), "it is a symbolic link");
    std::fs::write(dir.0.join("file"), "").expect("a file");
    is_refused(rank(&dir.0.join("file"), 0, "", "join"), "cannot be");
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(&open, Some(12345), None).expect("root may");
        is_refused(rank(&open, 0, "", "join"), "it belongs to user 12345");
    }
    // One that is not there is made, for this user alone.
    let new = dir.0.join("new");
    is_refused(rank(&new, 1, "JOIN_TIMEOUT=0.1", "join"), "was not found");
    assert_eq!(std::fs::metadata(&new).expect("it was made").permissions().mode() & 0o7777, 0o700);
}

#[test]
fn files_of_a_job_are_private() {
    let dir = Dir::new("modes");
    let first = rank(&dir.0, 0, "", "join");
    dir.wait_for("trio.sock");
    for file in ["trio.sock", "trio.lock"] {
        let mode = std::fs::metadata(dir.0.join(file)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    drop(first);
}

#[test]
fn limits_say_what_is_needed() {
    let commands = format!("ulimit -n 40; exec {} join", common::MEMBER);
    let outcome = run(ggas_boot::launch::Launch::new("sh")
        .args(["-c", &commands])
        .processes(2)
        .output(ggas_boot::launch::Output::Capture));
    assert!(err(&outcome, 0).contains("`ulimit -n "), "{}", all(&outcome));
    // Files too small for the memory that peers reach: no death by SIGXFSZ.
    let outcome = run(common::member(2, "1:filesize=10000 join"));
    assert!(err(&outcome, 1).contains("raise `ulimit -f`"), "{}", all(&outcome));
    assert_eq!(outcome.exits(), [Exit::Code(3); 2], "{}", all(&outcome));
    // Rank 0 without a launcher needs some for whoever else connects.
    let dir = Dir::new("files");
    is_refused(rank(&dir.0, 0, "", "files=80 join"), "`ulimit -n ");
    // Little address space: smaller arenas, and the job works; none at all: an error that says so.
    let little = format!("ulimit -v 400000; exec {} join exchange=1000 barrier=60000", common::MEMBER);
    let outcome = run(ggas_boot::launch::Launch::new("sh")
        .args(["-c", &little])
        .processes(3)
        .output(ggas_boot::launch::Output::Capture));
    succeeds(&outcome);
}
