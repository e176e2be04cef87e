//! `ggas paper` from outside.

use std::process::{Command, Output};

fn ggas(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ggas")).arg("paper").args(args).output().expect("ggas starts")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// Fails with this code and says `what`; prints nothing.
fn fails(args: &[&str], code: i32, what: &str) {
    let output = ggas(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(said.contains(what), "{args:?} says: {said}");
    assert!(output.stdout.is_empty(), "{args:?} prints: {}", out(&output));
}

#[test]
fn the_list_names_all_papers_and_their_figures() {
    let list = out(&ggas(&["list"]));
    for name in ["thesis-3", "thesis-4", "thesis-5", "thesis-6", "gmpi", "faraji", "hpe", "gpu-tn", "h200"] {
        assert!(list.lines().any(|line| line.starts_with(name)), "no {name} in {list}");
    }
    assert!(list.contains("  8-polling  what a daemon's looks"), "{list}");
    assert!(list.contains("  10         ring allreduce"), "{list}");
}

#[test]
fn what_is_not_there_is_said() {
    fails(&["gputn"], 2, "no paper is called `gputn`; there are: thesis-3");
    fails(&["gpu-tn", "7"], 2, "gpu-tn has no figure `7` that is built; there are: 1, 8, 9, 10, 11");
    fails(&["hpe", "12"], 2, "hpe has no figure `12` that is built; there are: 4.1, 7, 8, 9a, 9b");
    fails(&["list", "8"], 2, "`list` takes no figure");
    fails(&["gpu-tn", "--json", "-"], 2, "name one figure");
    fails(&["gpu-tn", "--json", "/dev/null"], 2, "several figures need a folder");
    fails(&["gpu-tn", "8", "--json", "/nonexistent/x.json"], 2, "/nonexistent/x.json");
    fails(&["gpu-tn", "8", "--system", "/nonexistent.toml"], 2, "/nonexistent.toml");
    fails(&["gpu-tn", "8", "--system", "/dev/zero"], 2, "no regular file");
}

#[test]
fn a_figure_is_the_same_each_time_in_each_form() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    let run = ggas(&["gpu-tn", "8", "--json", path, "--plot", path]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    for part in ["GPU-TN below GDS", "compared with a serial reference: all right", "holds"] {
        assert!(out(&run).contains(part), "no `{part}` in {}", out(&run));
    }
    let json = std::fs::read_to_string(folder.path().join("gpu-tn-8.json")).expect("it is written");
    assert_eq!(json, out(&ggas(&["gpu-tn", "8", "--json", "-"])));
    let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&report["verified"], &report["schema"]), (&true.into(), &1.into()));
    let svg = std::fs::read_to_string(folder.path().join("gpu-tn-8.svg")).expect("it is drawn");
    assert!(svg.contains("kernel launch"), "{svg}");
}
