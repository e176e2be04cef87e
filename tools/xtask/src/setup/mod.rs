//! Finds what the build needs and installs what is missing: Python wheels into `build/`, system
//! packages only as [`Policy`] allows.

pub mod apt;
pub mod cuda;
mod libclang;
mod pip;

pub use apt::Policy;
pub use libclang::libclang;

use crate::place;
use crate::run::{Step, ask, cargo};
use anyhow::{Result, bail};
use std::time::Duration;

/// Oldest g++ that compiles the CPU executor's kernels (C++20).
const OLDEST_GXX: u32 = 11;

/// What a command needs besides Rust.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The compiler of the CPU executor; nvcc only where a GPU may be.
    Run,
    /// The same, and nvcc wherever it can be had.
    Nvcc,
}

/// Installs what `need` asks for. Errors only for what cannot be done without.
pub fn prepare(need: Need, policy: Policy) -> Result<()> {
    cxx(policy)?;
    let wanted = need == Need::Nvcc || cuda::driver_present();
    if wanted && std::env::var_os("NVCC").is_none() && cuda::find().is_none() {
        eprintln!("xtask: no CUDA toolkit here: fetching nvcc into build/cuda (104 MB of Python wheels)");
        if let Err(error) = cuda::install(policy) {
            eprintln!("xtask: kernels will run on the CPU executor only: {error}");
        }
    }
    Ok(())
}

/// A C++ compiler that is new enough.
pub fn cxx(policy: Policy) -> Result<()> {
    let name = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let version = |name: &str| ask(name.split_whitespace().next().unwrap_or("c++"), &["-dumpversion"]);
    if version(&name).is_none() {
        apt::install(&["g++"], "a C++ compiler, which builds the kernels for the CPU executor,", policy)?;
    }
    let Some(text) = version(&name) else { bail!("`{name}` does not run; set CXX to a C++20 compiler") };
    let major: u32 = text.trim().split('.').next().and_then(|m| m.parse().ok()).unwrap_or(0);
    let clang = ask(&name, &["--version"]).is_some_and(|v| v.contains("clang"));
    if !clang && major < OLDEST_GXX {
        bail!("`{name}` is version {}; g++ {OLDEST_GXX} or newer is needed. Set CXX to one", text.trim());
    }
    Ok(())
}

/// Regenerates the Rust view of the C headers, or compares it with what would be generated.
pub fn facts(check: bool, policy: Policy) -> Result<()> {
    let mut command = cargo(&["run", "--package", "ggas-facts", "--"]);
    command.args(check.then_some("--check")).env("LIBCLANG_PATH", libclang(policy)?);
    Step { name: "facts", command, limit: Duration::from_secs(900) }.run()?;
    Ok(())
}

/// `cargo xtask setup`: everything, and a report.
pub fn setup(check_only: bool, policy: Policy) -> Result<()> {
    let policy = if check_only { Policy::Leave } else { policy };
    let mut missing = 0;
    let mut report = |what: &str, state: Result<String>, used: &str| match state {
        Ok(found) => println!("  {what:<10} {found}\n{:13}used for {used}", ""),
        Err(error) => {
            missing += 1;
            println!("  {what:<10} MISSING: {error:#}\n{:13}used for {used}", "");
        }
    };
    let cxx_state = cxx(policy).map(|()| {
        let name = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
        first_line(ask(&name, &["--version"]))
    });
    report("C++", cxx_state, "the CPU executor (required)");
    report("nvcc", nvcc(check_only, policy), "kernels on NVIDIA GPUs; the test that compiles them");
    let clang = if check_only { libclang::find() } else { libclang(policy) };
    report("libclang", clang.map(|dir| place::shown(&dir)), "cargo xtask facts");
    let sparse = match place::which("sparse") {
        Some(path) => Ok(path.display().to_string()),
        None => apt::install(&["sparse"], "sparse", policy).map(|()| "installed".into()),
    };
    report("sparse", sparse, "checking the kernel headers in cargo xtask test");
    let driver =
        if cuda::driver_present() { "driver found" } else { "no driver: kernels run on the CPU executor" };
    report("NVIDIA", Ok(driver.into()), "running kernels on a GPU");
    if missing > 0 && check_only {
        bail!("{missing} missing; `cargo xtask setup` installs what it can");
    }
    if missing > 0 {
        bail!("{missing} could not be installed; the lines above say why and what to do");
    }
    Ok(())
}

fn nvcc(check_only: bool, policy: Policy) -> Result<String> {
    let found = match cuda::find() {
        Some(nvcc) => nvcc,
        None if check_only => {
            bail!("`cargo xtask setup` fetches it (104 MB of Python wheels into build/cuda)")
        }
        None => cuda::install(policy)?,
    };
    Ok(format!("{}.{} at {}", found.version.0, found.version.1, place::shown(&found.path)))
}

fn first_line(text: Option<String>) -> String {
    text.and_then(|t| t.lines().next().map(str::to_string)).unwrap_or_else(|| "found".into())
}
