//! Records which source the benchmarks were built from, for the JSON.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../.git/HEAD");
    println!("cargo::rerun-if-changed=../.git/refs/heads");
    let described = Command::new("git")
        .args(["describe", "--always", "--tags"])
        .output()
        .ok()
        .filter(|out| out.status.success())
        .and_then(|out| String::from_utf8(out.stdout).ok());
    if let Some(text) = described {
        println!("cargo::rustc-env=GGAS_GIT_DESCRIBE={}", text.trim());
    }
}
