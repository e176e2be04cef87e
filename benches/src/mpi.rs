//! Open MPI at the work of a benchmark: a program of `benches/peers`, compiled by `mpicc` and started by `mpirun`.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::error::Doing;
use crate::job::{Job, Line, lines};
use crate::{BenchError, Device};

/// Names a folder with the programs, compiled, for machines without a compiler.
const FOLDER: &str = "GGAS_MPI_PEERS";

/// A program.
pub(crate) struct Peer {
    /// Without the ending of C.
    name: &'static str,
    source: &'static str,
    ways: &'static [Way],
}

/// What carries its messages.
struct Way {
    name: &'static str,
    /// The settings that make it do so.
    settings: &'static [&'static str],
    /// What more the program is told.
    told: &'static [&'static str],
    /// Of vectors in GPU memory.
    is_for_gpus: bool,
}

const VADER: &[&str] = &["--mca", "pml", "ob1", "--mca", "btl", "self,vader", "--mca", "osc", "^ucx"];
const UCX: &[&str] = &[
    "--mca",
    "pml",
    "ucx",
    "--mca",
    "osc",
    "ucx",
    "--mca",
    "pml_ucx_tls",
    "any",
    "--mca",
    "pml_ucx_devices",
    "any",
    "-x",
    "UCX_TLS=self,sm",
];

pub(crate) const GASPI: Peer = Peer {
    name: "gaspi_mpi",
    source: include_str!("../peers/gaspi_mpi.c"),
    ways: &[
        Way { name: "vader", settings: VADER, told: &[], is_for_gpus: false },
        Way { name: "UCX", settings: UCX, told: &[], is_for_gpus: false },
    ],
};

/// GPU memory by what the library chooses, which is the way that it has such copies in.
pub(crate) const SHARED_GPU: Peer = Peer {
    name: "shared_gpu_mpi",
    source: include_str!("../peers/shared_gpu_mpi.c"),
    ways: &[
        Way { name: "vader", settings: VADER, told: &["host"], is_for_gpus: false },
        Way { name: "UCX", settings: UCX, told: &["host"], is_for_gpus: false },
        Way { name: "vader", settings: VADER, told: &["copied"], is_for_gpus: true },
        Way { name: "ob1", settings: &["--mca", "pml", "ob1"], told: &["gpu"], is_for_gpus: true },
    ],
};

/// A program, compiled.
pub(crate) struct OpenMpi {
    peer: &'static Peer,
    program: PathBuf,
    _folder: Option<TempDir>,
}

impl OpenMpi {
    /// How it calls itself.
    pub(crate) const NAME: &str = "Open MPI";
    /// What to do where it is missing.
    pub(crate) const INSTALL: &str = "Open MPI is missing: apt install libopenmpi-dev openmpi-bin";

    /// `None`: there is none on this machine.
    ///
    /// # Errors
    /// The program cannot be compiled.
    pub(crate) fn find(peer: &'static Peer) -> Result<Option<OpenMpi>, BenchError> {
        let has = |program: &str| {
            let asked = Command::new(program).arg("--version").stdin(Stdio::null()).output();
            asked.is_ok_and(|output| output.status.success())
        };
        if !has("mpirun") {
            return Ok(None);
        }
        if let Some(folder) = std::env::var_os(FOLDER) {
            let program = PathBuf::from(folder).join(peer.name);
            if !program.is_file() {
                let why = format!("{FOLDER}: there is no {}", program.display());
                return Err(BenchError::Unsupported(why));
            }
            return Ok(Some(OpenMpi { peer, program, _folder: None }));
        }
        if !has("mpicc") {
            return Ok(None);
        }
        let folder = tempfile::tempdir().doing("making a folder")?;
        let source = folder.path().join(peer.name).with_extension("c");
        std::fs::write(&source, peer.source).doing("writing a program")?;
        let program = folder.path().join(peer.name);
        let compiled =
            Command::new("mpicc").args(["-O3", "-o"]).args([&program, &source]).arg("-ldl").output();
        let compiled = compiled.doing("compiling for Open MPI")?;
        if !compiled.status.success() {
            let why = String::from_utf8_lossy(&compiled.stderr).trim().to_owned();
            if why.contains("mpi.h") {
                return Ok(None); // the compiler without the headers, as Debian's openmpi-bin has it
            }
            return Err(BenchError::Unsupported(format!("mpicc: {why}")));
        }
        Ok(Some(OpenMpi { peer, program, _folder: Some(folder) }))
    }

    /// The figures of all ways; of a way that fails, why. With a core for each process, as the system counts them, it keeps to that; else it yields when
    /// it waits, as it does where there are too few.
    pub(crate) fn run(
        &self,
        job: &Job,
        processes: u32,
        device: Device,
    ) -> Vec<Result<Vec<Line>, BenchError>> {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let fits = processes as usize <= cores;
        let bound: &[&str] = match fits {
            true => &["--use-hwthread-cpus", "--bind-to", "hwthread"],
            false => &["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"],
        };
        let ways = self.peer.ways.iter().filter(|way| way.is_for_gpus == (device == Device::Gpu));
        ways.map(|way| self.one(job, processes, way, &[bound, way.settings].concat())).collect()
    }

    fn one(&self, job: &Job, processes: u32, way: &Way, settings: &[&str]) -> Result<Vec<Line>, BenchError> {
        let output = Command::new("timeout")
            .args(["240", "mpirun", "--allow-run-as-root", "-n", &processes.to_string()])
            .args(settings)
            .arg(&self.program)
            .arg(way.name)
            .args(way.told)
            .args(job.words())
            .stdin(Stdio::null())
            .output()
            .doing("running Open MPI")?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            let why =
                why.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it took longer than 240 s");
            return Err(BenchError::Unsupported(format!("Open MPI over {}: {why}", way.name)));
        }
        lines(&String::from_utf8_lossy(&output.stdout))
    }
}
