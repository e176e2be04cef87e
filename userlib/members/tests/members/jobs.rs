//! Jobs: ranks that find each other by variables alone, in any order, and programs of a rank one after the other.

use std::time::Instant;

use crate::common::{self, Dir, MEMBER, SOON, Shell, all, out, run, succeeds, until};
use ggas_members::launch::{Launch, Output};

/// A rank of a job of three that is about to join.
fn rank(dir: &Dir, rank: u32, more: &str) -> Shell {
    let mut shell = dir.shell(&format!("RANK={rank} SIZE=3 JOB=trio JOIN_TIMEOUT=120 {more}"));
    shell.begin("join");
    shell
}

fn joins(shells: &mut [Shell]) {
    shells.iter_mut().for_each(|it| assert_eq!(it.answer(), ""));
}

/// Waits until so many have joined, of whom none is told anything.
fn until_joined(dir: &Dir, count: usize) {
    let mut looker = dir.shell("");
    until("ranks that join", || looker.ask("nets").ends_with(&format!(" {count}")));
}

#[test]
fn three_processes_find_each_other_in_any_order() {
    let dir = Dir::new("any-order");
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let mut ranks = order.map(|number| rank(&dir, number, "PER_NODE=2"));
        joins(&mut ranks);
        for (number, shell) in order.into_iter().zip(&mut ranks) {
            assert_eq!(shell.ask("who"), format!("rank {number} of 3 on node {} of 2", number / 2));
        }
        for command in ["exchange=90", "fds", "barrier=60000"] {
            ranks.iter_mut().for_each(|it| it.begin(command));
            ranks.iter_mut().for_each(|it| assert!(!it.answer().contains("error"), "{command}"));
        }
        ranks.iter_mut().for_each(|it| it.does("leave"));
        dir.is_empty();
    }
}

#[test]
fn ranks_that_do_not_fit_are_refused_and_the_job_begins() {
    let dir = Dir::new("two-jobs");
    let mut ranks = vec![rank(&dir, 0, ""), rank(&dir, 1, "")];
    until_joined(&dir, 2);
    let pid = ranks[1].pid();
    let twice = rank(&dir, 1, "").answer();
    let words =
        format!("rank 1 has joined already (process {pid}): give every process a GGAS_RANK of its own");
    assert!(twice.contains(&words), "{twice}");
    let sizes = [
        "torus 3x1x1, job of 3, 1 on each node",
        "torus 4x1x1, job of 4",
        "the same GGAS_SIZE and GGAS_PER_NODE",
    ];
    let larger = rank(&dir, 2, "SIZE=4").answer();
    assert!(sizes.iter().all(|words| larger.contains(words)), "{larger}");
    let denser = rank(&dir, 2, "PER_NODE=3").answer();
    assert!(denser.contains("torus 1x1x1, job of 3, 3 on each node"), "{denser}");
    ranks.push(rank(&dir, 2, ""));
    joins(&mut ranks);
    assert_eq!(ranks[0].ask("again"), "joined already");
}

/// Two processes say that they are rank 1: one is, the other one is told so, and the job begins.
#[test]
fn a_rank_given_twice() {
    let dir = Dir::new("twice");
    let mut first = rank(&dir, 0, "");
    let mut two = [rank(&dir, 1, ""), rank(&dir, 1, "")];
    let mut third = rank(&dir, 2, "");
    joins(std::slice::from_mut(&mut first));
    joins(std::slice::from_mut(&mut third));
    let mut said = two.each_mut().map(|it| it.answer());
    said.sort_unstable();
    assert_eq!(said[0], "");
    assert!(said[1].contains("rank 1 has joined already"), "{}", said[1]);
}

#[test]
fn a_program_beside_a_rank_is_a_guest() {
    let dir = Dir::new("guest");
    let mut ranks: Vec<Shell> = (0..3).map(|number| rank(&dir, number, "")).collect();
    joins(&mut ranks);
    // Under the variables of rank 2, as what it starts has them.
    let mut guest = dir.shell("RANK=2 SIZE=3 JOB=trio");
    guest.does("enter");
    assert_eq!(guest.ask("me"), "3.1 on node 2 of job-trio");
    assert_eq!(guest.ask("word=0,hello"), "sent");
    ranks.iter_mut().for_each(|it| it.begin("barrier=60000"));
    joins(&mut ranks);
    // Its end is nobody's loss.
    guest.kill();
    ranks.iter_mut().for_each(|it| it.begin("exchange=100"));
    joins(&mut ranks);
}

#[test]
fn who_never_came_is_named() {
    let dir = Dir::new("missing");
    // Rank 2 is there in time unless the machine stalls.
    let named = [("0.6", "600ms"), ("6", "6s"), ("30", "30s")].into_iter().any(|(seconds, time)| {
        let mut third = rank(&dir, 2, "JOIN_TIMEOUT=60");
        until_joined(&dir, 1);
        let mut first = rank(&dir, 0, &format!("JOIN_TIMEOUT={seconds}"));
        let said = first.answer();
        assert!(said.starts_with("error: "), "{said}");
        // It may come again: who gave up has left in good order.
        let mut again = [rank(&dir, 0, ""), rank(&dir, 1, "")];
        joins(&mut again);
        assert_eq!(third.answer(), "");
        drop((again, third));
        until("their ends", || first.ask("nets").is_empty());
        said.contains(&format!("rank 1 did not join in {time}"))
    });
    assert!(named, "rank 1 is not named");
}

