//! An unchanged C program, with the library preloaded and without it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The library, which cargo builds beside the tests of this package; in the folder above may be one of an older build.
fn library() -> PathBuf {
    let beside = std::env::current_exe().unwrap();
    let folder = beside.ancestors().nth(2).unwrap();
    let found = [folder.join("deps/libggas_hpe_preload.so"), folder.join("libggas_hpe_preload.so")];
    found.into_iter().find(|path| path.exists()).expect("libggas_hpe_preload.so in the target folder")
}

/// Compiles a program of these tests.
fn program(name: &str, arguments: &[&str]) -> PathBuf {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let source = format!("tests/{name}.c");
    let mut compiler = Command::new("cc");
    compiler.current_dir(env!("CARGO_MANIFEST_DIR"));
    compiler
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-Iinclude", "-o"])
        .arg(&built)
        .arg(source)
        .args(arguments);
    assert!(compiler.status().unwrap().success());
    built
}

/// What it prints; it ends well.
fn said_by(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{:?}: {said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_c_program_reads_and_writes_files_of_devices() {
    let program = program("files", &["-ldl"]);
    assert_eq!(said_by(&mut Command::new(&program)), "absent\n");
    assert_eq!(said_by(Command::new(&program).env("LD_PRELOAD", library())), "all well\n");
}

#[test]
fn a_number_of_devices_that_is_none_is_told() {
    let program = linked("number");
    let numbers = [("1", "1\n"), ("", "1\n"), ("3", "3\n"), ("0", "-1 ENODEV\n"), ("99", "-1 ENODEV\n")];
    let others = ["two", "-1", "1.5", "2 "].map(|asked| (asked, "-1 EINVAL\n"));
    for (asked, said) in numbers.into_iter().chain(others) {
        let mut command = Command::new(&program);
        command.env("GGAS_HPE_DEVICES", asked).env("CUDA_VISIBLE_DEVICES", "");
        assert_eq!(said_by(&mut command), said, "GGAS_HPE_DEVICES={asked}");
    }
}

#[test]
fn a_c_program_spreads_memory_over_devices() {
    let program = linked("spread");
    for devices in ["1", "2", "3", "7"] {
        let mut command = Command::new(&program);
        // Devices of the executor alone, whatever GPUs there are.
        command.arg(devices).env("GGAS_HPE_DEVICES", devices).env("CUDA_VISIBLE_DEVICES", "");
        assert_eq!(said_by(&mut command), "all well\n", "{devices} devices");
    }
}

#[test]
fn parts_of_the_host_and_of_devices_are_read_and_written_by_one_call() {
    let program = linked("vectors");
    assert_eq!(said_by(Command::new(&program).env("CUDA_VISIBLE_DEVICES", "")), "all well\n");
}

#[test]
fn streams_and_threads_are_as_with_the_c_library_alone() {
    let program = linked("streams");
    assert_eq!(said_by(Command::new(&program).env("CUDA_VISIBLE_DEVICES", "")), "all well\n");
}

/// A program of these tests that is linked with the library.
fn linked(name: &str) -> PathBuf {
    let library = library();
    let path = format!("-Wl,-rpath,{}", library.parent().unwrap().display());
    program(name, &[library.to_str().unwrap(), &path, "-lpthread", "-ldl"])
}

#[test]
fn limits_are_told_and_nothing_is_half_done() {
    let mut command = Command::new(linked("limits"));
    assert_eq!(said_by(command.env("CUDA_VISIBLE_DEVICES", "").env_remove("GGAS_HPE_DEVICES")), "all well\n");
}

#[test]
fn handlers_may_be_left_and_threads_cancelled() {
    let program = linked("handlers");
    for (case, said) in [
        ("jump", "all well\n"),
        ("overflow", "all well\n"),
        ("cancel", "all well\n"),
        ("ended", "late\n"),
        ("ended", "late\n"),
    ] {
        assert_eq!(said_by(Command::new(&program).arg(case).env("CUDA_VISIBLE_DEVICES", "")), said, "{case}");
    }
}

#[test]
fn a_program_may_close_the_library() {
    let program = program("unloaded", &["-rdynamic", "-ldl", "-lpthread"]);
    let mut command = Command::new(program);
    assert_eq!(said_by(command.arg(library()).env("CUDA_VISIBLE_DEVICES", "")), "all well\n");
}

#[test]
fn the_gpu_that_a_program_chose_stays_chosen() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chosen-cuda");
    std::fs::create_dir_all(&folder).unwrap();
    let stand_in = concat!(env!("CARGO_MANIFEST_DIR"), "/../../gpu/tests/fake_libcuda.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(folder.join("libcuda.so.1")).arg(stand_in);
    assert!(compiler.status().unwrap().success());
    let program = linked("chosen");
    for first in [None, Some("take"), Some("return")] {
        let mut command = Command::new(&program);
        command.args(first).env("LD_LIBRARY_PATH", &folder);
        command.env_remove("CUDA_VISIBLE_DEVICES").env_remove("GGAS_HPE_DEVICES");
        assert_eq!(said_by(&mut command), "all well\n", "{first:?}");
    }
}
