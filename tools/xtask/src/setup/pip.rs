//! Python wheels unpacked into the build folder: nothing outside the checkout changes.

use super::apt::{self, Policy};
use crate::place;
use crate::run::{Step, ask};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Python 3 with pip.
pub fn available() -> bool {
    ask("python3", &["-m", "pip", "--version"]).is_some()
}

/// Python 3 with pip, installed if `policy` lets us.
pub fn require(why: &str, policy: Policy) -> Result<()> {
    if !available() {
        apt::install(&["python3-pip"], &format!("pip, which fetches {why},"), policy)?;
    }
    Ok(())
}

/// Puts `wheels` into `build/<folder>`. `check` must accept the result before it takes that name,
/// so an interrupted or broken installation is never mistaken for a whole one.
pub fn install(folder: &str, wheels: &[&str], check: impl Fn(&Path) -> Result<()>) -> Result<PathBuf> {
    let target = place::build().join(folder);
    let partial = place::build().join(format!("{folder}.partial-{}", std::process::id()));
    let result = fetch(folder, wheels, &partial).and_then(|()| {
        check(&partial)?;
        if target.exists() {
            fs::remove_dir_all(&target).with_context(|| format!("cannot replace {}", target.display()))?;
        }
        fs::rename(&partial, &target).with_context(|| format!("cannot create {}", target.display()))
    });
    if partial.exists() {
        let _ = fs::remove_dir_all(&partial);
    }
    result.map(|()| target)
}

fn fetch(folder: &str, wheels: &[&str], target: &Path) -> Result<()> {
    let mut command = Command::new("python3");
    command.args([
        "-m",
        "pip",
        "install",
        "--no-input",
        "--disable-pip-version-check",
        "--progress-bar",
        "off",
    ]);
    command.args(["--no-deps", "--only-binary", ":all:", "--target"]);
    command.arg(target).args(wheels);
    command.env("PIP_ROOT_USER_ACTION", "ignore"); // as an option it would stop pip older than 22.1
    let name = format!("pip install {folder}");
    Step { name: &name, command, limit: Duration::from_secs(900) }.run()?;
    Ok(())
}
