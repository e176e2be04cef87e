//! The program `simulate` with odd arguments and outputs.

use std::fs::File;
use std::process::{Command, Output, Stdio};

fn simulate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simulate"));
    command.args(arguments);
    command
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = simulate(arguments).output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn every_seed_is_one_up_to_the_last() {
    // Times 31, what programs draw from, the second one ends just below 2^64.
    for seed in [u64::MAX, 1_190_112_520_884_487_201] {
        let (code, said, error) = run(&["--first", &seed.to_string(), "--seeds", "2", "--verbose"]);
        assert_eq!(code, Some(0), "{error}");
        assert!(said.contains(&format!("seed {seed}: ")), "{said}");
    }
}

/// Whoever runs a seed, in whichever process, sees the same network.
#[test]
fn processes_agree_about_a_seed() {
    let of = |variable: &str| {
        let mut command = simulate(&["--first", "7000", "--seeds", "6", "--verbose"]);
        let output = command.env("RUST_LOG", variable).output().expect("it starts");
        let said = String::from_utf8(output.stdout).expect("text");
        let digests: Vec<String> =
            said.lines().filter(|line| line.contains("digest")).map(str::to_owned).collect();
        assert_eq!(digests.len(), 6, "{said}");
        digests
    };
    assert_eq!(of("off"), of("trace"));
}

#[test]
fn what_it_cannot_do_is_said() {
    for (arguments, error) in [
        (&["--seeds", "0"][..], "no network was simulated"),
        (&["--known", "/nonexistent"], "/nonexistent cannot be read"),
        (&["--known", "/dev/null", "--seeds", "0"], "no network was simulated"),
    ] {
        let (code, _, said) = run(arguments);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(error), "{said}");
    }
}

#[test]
fn a_reader_that_goes_and_a_full_disk_are_no_failed_network() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let arguments = ["--seeds", "2", "--verbose"];
    let output = simulate(&arguments).stdout(writer).stderr(Stdio::piped()).output().expect("it starts");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));

    let full = File::options().write(true).open("/dev/full").expect("a full disk");
    let output = simulate(&arguments).stdout(full).stderr(Stdio::piped()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("cannot write to standard output: ") && !said.contains("panicked"), "{said}");
}
