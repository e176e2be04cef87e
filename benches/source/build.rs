//! Records which source figures come from, for their JSON.

use std::path::Path;
use std::process::Command;

/// What figures depend on; not what was measured, and no text about it.
const SOURCES: [&str; 10] = [
    "Cargo.toml",
    "Cargo.lock",
    "benches/src",
    "benches/kernels",
    "benches/build.rs",
    "benches/source",
    "fpga-sim",
    "kernels",
    "kmod/uapi",
    "userlib",
];

fn main() {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("../.."));
    for path in [".git/HEAD", ".git/refs/heads"].iter().chain(&SOURCES).map(|path| suite.join(path)) {
        // One that is not there would count as changed each time.
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(suite).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["describe", "--always", "--tags"]) else { return };
    // Built from more than the commit says: sources that are changed, or new.
    let status = [&["status", "--porcelain", "--", ":!*.md"][..], &SOURCES].concat();
    let changed = git(&status).is_none_or(|changes| !changes.is_empty());
    println!("cargo::rustc-env=GGAS_GIT_DESCRIBE={commit}{}", if changed { "-dirty" } else { "" });
}
