//! What is tried between hosts.

mod bad_input;
mod bounds;
mod firewall;
mod jobs;
mod peers;
mod slurm;
mod tune;
mod ucx;

use super::Built;
use super::lab::{Lab, Runs, secret};
use anyhow::{Result, ensure};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Only what is broken takes longer.
const SOON: Duration = Duration::from_secs(60);
/// Where nodes listen.
const PORT: u16 = 7000;

/// What programs in C are for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum InC {
    Librma2,
    Gaspi,
    Peers,
}

/// See the module's description.
pub struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    pub hosts: usize,
    /// It takes few seconds: a part of `.ci/run`.
    pub short: bool,
    /// It runs programs in C.
    pub in_c: Option<InC>,
    /// What the table says of it.
    pub run: fn(&Lab, &Built) -> Result<String>,
}

pub const ALL: &[Scenario] = &[
    Scenario {
        name: "service",
        about: "the example `service` and clients on other hosts",
        hosts: 3,
        short: true,
        in_c: None,
        run: service,
    },
    Scenario {
        name: "librma2",
        about: "a C program for librma2: transfers and locks",
        hosts: 2,
        short: false,
        in_c: Some(InC::Librma2),
        run: librma2,
    },
    Scenario {
        name: "gaspi",
        about: "C programs for GASPI: all transfers, groups and collectives; a rank that dies",
        hosts: 2,
        short: false,
        in_c: Some(InC::Gaspi),
        run: jobs::gaspi,
    },
    Scenario {
        name: "secret",
        about: "a process with another secret is not heard",
        hosts: 3,
        short: false,
        in_c: None,
        run: other_secret,
    },
    Scenario {
        name: "job",
        about: "the example `ring` as a job: 3 + 1 ranks, and others",
        hosts: 2,
        short: true,
        in_c: None,
        run: jobs::job,
    },
    Scenario {
        name: "windows",
        about: "kernels use windows and collectives over hosts, with one rank on a node and several",
        hosts: 2,
        short: true,
        in_c: None,
        run: jobs::windows,
    },
    Scenario {
        name: "collectives",
        about: "processes without kernels make collectives over hosts; one of them dies",
        hosts: 3,
        short: true,
        in_c: None,
        run: jobs::collectives,
    },
    Scenario {
        name: "benches",
        about: "benchmarks between hosts: puts, queues, windows, messages of kernels, collectives; all data verified",
        hosts: 2,
        short: true,
        in_c: None,
        run: jobs::benches,
    },
    Scenario {
        name: "tune",
        about: "`ggas tune` between hosts: a table on each, which collectives take; by Open MPI's launcher, too",
        hosts: 2,
        short: false,
        in_c: None,
        run: tune::tune,
    },
    Scenario {
        name: "ends",
        about: "failures, signals and deaths end a job on all hosts",
        hosts: 2,
        short: true,
        in_c: None,
        run: jobs::ends,
    },
    Scenario {
        name: "firewall",
        about: "closed ports, of the meeting or of the wire: who is not reached is named, with what to check",
        hosts: 2,
        short: false,
        in_c: None,
        run: firewall::firewall,
    },
    Scenario {
        name: "many",
        about: "64 ranks: their start, and each to each",
        hosts: 4,
        short: false,
        in_c: None,
        run: jobs::many,
    },
    Scenario {
        name: "death",
        about: "a rank dies inside a barrier of kernels, also beside others on its node",
        hosts: 2,
        short: true,
        in_c: None,
        run: jobs::death,
    },
    Scenario {
        name: "orphans",
        about: "when rank 0 is gone, those who talked to each other hear of each other's ends",
        hosts: 2,
        short: true,
        in_c: None,
        run: jobs::orphans,
    },
    Scenario {
        name: "mpirun",
        about: "Open MPI's launcher starts jobs, by PMIx",
        hosts: 2,
        short: true,
        in_c: None,
        run: jobs::mpirun,
    },
    Scenario {
        name: "mpiexec",
        about: "MPICH's launcher starts jobs, by PMI; a rank that never joins",
        hosts: 2,
        short: true,
        in_c: None,
        run: jobs::mpiexec,
    },
    Scenario {
        name: "bounds",
        about: "how soon a killed rank and a cut host are known; who stands still or leaves is not lost, also among puts",
        hosts: 2,
        short: false,
        in_c: None,
        run: bounds::bounds,
    },
    Scenario {
        name: "srun",
        about: "Slurm starts jobs, by PMIx: any placement of ranks; a rank that fails",
        hosts: 2,
        short: true,
        in_c: None,
        run: slurm::srun,
    },
    Scenario {
        name: "ucx",
        about: "jobs over UCX: transfers, kernels, a death; hosts that differ",
        hosts: 2,
        short: true,
        in_c: None,
        run: ucx::ucx,
    },
    Scenario {
        name: "ucx-bounds",
        about: "as `bounds`, over UCX",
        hosts: 2,
        short: false,
        in_c: None,
        run: ucx::bounds,
    },
    Scenario {
        name: "ucx-many",
        about: "64 ranks over UCX: their start, and each to each",
        hosts: 4,
        short: false,
        in_c: None,
        run: ucx::many,
    },
    Scenario {
        name: "peers",
        about: "puts beside messages and puts of Open MPI, MPICH and OpenSHMEM; takes a release build",
        hosts: 2,
        short: false,
        in_c: Some(InC::Peers),
        run: peers::peers,
    },
    Scenario {
        name: "bad-input",
        about: "what is wrong is said with what to do",
        hosts: 2,
        short: true,
        in_c: None,
        run: bad_input::bad_input,
    },
];

