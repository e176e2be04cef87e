//! What is wrong is said with what to do about it; and who is of no network harms none.

use super::super::Built;
use super::super::lab::{Lab, Runs, secret};
use super::{PORT, SOON, ask, file, jobs, node, serve};
use anyhow::{Context, Result, ensure};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// The program fails, and says all of this.
pub(super) fn says(command: Command, what: &str, parts: &[&str]) -> Result<()> {
    let said = Runs::start(command, what)?.fails(SOON)?;
    let missing = parts.iter().find(|part| !said.contains(**part));
    ensure!(missing.is_none(), "{what}: no `{}` in: {said}", missing.copied().unwrap_or_default());
    Ok(())
}

/// A client of the service at node 0, on the second host.
pub(super) fn client(lab: &Lab, built: &Built, file: &PathBuf) -> Command {
    let mut command = node(lab, 2, file, built.example("service"));
    command.args(["ask", "0", "12"]);
    command
}

/// A program that goes on trying says all of this meanwhile.
pub(super) fn complains(lab: &Lab, command: Command, what: &str, parts: &[&str]) -> Result<()> {
    let runs = Runs::start(command, what)?;
    let has_all = || parts.iter().all(|part| runs.complaints().contains(part));
    lab.until(what, has_all).with_context(|| format!("no {parts:?} in: {}", runs.said()))
}

pub fn bad_input(lab: &Lab, built: &Built) -> Result<String> {
    let right = file(lab, "net", &secret()?, &["h1", "h2"])?;
    let mut without = client(lab, built, &right);
    without.env("GGAS_FABRIC", "libfabric").env("GGAS_LIBFABRIC", "/nonexistent");
    says(without, "no libfabric", &["/nonexistent", "libfabric"])?;
    let service = serve(lab, built, 1, &right)?;
    let square = ask(lab, built, 2, &right, ["0", "3"])?.succeeds(SOON)?;
    ensure!(square.trim() == "9", "{square}");
    // Who is there first keeps the place.
    let mut second = node(lab, 1, &right, built.example("service"));
    second.arg("serve");
    says(second, "a place that is taken", &["node 0 is at h1:7000", "cannot listen"])?;
    strangers(lab, built, &right)?;
    let other = file(lab, "other", &secret()?, &["h1", "h2"])?;
    complains(
        lab,
        client(lab, built, &other),
        "another secret",
        &["h1:7000", "the files of the two differ"],
    )?;
    drop(service);
    files(lab, built, &right)?;
    limits(lab, built)?;
    jobs_on_hosts(lab, built)?;
    Ok(String::new())
}

/// Files that say what cannot be.
fn files(lab: &Lab, built: &Built, right: &PathBuf) -> Result<()> {
    let twice = file(lab, "twice", &secret()?, &["h1", "h1"])?;
    says(client(lab, built, &twice), "two nodes at one place", &["two nodes are at h1:7000"])?;
    // The client is node 1, and finds itself at node 0.
    let alike = file(lab, "alike", &secret()?, &["10.77.0.2", "h2"])?;
    complains(lab, client(lab, built, &alike), "one host with two names", &["name its host twice"])?;
    let unknown = file(lab, "unknown", &secret()?, &["h9", "h2"])?;
    complains(
        lab,
        client(lab, built, &unknown),
        "a name that is none",
        &["h9:7000", "its name has no address"],
    )?;
    let mut nobody = client(lab, built, right);
    nobody.env("GGAS_NODE", "0");
    says(nobody, "a node of another host", &["node 0 is at h1:7000", "cannot listen"])?;
    fs::set_permissions(right, Permissions::from_mode(0o644)).context("chmod")?;
    says(client(lab, built, right), "a file that others may read", &["chmod 600"])?;
    let mut nowhere = client(lab, built, &twice);
    nowhere.env("GGAS_HOSTS", "/nonexistent");
    says(nowhere, "no file", &["/nonexistent"])
}

