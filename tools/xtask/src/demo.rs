//! `cargo xtask demo`, `bench` and `sim`: programs built for speed.

use crate::capi;
use crate::run::{Step, cargo};
use crate::setup::{self, Need, Policy};
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Everything from a bare checkout to the table.
pub fn demo(args: &[String], policy: Policy) -> Result<ExitCode> {
    setup::prepare(Need::Run, policy)?;
    through(built("demo", args)?)
}

/// `ggas` with these arguments, built for speed.
pub fn ggas(subcommand: &str, args: &[String]) -> Result<ExitCode> {
    through(built(subcommand, args)?)
}

/// The command `ggas` with these arguments, after it was built.
fn built(subcommand: &str, args: &[String]) -> Result<Command> {
    report!(
        "xtask: building ggas; the first time this takes about four minutes of processor time \
         (build/log/build.log shows the progress)"
    );
    let build = cargo(&["build", "--release", "--package", "ggas-cli"]);
    Step { name: "build", command: build, limit: Duration::from_secs(3600) }.run()?;
    let mut run = Command::new(capi::target().join("release/ggas"));
    run.arg(subcommand).args(args);
    Ok(run)
}

/// Networks in virtual time, built for speed.
pub fn simulate(args: &[String]) -> Result<ExitCode> {
    through(simulation(args))
}

/// The command for it.
pub fn simulation<S: AsRef<OsStr>>(args: &[S]) -> Command {
    let mut command = cargo(&["run", "--quiet", "--release", "--package", "ggas-tests", "--bin", "simulate"]);
    command.arg("--").args(args);
    command
}

/// Runs a command on our own terminal and passes its exit code on.
fn through(mut command: Command) -> Result<ExitCode> {
    let status =
        command.status().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
