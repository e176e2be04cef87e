//! nvcc: one that is there already, or the one of the wheels in `build/cuda`.

use super::apt::Policy;
use super::{pip, touch};
use crate::place;
use crate::run::ask;
use anyhow::{Context, Result, bail};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Oldest toolkit that assembles the 16-byte accesses of `vocab.h` (PTX 8.3).
const OLDEST: (u32, u32) = (12, 3);

/// The smallest set of wheels with which nvcc makes fatbins. Pinned: later ones emit PTX that a
/// driver of the 13.0 generation cannot compile.
const WHEELS: [&str; 5] = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
];

/// An nvcc that can compile the kernels.
pub struct Nvcc {
    pub path: PathBuf,
    pub version: (u32, u32),
}

/// An NVIDIA driver is installed, so that a GPU may be there.
pub fn driver_present() -> bool {
    let libraries =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib"];
    Path::new("/proc/driver/nvidia/version").exists()
        || Path::new("/dev/nvidiactl").exists()
        || libraries.iter().any(|dir| Path::new(dir).join("libcuda.so.1").exists())
}

/// Looks where the build of the kernels looks, in its order: `NVCC`, `build/cuda`, the search path,
/// `CUDA_HOME`, `/usr/local/cuda`. Ones that are too old are passed over.
pub fn find() -> Option<Nvcc> {
    if let Some(named) = env::var_os("NVCC") {
        return usable(PathBuf::from(named)); // NVCC=none: build for the CPU only
    }
    let candidates = [
        Some(from_wheels(&place::build().join("cuda"))),
        place::which("nvcc"),
        env::var_os("CUDA_HOME").map(|home| PathBuf::from(home).join("bin/nvcc")),
        Some(PathBuf::from("/usr/local/cuda/bin/nvcc")),
    ];
    candidates.into_iter().flatten().find_map(usable)
}

fn usable(path: PathBuf) -> Option<Nvcc> {
    let version = version(&path)?;
    (version >= OLDEST).then_some(Nvcc { path, version })
}

fn from_wheels(folder: &Path) -> PathBuf {
    folder.join("nvidia/cu13/bin/nvcc")
}

/// (13, 0) from "... release 13.0, V13.0.88".
fn version(nvcc: &Path) -> Option<(u32, u32)> {
    parse_version(&ask(nvcc, &["--version"])?)
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let (_, rest) = text.split_once("release ")?;
    let (major, rest) = rest.split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Puts the wheels into `build/cuda` and compiles a kernel with the result.
pub fn install(policy: Policy) -> Result<Nvcc> {
    pip::require("nvcc", policy)?;
    let folder = pip::install("cuda", &WHEELS, |folder| compiles(&from_wheels(folder))).context(
        "cannot install nvcc: build/log/pip-install-cuda.log says why; `cargo xtask setup` tries again",
    )?;
    let path = from_wheels(&folder);
    let version =
        version(&path).context("the nvcc in build/cuda does not say its version; delete build/cuda")?;
    touch("kernels/compile/src/nvcc.rs")?;
    Ok(Nvcc { path, version })
}

/// Compiles a kernel for the two architectures that the suite ships.
fn compiles(nvcc: &Path) -> Result<()> {
    let dir = place::build().join("check");
    fs::create_dir_all(&dir)?;
    let source = dir.join("check.cu");
    fs::write(&source, "extern \"C\" __global__ void check(unsigned *p) { p[threadIdx.x] = clock(); }\n")?;
    let mut command = Command::new(nvcc);
    command.args(["-std=c++17", "-gencode", "arch=compute_80,code=sm_80"]);
    command.args(["-gencode", "arch=compute_90,code=[sm_90,compute_90]", "-fatbin", "-o"]);
    let out = command.arg(dir.join("check.fatbin")).arg(&source).output();
    let out = out.with_context(|| format!("cannot run {}", nvcc.display()))?;
    if !out.status.success() {
        bail!("{} cannot compile a small kernel:\n{}", nvcc.display(), String::from_utf8_lossy(&out.stderr));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::parse_version;

    #[test]
    fn version_of_nvcc() {
        let text = "Cuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0.r13.0";
        assert_eq!(parse_version(text), Some((13, 0)));
        assert_eq!(parse_version("release 12.10"), Some((12, 10)));
        assert_eq!(parse_version("gcc 12"), None);
    }
}
