//! Choices that are measured between hosts.

use anyhow::{Result, ensure};

use super::SOON;
use super::jobs::{by_mpirun, launch};
use crate::hosts::Built;
use crate::hosts::lab::{Lab, Runs};
use crate::place;

/// In a folder that each host has of its own.
const TABLE: &str = "/tmp/tuning.json";

/// The same with all calls through one memory.
const FORCED: &str = "/tmp/forced.json";

/// Collectives are measured by each way, both hosts have the same table then, and collectives of another job go by such a table, and are
/// right.
pub fn tune(lab: &Lab, built: &Built) -> Result<String> {
    let tune = ["tune", "--shared-gpu", "--between-hosts", "--device", "cpu", "--output", TABLE];
    let few = ["--runs", "10", "--sizes", "8,64K,1M"];
    let mut command = launch(lab, built, "h1:2,h2:1");
    command.arg("--").arg(built.ggas()).args(tune).args(few);
    is_whole(&Runs::start(command, "tune")?.succeeds(3 * SOON)?)?;
    let read = |host| {
        let mut command = lab.on(host, "cat");
        command.arg(TABLE);
        Runs::start(command, "cat")?.succeeds(SOON)
    };
    let (one, two) = (read(1)?, read(2)?);
    ensure!(one == two && one.contains("\"hosts\": 2"), "on h1\n{one}\non h2\n{two}");
    by_the_table(lab, built, TABLE)?;
    for (memory, other) in [("gpu", "host"), ("host", "gpu")] {
        let change =
            format!("sed 's/\"{other}\"/\"{memory}\"/' {TABLE} > {FORCED} && ! grep '\"{other}\"' {FORCED}");
        for host in [1, 2] {
            let mut command = lab.on(host, "sh");
            command.args(["-c", &change]);
            Runs::start(command, "a table of one memory")?.succeeds(SOON)?;
        }
        let said = by_the_table(lab, built, FORCED)?;
        let none = if memory == "gpu" { " 0 bytes through host memory" } else { " 0 through GPU memory" };
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("between hosts ")).collect();
        ensure!(
            lines.len() == 2 && lines.iter().all(|line| line.contains(none)),
            "all through {memory}:\n{said}"
        );
    }
    // One host is none.
    let mut command = launch(lab, built, "h1:2");
    command.arg("--").arg(built.ggas()).args(tune).args(few);
    let output = Runs::start(command, "one host")?.ends(SOON)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(!output.status.success() && said.contains("all processes are on one host"), "{said}");
    if place::which("mpirun").is_none() {
        return Ok("not by mpirun: apt-get install openmpi-bin".to_owned());
    }
    let (mut command, version) = by_mpirun(lab, "h1:1,h2:1", 2);
    command.arg(built.ggas()).args(tune).args(few);
    is_whole(&Runs::start(command, "tune by mpirun")?.succeeds(3 * SOON)?)?;
    Ok(version)
}

/// What another job says whose hosts have such tables.
fn by_the_table(lab: &Lab, built: &Built, table: &str) -> Result<String> {
    let mut command = launch(lab, built, "h1:2,h2:1");
    command.env("GGAS_TUNING", table).arg("--").arg(built.example("processes")).args(["--cpu", "run"]);
    let said = Runs::start(command, "collectives by the table")?.succeeds(2 * SOON)?;
    ensure!(said.matches("by processes").count() == 14 && !said.contains("FAIL"), "{said}");
    Ok(said)
}

/// What rank 0 says, once: each collective has a choice from 0 bytes on.
fn is_whole(said: &str) -> Result<()> {
    for collective in ["allreduce", "reduce", "broadcast", "allgather", "alltoall", "reduce-scatter"] {
        let line = format!("{collective} between 2 hosts of cpu: from 0 bytes through ");
        // `ggas run` may name the rank in front.
        let found = said.lines().filter(|said| {
            said.trim_start_matches(|c: char| "[] ".contains(c) || c.is_ascii_digit()).starts_with(&line)
        });
        ensure!(found.count() == 1, "no `{line}`, or more, in\n{said}");
    }
    ensure!(said.matches(&format!("written to {TABLE}")).count() == 1, "{said}");
    Ok(())
}
