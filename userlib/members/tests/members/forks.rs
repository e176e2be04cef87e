//! Forks of members: they are none, harm nobody, and may join by themselves.

use crate::common::{Dir, all, ended, member, out, run, succeeds, until};

#[test]
fn a_fork_is_no_member() {
    let outcome = run(member(2, "join 0:fork barrier=60000 barrier=60000"));
    succeeds(&outcome);
    assert!(out(&outcome, 0).contains("child ends with 7"), "{}", all(&outcome));
}

#[test]
fn the_end_of_a_fork_harms_nobody() {
    let dir = Dir::new("fork-end");
    let [mut one, mut two] = [(); 2].map(|()| dir.shell(""));
    one.does("enter");
    two.does("enter");
    assert_eq!(two.ask("word=0,before"), "sent");
    assert_eq!(one.ask("event"), "1.1 says before with 0");
    assert_eq!(one.ask("fork"), "child ends with 7", "it drops its copies");
    assert_eq!(one.ask("fork-exit"), "child ends with 6", "with what runs at exits");
    assert_eq!(two.ask("word=0,after"), "sent");
    assert_eq!(one.ask("event"), "1.1 says after with 0");
    assert_eq!((one.ask("silence=20"), two.ask("silence=20")), ("silence".into(), "silence".into()));
    assert_eq!(two.ask("list"), format!("0.1:{} 1.1:{}", one.pid(), two.pid()));
    one.does("leave");
    two.does("leave");
    dir.is_empty();
}

#[test]
fn a_fork_may_join_by_itself() {
    let dir = Dir::new("fork-join");
    let [mut one, mut two] = [(); 2].map(|()| dir.shell(""));
    one.does("enter");
    two.does("enter");
    for _ in 0..3 {
        assert_eq!(one.ask("fork-join"), "child ends with 5");
        assert_eq!(two.ask("nets"), "default (torus 2x2x2) 2");
    }
    assert_eq!(two.ask("state=2"), "2.3 Left");
}

/// As ranks of a job, too: beside its parent, as any program that a rank starts.
#[test]
fn a_fork_of_a_rank_is_a_guest() {
    let outcome = run(member(2, "join 0:fork-join barrier=60000"));
    succeeds(&outcome);
    assert_eq!(out(&outcome, 0), "child ends with 5\n", "{}", all(&outcome));
}

/// Copies that are dropped while other threads of the original are in the middle of something.
#[test]
fn copies_of_locks_are_left_alone() {
    let dir = Dir::new("fork-often");
    let mut one = dir.shell("");
    one.does("enter");
    assert_eq!(one.ask("fork-often"), "all ended");
}

/// The end of a member is noticed at once, though a child of it has copies of all descriptors: when it leaves, and when
/// it is killed.
#[test]
fn children_that_live_on_hide_no_end() {
    let dir = Dir::new("fork-stay");
    let mut one = dir.shell("");
    one.does("enter");
    let mut two = dir.shell("");
    two.does("enter");
    assert_eq!(two.ask("word=0,hello"), "sent");
    assert_eq!(one.ask("event"), "1.1 says hello with 0");
    two.does("fork-stay");
    two.does("leave");
    assert_eq!(one.ask("event"), "1.1 is Left");
    two.does("enter");
    assert_eq!(two.ask("word=0,again"), "sent");
    assert_eq!(one.ask("event"), "1.2 says again with 0");
    two.does("fork-stay");
    two.signal(libc::SIGKILL);
    assert_eq!(one.ask("event"), "1.2 is Lost");
    until("its death", || ended(two.pid()));
    // Nor do they keep the network.
    one.does("leave");
    dir.is_empty();
}
