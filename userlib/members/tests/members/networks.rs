//! Networks that stand by themselves: who makes them, who comes and goes, who clears them away.

use crate::common::{self, Dir, Shell, pid_of, until};

#[test]
fn the_first_makes_it_and_the_last_clears_it() {
    let dir = Dir::new("first-last");
    let mut one = dir.shell("NODE=3");
    assert_eq!(one.ask("nets"), "");
    one.does("enter");
    assert_eq!((one.ask("me"), one.ask("made")), ("0.1 on node 3 of default".into(), "made true".into()));
    let mut two = dir.shell("NODE=7");
    two.does("enter");
    assert_eq!((two.ask("me"), two.ask("made")), ("1.1 on node 7 of default".into(), "made false".into()));
    assert_eq!(one.ask("list"), format!("0.1:{} 1.1:{}", one.pid(), two.pid()));
    assert_eq!(two.ask("nets"), "default (torus 2x2x2) 2");
    // Who goes leaves the others alone, and its place to the next.
    one.does("leave");
    assert_eq!(two.ask("state=0"), "0.1 Left");
    one.does("enter");
    assert_eq!(one.ask("me"), "0.2 on node 3 of default");
    two.does("leave");
    assert_eq!(dir.files("default"), ["members", "socket.0"]);
    one.does("leave");
    dir.is_empty();
}

#[test]
fn members_talk_and_are_told_of_ends() {
    let dir = Dir::new("talk");
    let [mut one, mut two, mut three] = [(); 3].map(|()| dir.shell(""));
    one.does("enter");
    two.does("enter");
    three.does("enter");
    assert_eq!(one.ask("word=1,hello"), "sent");
    assert_eq!(two.ask("event"), "0.1 says hello with 0");
    assert_eq!(two.ask("word=0,aha"), "sent");
    assert_eq!(one.ask("event"), "1.1 says aha with 0");
    assert_eq!(three.ask("word=0,me too"), "sent");
    assert_eq!(one.ask("event"), "2.1 says me too with 0");
    three.does("leave");
    assert_eq!(one.ask("event"), "2.1 is Left");
    two.signal(libc::SIGKILL);
    assert_eq!(one.ask("event"), "1.1 is Lost");
    assert_eq!(one.ask("state=1"), "1.1 Lost");
    assert!(one.ask("word=1,still there?").contains("not connected"));
    // The next one in its place is another.
    three.does("enter");
    assert_eq!(three.ask("me"), "1.2 on node 0 of default");
    assert_eq!(three.ask("word=0,new"), "sent");
    assert_eq!(one.ask("event"), "1.2 says new with 0");
    assert_eq!(one.ask("silence=50"), "silence");
}

/// An end is told once, whoever notices it and how often; and one that is given up for lost is another's loss, too.
#[test]
fn ends_are_told_once() {
    let dir = Dir::new("once");
    let [mut one, mut two, mut three] = [(); 3].map(|()| dir.shell(""));
    one.does("enter");
    two.does("enter");
    three.does("enter");
    assert_eq!(two.ask("word=0,hello"), "sent");
    assert_eq!(one.ask("event"), "1.1 says hello with 0");
    for _ in 0..3 {
        one.does("lose=1");
    }
    one.does("lose=0");
    assert_eq!(one.ask("event"), "1.1 is Lost");
    assert!(one.ask("word=1,still there?").contains("not connected"));
    two.kill();
    // It is all that comes: what follows is about another.
    assert_eq!(three.ask("word=0,hello"), "sent");
    assert_eq!(one.ask("event"), "2.1 says hello with 0");
    assert_eq!(three.ask("state=1"), "1.1 Lost");
    assert_eq!(three.ask("state=0"), "0.1 Joined", "nobody loses itself");
}