/// Nor does a rank count as there that was, gave up, and has not come again.
#[test]
fn who_gave_up_is_waited_for_again() {
    let dir = Dir::new("gave-up");
    let third = rank(&dir, 2, "");
    until_joined(&dir, 1);
    assert!(rank(&dir, 0, "JOIN_TIMEOUT=0.6").answer().starts_with("error: "));
    let second = rank(&dir, 1, "");
    until_joined(&dir, 2);
    joins(&mut [rank(&dir, 0, ""), second, third]);
}

/// The others need not wait until their time is over.
#[test]
fn a_death_before_all_have_joined_is_told_at_once() {
    let dir = Dir::new("early-death");
    for _ in 0..5 {
        let mut first = rank(&dir, 0, "JOIN_TIMEOUT=1000");
        let mut third = rank(&dir, 2, "JOIN_TIMEOUT=1000");
        until_joined(&dir, 2);
        third.signal(libc::SIGKILL);
        let said = first.answer();
        assert!(said.contains("rank 2 died before all had joined"), "{said}");
        let _ = third.child.wait();
        drop(first);
    }
}

/// A rank that gives up, or is ended and started again while the others wait: the job begins with who is there then.
#[test]
fn a_rank_may_come_again_while_others_wait() {
    let dir = Dir::new("again");
    let mut ranks = vec![rank(&dir, 1, ""), rank(&dir, 2, "")];
    until_joined(&dir, 2);
    for _ in 0..3 {
        let said = rank(&dir, 0, "SIZE=3 JOIN_TIMEOUT=0.001 PER_NODE=1").answer();
        assert!(said.contains("did not join") || said.is_empty(), "{said}");
        if said.is_empty() {
            // All of them were quick.
            return;
        }
    }
    ranks.push(rank(&dir, 0, ""));
    joins(&mut ranks);
    for command in ["exchange=90", "barrier=60000", "exchange=80"] {
        ranks.iter_mut().for_each(|it| it.begin(command));
        joins(&mut ranks);
    }
}

/// Programs of a rank one after the other, as scripts start them, are one job after the other.
#[test]
fn programs_of_a_rank_one_after_the_other() {
    let script = format!(
        "{MEMBER} join exchange=100 fds barrier=60000 && {MEMBER} join who exchange=90 exchange=80 && \
         exec {MEMBER} join barrier=60000 fds exchange=70"
    );
    let outcome = run(Launch::new("sh")
        .args(["-c", &script])
        .processes(4)
        .output(Output::Capture)
        .timeout(common::JOB));
    succeeds(&outcome);
    assert_eq!(out(&outcome, 3), "pipes are right\nrank 3 of 4 on node 3 of 4\npipes are right\n");
}

/// However far the first programs came: the second ones count their calls from their own beginning.
#[test]
fn programs_after_some_that_failed() {
    // Rank 0 calls a barrier that nobody else calls, and gives up.
    let script = format!(
        "{MEMBER} join exchange=100 0:try-barrier=50 leave; {MEMBER} join exchange=90 barrier=60000 exchange=80 fds"
    );
    let outcome = run(Launch::new("sh")
        .args(["-c", &script])
        .processes(3)
        .output(Output::Capture)
        .timeout(common::JOB));
    assert!(outcome.is_success(), "{}", all(&outcome));
    for rank in 0..3 {
        assert!(out(&outcome, rank).ends_with("pipes are right\n"), "{}", all(&outcome));
    }
}

/// A program that is killed, and the next one of its rank while the others are still in the first: these go on to
/// their own ends, and all meet again.
#[test]
fn a_program_after_one_that_was_killed() {
    let script =
        format!("{MEMBER} join barrier=60000 1:kill try-barrier=60000 leave; {MEMBER} join exchange=90 fds");
    let outcome = run(Launch::new("sh")
        .args(["-c", &script])
        .processes(3)
        .keep_going()
        .output(Output::Capture)
        .timeout(common::JOB));
    assert!(outcome.is_success(), "{}", all(&outcome));
    assert!(out(&outcome, 0).starts_with("rank 1 is gone"), "{}", all(&outcome));
    for rank in 0..3 {
        assert!(out(&outcome, rank).ends_with("pipes are right\n"), "{}", all(&outcome));
    }
}

/// A rank that ends without joining is told to the others at once, by its launcher.
#[test]
fn an_end_before_joining_is_told_at_once() {
    for (end, how) in
        [("exit=0", "ended (status 0)"), ("kill", "ended (status 137)"), ("exit=7", "ended (status 7)")]
    {
        let started = Instant::now();
        let outcome = run(common::member(3, &format!("1:sleep=100 1:{end} join")).join_timeout(20 * SOON));
        for rank in [0, 2] {
            let said = common::err(&outcome, rank);
            assert!(said.contains(&format!("rank 1 {how} before all had joined")), "{}", all(&outcome));
        }
        assert_ne!(outcome.code(), 0);
        assert!(started.elapsed() < 10 * SOON);
    }
    // Also where it had joined, and others had not.
    let outcome = run(common::member(3, "1:join-and-die 2:sleep=1000 join").join_timeout(20 * SOON));
    assert!(common::err(&outcome, 0).contains("rank 1 ended (status 137)"), "{}", all(&outcome));
}

#[test]
fn waits_without_an_end_are_none_of_arithmetic() {
    let outcome = run(common::member(2, "join 1:sleep=100 barrier-for-ever 1:sleep=100 0:hear=1 1:tell=0"));
    succeeds(&outcome);
}
