//! Programs for the guests, statically linked: guests have no C library.

use super::debs;
use crate::place;
use crate::run::{Step, cargo};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// For this target, and so not for build scripts and this program.
const STATIC: &str = "target.x86_64-unknown-linux-gnu.rustflags=['-Ctarget-feature=+crt-static']";
/// Programs of `tests/librma2` that run on a card.
const LIBRMA2: [&str; 4] = ["connect", "transfer", "lock", "notify"];

/// Builds all of them: one for each C file of `tests/vm`, `hw-suite`, and C programs of librma2 as `rma2-NAME`.
pub fn all() -> Result<Vec<PathBuf>> {
    let out = debs::folder().join("bin");
    std::fs::create_dir_all(&out)?;
    let mut built = bare(&out)?;
    let libraries = rust()?;
    built.push(libraries.join("hw-suite"));
    for name in LIBRMA2 {
        let program = out.join(format!("rma2-{name}"));
        let mut compile = compiler();
        compile
            .args(["-std=c11", "-O1", "-static", "-Iuserlib/capi/include", "-Ikmod/uapi", "-o"])
            .arg(&program);
        compile.arg(format!("tests/librma2/{name}.c")).arg(libraries.join("librma2.a"));
        compile.args(["-lpthread", "-ldl", "-lm"]);
        step(&program, compile)?;
        built.push(program);
    }
    Ok(built)
}

/// Those on the module's calls alone.
fn bare(out: &Path) -> Result<Vec<PathBuf>> {
    let mut built = Vec::new();
    for entry in std::fs::read_dir(place::root().join("tests/vm"))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "c") {
            continue;
        }
        let program = out.join(path.file_stem().unwrap_or_default());
        let mut compile = compiler();
        compile.args(["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-static", "-pthread"]);
        compile.args(["-Ikmod/uapi", "-Itests/vm", "-o"]).arg(&program).arg(&path);
        step(&program, compile)?;
        built.push(program);
    }
    Ok(built)
}

/// The library and what is written in Rust; returns the folder.
fn rust() -> Result<PathBuf> {
    let packages = ["--package", "hw-suite", "--package", "ggas-capi"];
    let mut build = cargo(&["build", "--target", TARGET, "--config", STATIC]);
    build.args(packages);
    Step { name: "vm programs in Rust", command: build, limit: Duration::from_secs(900) }.run()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(place::root().join("target"), PathBuf::from);
    Ok(target.join(TARGET).join("debug"))
}

fn compiler() -> Command {
    Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

fn step(program: &Path, command: Command) -> Result<()> {
    let name = format!("vm program {}", program.file_name().unwrap_or_default().to_string_lossy());
    Step { name: &name, command, limit: Duration::from_secs(120) }.run()?;
    Ok(())
}
