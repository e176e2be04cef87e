//! Tests on a libcuda whose GPUs are host memory (`fake_libcuda.c`).

use std::ffi::CStr;
use std::path::PathBuf;
use std::process::Command;

/// Runs a test on the fake libcuda, with a variable set.
pub fn in_a_child(test: &str, variable: Option<&str>) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test.replace("::", "-"));
    std::fs::create_dir_all(&folder).unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake_libcuda.c");
    let library = folder.join("libcuda.so");
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status().unwrap();
    assert!(built.success());
    // Libcuda is loaded once in a process, so the checks run in a child that finds this one.
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("LD_LIBRARY_PATH", &folder)
        .envs(variable.map(|name| (name, "1")))
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(output.status.success() && said[0].contains("1 passed"), "{}{}", said[0], said[1]);
}

/// A function of the fake libcuda, in a child.
pub fn function(name: &CStr) -> *mut libc::c_void {
    // SAFETY: libcuda is loaded already, so this finds the same one.
    let function =
        unsafe { libc::dlsym(libc::dlopen(c"libcuda.so".as_ptr(), libc::RTLD_NOW), name.as_ptr()) };
    assert!(!function.is_null());
    function
}
