//! How tests start themselves as ranks, and what a rank has.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;

use ggas::kernels::{KernelMem, Processor, start};
use ggas_gmpi::Gmpi;

use crate::jobs;
use crate::world::{BYTES, Results, SOON, Script};

/// Which part this process has.
const PART: &str = "GGAS_GMPI_TEST";

/// This program once more, to run the test of a name alone.
pub fn again(name: &str, command: &mut Command, part: &str) -> Child {
    command.args([name, "--exact", "--nocapture", "--test-threads", "1"]).env(PART, part);
    command.spawn().expect("started")
}

/// How the ranks of a job ended. Their kernels are on GPUs where `GGAS_TEST_GPUS` has one for each of them.
pub fn job(name: &str, ranks: u32) -> Vec<ExitStatus> {
    job_told(name, ranks, &[])
}

/// The same with variables for all ranks.
pub fn job_told(name: &str, ranks: u32, variables: &[(&str, &str)]) -> Vec<ExitStatus> {
    ranks_told(name, ranks, |_, command| _ = command.envs(variables.iter().copied()))
}

/// How ranks on these hosts ended, which are directories of this one.
pub fn job_over(name: &str, hosts: &[usize]) -> Vec<ExitStatus> {
    let (_kept, meeting) = jobs::meeting();
    let folder = tempfile::tempdir().expect("a folder");
    let told = |rank: u32, command: &mut Command| {
        let own = folder.path().join(hosts[rank as usize].to_string());
        std::fs::create_dir_all(&own).expect("a folder");
        std::fs::set_permissions(&own, Permissions::from_mode(0o700)).expect("permissions");
        command.env("GGAS_RUNTIME_DIR", own).envs(meeting.iter().map(|(name, value)| (name, value)));
    };
    ranks_told(name, hosts.len() as u32, told)
}

fn ranks_told(name: &str, ranks: u32, told: impl Fn(u32, &mut Command)) -> Vec<ExitStatus> {
    let own = name.rsplit(':').next().unwrap_or(name);
    let start = |rank: u32| {
        let mut command = Command::new(std::env::current_exe().expect("a name"));
        command.env("GGAS_RANK", rank.to_string()).env("GGAS_SIZE", ranks.to_string());
        command.env("GGAS_JOB", format!("gmpi-{own}-{}", std::process::id())).env("GGAS_DEVICE", "sim");
        command.env("GGAS_PROCESSOR", if ranks <= gpus() { "gpu" } else { "cpu" });
        told(rank, &mut command);
        again(name, &mut command, "rank")
    };
    let children: Vec<Child> = (0..ranks).map(start).collect();
    children.into_iter().map(|mut child| child.wait().expect("ended")).collect()
}

/// Launcher and compiler of the MPI libraries that there are.
pub fn libraries() -> Vec<(PathBuf, PathBuf)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        |name: &str| std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    let both = |suffix: &str| Some((found(&format!("mpirun.{suffix}"))?, found(&format!("mpicc.{suffix}"))?));
    let given = std::env::var_os("GGAS_TEST_MPI").map(PathBuf::from);
    let given = given.map(|bin| (bin.join("mpirun"), bin.join("mpicc")));
    [both("openmpi"), both("mpich"), given]
        .into_iter()
        .flatten()
        .filter(|(_, mpicc)| has_headers(mpicc))
        .collect()
}

/// Compilers may be installed without them, as Debian's openmpi-bin has them.
fn has_headers(mpicc: &Path) -> bool {
    let mut compiler = Command::new(mpicc);
    compiler.args(["-include", "mpi.h", "-x", "c", "-fsyntax-only", "/dev/null"]);
    compiler.output().is_ok_and(|output| output.status.success())
}

/// Runs a test's part as two processes of each MPI library.
pub fn by_mpi(name: &str, part: &str) {
    let libraries = libraries();
    if libraries.is_empty() {
        println!(
            "skipped: neither mpirun.openmpi nor mpirun.mpich with its mpicc and headers is installed: apt-get install libopenmpi-dev"
        );
    }
    for (mpirun, mpicc) in libraries {
        let status = again(name, &mut two_by(&mpirun, &mpicc), part).wait().expect("ended");
        assert!(status.success(), "{}: {status}", mpirun.display());
    }
}

/// This program as two processes of an MPI library.
pub fn two_by(mpirun: &Path, mpicc: &Path) -> Command {
    let mut command = Command::new(mpirun);
    // Libraries of distributions do not take GPU memory.
    command.env("GGAS_PROCESSOR", "cpu");
    // More ranks than cores, and root in containers: Open MPI asks to be told.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.env("OMPI_MCA_rmaps_base_oversubscribe", "1").env("OMPI_MCA_mpi_yield_when_idle", "1");
    command.env("GGAS_GMPI_MPICC", mpicc).env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.args(["-n", "2"]).arg(std::env::current_exe().expect("a name"));
    command
}

/// This process's part, if it is not the test itself.
pub fn part() -> Option<String> {
    let part = std::env::var(PART).ok()?;
    ggas_selftest::add();
    Some(part)
}

/// GPUs that ranks may use.
fn gpus() -> u32 {
    std::env::var("GGAS_TEST_GPUS").map_or(0, |gpus| gpus.parse().expect("a number of GPUs"))
}

pub struct Here {
    pub gmpi: Gmpi,
    pub processor: Processor,
    pub memory: Arc<KernelMem>,
}

impl Here {
    pub fn with(gmpi: Gmpi, processor: Processor) -> Here {
        let memory = Arc::new(processor.alloc(BYTES).expect("memory"));
        gmpi.attach(&memory).expect("attached");
        Here { gmpi, processor, memory }
    }

    pub fn at(&self, offset: usize) -> u64 {
        self.memory.address() + offset as u64
    }

    pub fn run(&self, script: Script) -> Results {
        let results = Results::new(&self.processor, self.gmpi.address(), vec![script]);
        // SAFETY: the structure is this kernel's, and its memory lives until the kernel has ended.
        let launch =
            unsafe { ggas_selftest::launch(&self.processor, "ggas_selftest_gmpi", 1, 64, &results.args) };
        start(&[launch]).expect("it starts").wait(SOON).expect("it ends");
        results
    }

    pub fn succeed(&self, script: Script) -> Results {
        let results = self.run(script);
        assert!(results.errors(0).iter().all(|error| *error == 0), "{:?}", results.errors(0));
        results
    }

    pub fn read(&self, offset: usize, count: usize) -> Vec<u64> {
        self.memory.read_u64s(offset, count).expect("in range")
    }
}
