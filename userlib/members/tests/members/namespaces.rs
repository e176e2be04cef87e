//! Members of other namespaces of process ids, as containers have them that share memory: ids tell nothing there.

use std::process::{Command, Stdio};

use crate::common::{Dir, MEMBER, Shell, until};

/// A process in a namespace of its own; `None` where this test may not make one.
fn apart(dir: &Dir, how: &[&str], script: &str) -> Option<Shell> {
    let args = [&["--pid", "--fork", "--kill-child"], how].concat();
    let can = Command::new("unshare").args(&args).arg("true").stderr(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        eprintln!(
            "skipped: namespaces of process ids cannot be made here (this needs root, and CAP_SYS_ADMIN)"
        );
        return None;
    }
    // Not the first process of its namespace, whose end would be that of all.
    let script = format!("{script} {MEMBER} \"$@\"; true");
    let args = [&args[..], &["sh", "-c", &script, "sh"]].concat();
    Some(Shell::start(dir.script("", "unshare", &args)))
}

#[test]
fn members_of_two_namespaces() {
    for how in [&["--mount-proc"][..], &[]] {
        let dir = Dir::new(&format!("two-{}", how.len()));
        let Some(mut inside) = apart(&dir, how, "") else { return };
        let mut one = dir.shell("");
        one.does("enter");
        inside.does("enter");
        assert_eq!(inside.ask("me"), "1.1 on node 0 of default");
        assert_eq!(inside.ask("word=0,hello"), "sent");
        assert_eq!(one.ask("event"), "1.1 says hello with 0");
        // Both look whether all live, as they join and leave.
        for _ in 0..3 {
            let mut two = dir.shell("");
            two.does("enter");
            assert_eq!(two.ask("nets"), "default (torus 2x2x2) 3");
            two.does("leave");
            assert_eq!(inside.ask("nets"), "default (torus 2x2x2) 2");
        }
        // Its end is noticed at once, though a fork of it has copies of everything.
        inside.does("fork-stay");
        inside.begin("kill");
        assert_eq!(one.ask("event"), "1.1 is Lost");
        assert_eq!(one.ask("nets"), "default (torus 2x2x2) 1");
    }
}

/// One that nobody has had to do with: its socket tells.
#[test]
fn a_death_that_nobody_saw() {
    let dir = Dir::new("unseen");
    let Some(mut inside) = apart(&dir, &["--mount-proc"], "") else { return };
    inside.does("enter");
    let mut one = dir.shell("");
    assert_eq!(one.ask("nets"), "default (torus 2x2x2) 1");
    inside.does("fork-stay");
    inside.begin("kill");
    until("its death to be seen", || one.ask("nets").is_empty());
    dir.is_empty();
}

/// A launcher that was killed in its namespace keeps no network for its job.
#[test]
fn a_launcher_of_another_namespace() {
    let dir = Dir::new("launcher");
    let Some(mut inside) = apart(&dir, &["--mount-proc"], "") else { return };
    inside.begin("launch=2");
    let mut one = dir.shell("");
    until("its ranks", || one.ask("nets").ends_with("job of 2, 1 on each node) 2 stands"));
    inside.kill();
    until("its network to go", || one.ask("nets").is_empty());
    dir.is_empty();
}
