//! Without a driver, with broken ones and with old ones there is a typed error and no panic.
//!
//! Libcuda is loaded once in a process, so each case runs this program again, with a library made by the C compiler
//! in front of the system's.

use std::path::PathBuf;
use std::process::Command;

use ggas_gpu::{Gpu, GpuError, NoGpu, probe};

/// What the child prints: the variant and the line for users.
fn report() -> String {
    match probe() {
        Ok(gpus) => format!("Ok {}", gpus.len()),
        Err(reason) => {
            assert_eq!(Gpu::open(0).err(), Some(GpuError::NoGpu(reason.clone())));
            assert_eq!(Gpu::all().err(), Some(GpuError::NoGpu(reason.clone())));
            reason.fallback_note()
        }
    }
}

#[test]
#[ignore = "runs as the child of the other tests"]
fn child() {
    println!("report: {}", report());
}

/// Runs `child` with a libcuda compiled from `source`; returns what it reports.
fn with_libcuda(name: &str, source: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let code = folder.join("cuda.c");
    std::fs::write(&code, source).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .arg(folder.join("libcuda.so"))
        .arg(&code)
        .status()
        .unwrap();
    assert!(built.success());
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "no_gpu::child", "--ignored", "--nocapture"])
        .env("LD_LIBRARY_PATH", &folder)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "the child failed: {printed}");
    let line = printed.lines().find_map(|line| line.split_once("report: "));
    line.expect("a report").1.to_owned()
}

/// The first functions that are called, returning these.
fn libcuda(init: u32, version: u32, devices: u32) -> String {
    format!(
        "int cuInit(unsigned f) {{ return {init}; }}\n\
         int cuDriverGetVersion(int *v) {{ *v = {version}; return {init} == 34 ? 34 : 0; }}\n\
         int cuGetErrorName(int e, const char **t) {{ *t = \"CUDA_ERROR_TEST\"; return 0; }}\n\
         int cuGetErrorString(int e, const char **t) {{ *t = 0; return 1; }}\n\
         int cuDeviceGetCount(int *n) {{ *n = {devices}; return 0; }}\n"
    )
}

/// All other functions that the crate asks for, as it lists them itself.
fn all_others() -> String {
    let listed = include_str!("../../src/sys.rs").split("driver_calls! {").nth(1).unwrap();
    let names = listed.split('}').next().unwrap().split(',').map(str::trim);
    let first =
        ["cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuDeviceGetCount", ""];
    names
        .filter(|name| !first.contains(name))
        .map(|name| format!("int {name}() {{ return 999; }}\n"))
        .collect()
}

#[test]
fn no_driver_is_one_line() {
    if probe().is_ok() {
        return;
    }
    let line = NoGpu::NotInstalled.fallback_note();
    assert_eq!(
        line,
        "no GPU found (libcuda.so.1 is not installed: install the NVIDIA driver 580 or newer), using the CPU executor"
    );
    assert_eq!(report().lines().count(), 1);
}

#[test]
fn an_empty_library_is_not_a_driver() {
    let said = with_libcuda("empty", "int unrelated;\n");
    assert!(said.contains("libcuda has no cuDriverGetVersion"), "{said}");
}

#[test]
fn a_library_without_newer_functions_is_not_a_driver() {
    let said = with_libcuda("partial", &libcuda(0, 13_000, 1));
    assert!(said.contains("libcuda has no cuCtxEnablePeerAccess"), "{said}");
}

#[test]
fn the_stub_of_the_toolkit_is_named() {
    let said = with_libcuda("stub", &libcuda(34, 13_000, 1));
    assert!(said.contains("the toolkit's stub"), "{said}");
}

#[test]
fn an_old_driver_is_named_with_versions() {
    let said = with_libcuda("old", &libcuda(0, 12_080, 1));
    assert!(said.contains("driver for CUDA 12.8, needed 13.0"), "{said}");
}

#[test]
fn a_driver_that_fails_or_sees_nothing_is_an_error() {
    let said = with_libcuda("none", &(libcuda(100, 13_000, 1) + &all_others()));
    assert!(said.contains("the driver sees no device"), "{said}");
    let said = with_libcuda("zero", &(libcuda(0, 13_000, 0) + &all_others()));
    assert!(said.contains("the driver sees no device"), "{said}");
    let said = with_libcuda("broken", &(libcuda(999, 13_000, 1) + &all_others()));
    assert!(said.contains("cuInit: unknown (CUDA_ERROR_TEST, 999); see dmesg"), "{said}");
    // Initialised, and every later call fails.
    let said = with_libcuda("later", &(libcuda(0, 13_000, 1) + &all_others()));
    assert!(said.contains("cuDeviceGet: "), "{said}");
}
