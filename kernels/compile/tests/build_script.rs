//! What a build script says where kernels do not compile: the compiler's own words first, then one sentence.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Set where this program is to be a build script.
const BUILD_SCRIPT: &str = "GGAS_TEST_BUILD_SCRIPT";

const GOOD: &str = "int good() { return 0; }\n";
const BROKEN: &str = "int good() { return 0; }\nint broken() { return missing_name; }\n";

/// No test: the build script that the others start.
#[test]
#[ignore = "it is a build script, started by the other tests"]
fn build_script() {
    if std::env::var_os(BUILD_SCRIPT).is_some() {
        ggas_compile::Kernels::in_folder("kernels").compile();
    }
}

/// Runs it for a crate with this kernel.
fn build(package: &Path, kernel: &str, variables: &[(&str, &str)]) -> Output {
    let (folder, out) = (package.join("kernels"), package.join("out"));
    for folder in [&folder, &out] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(folder.join("sums.cu"), kernel).unwrap();
    let target = "x86_64-unknown-linux-gnu";
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "build_script", "--nocapture", "--quiet"])
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env("CARGO_MANIFEST_DIR", package)
        .env("CARGO_PKG_NAME", "my-sums")
        .env("OUT_DIR", out)
        .envs([
            ("TARGET", target),
            ("HOST", target),
            ("OPT_LEVEL", "0"),
            ("DEBUG", "false"),
            ("NVCC", "none"),
        ])
        .envs([(BUILD_SCRIPT, "1"), ("CARGO_CFG_TARGET_FEATURE", "")])
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn texts(output: &Output) -> [String; 2] {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8(bytes.clone()).unwrap())
}

/// A compiler for GPUs that says this and fails.
fn nvcc(package: &Path, says: &str) -> String {
    let path = package.join("nvcc");
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in --version) echo 'Cuda compilation tools, release 13.0, V13.0.88';; *) {says}; exit 2;; esac\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn what_compiles_is_linked_and_warnings_are_cargos() {
    let package = tempfile::tempdir().unwrap();
    let output = build(package.path(), "int warned(int unused) { return 0; }\n", &[]);
    let [stdout, stderr] = texts(&output);
    assert!(output.status.success(), "{stdout}{stderr}");
    for line in [
        "cargo:rustc-link-lib=static=my_sums_on_host",
        "cargo:rerun-if-env-changed=CXX",
        "cargo::rerun-if-env-changed=NVCC",
        "cargo::rustc-env=GGAS_NVCC_NONE=1",
        "cargo::warning=NVCC=none: kernels are built for the CPU only; build again without it to have them for GPUs",
    ] {
        assert!(stdout.lines().any(|said| said == line), "no {line}: {stdout}");
    }
    let kernels = package.path().join("kernels");
    assert!(stdout.contains(&format!("cargo::rerun-if-changed={}\n", kernels.display())), "{stdout}");
    let warned = |line: &str| line.starts_with("cargo::warning=") && line.contains("unused");
    assert!(stdout.lines().any(warned), "{stdout}");
    assert!(package.path().join("out/libmy_sums_on_host.a").exists());
}

#[test]
fn errors_of_the_cpp_compiler_come_first_and_whole() {
    let package = tempfile::tempdir().unwrap();
    let output = build(package.path(), BROKEN, &[]);
    let [stdout, stderr] = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{stdout}{stderr}");
    // Cargo shows standard output first.
    assert!(!stdout.contains("cargo:"), "{stdout}");
    let lines: Vec<_> = stderr.lines().collect();
    assert!(lines[0].contains("sums.c"), "{stderr}");
    let file = format!("{}:2:", package.path().join("kernels/sums.cu").display());
    assert!(
        stderr.contains(&file) && stderr.contains("error: ") && stderr.contains("missing_name"),
        "{stderr}"
    );
    assert!(stderr.contains("return missing_name;"), "the line itself: {stderr}");
    let last = lines.last().unwrap();
    assert!(last.starts_with("The kernels of my-sums do not compile for the CPU executor"), "{stderr}");
    assert!(!stderr.contains("panicked") && !stderr.contains("LC_ALL"), "{stderr}");
}

#[test]
fn errors_of_nvcc_look_the_same() {
    let package = tempfile::tempdir().unwrap();
    let nvcc = nvcc(package.path(), "echo 'sums.cu(3): error: identifier is undefined' >&2");
    let output = build(package.path(), GOOD, &[("NVCC", &nvcc)]);
    let [stdout, stderr] = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{stdout}{stderr}");
    assert!(!stdout.contains("cargo:"), "{stdout}");
    let lines: Vec<_> = stderr.lines().collect();
    assert_eq!(lines[0], "sums.cu(3): error: identifier is undefined");
    let last = lines.last().unwrap();
    assert!(last.starts_with("The kernels of my-sums do not compile for GPUs"), "{stderr}");
    assert!(last.contains(&nvcc) && last.contains("NVCC=none"), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn a_missing_compiler_is_said() {
    let package = tempfile::tempdir().unwrap();
    let output = build(package.path(), GOOD, &[("CXX", "/nowhere/c++")]);
    let [stdout, stderr] = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{stdout}{stderr}");
    assert!(stderr.contains("/nowhere/c++") && stderr.contains("CXX") && stderr.contains("g++"), "{stderr}");
}
