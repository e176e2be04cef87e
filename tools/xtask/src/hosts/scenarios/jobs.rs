//! Jobs over hosts.

use super::super::Built;
use super::super::lab::{Lab, Runs};
use super::SOON;
use super::peers;
use crate::place;
use crate::run::ask;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// `ggas run` on the first host.
pub(super) fn launch(lab: &Lab, built: &Built, hosts: &str) -> Command {
    let mut command = lab.on(1, built.ggas());
    command.args(["run", "--host", hosts, "--agent"]).arg(lab.agent()).env("GGAS_DEVICE", "sim");
    command
}

/// Each rank says so once, with its number in front.
pub(super) fn ring_of(said: &str, size: u32, per_node: u32) -> Result<()> {
    for rank in 0..size {
        let line = format!(
            "[{rank}] rank {rank} of {size} on node {}: 65536 bytes from node {}",
            rank / per_node,
            (rank + size - 1) % size / per_node
        );
        ensure!(said.lines().filter(|said| said.starts_with(&line)).count() == 1, "no `{line}` in\n{said}");
    }
    ensure!(said.lines().count() == size as usize, "more was said:\n{said}");
    Ok(())
}

pub fn job(lab: &Lab, built: &Built) -> Result<String> {
    // Hosts, ranks, and ranks on a node.
    let jobs =
        [("h1:3,h2:1", 4, 1), ("h2:1,h1:2", 3, 1), ("h2:2", 2, 1), ("h1:2,h2:2", 4, 2), ("h1:3,h2:5", 8, 3)];
    for (hosts, size, per_node) in jobs {
        let mut command = launch(lab, built, hosts);
        command.args(["--per-node", &per_node.to_string(), "--"]).arg(built.example("ring"));
        let said = Runs::start(command, hosts)?.succeeds(2 * SOON)?;
        ring_of(&said, size, per_node).with_context(|| hosts.to_owned())?;
    }
    Ok(String::new())
}

/// The programs that run on one host, over two; then the one in which a rank dies at a random moment, and the rest finish.
pub fn gaspi(lab: &Lab, built: &Built) -> Result<String> {
    for (hosts, name) in [("h1:2,h2:1", "transfer"), ("h1:1,h2:1", "meet"), ("h1:2,h2:3", "meet")] {
        let mut command = launch(lab, built, hosts);
        command.arg("--").arg(built.gaspi(name));
        Runs::start(command, name)?.succeeds(5 * SOON)?;
    }
    let mut deaths = 0;
    for seed in 1..=6 {
        let mut command = launch(lab, built, "h1:2,h2:2");
        command.args(["--keep-going", "--"]).arg(built.gaspi("jacobi")).arg(seed.to_string());
        let output = Runs::start(command, "jacobi")?.ends(5 * SOON)?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // Rank 0 passes on what ranks of different hosts ask each other.
        if !said.contains("rank 0 dies") {
            deaths += 1;
            let why = || format!("seed {seed}: {said}{}", String::from_utf8_lossy(&output.stderr));
            ensure!(said.contains("the field is right"), "{}", why());
        }
    }
    ensure!(deaths > 0, "rank 0 dies each time");
    Ok(format!("right fields after {deaths} deaths"))
}

/// Windows and groups of kernels: a rank on each node, several, and a node with more than the other.
pub fn windows(lab: &Lab, built: &Built) -> Result<String> {
    let mut times = Vec::new();
    for (hosts, per_node) in [("h1:2,h2:1", "1"), ("h1:2,h2:2", "2"), ("h1:3,h2:1", "3")] {
        let mut command = launch(lab, built, hosts);
        command
            .args(["--per-node", per_node, "--"])
            .arg(built.example("processes"))
            .args(["--cpu", "checks"]);
        let said = Runs::start(command, hosts)?.succeeds(2 * SOON)?;
        ensure!(said.contains("trapped by the model's SMFU"), "{hosts}: the window is another one:\n{said}");
        ensure!(said.matches("PASS").count() >= 8, "{hosts}: {said}");
        let barrier = said.lines().find(|line| line.contains("barrier, one block")).unwrap_or_default();
        times.push(barrier.split_whitespace().rev().nth(1).unwrap_or_default().to_owned());
    }
    Ok(format!("barriers of 3, 4 and 4 kernels {} us", times.join(", ")))
}

