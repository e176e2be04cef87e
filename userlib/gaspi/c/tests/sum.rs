//! C programs that make collectives of vectors on GPUs: the one of the README, and one in which a rank does not come. Built by the C
//! compiler, linked with the library, run as jobs; the executor stands in for GPUs, unless `GGAS_TEST_GPUS` is set.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");
const STRICT: [&str; 6] = ["-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O1"];

/// The archive that cargo builds with the tests of this package.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libgaspi_c") && name.ends_with(".a")
    };
    let folder = fs::read_dir(program.parent().unwrap()).unwrap();
    // Older ones are of other builds.
    let modified = |path: &PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    let newest = folder.map(|entry| entry.unwrap().path()).filter(is_ours).max_by_key(modified);
    newest.expect("cargo builds libgaspi_c.a beside this test")
}

/// The program of the README that calls itself so.
fn of_the_readme(name: &str) -> PathBuf {
    let text = fs::read_to_string(format!("{FOLDER}/../README.md")).unwrap();
    let begin = format!("```c\n/* {name}:");
    let at = text.find(&begin).expect("a program") + "```c\n".len();
    let end = text[at..].find("```").expect("its end");
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&source, &text[at..at + end]).unwrap();
    source
}

fn build(source: &Path) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.file_stem().unwrap());
    let mut command = Command::new("cc");
    command.args(STRICT).arg("-I").arg(format!("{FOLDER}/include")).arg(source).arg(library());
    let output = command.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Runs it as a job of so many ranks; all end well.
fn job(program: &Path, ranks: u32) -> Vec<Output> {
    let name = program.file_name().unwrap().to_str().unwrap();
    let is_on_gpu = std::env::var_os("GGAS_TEST_GPUS").is_some();
    let start = |rank: u32| -> Child {
        let mut command = Command::new("timeout");
        command.arg("300").arg(program);
        command.env("GGAS_RANK", rank.to_string()).env("GGAS_SIZE", ranks.to_string());
        command.env("GGAS_JOB", format!("gaspi-c-{name}-{ranks}-{}", std::process::id()));
        command.env("GGAS_DEVICE", "sim").stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs((!is_on_gpu).then_some(("GGAS_PROCESSOR", "cpu")));
        command.spawn().expect("it starts")
    };
    let children: Vec<Child> = (0..ranks).map(start).collect();
    let outputs: Vec<Output> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    for (rank, output) in outputs.iter().enumerate() {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "rank {rank} of {ranks}: {}: {said}", output.status);
    }
    outputs
}

#[test]
fn the_program_of_the_readme_adds_vectors() {
    let program = build(&of_the_readme("sum.c"));
    for ranks in [2, 5] {
        let sum = ranks * (ranks - 1) / 2 + ranks * 99_999;
        for (rank, output) in job(&program, ranks).into_iter().enumerate() {
            let said = String::from_utf8(output.stdout).unwrap();
            assert_eq!(said, format!("rank {rank}: the last sum is {sum}\n"));
        }
    }
}

#[test]
fn a_rank_that_does_not_come_is_told_by_a_code_and_on_standard_error() {
    let program = build(&Path::new(FOLDER).join("tests/late.c"));
    for (rank, output) in job(&program, 3).into_iter().enumerate() {
        let said = String::from_utf8(output.stderr).unwrap();
        // Who comes late is told by the others. On a busy machine more than one may.
        let own = format!("gaspi: rank {rank}: ");
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with(&own)).collect();
        assert!(lines.len() == 1 && lines[0].contains("did not"), "rank {rank}: {said}");
    }
}

#[test]
fn a_vector_that_leaves_its_segment_is_told_by_a_code_and_on_standard_error() {
    let program = build(&Path::new(FOLDER).join("tests/beyond.c"));
    for (rank, output) in job(&program, 2).into_iter().enumerate() {
        let said = String::from_utf8(output.stderr).unwrap();
        let line =
            format!("gaspi: rank {rank}: a vector of 20 bytes from byte 60 of segment 3, which has 64 bytes");
        assert_eq!(said.lines().filter(|said| said.starts_with(&line)).count(), 4, "rank {rank}: {said}");
    }
}
