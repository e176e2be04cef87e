//! Half round trips of puts between two hosts beside those of Open MPI, MPICH and OpenSHMEM, all in one run and by turns.

use super::super::Built;
use super::super::lab::{Lab, Runs, secret};
use super::{SOON, file};
use crate::run::{Step, cargo};
use crate::{capi, place};
use anyhow::{Result, ensure};
use ggas_table::Column;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Each program runs so often; the best of its medians counts, since other work on the machine only makes them longer.
const TURNS: usize = 3;
/// Up to here ours are to take at most [`WANTED`] times what the best peer over the same engine takes.
const COMPARED: usize = 64 << 10;
const WANTED: f64 = 1.2;
const BUILD: Duration = Duration::from_secs(3600);

/// Where other programs spin on the same cores a turn takes minutes.
const LONG: Duration = Duration::from_secs(600);

/// Who carries messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Engine {
    Libfabric,
    Ucx,
    /// The peer's own sockets.
    Own,
}

/// A program of `benches/peers`, and how it is started.
struct Peer {
    name: &'static str,
    engine: Engine,
    compiler: &'static str,
    source: &'static str,
    launcher: &'static str,
    options: &'static [&'static [&'static str]],
}

const PEERS: [Peer; 5] = [
    Peer {
        name: "Open MPI, libfabric",
        engine: Engine::Libfabric,
        compiler: "mpicc.openmpi",
        source: "hosts_mpi",
        launcher: "mpirun.openmpi",
        options: &[&[
            "--mca",
            "pml",
            "cm",
            "--mca",
            "mtl",
            "ofi",
            "--mca",
            "mtl_ofi_provider_include",
            "tcp;ofi_rxm",
        ]],
    },
    Peer {
        name: "Open MPI, UCX",
        engine: Engine::Ucx,
        compiler: "mpicc.openmpi",
        source: "hosts_mpi",
        launcher: "mpirun.openmpi",
        options: &[UCX, &["--mca", "osc", "ucx"]],
    },
    Peer {
        name: "MPICH, UCX",
        engine: Engine::Ucx,
        compiler: "mpicc.mpich",
        source: "hosts_mpi",
        launcher: "mpiexec.mpich",
        options: &[&["-genv", "UCX_TLS", "tcp"]],
    },
    // Without `patcher` Open MPI 4.1.4 does not crash at the end of every OpenSHMEM program: it frees memory by a hook of a component
    // that it has unloaded.
    Peer {
        name: "OpenSHMEM, UCX",
        engine: Engine::Ucx,
        compiler: "oshcc",
        source: "hosts_shmem",
        launcher: "oshrun",
        options: &[&["--mca", "memory", "^patcher"], UCX, &["--mca", "spml", "ucx", "-x", "UCX_TLS=tcp"]],
    },
    Peer {
        name: "Open MPI, its TCP",
        engine: Engine::Own,
        compiler: "mpicc.openmpi",
        source: "hosts_mpi",
        launcher: "mpirun.openmpi",
        options: &[&["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]],
    },
];

/// Open MPI's messages over UCX.
const UCX: &[&str] =
    &["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"];

/// Half round trips by bytes, in microseconds.
type Times = BTreeMap<usize, f64>;

#[derive(PartialEq, Eq)]
enum Whose {
    Engine,
    Ours,
    Peer,
}

/// A row of the table.
struct Measured {
    name: String,
    whose: Whose,
    engine: Engine,
    times: Times,
}

/// The best of each size counts.
fn keep(all: &mut Vec<Measured>, whose: Whose, engine: Engine, name: String, times: Times) {
    let found = all.iter().position(|measured| measured.name == name);
    let place = found.unwrap_or_else(|| {
        all.push(Measured { name, whose, engine, times: Times::new() });
        all.len() - 1
    });
    for (bytes, took) in times {
        let best = all[place].times.entry(bytes).or_insert(took);
        *best = best.min(took);
    }
}

pub fn peers(lab: &Lab, _: &Built) -> Result<String> {
    let latency = released("extoll-sim", "hosts_latency")?;
    let there: Vec<&Peer> = PEERS.iter().filter(|peer| has(peer)).collect();
    for peer in &there {
        compile(peer)?;
    }
    let pin = pin(lab)?;
    let mut all: Vec<Measured> = Vec::new();
    for _ in 0..TURNS {
        for (fabric, engine) in [("libfabric", Engine::Libfabric), ("ucx", Engine::Ucx)] {
            let [wire, put] = measure_ours(lab, &pin, &latency, fabric)?;
            keep(&mut all, Whose::Engine, engine, format!("{fabric} alone"), wire);
            keep(&mut all, Whose::Ours, engine, format!("put, {fabric}"), put);
        }
        for peer in &there {
            for (what, times) in measure(lab, &pin, peer)? {
                keep(&mut all, Whose::Peer, peer.engine, format!("{what}, {}", peer.name), times);
            }
        }
    }
    report(&all);
    Ok(verdict(&all))
}

fn has(peer: &Peer) -> bool {
    let missing = [peer.compiler, peer.launcher].into_iter().find(|program| place::which(program).is_none());
    if let Some(program) = missing {
        report!("xtask: no {}: there is no {program}", peer.name);
    }
    missing.is_none()
}

/// An example as it would be used where time counts.
pub(super) fn released(package: &str, example: &str) -> Result<PathBuf> {
    let command = cargo(&["build", "--release", "--package", package, "--example", example]);
    Step { name: "hosts release", command, limit: BUILD }.run()?;
    Ok(capi::target().join("release/examples").join(example))
}

fn program(peer: &Peer) -> PathBuf {
    place::build().join("peers between hosts").join(format!("{}-{}", peer.source, peer.compiler))
}

fn compile(peer: &Peer) -> Result<()> {
    let (source, program) = (format!("benches/peers/{}.c", peer.source), program(peer));
    fs::create_dir_all(program.parent().unwrap_or(Path::new(".")))?;
    let mut command = Command::new(peer.compiler);
    command.args(["-O2", &source, "-o"]).arg(program);
    Step { name: "hosts peers", command, limit: BUILD }.run().map(|_| ())
}

/// A command that runs another one on a core of the host's own, where there are two.
fn pin(lab: &Lab) -> Result<PathBuf> {
    let path = lab.folder().join("pin");
    let text = "#!/bin/sh\n[ $(nproc) -gt 1 ] || exec \"$@\"\n\
                case $(hostname) in h1) core=0;; *) core=1;; esac\nexec taskset -c $core \"$@\"\n";
    fs::write(&path, text)?;
    fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    Ok(path)
}

/// What the engine alone takes, and a put with its notification.
fn measure_ours(lab: &Lab, pin: &Path, program: &Path, fabric: &str) -> Result<[Times; 2]> {
    let file = file(lab, fabric, &secret()?, &["h1", "h2"])?;
    let start = |host| {
        let mut command = lab.on(host, pin);
        let node = (host - 1).to_string();
        command.arg(program).arg(&file).args([node, format!("..{COMPARED}")]).env("GGAS_FABRIC", fabric);
        Runs::start(command, "hosts_latency")
    };
    let (second, first) = (start(2)?, start(1)?);
    let said = first.succeeds(LONG)?;
    second.succeeds(SOON)?;
    let mut times = [Times::new(), Times::new()];
    for line in said.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        // The second to last columns differ: short ones are not read.
        if let [bytes, "median", wire, .., put, _, _, "%"] = words[..] {
            let bytes = bytes.parse()?;
            times[0].insert(bytes, wire.parse()?);
            times[1].insert(bytes, put.parse()?);
        }
    }
    ensure!(times[1].contains_key(&8), "{said}");
    Ok(times)
}

/// What a peer's program prints, by kind.
fn measure(lab: &Lab, pin: &Path, peer: &Peer) -> Result<BTreeMap<String, Times>> {
    let mut command = lab.on(1, peer.launcher);
    match peer.launcher {
        "mpiexec.mpich" => {
            command.args(["-launcher", "ssh", "-launcher-exec"]).arg(lab.agent()).args(["-hosts", "h1,h2"])
        }
        _ => command
            .args(["--allow-run-as-root", "--bind-to", "none", "--mca", "plm_rsh_agent"])
            .arg(lab.agent())
            .args(["--host", "h1,h2"]),
    };
    command.args(["-n", "2"]).args(peer.options.concat()).env("UCX_TLS", "tcp").arg(pin).arg(program(peer));
    let said = Runs::start(command, peer.name)?.succeeds(LONG)?;
    let mut kinds = BTreeMap::<String, Times>::new();
    for line in said.lines() {
        if let [what @ ("message" | "put"), bytes, median, _] =
            line.split_whitespace().collect::<Vec<_>>()[..]
        {
            kinds.entry(what.to_owned()).or_default().insert(bytes.parse()?, median.parse()?);
        }
    }
    ensure!(!kinds.is_empty(), "{}: {said}", peer.name);
    Ok(kinds)
}

/// A row for each column's name, since there are many.
fn report(all: &[Measured]) {
    let sizes: Vec<usize> = all
        .iter()
        .find(|one| one.whose == Whose::Ours)
        .into_iter()
        .flat_map(|one| one.times.keys().copied())
        .collect();
    let rows = all.iter().map(|one| {
        let time = |bytes: &usize| one.times.get(bytes).map(|took| format!("{took:.2}")).unwrap_or_default();
        std::iter::once(one.name.clone()).chain(sizes.iter().map(time)).collect::<Vec<_>>()
    });
    let names: Vec<String> = sizes.iter().map(usize::to_string).collect();
    let columns: Vec<Column> = std::iter::once(Column::text("half round trip, us; bytes:"))
        .chain(names.iter().map(|name| Column::number(name)))
        .collect();
    say!("\n{}", ggas_table::table(&columns, rows.collect::<Vec<_>>()));
}

/// How ours stand beside the best peer over each engine, at the size where they stand worst.
fn verdict(all: &[Measured]) -> String {
    let worst = |ours: &Measured| {
        let peers = || all.iter().filter(|one| one.whose == Whose::Peer && one.engine == ours.engine);
        let factor = |(bytes, took): (&usize, &f64)| {
            let best = peers().filter_map(|one| one.times.get(bytes).copied()).reduce(f64::min)?;
            Some((*bytes, took / best))
        };
        ours.times.range(..=COMPARED).filter_map(factor).max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let ours = all.iter().filter(|one| one.whose == Whose::Ours);
    let said = ours.map(|one| match worst(one) {
        Some((bytes, factor)) => {
            let met = if factor <= WANTED { "" } else { ", which is more than 1.2" };
            format!("{}: at most {factor:.2} times the best peer's ({bytes} bytes){met}", one.name)
        }
        None => format!("{}: no peer", one.name),
    });
    said.collect::<Vec<_>>().join("; ")
}
