//! System packages: what to say, and when to install them.

use crate::{place, run::Step};
use anyhow::{Result, bail};
use std::io::Write;
use std::process::Command;
use std::time::Duration;

/// What may be done to the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Ask root at a terminal; install for root without one (a container, CI); else only say what to do.
    Default,
    /// Install without asking. Only root can; nothing here calls sudo.
    Install,
    /// Only say what to do.
    Leave,
}

/// Command that installs `packages`, as the user would type it.
pub fn command_for(packages: &[&str]) -> String {
    let list = packages.join(" ");
    if place::which("apt-get").is_none() {
        return format!("install {list} (these are Debian's names) with your package manager");
    }
    let sudo = if place::is_root() { "" } else { "sudo " };
    format!("{sudo}apt-get install {list}")
}

/// Installs `packages`, which `why` needs, or fails with the command that would.
pub fn install(packages: &[&str], why: &str, policy: Policy) -> Result<()> {
    let command = command_for(packages);
    if !allowed(&command, why, policy) {
        bail!("{why} is missing. To fix it: {command}");
    }
    report!("xtask: {why} is missing: running {command}");
    if apt_get(packages).run().is_err() {
        // A fresh container has no package lists, an old one has stale ones.
        let mut update = Command::new("apt-get");
        update.args(["update", "-q"]);
        step("apt-get update", update).run()?;
        apt_get(packages).run()?;
    }
    Ok(())
}

/// Installs the packages of those of these programs that are not there.
pub fn install_missing(programs: &[(&str, &str)], why: &str, policy: Policy) -> Result<()> {
    let missing = programs.iter().filter(|(program, _)| place::which(program).is_none());
    let missing: Vec<&str> = missing.map(|(_, package)| *package).collect();
    if missing.is_empty() { Ok(()) } else { install(&missing, why, policy) }
}

fn allowed(command: &str, why: &str, policy: Policy) -> bool {
    if policy == Policy::Leave || !place::is_root() || place::which("apt-get").is_none() {
        return false;
    }
    if policy == Policy::Install || !place::interactive() {
        return true;
    }
    eprint!("xtask: {why} is missing. Run `{command}` now? [Y/n] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer).unwrap_or(0);
    read > 0 && matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes")
}

fn apt_get(packages: &[&str]) -> Step<'static> {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command.args(["install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=120"]);
    command.args(packages);
    step("apt-get install", command)
}

fn step(name: &'static str, command: Command) -> Step<'static> {
    Step { name, command, limit: Duration::from_secs(900) }
}