/// All collectives of processes, on two and three hosts; then the last rank, which leads its host or not, dies in front of one.
pub fn collectives(lab: &Lab, built: &Built) -> Result<String> {
    let run = |hosts: &str, words: &[&str]| {
        let mut command = launch(lab, built, hosts);
        command.args(["--keep-going", "--"]).arg(built.example("processes")).arg("--cpu").args(words);
        Runs::start(command, hosts)
    };
    let mut note = String::new();
    for hosts in ["h1:3,h2:1", "h2:2,h1:1,h3:2"] {
        let said = run(hosts, &["run"])?.succeeds(2 * SOON)?;
        ensure!(said.matches("by processes").count() == 14 && !said.contains("FAIL"), "{hosts}:\n{said}");
        let barrier = said.lines().find(|line| line.contains("barrier of 1 ")).unwrap_or_default();
        let time = barrier.split_whitespace().rev().nth(1).unwrap_or_default();
        note += &format!("{hosts}: barrier {time} us; ");
    }
    for (hosts, survivors) in [("h1:2,h2:1", 2), ("h1:1,h2:2", 2)] {
        let output = run(hosts, &["run", "death"])?.ends(2 * SOON)?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let why = || format!("{hosts}: {}\n{said}{}", output.status, String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.code() == Some(128 + 9), "{}", why());
        ensure!(said.matches("a collective without rank 2 ended").count() == survivors, "{}", why());
    }
    Ok(note + "two deaths told to all")
}

/// Benchmarks, and what keeps them short. A store of a kernel to another host is a packet.
const BENCHES: [(&str, &[&str]); 10] = [
    ("rma-pingpong", &[]),
    ("rma-bandwidth", &[]),
    ("velo-pingpong", &[]),
    ("queues", &[]),
    ("put-signal", &["--sizes", "8,4096"]),
    ("put-bandwidth", &["--sizes", "4096"]),
    ("atomics-random", &[]),
    ("gmpi-pingpong", &["--sizes", "8,4096"]),
    // Several windows at once.
    ("gmpi-himeno", &["--grid", "16x8x8"]),
    ("barrier", &[]),
];

/// Nodes are made anew for each method.
pub fn benches(lab: &Lab, built: &Built) -> Result<String> {
    for (name, words) in BENCHES {
        let mut command = launch(lab, built, "h1:1,h2:1");
        command.arg("--").arg(built.ggas()).args(["bench", name, "--device", "cpu", "--iterations", "3"]);
        command.args(words);
        let said = Runs::start(command, name)?.succeeds(2 * SOON)?;
        ensure!(said.contains("all data verified"), "{name}:\n{said}");
    }
    Ok(format!("{} verified", BENCHES.len()))
}

pub fn ends(lab: &Lab, built: &Built) -> Result<String> {
    // One fails: all others are ended, and its status is that of the job.
    let script = |text: &str| {
        let mut command = launch(lab, built, "h1:1,h2:2");
        command.args(["--grace", "100ms", "--", "sh", "-c", text]);
        command
    };
    let failing = script("[ $GGAS_RANK = 2 ] && exit 7; exec sleep 300");
    let output = Runs::start(failing, "a rank that fails")?.ends(SOON)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(7), "{}: {said}", output.status);
    ensure!(said.contains("rank 2 exited with status 7") && said.contains("on h2"), "{said}");
    nothing_runs(lab, &["sleep 300"])?;
    // A signal to the launcher comes to the ranks of all hosts.
    let trapping = script("trap 'echo heard; exit 0' USR1; echo ready; while :; do sleep 0.05; done");
    let mut running = Runs::start(trapping, "a signal")?;
    running.says("ready", 3)?;
    running.signal("USR1")?;
    let said = running.succeeds(SOON)?;
    ensure!(said.matches("heard").count() == 3, "{said}");
    // So does the end of the launcher.
    let mut running = Runs::start(script("echo ready; exec sleep 301"), "a launcher that dies")?;
    running.says("ready", 3)?;
    running.signal("KILL")?;
    let _ = running.ends(SOON)?;
    nothing_runs(lab, &["sleep 301"])?;
    Ok(String::new())
}