/// Messages keep their order, also those that come before anyone handles their kind, or while somebody begins to.
#[test]
fn messages_keep_their_order() {
    let dir = Dir::new("order");
    let [mut one, mut two] = [(); 2].map(|()| dir.shell(""));
    one.does("enter");
    two.does("enter");
    for words in [600, 100, 100, 100, 100] {
        (0..words).for_each(|word| two.begin(&format!("late-word=0,{word}")));
        two.begin("late-word=0,end");
        let mut answers = 0..=words;
        if words == 600 {
            // All are there.
            answers.by_ref().for_each(|_| assert_eq!(two.answer(), "sent"));
        }
        let want: Vec<String> = (0..words).map(|word| word.to_string()).collect();
        assert_eq!(one.ask("hear-late"), want.join(" "));
        answers.for_each(|_| assert_eq!(two.answer(), "sent"));
        // Nobody handles them now.
        one.does("leave");
        one.does("enter");
    }
}

/// What a member sent before it left or died is heard, and then that it is gone.
#[test]
fn last_words_are_heard() {
    let dir = Dir::new("last-words");
    let mut one = dir.shell("");
    one.does("enter");
    for round in 0..20 {
        let mut two = dir.shell("");
        two.does("enter");
        let me = two.ask("me");
        let two_id = me.split(' ').next().expect("an id").to_owned();
        two.begin(&format!("word=0,round {round}"));
        two.begin(if round % 2 == 0 { "leave" } else { "kill" });
        assert_eq!(one.ask("event"), format!("{two_id} says round {round} with 0"));
        let how = if round % 2 == 0 { "Left" } else { "Lost" };
        assert_eq!(one.ask("event"), format!("{two_id} is {how}"));
    }
}

#[test]
fn a_network_stands_until_it_is_taken_down() {
    let dir = Dir::new("stands");
    let mut one = dir.shell("NETWORK=lab");
    assert_eq!(one.ask("up=lab,3x1x1/5"), "lab stands: true");
    assert_eq!(one.ask("nets"), "lab (torus 3x1x1, room for 5) 0 stands");
    one.is_refused("up=lab,4x1x1", &["lab", "torus 3x1x1, room for 5", "torus 4x1x1"]);
    one.does("enter");
    one.does("leave");
    assert_eq!(dir.files("lab"), ["members"], "it stays without members");
    // Programs that name no shape take it as it is.
    let mut two = dir.shell("NETWORK=lab NODE=2");
    two.does("enter");
    assert_eq!(two.ask("me"), "0.2 on node 2 of lab");
    assert_eq!(one.ask("down=lab"), "1 members");
    assert_eq!(one.ask("nets"), "lab (torus 3x1x1, room for 5) 1");
    two.does("leave");
    dir.is_empty();
    one.is_refused("down=lab", &["there is no network lab", "ggas net list"]);
    // One without members goes at once.
    assert_eq!(one.ask("up=lab"), "lab stands: true");
    assert_eq!(one.ask("down=lab"), "0 members");
    dir.is_empty();
}

#[test]
fn a_network_that_runs_can_be_made_to_stand() {
    let dir = Dir::new("made-to-stand");
    let mut one = dir.shell("");
    one.does("enter");
    assert_eq!(one.ask("up=default"), "default stands: true");
    one.kill();
    let mut two = dir.shell("");
    assert_eq!(two.ask("nets"), "default (torus 2x2x2) 0 stands");
    assert_eq!(two.ask("down=default"), "0 members");
    dir.is_empty();
}

/// What killed members have left goes with the next who comes, whatever shape it has, and with whoever looks.
#[test]
fn what_killed_members_left_is_cleared() {
    let dir = Dir::new("killed");
    let leave_behind = |name: &str| {
        let mut members = [(); 3].map(|()| dir.shell(""));
        members.iter_mut().for_each(|it| it.does(&format!("enter-as={name},2x2x2,1")));
        members[0].does("node-memory=1,65536");
        members[1].does("publish=card,100");
        members.into_iter().for_each(Shell::kill);
        assert_eq!(dir.files(name).len(), 6, "{:?}", dir.files(name));
    };
    leave_behind("lab");
    let mut next = dir.shell("");
    next.does("enter-as=lab,5x1x1,4");
    assert_eq!((next.ask("me"), next.ask("made")), ("0.1 on node 4 of lab".into(), "made true".into()));
    assert_eq!(dir.files("lab"), ["members", "socket.0"]);
    next.does("leave");
    dir.is_empty();
    leave_behind("lab");
    assert_eq!(next.ask("nets"), "");
    dir.is_empty();
    // Also by one who makes another network.
    leave_behind("lab");
    next.does("enter-as=other,2x2x2,0");
    next.does("leave");
    dir.is_empty();
}

