//! Compiles every kernel twice: for the CPU executor with the host's C++
//! compiler, and, where nvcc is found, into one fatbin for GPUs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

fn main() {
    let crate_dir = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for watched in ["include", "exec", "../kmod/uapi/extoll"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    // File by file: a change of the Rust code beside the kernels must not compile them anew.
    for watched in sources(Path::new("src"), &["cu", "cuh", "h", "def"]).expect("kernels/src is readable") {
        println!("cargo::rerun-if-changed={}", watched.display());
    }
    let sources = sources(&crate_dir.join("src"), &["cu"]).expect("kernels/src is readable");
    build_host(&crate_dir, &out, &sources);
    build_gpu(&crate_dir, &out, &sources);
}

fn sources(folder: &Path, extensions: &[&str]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().and_then(|e| e.to_str()).is_some_and(|e| extensions.contains(&e)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn includes(crate_dir: &Path) -> Vec<PathBuf> {
    ["include", "src", "exec", "../kmod/uapi"].iter().map(|d| crate_dir.join(d)).collect()
}

/// A file that includes `sources`: the compilers know what to do with its extension.
fn wrapper(out: &Path, name: &str, sources: &[PathBuf]) -> PathBuf {
    let text: String = sources.iter().map(|s| format!("#include \"{}\"\n", s.display())).collect();
    let path = out.join(name);
    if fs::read_to_string(&path).ok().as_deref() != Some(&text) {
        fs::write(&path, text).expect("OUT_DIR is writable");
    }
    path
}

fn build_host(crate_dir: &Path, out: &Path, sources: &[PathBuf]) {
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++20")
        .opt_level(2)
        .cpp_link_stdlib(None)
        .includes(includes(crate_dir))
        .warnings(true)
        .extra_warnings(true)
        // No unwinding through kernels: the executor drops the stacks of a launch that failed.
        .flag("-fno-exceptions")
        .flag("-fno-rtti")
        .flag("-fno-threadsafe-statics")
        .flag("-fno-strict-aliasing");
    build.file(crate_dir.join("exec/table.cpp"));
    let planted = crate_dir.join("exec/planted.cu");
    for source in sources.iter().chain([&planted]) {
        let stem = source.file_stem().expect("it has the extension .cu").to_string_lossy();
        build.file(wrapper(out, &format!("{stem}.cpp"), std::slice::from_ref(source)));
    }
    build.compile("ggas_host_kernels");
}

fn build_gpu(crate_dir: &Path, out: &Path, sources: &[PathBuf]) {
    for variable in ["NVCC", "CUDA_HOME", "PATH", "GGAS_CUDA_ARCH"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let fatbin = out.join("kernels.fatbin");
    fs::write(&fatbin, []).expect("OUT_DIR is writable");
    let wheels = crate_dir.join("../build/cuda/nvidia/cu13/bin/nvcc");
    println!("cargo::rerun-if-changed={}", wheels.display());
    let Some(nvcc) = find_nvcc(&wheels) else {
        println!(
            "cargo::warning=no nvcc: kernels are built for the CPU only; `cargo xtask setup` installs nvcc"
        );
        return;
    };
    let unit = wrapper(out, "kernels.cu", sources);
    let mut command = Command::new(&nvcc);
    command.args(["-std=c++17", "-O3", "--expt-relaxed-constexpr", "-fatbin", "--threads", "2"]);
    // One architecture, such as 90, builds in a fraction of the time.
    let only = env::var("GGAS_CUDA_ARCH");
    for arch in only.as_deref().map_or(vec!["80", "90"], |only| vec![only]) {
        command.arg("-gencode").arg(format!("arch=compute_{arch},code=sm_{arch}"));
        command.arg("-gencode").arg(format!("arch=compute_{arch},code=compute_{arch}"));
    }
    for include in includes(crate_dir) {
        command.arg("-I").arg(include);
    }
    command.arg("-o").arg(&fatbin).arg(unit);
    match command.output() {
        Ok(done) if done.status.success() => {
            let (major, minor) = release(&nvcc).unwrap_or_default();
            println!("cargo::rustc-env=GGAS_NVCC_RELEASE={major}.{minor}");
        }
        Ok(done) => {
            eprintln!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
            panic!("{} failed on the kernels; set NVCC=none to build for the CPU only", nvcc.display());
        }
        Err(error) => println!(
            "cargo::warning=cannot run {}: {error}; kernels are built for the CPU only",
            nvcc.display()
        ),
    }
}

/// NVCC, then the pinned wheels that `cargo xtask setup` installs (what CI tests is what people get),
/// then PATH, CUDA_HOME and /usr/local/cuda.
fn find_nvcc(wheels: &Path) -> Option<PathBuf> {
    if let Some(named) = env::var_os("NVCC") {
        return (named != "none").then(|| PathBuf::from(named));
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
