//! An unchanged MPI program that passes pointers of devices, by each MPI library that there is.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The library, which cargo builds beside the tests of this package; in the folder above may be one of an older build.
fn library() -> PathBuf {
    let beside = std::env::current_exe().unwrap();
    let folder = beside.ancestors().nth(2).unwrap();
    let found = [folder.join("deps/libggas_hpe_preload.so"), folder.join("libggas_hpe_preload.so")];
    found.into_iter().find(|path| path.exists()).expect("libggas_hpe_preload.so in the target folder")
}

/// Launcher and compiler of the MPI libraries: installed ones, and that whose programs are in the folder `GGAS_TEST_MPI`.
fn libraries() -> Vec<(PathBuf, PathBuf)> {
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

/// Compiles sources of this package by an MPI library's compiler.
fn compile(mpicc: &Path, built: &Path, arguments: &[&str], sources: &[&str]) {
    let mut compiler = Command::new(mpicc);
    // MPICH declares statuses as arrays, and MPI_STATUSES_IGNORE is none.
    compiler.args(["-Wall", "-Wextra", "-Werror", "-Wno-stringop-overflow", "-O1", "-Iinclude"]);
    compiler.current_dir(env!("CARGO_MANIFEST_DIR")).arg("-o").arg(built).args(sources).args(arguments);
    assert!(compiler.status().unwrap().success(), "{}", mpicc.display());
}

/// `part`: bytes of the parts of long messages; without, all messages go whole. `host`: those from memory of the host go in parts, too.
fn run(
    mpirun: &Path,
    ranks: u32,
    preload: Option<String>,
    (part, host): (Option<u32>, u32),
    program: &Path,
) -> String {
    let mut command = Command::new(mpirun);
    // More ranks than cores, and root in containers: Open MPI asks to be told.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.env("OMPI_MCA_rmaps_base_oversubscribe", "1").env("OMPI_MCA_mpi_yield_when_idle", "1");
    command.args(["-n", &ranks.to_string()]);
    // By `env`: the launcher itself is no MPI program.
    if let Some(preload) = preload {
        command.arg("env").arg(format!("LD_PRELOAD={preload}"));
        command.args(part.map(|part| format!("GGAS_HPE_MPI_PART={part}")));
        command.arg(format!("GGAS_HPE_MPI_PART_HOST={host}"));
    }
    let output = command.arg(program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}, {ranks} ranks: {:?}: {said}", mpirun.display(), output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_mpi_program_passes_pointers_of_devices() {
    let libraries = libraries();
    if libraries.is_empty() {
        println!(
            "skipped: neither mpirun.openmpi nor mpirun.mpich with its mpicc and headers is installed: apt-get install libopenmpi-dev"
        );
    }
    for (number, (mpirun, mpicc)) in libraries.into_iter().enumerate() {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let program = folder.join(format!("messages-{number}"));
        let shim = folder.join(format!("libggas_hpe_mpi-{number}.so"));
        compile(
            &mpicc,
            &program,
            &["-ldl"],
            &[
                "tests/messages.c",
                "tests/promises.c",
                "tests/nonblocking.c",
                "tests/persistent.c",
                "tests/others.c",
            ],
        );
        let names = [
            "messages",
            "requests",
            "many",
            "persistent",
            "call",
            "collectives",
            "nonblocking",
            "neighbours",
            "packing",
            "files",
            "windows",
            "stage",
            "pipe",
            "pipe_in",
            "held",
            "parts",
            "tags",
        ];
        let sources = names.map(|name| format!("mpi/{name}.c"));
        let sources: Vec<_> = sources.iter().map(String::as_str).collect();
        compile(&mpicc, &shim, &["-shared", "-fPIC", "-Wl,-z,now"], &sources);
        let preload = format!("{}:{}", shim.display(), library().display());
        assert_eq!(run(&mpirun, 2, None, (None, 0), &program), "absent\n");
        // As long as a message of columns in two parts allows: each part is a turn of both ranks, which cores that are busy make wait.
        let parts = [(Some(196_608), 0), (Some(199_999), 1), (Some(0), 1)].map(|parts| (2, parts));
        let wholes = [(2, (None, 0)), (3, (None, 0)), (3, (Some(300_001), 0)), (3, (Some(300_001), 1))];
        for (ranks, parts) in wholes.into_iter().chain(parts) {
            assert_eq!(
                run(&mpirun, ranks, Some(preload.clone()), parts, &program),
                "all well\n",
                "{parts:?}"
            );
        }
    }
}

#[test]
fn a_tag_of_parts_is_one_messages_at_a_time() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tags");
    compile(Path::new("cc"), &program, &["-lpthread"], &["tests/tags.c", "mpi/tags.c"]);
    let output = Command::new(&program).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "all well\n", "{output:?}");
}
