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

/// Builds all of them: one for each C file of `tests/vm`, and `hw-suite`.
pub fn all() -> Result<Vec<PathBuf>> {
    let out = debs::folder().join("bin");
    std::fs::create_dir_all(&out)?;
    let mut built = bare(&out)?;
    built.push(rust()?);
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

/// The one that is written in Rust, on the library.
fn rust() -> Result<PathBuf> {
    let build = cargo(&["build", "--package", "hw-suite", "--target", TARGET, "--config", STATIC]);
    Step { name: "vm programs in Rust", command: build, limit: Duration::from_secs(900) }.run()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(place::root().join("target"), PathBuf::from);
    Ok(target.join(TARGET).join("debug/hw-suite"))
}

fn compiler() -> Command {
    Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

fn step(program: &Path, command: Command) -> Result<()> {
    let name = format!("vm program {}", program.file_name().unwrap_or_default().to_string_lossy());
    Step { name: &name, command, limit: Duration::from_secs(120) }.run()?;
    Ok(())
}
