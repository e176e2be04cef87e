//! Processes that measure GMPI over an MPI library: its launcher starts them.

mod part;

use std::process::{Command, Stdio};

pub use part::part;

use crate::gaspi::{Job, Line, lines};
use crate::{BenchError, Device, Options};

/// The hidden command by which `ggas` is a process of such a job, with the words of `Job::words` behind it.
pub const COMMAND: &str = "gmpi-part";

/// What a job measures.
pub(crate) const METHODS: [&str; 3] = ["kernels", "kernel-ends", "hosts"];

/// Seconds after which a job is ended.
const LIMIT: &str = "240";

/// Runs a job in two processes.
///
/// # Errors
/// There is no launcher, it cannot start them, one of them failed, or what they print is none of our lines.
pub(crate) fn run(job: &Job, options: &Options) -> Result<Vec<Line>, BenchError> {
    let failed = |why: String| BenchError::Unsupported(format!("{} by an MPI library: {why}", job.bench));
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let processor = if options.device == Device::Gpu { "gpu" } else { "cpu" };
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let mut command = Command::new("timeout");
    command.args([LIMIT, "mpirun", "-n", "2"]).arg(program).arg(COMMAND).args(job.words());
    // What Open MPI's launcher asks for as root and with few cores; others do not look at it.
    command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    command.envs([("GGAS_GMPI", "mpi"), ("GGAS_PROCESSOR", processor)]);
    // The daemon and the kernels' threads of a process want cores of their own.
    command.env("OMPI_MCA_hwloc_base_binding_policy", "none");
    if cores < 4 {
        command.envs([("OMPI_MCA_rmaps_base_oversubscribe", "1"), ("OMPI_MCA_mpi_yield_when_idle", "1")]);
    }
    let output = command.stdin(Stdio::null()).output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let why = match output.status.code() {
            Some(124) => format!("it took longer than {LIMIT} s"),
            Some(127) => "mpirun is missing: apt install openmpi-bin libopenmpi-dev".to_owned(),
            _ => text
                .lines()
                .find(|line| line.contains("ggas"))
                .or(text.lines().next())
                .unwrap_or("")
                .to_owned(),
        };
        return Err(failed(why));
    }
    lines(&String::from_utf8_lossy(&output.stdout))
}