/// The last rank dies inside a barrier of kernels: those of the others end, on all hosts, and also on its own node.
pub fn death(lab: &Lab, built: &Built) -> Result<String> {
    let alone = death_in(launch(lab, built, "h1:2,h2:1"), built, 3)?;
    let mut beside = launch(lab, built, "h1:2,h2:2");
    beside.args(["--per-node", "2"]);
    Ok(format!("{alone}; of two on a node: {}", death_in(beside, built, 4)?))
}

/// What the table says of a job of so many ranks in which the last one dies.
pub(super) fn death_in(mut command: Command, built: &Built, size: usize) -> Result<String> {
    command.args(["--keep-going", "--"]).arg(built.example("processes")).args(["--cpu", "death"]);
    let output = Runs::start(command, "a death")?.ends(2 * SOON)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let why = || format!("{}\n{said}{}", output.status, String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.code() == Some(128 + 9), "{}", why());
    let death = format!("from the death of rank {}", size - 1);
    let times: Vec<&str> = said.lines().filter(|line| line.contains(&death)).collect();
    ensure!(times.len() == size - 1, "{}", why());
    let longest = times.iter().filter_map(|line| line.split_whitespace().rev().nth(1)?.parse::<f64>().ok());
    Ok(format!("known and kernels ended after {:.0} ms", longest.fold(0.0, f64::max) / 1e3))
}

/// Ranks that have talked to each other, stay for so many seconds, and say whom they lose.
pub(super) fn watching(mut command: Command, built: &Built, ranks: usize, seconds: u32) -> Result<Runs> {
    command.args(["--keep-going", "--"]).arg(built.example("everyone")).args(["watch", &seconds.to_string()]);
    let mut running = Runs::start(command, "ranks that watch")?;
    running.says("watches", ranks)?;
    Ok(running)
}

/// Rank 0, by which ranks hear of ends on other hosts, dies, and then one on another host.
pub fn orphans(lab: &Lab, built: &Built) -> Result<String> {
    let mut running = watching(launch(lab, built, "h1:2,h2:1"), built, 3, 120)?;
    kill_rank(built, 0)?;
    running.says("rank 0 is lost", 2)?;
    let begun = Instant::now();
    kill_rank(built, 2)?;
    running.says("[1] rank 2 is lost", 1)?;
    let took = begun.elapsed();
    kill_rank(built, 1)?;
    let _ = running.ends(SOON)?;
    Ok(format!("known after {} ms", took.as_millis()))
}

/// Kills the process of `everyone` that is this rank.
pub(super) fn kill_rank(built: &Built, rank: u32) -> Result<()> {
    signal_rank(built, rank, "KILL")
}

/// Sends it a signal, by name.
pub(super) fn signal_rank(built: &Built, rank: u32, name: &str) -> Result<()> {
    let (variable, program) = (format!("GGAS_RANK={rank}"), built.example("everyone"));
    let is_it = |folder: &Path| {
        let read = |file: &str| fs::read(folder.join(file)).unwrap_or_default();
        read("cmdline").split(|byte| *byte == 0).next() == Some(program.as_os_str().as_bytes())
            && read("environ").split(|byte| *byte == 0).any(|text| text == variable.as_bytes())
    };
    let mut folders = fs::read_dir("/proc")?.flatten().map(|entry| entry.path());
    let folder = folders.find(|folder| is_it(folder)).with_context(|| format!("rank {rank} does not run"))?;
    let process = folder.file_name().unwrap_or_default();
    let sent = Command::new("kill").args(["-s", name]).arg(process).status()?;
    ensure!(sent.success(), "rank {rank} gets no {name}");
    Ok(())
}

/// No such process is left, once guards have had their time.
fn nothing_runs(lab: &Lab, commands: &[&str]) -> Result<()> {
    for command in commands {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let line = [words.join(&0), vec![0]].concat();
        lab.until(&format!("`{command}` ends"), || !processes().any(|other| other == line))?;
    }
    Ok(())
}

/// Command lines of all processes.
fn processes() -> impl Iterator<Item = Vec<u8>> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
}

pub fn many(lab: &Lab, built: &Built) -> Result<String> {
    many_in(launch(lab, built, MANY))
}

/// 64 ranks.
pub(super) const MANY: &str = "h1:16,h2:16,h3:16,h4:16";

