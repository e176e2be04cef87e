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

fn program() -> PathBuf {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("files");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Wextra", "-Werror", "-O1", "-o"]).arg(&built).args([source, "-ldl"]);
    assert!(compiler.status().unwrap().success());
    built
}

#[test]
fn a_c_program_reads_and_writes_files_of_devices() {
    let program = program();
    let run = |preload: Option<&Path>| {
        let mut command = Command::new(&program);
        if let Some(library) = preload {
            command.env("LD_PRELOAD", library);
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{:?}: {said}", output.status);
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(run(None), "absent\n");
    assert_eq!(run(Some(&library())), "all well\n");
}
