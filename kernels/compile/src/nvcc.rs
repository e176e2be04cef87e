//! For GPUs: one fatbin, left empty where there is no nvcc.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use crate::{Failed, Image, package, suite, wrapper};

/// The value of `NVCC` that wants no code for GPUs.
const NONE: &str = "none";

/// Compiles, with machine code for all architectures or the newest, and returns what cargo is to know.
pub fn compile(
    out: &Path,
    includes: &[PathBuf],
    images: &[Image<'_>],
    all: bool,
) -> Result<Vec<String>, Failed> {
    let variables = ["NVCC", "CUDA_HOME", "PATH", "GGAS_CUDA_ARCH", "GGAS_CUDA_PROXY"];
    let mut lines = variables.map(|variable| format!("cargo::rerun-if-env-changed={variable}")).to_vec();
    let wheels = suite().join("build/cuda/nvidia/cu13/bin/nvcc");
    // One that is not there would count as changed each time; `cargo xtask setup` touches this file when it comes.
    if wheels.exists() {
        lines.push(format!("cargo::rerun-if-changed={}", wheels.display()));
    }
    if env::var_os("NVCC").is_some_and(|named| named == NONE) {
        let why =
            "NVCC=none: kernels are built for the CPU only; build again without it to have them for GPUs";
        lines.push(format!("cargo::warning={why}"));
        lines.push("cargo::rustc-env=GGAS_NVCC_NONE=1".to_owned());
        return Ok(lines);
    }
    let Some(nvcc) = find(&wheels) else {
        let why = "no nvcc: kernels are built for the CPU only; `cargo xtask setup` installs nvcc";
        lines.push(format!("cargo::warning={why}"));
        return Ok(lines);
    };
    let release = release(&nvcc).unwrap_or_default();
    let compile = |image: &Image<'_>| command(&nvcc, release, out, includes, image, all).output();
    // Side by side: most of the time of each is one thread's.
    let done = thread::scope(|scope| {
        let wanted = images.iter().filter(|image| !image.proxy || with_proxy());
        let begun: Vec<_> = wanted.map(|image| scope.spawn(move || compile(image))).collect();
        begun.into_iter().map(|image| image.join().expect("it does not panic")).collect::<Vec<_>>()
    });
    for done in done {
        match done {
            Ok(done) if done.status.success() => {}
            Ok(done) => return Err(failed(&nvcc, &done)),
            Err(error) => {
                let why =
                    format!("cannot run {}: {error}; kernels are built for the CPU only", nvcc.display());
                lines.push(format!("cargo::warning={why}"));
                return Ok(lines);
            }
        }
    }
    let (major, minor) = release;
    lines.push(format!("cargo::rustc-env=GGAS_NVCC_RELEASE={major}.{minor}"));
    Ok(lines)
}

/// Kernels that have the host make accesses take half of the time that all take: checks of the others leave them out.
fn with_proxy() -> bool {
    env::var_os("GGAS_CUDA_PROXY").is_none_or(|value| value != "0")
}

/// How nvcc is called for an image.
fn command(
    nvcc: &Path,
    release: (u32, u32),
    out: &Path,
    includes: &[PathBuf],
    image: &Image<'_>,
    all: bool,
) -> Command {
    let mut command = Command::new(nvcc);
    command.args(["-std=c++17", "-O3", "--expt-relaxed-constexpr", "-fatbin", "--threads", "2"]);
    // One architecture, such as 90, builds in a fraction of the time.
    let only = env::var("GGAS_CUDA_ARCH");
    let archs = only.as_deref().map_or(vec!["80", "90"], |only| vec![only]);
    let newest = archs.last().copied();
    for arch in archs {
        if all || Some(arch) == newest {
            command.arg("-gencode").arg(format!("arch=compute_{arch},code=sm_{arch}"));
        }
        command.arg("-gencode").arg(format!("arch=compute_{arch},code=compute_{arch}"));
    }
    // Programs carry it: packed it has a quarter of the size. `size` leaves a third less than `balance`, in twenty times its time.
    command.arg(match (release >= (13, 0), all) {
        (true, true) => "--compress-mode=size",
        (true, false) => "--compress-mode=balance",
        (false, _) => "-Xfatbin=-compress-all",
    });
    if release >= (13, 0) && (!all || image.proxy) {
        // Half the time; those that have the host make accesses wait for networks. Not in the assembler: it would count shared memory of functions
        // to kernels that do not call them.
        command.args(["--Ofast-compile=min", "-Xptxas", "--Ofast-compile=0"]);
    }
    if image.proxy {
        command.arg("-DGGAS_PROXY=1");
    }
    for include in includes {
        command.arg("-I").arg(include);
    }
    let unit = wrapper(out, &format!("{}.cu", image.fatbin), image.sources);
    command.arg("-o").arg(out.join(image.fatbin)).arg(unit);
    command
}

fn failed(nvcc: &Path, done: &Output) -> Failed {
    let said = [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    let sentence = format!(
        "The kernels of {} do not compile for GPUs: above is what {} says (NVCC=none builds for the CPU only).",
        package(),
        nvcc.display()
    );
    Failed { said, sentence }
}

/// NVCC, then the pinned wheels that `cargo xtask setup` installs (what CI tests is what people get),
/// then PATH, CUDA_HOME and /usr/local/cuda.
fn find(wheels: &Path) -> Option<PathBuf> {
    if let Some(named) = env::var_os("NVCC") {
        return Some(PathBuf::from(named));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let homes = env::var_os("CUDA_HOME").map(|home| PathBuf::from(home).join("bin/nvcc"));
    std::iter::once(wheels.to_path_buf())
        .chain(env::split_paths(&path).map(|folder| folder.join("nvcc")))
        .chain(homes)
        .chain([PathBuf::from("/usr/local/cuda/bin/nvcc")])
        .find(|candidate| candidate.is_file() && assembles_b128(candidate))
}

/// Toolkits before 12.3 do not know the 16-byte accesses of vocab.h (PTX 8.3): passed over, as if absent.
fn assembles_b128(nvcc: &Path) -> bool {
    release(nvcc).is_some_and(|release| release >= (12, 3))
}

/// The toolkit's release, such as (13, 0).
fn release(nvcc: &Path) -> Option<(u32, u32)> {
    let said = Command::new(nvcc).arg("--version").output().ok()?;
    let said = String::from_utf8_lossy(&said.stdout);
    let (_, rest) = said.split_once("release ")?;
    let mut numbers = rest.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    Some((numbers.next()?, numbers.next()?))
}