/// What the table says of a job of so many ranks.
pub(super) fn many_in(mut command: Command) -> Result<String> {
    command.env("GGAS_JOIN_TIMEOUT", "120").arg("--").arg(peers::released("ggas", "everyone")?);
    let said = Runs::start(command, "64 ranks")?.succeeds(4 * SOON)?;
    let line = |start: &str| {
        let mut lines = said.lines().filter_map(|line| Some(line.split_once("] ")?.1));
        lines.find(|line| line.starts_with(start)).with_context(|| said.clone())
    };
    Ok(format!("{}; {}", line("64 ranks")?, line("the wire alone")?))
}

/// Under launchers of others each rank has a node of its own, and says so once.
pub fn ring_said(said: &str, size: u32) -> Result<()> {
    for rank in 0..size {
        let before = (rank + size - 1) % size;
        let line = format!("rank {rank} of {size} on node {rank}: 65536 bytes from node {before}");
        ensure!(said.matches(&line).count() == 1, "no `{line}` in\n{said}");
    }
    Ok(())
}

/// The ring under `mpirun`: on one host, and 3 + 1 on two.
pub fn mpirun(lab: &Lab, built: &Built) -> Result<String> {
    if place::which("mpirun").is_none() {
        return Ok("skipped: apt-get install openmpi-bin".to_owned());
    }
    for (hosts, size) in [("h1:4", 4), ("h1:3,h2:1", 4), ("h2:1,h1:1", 2)] {
        let (mut command, _) = by_mpirun(lab, hosts, size);
        command.arg(built.example("ring"));
        let said = Runs::start(command, hosts)?.succeeds(2 * SOON)?;
        ring_said(&said, size)?;
    }
    Ok(by_mpirun(lab, "h1", 1).1)
}

/// Open MPI's launcher, and its version.
pub(super) fn by_mpirun(lab: &Lab, hosts: &str, size: u32) -> (Command, String) {
    let version = ask("mpirun", &["--version"]).unwrap_or_default();
    let version = version.lines().next().unwrap_or_default().to_owned();
    // From version 5 on the launcher is PRRTE, which has other names.
    let agent = match version.contains(") 4.") {
        true => ["--mca", "plm_rsh_agent"],
        false => ["--prtemca", "plm_ssh_agent"],
    };
    let mut command = lab.on(1, "mpirun");
    command
        .args(["--allow-run-as-root", "--bind-to", "none", "--host", hosts, "-n", &size.to_string()])
        .args(agent)
        .arg(lab.agent())
        .args(["-x", "GGAS_DEVICE=sim"]);
    (command, version)
}

/// The ring under `mpiexec` of MPICH, which may be installed beside Open MPI's; then a rank that fails before it joins, of which this
/// launcher tells nobody.
pub fn mpiexec(lab: &Lab, built: &Built) -> Result<String> {
    let Some(mpiexec) =
        ["mpiexec.mpich", "mpiexec.hydra"].into_iter().find(|name| place::which(name).is_some())
    else {
        return Ok("skipped: there is no mpiexec.mpich: apt-get install mpich".to_owned());
    };
    let hydra = |hosts: &str, size: u32| {
        let mut command = lab.on(1, mpiexec);
        command.args(["-launcher", "ssh", "-launcher-exec"]).arg(lab.agent());
        command.args(["-hosts", hosts, "-n", &size.to_string()]).env("GGAS_DEVICE", "sim");
        command
    };
    for (hosts, size) in [("h1:4", 4), ("h1:3,h2:1", 4), ("h2:1,h1:1", 2)] {
        let mut command = hydra(hosts, size);
        command.arg(built.example("ring"));
        ring_said(&Runs::start(command, hosts)?.succeeds(2 * SOON)?, size)?;
    }
    let mut failing = hydra("h1:1,h2:2", 3);
    let script = format!("[ $PMI_RANK = 2 ] && exit 7; exec '{}'", built.example("ring").display());
    failing.env("GGAS_JOIN_TIMEOUT", "2").args(["sh", "-c", &script]);
    let said = Runs::start(failing, "a rank that fails")?.fails(SOON)?;
    ensure!(said.contains("barrier: no answer in time: a rank has ended"), "{said}");
    let version = ask(mpiexec, &["--version"]).unwrap_or_default();
    let version = version.lines().find_map(|line| line.trim().strip_prefix("Version:"));
    Ok(format!("MPICH {}", version.unwrap_or_default().trim()))
}
