//! Hosts whose packets UCX carries.

use super::super::Built;
use super::super::lab::{Lab, Runs, secret};
use super::{SOON, bounds, file, jobs, node};
use anyhow::{Result, ensure};
use std::process::Command;

/// What processes are told to take.
const FABRIC: (&str, &str) = ("GGAS_FABRIC", "ucx");

/// The version that a process takes which is told to; or what the table says where it cannot.
fn version(lab: &Lab, built: &Built) -> Result<Result<String, String>> {
    let mut info = lab.on(1, built.ggas());
    info.arg("info").env(FABRIC.0, FABRIC.1);
    let said = Runs::start(info, "ggas info")?.succeeds(SOON)?;
    let chosen = said.lines().filter(|line| line.trim().starts_with("chosen "));
    let version = chosen.filter_map(|line| Some(line.split_once(" of UCX ")?.1.split_once(':')?.0)).next();
    let why = said.lines().map(str::trim).find(|line| line.starts_with("UCX ")).unwrap_or("no UCX");
    Ok(version.map(str::to_owned).ok_or_else(|| format!("SKIPPED: {why}")))
}

fn launch(lab: &Lab, built: &Built, hosts: &str) -> Command {
    let mut command = jobs::launch(lab, built, hosts);
    command.env(FABRIC.0, FABRIC.1);
    command
}

pub fn many(lab: &Lab, built: &Built) -> Result<String> {
    match version(lab, built)? {
        Ok(version) => Ok(format!("{version}; {}", jobs::many_in(launch(lab, built, jobs::MANY))?)),
        Err(skipped) => Ok(skipped),
    }
}

pub fn bounds(lab: &Lab, built: &Built) -> Result<String> {
    match version(lab, built)? {
        Ok(version) => {
            let known = bounds::bounds_of(lab, &|| launch(lab, built, bounds::FOUR), built)?;
            Ok(format!("{version}; {known}"))
        }
        Err(skipped) => Ok(skipped),
    }
}

pub fn ucx(lab: &Lab, built: &Built) -> Result<String> {
    let version = match version(lab, built)? {
        Ok(version) => version,
        Err(skipped) => return Ok(skipped),
    };
    for (hosts, size) in [("h1:3,h2:1", 4), ("h1:4,h2:4", 8)] {
        let mut command = launch(lab, built, hosts);
        command.args(["--per-node", "1", "--"]).arg(built.example("ring"));
        jobs::ring_of(&Runs::start(command, hosts)?.succeeds(2 * SOON)?, size, 1)?;
    }
    let mut kernels = launch(lab, built, "h1:2,h2:1");
    kernels.arg("--").arg(built.example("processes")).args(["--cpu", "checks"]);
    let said = Runs::start(kernels, "kernels")?.succeeds(2 * SOON)?;
    ensure!(said.matches("PASS").count() >= 8, "{said}");
    let death = jobs::death_in(launch(lab, built, "h1:2,h2:1"), built, 3)?;
    differ(lab, built)?;
    Ok(format!("{version}; {death}"))
}

/// A client that uses UCX, and a service that does not: both say so.
fn differ(lab: &Lab, built: &Built) -> Result<()> {
    let net = file(lab, "differ", &secret()?, &["h1", "h2"])?;
    let mut service = node(lab, 1, &net, built.example("service"));
    service.arg("serve").env("GGAS_FABRIC", "libfabric");
    let service = Runs::start(service, "the service")?;
    let mut client = node(lab, 2, &net, built.example("service"));
    client.args(["ask", "0", "12"]).env(FABRIC.0, FABRIC.1);
    let client = Runs::start(client, "the client")?;
    for (who, runs) in [("the client", &client), ("the service", &service)] {
        let says = || runs.complaints().contains("set GGAS_FABRIC alike");
        lab.until(&format!("{who} says what differs"), says)?;
    }
    Ok(())
}
