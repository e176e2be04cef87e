//! Ports that are closed, in one of the ways in which firewalls do so: who is not reached is named, with what to check, and nobody waits
//! without an end.

use super::super::Built;
use super::super::lab::{Lab, Runs, secret};
use super::bad_input::{client, complains, says};
use super::{PORT, SOON, ask, file, jobs, serve};
use crate::place;
use anyhow::{Result, ensure};
use std::path::PathBuf;
use std::process::Command;

/// Thrown away; refused, so that the caller hears of it.
const WAYS: [&str; 3] = ["DROP", "REJECT", "REJECT --reject-with icmp-admin-prohibited"];
/// Where rank 0 is met.
const HUB: u16 = 20_500;

pub fn firewall(lab: &Lab, built: &Built) -> Result<String> {
    silent_hub(lab, built)?;
    if place::which("iptables").is_none() {
        return Ok("skipped in part: apt-get install iptables".to_owned());
    }
    let net = file(lab, "firewall", &secret()?, &["h1", "h2"])?;
    for way in WAYS {
        meeting(lab, built, &net, way)?;
        wire(lab, built, &net, way)?;
        job(lab, built, way)?;
    }
    later(lab, built)?;
    Ok(String::new())
}

fn ring(lab: &Lab, built: &Built) -> Command {
    let mut command = jobs::launch(lab, built, "h1:1,h2:1");
    command.args(["--port", &HUB.to_string()]).env("GGAS_JOIN_TIMEOUT", "3");
    command.arg("--").arg(built.example("ring"));
    command
}

/// Packets to rank 0's host go nowhere; then they do, and all is well.
fn silent_hub(lab: &Lab, built: &Built) -> Result<()> {
    lab.block(2, 1, true)?;
    let parts = ["rank 1 did not join", "rank 0 is not met at h1:", "firewalls"];
    says(ring(lab, built), "a host behind a firewall", &parts)?;
    lab.block(2, 1, false)?;
    jobs::ring_of(&Runs::start(ring(lab, built), "no firewall")?.succeeds(SOON)?, 2, 1)
}

/// The port of a service's meeting is closed. It opens, and the client that was told so gets its answer.
fn meeting(lab: &Lab, built: &Built, net: &PathBuf, way: &str) -> Result<()> {
    lab.rule(1, &format!("-p tcp --dport {PORT} -j {way}"))?;
    let _service = serve(lab, built, 1, net)?;
    let waits = Runs::start(client(lab, built, net), "a client")?;
    let told =
        || ["node 0 is not met at h1:7000", "firewall"].iter().all(|part| waits.complaints().contains(part));
    lab.until(&format!("the client says that the meeting's port is closed ({way})"), told)?;
    lab.no_rules()?;
    let said = waits.succeeds(2 * SOON)?;
    ensure!(said.trim() == "144", "{said}");
    Ok(())
}

/// The port of the meeting is open, and no other: of both, or of one of them.
fn wire(lab: &Lab, built: &Built, net: &PathBuf, way: &str) -> Result<()> {
    for hosts in [&[1, 2][..], &[1], &[2]] {
        let _service = serve(lab, built, 1, net)?;
        for host in hosts {
            lab.rule(*host, "-p tcp -m state --state ESTABLISHED -j ACCEPT")?;
            lab.rule(*host, &format!("-p tcp ! --dport {PORT} -j {way}"))?;
        }
        let what = format!("wires of {hosts:?} are closed ({way})");
        match hosts {
            // By the connection that the client makes both are reached.
            [2] => drop(ask(lab, built, 2, net, ["0", "12"])?.succeeds(SOON)?),
            _ => complains(
                lab,
                client(lab, built, net),
                &what,
                &["node 0", "is met at h1:7000", "FI_TCP_PORT"],
            )?,
        }
        lab.no_rules()?;
    }
    Ok(())
}

/// Ranks reach rank 0, and nobody else.
fn job(lab: &Lab, built: &Built, way: &str) -> Result<()> {
    for host in [1, 2] {
        lab.rule(host, "-p tcp -m state --state ESTABLISHED -j ACCEPT")?;
        lab.rule(host, &format!("-p tcp ! --dport {HUB} -j {way}"))?;
    }
    says(ring(lab, built), &format!("ranks that meet at rank 0 alone ({way})"), &["is not met at 10.77.0."])?;
    lab.no_rules()
}

/// A firewall that comes up while a job runs is as a cut.
fn later(lab: &Lab, built: &Built) -> Result<()> {
    let mut running = jobs::watching(jobs::launch(lab, built, "h1:1,h2:1"), built, 2, 120)?;
    for host in [1, 2] {
        lab.rule(host, "-p tcp -j DROP")?;
    }
    for rank in [0, 1] {
        running.says(&format!("rank {rank} is lost"), 1)?;
    }
    lab.no_rules()
}