/// A thousand connections, and garbage, at all ports on which a service listens, the wire's among them.
fn strangers(lab: &Lab, built: &Built, right: &PathBuf) -> Result<()> {
    let mut attack = lab.on(2, "bash");
    attack.args(["-c", STRANGERS, "strangers", &PORT.to_string()]);
    attack.env("LISTENERS", listeners(lab)?);
    let mut attack = Runs::start(attack, "strangers")?;
    attack.says("at work", 1)?;
    for number in ["5", "6", "7"] {
        let square = ask(lab, built, 2, right, ["0", number])?.succeeds(SOON)?;
        let expected = number.parse::<u64>()?.pow(2).to_string();
        ensure!(square.trim() == expected, "{number} squared is not {square}");
    }
    Ok(())
}

/// Ports of the first host at which somebody listens.
fn listeners(lab: &Lab) -> Result<String> {
    let table = lab.on(1, "cat").args(["/proc/net/tcp"]).output().context("cat")?;
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    let listens = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let port = words.next()?.rsplit_once(':')?.1;
        let state = words.nth(1)?;
        (state == "0A").then(|| u16::from_str_radix(port, 16).ok()).flatten()
    };
    let ports: Vec<String> = table.lines().filter_map(listens).map(|port| port.to_string()).collect();
    ensure!(ports.len() > 1, "nobody listens but for the meeting:\n{table}");
    Ok(ports.join(" "))
}

/// Connections that are held, some of which have said garbage; then it says so, and goes on.
const STRANGERS: &str = r#"
ulimit -n 4096
for port in $LISTENERS; do
    for i in $(seq 500); do
        exec {fd}<>/dev/tcp/10.77.0.1/$port || continue
        case $((i % 4)) in
        0) printf 'GET / HTTP/1.1\r\n\r\n' >&$fd;;
        1) head -c 3000 /dev/urandom >&$fd;;
        2) printf '\041\0' >&$fd;;
        esac
    done
done 2>/dev/null
echo at work
while sleep 0.2; do for fd in /proc/self/fd/*; do :; done; done
"#;

/// Programs that may use little of what a host has.
fn limits(lab: &Lab, built: &Built) -> Result<()> {
    let right = file(lab, "limits", &secret()?, &["h1", "h2"])?;
    let limited = |limit: &str| {
        let mut command = node(lab, 1, &right, PathBuf::from("sh"));
        command.arg("-c").arg(format!("{limit} exec '{}' serve", built.example("service").display()));
        command
    };
    says(limited("ulimit -n 12;"), "few descriptors", &["Too many open files", "ulimit -n"])?;
    // TCP locks no memory.
    let _service = Runs::start(limited("ulimit -l 0;"), "no locked memory")?;
    let square = ask(lab, built, 2, &right, ["0", "12"])?.succeeds(SOON)?;
    ensure!(square.trim() == "144", "{square}");
    done(lab.on(2, "mount").args(["-t", "tmpfs", "-o", "size=16k", "tmpfs", "/dev/shm"]))?;
    says(
        ring(lab, built, "h1:1,h2:1"),
        "no room in /dev/shm",
        &["no room", "make room", "GGAS_RUNTIME_DIR"],
    )?;
    done(lab.on(2, "umount").arg("/dev/shm"))
}

fn done(command: &mut Command) -> Result<()> {
    let output = command.output().context("cannot start a command")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn ring(lab: &Lab, built: &Built, hosts: &str) -> Command {
    let mut command = jobs::launch(lab, built, hosts);
    command.env("GGAS_JOIN_TIMEOUT", "10").arg("--").arg(built.example("ring"));
    command
}

/// Hosts that a launcher is told of.
fn jobs_on_hosts(lab: &Lab, built: &Built) -> Result<()> {
    says(ring(lab, built, "h1:1,h9:1"), "a host that is none", &["h9"])?;
    says(ring(lab, built, "h1:1,h1:1"), "a host twice", &["h1 is named twice", "name it once"])
}
