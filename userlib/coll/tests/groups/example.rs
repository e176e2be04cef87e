//! The example `processes` passes all that it checks, on the CPU executor.

use std::process::Command;

#[test]
fn processes_check_windows_and_groups() {
    let test = std::env::current_exe().expect("a test has a file");
    let build = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let example = build.join("examples/processes");
    assert!(example.exists(), "{} is not there: cargo build -p ggas-coll --examples", example.display());
    let output = Command::new(example).arg("--cpu").output().expect("the example starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
    assert!(out.contains("allreduce of 16384 int64") && out.contains("all passed"), "{out}{err}");
}