/// Networks of a job whose ranks were killed, too: nothing of it is in the way of the next job of its name.
#[test]
fn a_killed_job_is_in_nobodys_way() {
    let dir = Dir::new("killed-job");
    let start = |rank: u32, size: u32| {
        let mut shell = dir.shell(&format!("RANK={rank} SIZE={size} JOB=trio JOIN_TIMEOUT=120"));
        shell.begin("join");
        shell
    };
    for size in [3, 3, 2] {
        let mut ranks: Vec<Shell> = (0..size).map(|rank| start(rank, size)).collect();
        ranks.iter_mut().for_each(|rank| assert_eq!(rank.answer(), ""));
        ranks.iter_mut().for_each(|rank| rank.begin("barrier=60000"));
        ranks.iter_mut().for_each(|rank| assert_eq!(rank.answer(), ""));
        ranks.into_iter().for_each(Shell::kill);
        assert!(dir.files("job-trio").contains(&"members".to_string()));
    }
}

/// Sixteen processes meet in one network whoever is first, again and again while it is made and cleared away.
#[test]
fn sixteen_at_the_same_instant() {
    let dir = Dir::new("sixteen");
    let mut shells: Vec<Shell> = (0..16).map(|_| dir.shell("")).collect();
    for round in 0..10 {
        let names = ["left", "right"];
        for (name, half) in names.iter().zip(shells.chunks_mut(8)) {
            half.iter_mut().for_each(|it| it.begin(&format!("enter-as={name},2x2x2,0")));
        }
        shells.iter_mut().for_each(|it| assert_eq!(it.answer(), "", "round {round}"));
        for (name, half) in names.iter().zip(shells.chunks_mut(8)) {
            let mut pids: Vec<u32> = half.iter().map(Shell::pid).collect();
            pids.sort_unstable();
            for shell in half.iter_mut() {
                let list = shell.ask("list");
                let mut seen: Vec<u32> = list.split(' ').map(pid_of).collect();
                seen.sort_unstable();
                assert_eq!(seen, pids, "round {round}, {name}: {list}");
            }
            let made = half.iter_mut().filter_map(|it| (it.ask("made") == "made true").then_some(())).count();
            assert_eq!(made, 1, "round {round}, {name}");
        }
        shells.iter_mut().for_each(|it| it.begin("leave"));
        shells.iter_mut().for_each(|it| assert_eq!(it.answer(), "", "round {round}"));
        dir.is_empty();
    }
}

/// Those who come while the last goes get the old network or a new one, never half of one.
#[test]
fn joining_against_clearing() {
    let dir = Dir::new("against");
    let mut shells: Vec<Shell> = (0..4).map(|_| dir.shell("")).collect();
    for round in 0..3 {
        shells.iter_mut().for_each(|it| it.begin("churn=50"));
        for shell in &mut shells {
            let said = shell.answer();
            assert!(said.ends_with(" us"), "round {round}: {said}");
        }
        dir.is_empty();
    }
}

#[test]
fn full_networks_and_missing_nodes_are_named() {
    let dir = Dir::new("full");
    let mut up = dir.shell("NETWORK=small");
    up.ask("up=small,2x1x1/2");
    let [mut one, mut two, mut three] = [(); 3].map(|()| dir.shell("NETWORK=small"));
    one.does("enter");
    two.does("enter");
    three.is_refused("enter", &["network small is full", "2 processes", "ggas net up --members"]);
    // Room that a dead one leaves is room.
    two.signal(libc::SIGKILL);
    until("its death", || common::ended(two.pid()));
    three.does("enter");
    assert_eq!(three.ask("me"), "1.2 on node 0 of small");
    one.is_refused("enter-as=small,2x1x1/2,2", &["nodes 0 to 1, not 2", "GGAS_NODE"]);
    let mut far = dir.shell("NETWORK=small NODE=9");
    far.is_refused("enter", &["nodes 0 to 1, not 9"]);
    // Nobody makes a network that it then cannot be in.
    let mut other = dir.shell("NODE=8");
    other.is_refused("enter", &["network default has nodes 0 to 7, not 8"]);
    assert_eq!(dir.files("default"), [""; 0]);
    assert_eq!(one.ask("nets"), "small (torus 2x1x1, room for 2) 2 stands");
}

