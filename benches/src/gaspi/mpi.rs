//! Open MPI at the work of GASPI: `benches/peers/gaspi_mpi.c`, compiled by `mpicc` and started by `mpirun`.

use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::{Job, Line, lines};
use crate::BenchError;
use crate::error::Doing;

const SOURCE: &str = include_str!("../../peers/gaspi_mpi.c");

/// What carries its messages, and the settings that make it do so.
const WAYS: &[(&str, &[&str])] = &[
    ("vader", &["--mca", "pml", "ob1", "--mca", "btl", "self,vader", "--mca", "osc", "^ucx"]),
    (
        "UCX",
        &[
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
        ],
    ),
];

/// The program, compiled.
pub(crate) struct OpenMpi {
    folder: TempDir,
}

impl OpenMpi {
    /// What to do where it is missing.
    pub(crate) const INSTALL: &str = "Open MPI is missing: apt install libopenmpi-dev openmpi-bin";

    /// `None`: there is none on this machine.
    ///
    /// # Errors
    /// The program cannot be compiled.
    pub(crate) fn find() -> Result<Option<OpenMpi>, BenchError> {
        let has = |program: &str| {
            let asked = Command::new(program).arg("--version").stdin(Stdio::null()).output();
            asked.is_ok_and(|output| output.status.success())
        };
        if !has("mpicc") || !has("mpirun") {
            return Ok(None);
        }
        let folder = tempfile::tempdir().doing("making a folder")?;
        let source = folder.path().join("gaspi_mpi.c");
        std::fs::write(&source, SOURCE).doing("writing a program")?;
        let program = folder.path().join("gaspi_mpi");
        let compiled = Command::new("mpicc").args(["-O3", "-o"]).args([&program, &source]).output();
        let compiled = compiled.doing("compiling for Open MPI")?;
        if !compiled.status.success() {
            let why = String::from_utf8_lossy(&compiled.stderr).trim().to_owned();
            return Err(BenchError::Unsupported(format!("mpicc: {why}")));
        }
        Ok(Some(OpenMpi { folder }))
    }

    /// The figures of all ways; of a way that fails, why. With a core for each process it keeps to that; else it yields when
    /// it waits, as it does where there are too few.
    pub(crate) fn run(&self, job: &Job, processes: u32) -> Vec<Result<Vec<Line>, BenchError>> {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let fits = processes as usize <= cores;
        let bound: &[&str] = match fits {
            true => &["--bind-to", "core"],
            false => &["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"],
        };
        WAYS.iter()
            .map(|(way, settings)| self.one(job, processes, way, &[bound, settings].concat()))
            .collect()
    }

    fn one(&self, job: &Job, processes: u32, way: &str, settings: &[&str]) -> Result<Vec<Line>, BenchError> {
        let output = Command::new("timeout")
            .args(["240", "mpirun", "--allow-run-as-root", "-n", &processes.to_string()])
            .args(settings)
            .arg(self.folder.path().join("gaspi_mpi"))
            .arg(way)
            .args(job.words())
            .stdin(Stdio::null())
            .output()
            .doing("running Open MPI")?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            let why =
                why.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it took longer than 240 s");
            return Err(BenchError::Unsupported(format!("Open MPI over {way}: {why}")));
        }
        lines(&String::from_utf8_lossy(&output.stdout))
    }
}
