//! Finds what the build needs and installs what is missing: Python wheels into `build/`, system
//! packages only as [`Policy`] allows.

pub mod apt;
pub mod cuda;
mod libclang;
mod pip;
mod wire;

pub use apt::Policy;
pub use libclang::libclang;

use crate::place;
use crate::run::{Step, ask, cargo};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::time::{Duration, SystemTime};

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
        report!("xtask: no CUDA toolkit here: fetching nvcc into build/cuda (104 MB of Python wheels)");
        if let Err(error) = cuda::install(policy) {
            report!("xtask: kernels will run on the CPU executor only: {error}");
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
    // It runs for a second: bindgen built for speed costs a quarter of a minute.
    command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
    // The wheel comes without the compiler's own headers (stddef.h); where no clang is installed, gcc's serve.
    if let (None, Some(headers)) =
        (std::env::var_os("BINDGEN_EXTRA_CLANG_ARGS"), ask("cc", &["-print-file-name=include"]))
    {
        command.env("BINDGEN_EXTRA_CLANG_ARGS", format!("-idirafter {}", headers.trim()));
    }
    Step { name: "facts", command, limit: Duration::from_secs(900) }.run()?;
    Ok(())
}

/// `cargo xtask setup`: everything, and a report.
pub fn setup(check_only: bool, policy: Policy) -> Result<()> {
    let policy = if check_only { Policy::Leave } else { policy };
    let found = [
        report("C++", cxx(policy).map(|()| cxx_name()), "the CPU executor (required)"),
        report("nvcc", nvcc(check_only, policy), "kernels on NVIDIA GPUs; the test that compiles them"),
        report("libclang", clang(check_only, policy), "cargo xtask facts"),
    ];
    report("sparse", sparse(policy), "one more look at the C headers in cargo xtask test (optional)");
    for library in &wire::ALL {
        report(library.name, library.look(policy), "networks between hosts (optional)");
    }
    report("driver", driver(), "running kernels on a GPU (optional)");
    match found.iter().filter(|found| !**found).count() {
        0 => Ok(()),
        n if check_only => bail!("{n} missing; `cargo xtask setup` installs what it can"),
        n => bail!("{n} could not be installed; the lines above say why and what to do"),
    }
}

/// Has what is built from this file built again: builds look for what is optional, but cannot watch for what is not there:
/// that would count as changed each time.
fn touch(file: &str) -> Result<()> {
    let path = place::root().join(file);
    let touched =
        File::options().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
    touched.with_context(|| format!("cannot touch {}, so that builds look again", path.display()))
}

/// One entry of the report; true if it is there.
fn report(what: &str, state: Result<String>, used: &str) -> bool {
    match &state {
        Ok(found) => say!("  {what:<10} {found}"),
        Err(error) => say!("  {what:<10} MISSING: {error:#}"),
    }
    say!("  {:<10} used for {used}", "");
    state.is_ok()
}

fn cxx_name() -> String {
    let name = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let text = ask(&name, &["--version"]).unwrap_or(name);
    text.lines().next().unwrap_or("found").to_string()
}

fn clang(check_only: bool, policy: Policy) -> Result<String> {
    let folder = if check_only { libclang::find() } else { libclang(policy) };
    folder.map(|folder| place::shown(&folder))
}

fn sparse(policy: Policy) -> Result<String> {
    if place::which("sparse").is_none() {
        apt::install(&["sparse"], "sparse", policy)?;
    }
    Ok(place::which("sparse").context("installed, but not on PATH")?.display().to_string())
}

fn driver() -> Result<String> {
    if cuda::driver_present() {
        return Ok("NVIDIA driver found; `ggas info` shows the GPUs".into());
    }
    bail!("no NVIDIA driver; without one kernels run on the CPU executor")
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
