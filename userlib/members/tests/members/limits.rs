//! Too little of something: room for files, descriptors, address space. Each is said, nobody is killed for it, and
//! nobody else is taken for dead.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::common::{self, Dir, MEMBER, Shell, all, err, run, succeeds};
use ggas_members::launch::{Exit, Launch, Output};

/// A process whose networks are in a file system of this size, which goes with it; `None` where this test may not mount.
fn small(dir: &Dir, options: &str, before: &str) -> Option<Shell> {
    let path = dir.path().display();
    let mount = format!("mount -t tmpfs -o mode=700,{options} none {path}");
    let can = Command::new("unshare").args(["--mount", "sh", "-c", &mount]).stderr(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        eprintln!(
            "skipped: a file system of its own cannot be mounted here (this needs root, and CAP_SYS_ADMIN)"
        );
        return None;
    }
    let script = format!("{mount} && {before} exec {MEMBER} \"$@\"");
    Some(Shell::start(dir.script("", "unshare", &["--mount", "sh", "-c", &script, "sh"])))
}

#[test]
fn no_room_for_a_table() {
    let dir = Dir::new("no-room");
    let Some(mut one) = small(&dir, "size=16k", "") else { return };
    let path = dir.path().join("default").display().to_string();
    for _ in 0..2 {
        let words = ["no room for a network's files", &path, "make room there", "GGAS_RUNTIME_DIR"];
        one.is_refused("enter", &words);
        one.is_refused("up=default", &words);
    }
    assert_eq!(one.ask("nets"), "");
    // A smaller one fits.
    assert_eq!(one.ask("up=small,2x1x1/8"), "small stands: true");
    assert!(one.end().success());
}

#[test]
fn no_room_for_more() {
    let dir = Dir::new("some-room");
    let Some(mut one) = small(&dir, "size=64k", "") else { return };
    one.does("enter");
    one.does("node-memory=0,8192");
    let words = ["no room for 65536 bytes", "GGAS_RUNTIME_DIR"];
    one.is_refused("node-memory=1,65536", &words);
    one.is_refused("publish=card,65536", &["no room for a network's files"]);
    one.does("publish=card,100");
    assert_eq!(one.ask("look-up=0,card"), "100 bytes");
    one.does("leave");
    one.does("enter");
    one.does("node-memory=1,8192");
    assert_eq!(one.ask("me"), "0.1 on node 0 of default");
    assert!(one.end().success());
}

#[test]
fn no_room_for_a_name() {
    let dir = Dir::new("inodes");
    for inodes in 1..6 {
        let Some(mut one) = small(&dir, &format!("size=1m,nr_inodes={inodes}"), "") else { return };
        let said = one.ask("enter");
        let fits = said.is_empty();
        assert!(
            fits || ["make room", "no room"].iter().any(|words| said.contains(words)),
            "{inodes}: {said}"
        );
        assert_eq!(fits, inodes >= 4, "{said}");
        assert!(one.end().success());
    }
}

/// Files with holes where there is no room to fill them: touching those would kill.
#[test]
fn holes_are_filled_before_they_are_touched() {
    let dir = Dir::new("holes");
    let network = dir.path().join("default");
    let (table, node) = (network.join("members"), network.join("node.0"));
    let full = format!("head -c 1m /dev/zero > {}/full 2>/dev/null;", dir.path().display());
    let holes =
        format!("mkdir -m 700 {0} && truncate -s 36864 {1} && {full}", network.display(), table.display());
    let Some(mut one) = small(&dir, "size=64k", &holes) else { return };
    one.is_refused("enter", &["no room for a network's files"]);
    assert_eq!(one.ask("nets"), "default (?) 0 stands");
    assert!(one.end().success());
    let Some(mut two) = small(&dir, "size=64k", "") else { return };
    two.does("enter");
    let make = format!("truncate -s 65536 {}", node.display());
    // In its own file system, where only it is.
    assert!(
        Command::new("nsenter")
            .args(["--mount", "-t", &two.pid().to_string(), "sh", "-c", &make])
            .status()
            .is_ok_and(|it| it.success())
    );
    two.is_refused("node-memory=0,65536", &["no room for 65536 bytes"]);
    assert!(two.end().success());
}

#[test]
fn files_may_be_only_so_large() {
    let dir = Dir::new("filesize");
    let mut one = dir.shell("");
    one.does("filesize=10000");
    one.is_refused("enter", &["36864 bytes", "raise `ulimit -f`"]);
    let mut two = dir.shell("");
    two.does("enter");
    // One that is there can be joined.
    one.does("enter");
    assert_eq!(one.ask("word=0,hello"), "sent");
    one.is_refused("node-memory=0,20000", &["raise `ulimit -f`"]);
    one.is_refused("publish=card,20000", &["raise `ulimit -f`"]);
    one.does("publish=card,5000");
    // Ranks, as their launcher starts them.
    let outcome =
        run(common::member(2, "1:filesize=1000 join exchange=90 0:exchange=4000 1:try-exchange=4000"));
    assert!(common::out(&outcome, 1).contains("raise `ulimit -f`"), "{}", all(&outcome));
}