/// The file of a network of hosts, with a node on each of them.
fn file(lab: &Lab, name: &str, secret: &str, nodes: &[&str]) -> Result<PathBuf> {
    let path = lab.folder().join(name);
    let places: String = nodes.iter().map(|host| format!("{host}:{PORT}\n")).collect();
    fs::write(&path, format!("secret {secret}\n{places}"))?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    Ok(path)
}

/// A program as a node of a network of hosts.
fn node(lab: &Lab, host: usize, file: &PathBuf, program: PathBuf) -> Command {
    let mut command = lab.on(host, program);
    command.env("GGAS_HOSTS", file).env("GGAS_NODE", (host - 1).to_string()).env("GGAS_DEVICE", "sim");
    command
}

fn serve(lab: &Lab, built: &Built, host: usize, file: &PathBuf) -> Result<Runs> {
    let mut command = node(lab, host, file, built.example("service"));
    command.arg("serve");
    Runs::start(command, "the service")
}

fn ask(lab: &Lab, built: &Built, host: usize, file: &PathBuf, words: [&str; 2]) -> Result<Runs> {
    let mut command = node(lab, host, file, built.example("service"));
    command.arg("ask").args(words);
    Runs::start(command, "the client")
}

fn service(lab: &Lab, built: &Built) -> Result<String> {
    let file = file(lab, "net", &secret()?, &["h1", "h2", "h3"])?;
    let _service = serve(lab, built, 1, &file)?;
    for (host, number, square) in [(2, "12", "144"), (3, "9", "81"), (2, "3", "9")] {
        let said = ask(lab, built, host, &file, ["0", number])?.succeeds(SOON)?;
        ensure!(said.trim() == square, "{number} squared is not {said}");
    }
    Ok(String::new())
}

fn librma2(lab: &Lab, built: &Built) -> Result<String> {
    let file = file(lab, "net", &secret()?, &["h1", "h2"])?;
    let start = |host| {
        let mut command = node(lab, host, &file, built.librma2("pair"));
        command.env("GGAS_SIZE", "2").env("GGAS_PER_NODE", "1").env("EXTOLL_WAIT_TIMEOUT", "60");
        Runs::start(command, "pair")
    };
    let (first, second) = (start(1)?, start(2)?);
    first.succeeds(2 * SOON)?;
    second.succeeds(SOON)?;
    Ok(String::new())
}

/// A client with another secret hears nothing, however often it says hello, while the service answers who has the right one.
fn other_secret(lab: &Lab, built: &Built) -> Result<String> {
    let right = file(lab, "net", &secret()?, &["h1", "h2", "h3"])?;
    let wrong = file(lab, "other", &secret()?, &["h1", "h2", "h3"])?;
    let _service = serve(lab, built, 1, &right)?;
    let mut thief = ask(lab, built, 2, &wrong, ["0", "12"])?;
    for number in 0..20 {
        let square = ask(lab, built, 3, &right, ["0", &number.to_string()])?.succeeds(SOON)?;
        ensure!(
            square.trim() == (number * number).to_string(),
            "the service does not answer any more: {square}"
        );
    }
    ensure!(thief.runs()?, "the client with another secret has ended");
    Ok(String::new())
}
