//! C programs with kernels: built by the C and the C++ compiler, linked with the library, run as jobs on the CPU executor.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
const STRICT: [&str; 5] = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-O1"];
/// What `kernels/compile` compiles kernels with.
const KERNEL: [&str; 8] = [
    "-x",
    "c++",
    "-std=c++20",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-fno-threadsafe-statics",
];

/// The archive that cargo builds with the tests of this package.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().unwrap();
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libgmpi_c") && name.ends_with(".a")
    };
    let found = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(is_ours);
    // Older ones are of other builds.
    let newest = found.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
    newest.expect("cargo builds libgmpi_c.a beside this test")
}

fn includes(command: &mut Command) -> &mut Command {
    let folders = ["userlib/gmpi/c/include", "kernels/include", "kmod/uapi"];
    folders.iter().fold(command, |command, folder| command.arg("-I").arg(format!("{ROOT}/{folder}")))
}

fn succeed(command: &mut Command) {
    let output = command.output().expect("the compiler runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A program of a C file and of a file with kernels.
fn program(name: &str, main: &str, kernel: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = |name: String| folder.join(name);
    let (object, kernels, built) =
        (file(format!("{name}.o")), file(format!("{name}-kernels.o")), file(name.to_owned()));
    let source = |path: &str| format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    let mut c = Command::new("gcc");
    succeed(includes(c.args(STRICT).arg("-std=c11")).arg("-c").arg(source(main)).arg("-o").arg(&object));
    let mut cpp = Command::new("g++");
    // What the headers of kernels need besides is of their tests.
    let kernel_warnings = ["-Wall", "-Wextra", "-Werror", "-O1"];
    succeed(
        includes(cpp.args(kernel_warnings).args(KERNEL))
            .arg("-c")
            .arg(source(kernel))
            .arg("-o")
            .arg(&kernels),
    );
    let mut link = Command::new("gcc");
    link.arg(&object).arg(&kernels).arg(library()).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&built);
    succeed(&mut link);
    built
}

/// Runs it as a job of so many ranks; what they said.
fn job(program: &Path, ranks: u32, args: &[&str]) -> Vec<Output> {
    let name = program.file_name().unwrap().to_str().unwrap();
    let start = |rank: u32| -> Child {
        let mut command = Command::new("timeout");
        command.arg("300").arg(program).args(args);
        command.env("GGAS_RANK", rank.to_string()).env("GGAS_SIZE", ranks.to_string());
        command.env("GGAS_JOB", format!("gmpi-c-{name}-{ranks}-{}", std::process::id()));
        command.env("GGAS_DEVICE", "sim").env("GGAS_PROCESSOR", "cpu");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    };
    let children: Vec<Child> = (0..ranks).map(start).collect();
    children.into_iter().map(|child| child.wait_with_output().expect("it ends")).collect()
}

fn all_well(program: &Path, ranks: u32) -> Vec<String> {
    said_with(program, ranks, &[])
}

fn said_with(program: &Path, ranks: u32, args: &[&str]) -> Vec<String> {
    let outputs = job(program, ranks, args);
    for (rank, output) in outputs.iter().enumerate() {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "rank {rank} of {ranks}: {}: {said}", output.status);
    }
    outputs.into_iter().map(|output| String::from_utf8(output.stdout).unwrap()).collect()
}

#[test]
fn the_example_passes_values_around_a_ring() {
    let program = program("ring", "examples/ring/main.c", "examples/ring/ring.cu");
    for ranks in [1, 3] {
        let said = all_well(&program, ranks);
        let sum = (1000 * u64::from(ranks)) * (1000 * u64::from(ranks) - 1) / 2;
        let line = |how: &str| format!("{ranks} ranks, {how}: the sum of all values is {sum}\n");
        assert_eq!(said[0], line("own messages") + &line("from kernel to kernel"));
    }
}

fn calls() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| program("calls", "tests/calls.c", "tests/calls.cu"))
}

#[test]
fn functions_do_and_refuse_what_the_header_says() {
    for ranks in [1, 2, 3] {
        assert!(all_well(calls(), ranks).iter().all(|said| said == "0 failures\n"));
    }
}

/// Once, as nothing stops it; beside that all else of its process goes on.
const SPINS: &[&str] = &["spins"];

#[test]
fn what_no_program_should_do_is_refused_and_all_else_goes_on() {
    let program = program("hostile", "tests/hostile.c", "tests/hostile.cu");
    for (ranks, args) in [(1, SPINS), (2, &[])] {
        let said = said_with(&program, ranks, args);
        assert!(said.iter().all(|said| said == "0 failures\n"), "{said:?}");
    }
    refused_with_mpi_libraries(&program);
}

/// Launchers and compilers of the MPI libraries that there are.
fn libraries() -> Vec<[PathBuf; 2]> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        |name: String| std::env::split_paths(&path).map(|dir| dir.join(&name)).find(|file| file.is_file());
    let both = |of: &str| Some([found(format!("mpirun.{of}"))?, found(format!("mpicc.{of}"))?]);
    let has_headers = |both: &[PathBuf; 2]| {
        let mut compiler = Command::new(&both[1]);
        compiler.args(["-include", "mpi.h", "-x", "c", "-fsyntax-only", "/dev/null"]);
        compiler.output().is_ok_and(|output| output.status.success())
    };
    ["openmpi", "mpich"].into_iter().filter_map(both).filter(has_headers).collect()
}

fn refused_with_mpi_libraries(program: &Path) {
    let libraries = libraries();
    if libraries.is_empty() {
        println!("skipped: neither mpirun.openmpi nor mpirun.mpich with its mpicc and headers is installed");
    }
    for [mpirun, mpicc] in libraries {
        let mut command = Command::new("timeout");
        command.arg("300").arg(&mpirun).args(["-n", "2"]).arg(program).env("GGAS_PROCESSOR", "cpu");
        // More ranks than cores, and root in containers: Open MPI asks to be told.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.env("OMPI_MCA_rmaps_base_oversubscribe", "1").env("OMPI_MCA_mpi_yield_when_idle", "1");
        command.env("GGAS_GMPI_MPICC", &mpicc).env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        let output = command.output().expect("it starts");
        let [said, failed] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        let well = output.status.success() && said.lines().filter(|line| *line == "0 failures").count() == 2;
        assert!(well, "{}: {}: {said}{failed}", mpirun.display(), output.status);
    }
}

#[test]
fn the_header_compiles_by_itself_as_c_and_as_cpp() {
    let header = format!("{}/include/gmpi.h", env!("CARGO_MANIFEST_DIR"));
    for (compiler, how) in [("gcc", ["-xc", "-std=c99"]), ("g++", ["-xc++", "-std=c++11"])] {
        let mut command = Command::new(compiler);
        succeed(includes(command.args(STRICT).args(how).arg("-fsyntax-only")).arg(&header));
    }
}
