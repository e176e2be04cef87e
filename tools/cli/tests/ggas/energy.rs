//! `ggas energy` and pictures of power, from outside. Whether this machine has counters does not matter here.

use std::fs;
use std::process::{Command, Output, Stdio};

fn ggas(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ggas")).args(args).stdin(Stdio::null()).output().expect("ggas starts")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

const WORK: &str = r#"echo hello; echo '{"begin": "put"}'; echo '{"end": "put", "operations": 50}'"#;

#[test]
fn a_program_s_work_stands_in_the_table_and_the_json() {
    let output = ggas(&["energy", "--idle", "0.01", "sh", "-c", WORK]);
    assert!(output.status.success(), "{}", err(&output));
    assert!(err(&output).contains("hello\n"), "what it prints goes to standard error: {}", err(&output));
    let table = out(&output);
    assert!(table.contains("\n put ") && table.contains("50") && !table.contains("\nhello"), "{table}");
    assert!(table.contains("exit status: 0"), "{table}");
    let output = ggas(&["energy", "--idle", "0.01", "--json", "-", "sh", "-c", WORK]);
    let json: serde_json::Value = serde_json::from_str(&out(&output)).expect("JSON alone");
    assert_eq!((&json["bench"], &json["verified"]), (&"energy".into(), &true.into()));
    let row = &json["rows"][0];
    assert_eq!((&row["method"], &row["operations"]), (&"put".into(), &50.0.into()));
    assert!(!json["energy"]["counters"].is_null(), "{json:#}");
}

#[test]
fn a_program_that_fails_keeps_its_rows() {
    let script = format!("{WORK}; exit 3");
    let output = ggas(&["energy", "--idle", "0.01", "sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("exit status: 3") && out(&output).contains("put"), "{}", err(&output));
    let output = ggas(&["energy", "--idle", "0.01", "/no/such/program"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("/no/such/program"), "{}", err(&output));
    assert_eq!(ggas(&["energy"]).status.code(), Some(2));
}

#[test]
fn power_over_time_has_a_picture_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let result = folder.path().join("put.json");
    let row = r#"{"method": "thread", "bytes": 8, "latency_us": {"median": 2.5}}"#;
    let power =
        r#"{"row": 0, "component": "gpu 0", "begin_s": 12.0, "points": [[0.1, 250.0], [0.2, 260.0]]}"#;
    let windows = r#"{"row": 0, "from_s": 12.1, "to_s": 12.2}"#;
    let json = format!(
        r#"{{"bench": "put-signal", "nodes": 2, "device": "gpu", "host": {{"gpus": ["A GPU"]}}, "rows": [{row}],
            "energy": {{"power": [{power}], "windows": [{windows}]}}}}"#
    );
    fs::write(&result, json).expect("a result");
    let output = ggas(&["plot", &result.display().to_string()]);
    assert!(output.status.success(), "{}", err(&output));
    let drawn = |name: &str| fs::read_to_string(folder.path().join(name)).expect("a picture");
    assert!(drawn("put.svg").contains("median latency"));
    let power = drawn("put-power.svg");
    assert!(["gpu 0", "thread, 8 B", "seconds"].iter().all(|part| power.contains(part)), "{power}");
    // Of `ggas energy` there is that one only.
    let result = folder.path().join("work.json");
    fs::write(&result, r#"{"bench": "energy", "rows": [], "energy": {"power": []}}"#).expect("a result");
    assert!(ggas(&["plot", &result.display().to_string()]).status.success());
    assert!(!folder.path().join("work.svg").exists());
}