/// Exec ends a membership: the process is another program, which may join as itself.
#[test]
fn another_program_in_the_same_process() {
    let dir = Dir::new("exec");
    let mut one = dir.shell("");
    one.does("enter");
    let mut two = dir.shell("");
    two.does("enter");
    // Nobody has had to do with it: it shows when it is addressed.
    two.begin("exec-again=enter,me,sleep=120000");
    assert_eq!(two.line(), "1.2 on node 0 of default", "in its own old place");
    assert_eq!(one.ask("list"), format!("0.1:{} 1.2:{}", one.pid(), two.pid()));
    two.kill();
    // One that joins nothing any more.
    let mut three = dir.shell("");
    three.does("enter");
    assert_eq!(three.ask("me"), "1.3 on node 0 of default");
    three.begin("exec-again=print=other,sleep=120000");
    assert_eq!(three.line(), "other");
    assert!(one.ask("word=1,hello").contains("not connected"), "it listens no more");
    assert_eq!((one.ask("event"), one.ask("state=1")), ("1.3 is Lost".into(), "1.3 Lost".into()));
}

/// Whose main thread has ended, as C programs may, goes on.
#[test]
fn a_process_without_its_main_thread_lives() {
    let dir = Dir::new("main-thread");
    let mut one = dir.shell("");
    one.does("enter");
    let mut two = dir.shell("");
    two.does("enter");
    assert_eq!(two.ask("end-main-thread"), "ends");
    until("the end of its main thread", || common::main_thread_ended(two.pid()));
    // Who joins looks whether all live.
    let mut three = dir.shell("");
    three.does("enter");
    assert_eq!(three.ask("me"), "2.1 on node 0 of default");
    assert_eq!(one.ask("word=1,hello"), "sent");
    two.signal(libc::SIGKILL);
    assert_eq!(one.ask("event"), "1.1 is Lost");
}

/// A program of any name: what its letters are cut to is no reason to take it for dead.
#[test]
fn a_program_of_any_name() {
    let dir = Dir::new("name");
    // Cut in the middle of the last letter: the system keeps 15 bytes.
    let program = dir.0.join(".aaaaaaaaaaaaa\u{e9}");
    std::fs::copy(common::MEMBER, &program).expect("a copy");
    let mut command = std::process::Command::new(&program);
    command.env("GGAS_RUNTIME_DIR", &dir.0).env("GGAS_QUIET", "1").env_remove("GGAS_NETWORK");
    let mut one = Shell::start(command);
    one.does("enter");
    let mut two = dir.shell("");
    two.does("enter");
    assert_eq!(two.ask("me"), "1.1 on node 0 of default");
    assert_eq!(two.ask("word=0,hello"), "sent");
}

/// Also programs that do not ignore SIGPIPE, as those in C, leave alive, and from the thread of their own handlers.
#[test]
fn leaving_kills_nobody() {
    let dir = Dir::new("leaving");
    let [mut one, mut two] = [(); 2].map(|()| dir.shell(""));
    one.does("enter");
    two.does("mortal");
    for round in 1..=3 {
        two.does("enter");
        assert_eq!(two.ask("word=0,hello"), "sent");
        assert_eq!(one.ask("event"), format!("1.{round} says hello with 0"));
        two.does(if round == 2 { "leave-inside" } else { "leave" });
        assert_eq!(one.ask("event"), format!("1.{round} is Left"));
    }
    one.does("mortal");
    one.does("leave-inside");
    dir.is_empty();
    assert!(one.end().success() && two.end().success());
}

/// A network is said to be made, once, unless that is not wanted.
#[test]
fn making_a_network_is_said() {
    let dir = Dir::new("said");
    let said = |quiet: &str| {
        let mut command = dir.command("NETWORK=lab NODE=3");
        let output = command.env("GGAS_QUIET", quiet).args(["enter", "leave"]).output().expect("it runs");
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let line = "ggas: made network lab of this user (torus 2x2x2), this process is on node 3; GGAS_QUIET=1 silences this\n";
    assert_eq!([said("0"), said("1")], [line, ""]);
}