/// However few descriptors a process may have: it joins, or says what to raise, and takes nobody for dead.
#[test]
fn few_descriptors() {
    let dir = Dir::new("files");
    let [mut one, mut two] = [(); 2].map(|()| dir.shell(""));
    one.does("enter");
    two.does("enter");
    assert_eq!(two.ask("word=0,hello"), "sent");
    let mut joined = 0;
    for files in 3..24 {
        let mut few = dir.shell("");
        few.does(&format!("files={files}"));
        let said = few.ask("enter");
        if said.is_empty() {
            joined += 1;
            let said = few.ask("word=0,hello");
            assert!(said == "sent" || said.contains("Too many open files"), "{files}: {said}");
        } else {
            assert!(said.contains("`ulimit -n`"), "{files}: {said}");
        }
        let said = few.ask("nets");
        let is_right =
            said.starts_with("default (torus 2x2x2) ") || said.contains("`ulimit -n`") || said.is_empty();
        assert!(is_right, "{files}: {said}");
        few.ask("leave");
        let end = few.end();
        assert!(end.success(), "{files}: {end}");
        assert_eq!(
            (one.ask("state=1"), two.ask("state=0")),
            ("1.1 Joined".into(), "0.1 Joined".into()),
            "{files}"
        );
    }
    assert!((1..21).contains(&joined), "{joined} joined");
    assert_eq!(one.ask("list"), format!("0.1:{} 1.1:{}", one.pid(), two.pid()));
}

/// A member that runs out of descriptors while others want to talk with it: it sleeps, and hears them when it can.
#[test]
fn out_of_descriptors() {
    let dir = Dir::new("out-of-files");
    let mut one = dir.shell("");
    one.does("enter");
    let open = one.ask("open");
    let open: u32 = open.trim_end_matches(" open").parse().expect("a number");
    // The one that looks at the list is of those.
    one.does(&format!("files={}", open - 1));
    let mut two = dir.shell("");
    two.does("enter");
    assert_eq!(two.ask("word=0,hello"), "sent");
    let used: Vec<u64> = (0..10)
        .map(|_| one.ask("cpu=300").trim_end_matches(" us").parse().expect("a number"))
        .take_while(|used| *used > 30_000)
        .collect();
    assert!(used.len() < 10, "{used:?} us of 300,000: it does not sleep");
    one.does("files=100");
    assert_eq!(one.ask("event"), "1.1 says hello with 0");
    // Fewer than there are: it hears them all the same.
    one.does("files=3");
    assert_eq!(two.ask("word=0,again"), "sent");
    assert_eq!(one.ask("event"), "1.1 says again with 0");
    // What it has no room for is lost; nobody is, for that.
    assert_eq!(two.ask("word-with=0,no room"), "sent");
    assert_eq!(two.ask("word=0,and on"), "sent");
    assert_eq!(one.ask("event"), "1.1 says and on with 0");
    one.does("files=100");
    assert_eq!(two.ask("word-with=0,room"), "sent");
    assert_eq!(one.ask("event"), "1.1 says room with 3");
    assert_eq!(one.ask("state=1"), "1.1 Joined");
}

#[test]
fn little_address_space() {
    let dir = Dir::new("space");
    let (mut joined, mut refused) = (0, 0);
    for kilobytes in (3_000..20_000).step_by(250) {
        let script = format!("ulimit -v {kilobytes}; exec {MEMBER} enter leave");
        let output = dir.script("", "sh", &["-c", &script]).output().expect("sh");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            Some(0) => joined += 1,
            Some(3) => {
                refused += 1;
                assert!(said.contains("`ulimit -v`"), "{kilobytes}: {said}");
            }
            // It does not even begin to run, or the language's own memory is all gone.
            Some(127) => {}
            None if said.contains("memory allocation of") => {}
            // The system ends who has no room for a page of stack so, too: with less than what anything ran in.
            None if said.is_empty() && (joined, refused) == (0, 0) => {}
            None if said.contains("failed to allocate an alternative stack") => {}
            _ => panic!("{kilobytes}: {:?} {said}", output.status),
        }
    }
    assert!(joined > 0, "{joined} joined, {refused} were refused");
    let mut one = dir.shell("");
    one.ask("nets");
    dir.is_empty();
}

#[test]
fn limits_of_ranks_say_what_is_needed() {
    let commands = format!("ulimit -n 40; exec {MEMBER} join");
    let outcome = run(Launch::new("sh").args(["-c", &commands]).processes(2).output(Output::Capture));
    assert!(err(&outcome, 0).contains("`ulimit -n "), "{}", all(&outcome));
    assert_eq!(outcome.exits(), [Exit::Code(3); 2], "{}", all(&outcome));
    let little = format!("ulimit -v 400000; exec {MEMBER} join exchange=1000 barrier=60000");
    succeeds(&run(Launch::new("sh").args(["-c", &little]).processes(3).output(Output::Capture)));
}

/// Whatever mask a program has: nobody else can open what it makes.
#[test]
fn no_mask_opens_anything() {
    let dir = Dir::new("umask");
    let script = format!("umask 0; exec {MEMBER} enter publish=card,10 node-memory=0,4096 sleep=60000");
    let mut child = dir.script("", "sh", &["-c", &script]).spawn().expect("sh");
    let network = dir.path().join("default");
    common::until("its files", || network.join("node.0").exists());
    let bits = |path: &std::path::Path| {
        std::fs::symlink_metadata(path).expect("it is there").permissions().mode() & 0o7777
    };
    assert_eq!(bits(&network), 0o700);
    for entry in std::fs::read_dir(&network).expect("it is there").flatten() {
        assert_eq!(bits(&entry.path()), 0o600, "{:?}", entry.path());
    }
    child.kill().and_then(|()| child.wait()).expect("our child");
}
