//! For build scripts of crates with kernels: compiles each of them for the CPU executor with the host's C++ compiler,
//! and, where nvcc is found, all of them into one fatbin for GPUs.
//!
//! ```no_run
//! // build.rs
//! ggas_compile::Kernels::in_folder("kernels").compile();
//! ```
//!
//! The crate then names them with `ggas_kernels::kernels!`. `kernels/examples/own-kernel` is such a crate.
//!
//! Where the build cannot go on, the build script ends with what the compiler said, and a sentence on what to do.

mod host;
mod nvcc;

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The kernels of a crate: the `.cu` files of a folder.
#[derive(Debug)]
pub struct Kernels {
    package: PathBuf,
    folder: PathBuf,
    includes: Vec<PathBuf>,
    host_only: Vec<PathBuf>,
    without_windows: Vec<&'static str>,
    for_users: bool,
}

impl Kernels {
    /// All `.cu` files of a folder of the package, which is searched for their headers too. For GPUs they are one
    /// translation unit, so what they define beside kernels needs names of its own in each file.
    pub fn in_folder(folder: impl AsRef<Path>) -> Kernels {
        let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
        let folder = package.join(folder);
        Kernels {
            includes: vec![folder.clone()],
            package,
            folder,
            host_only: Vec::new(),
            without_windows: Vec::new(),
            for_users: true,
        }
    }

    /// Another folder of the package that is searched for headers.
    pub fn include(mut self, folder: impl AsRef<Path>) -> Kernels {
        self.includes.push(self.package.join(folder));
        self
    }

    /// Another file of the package, a `.cu` or `.cpp`, for the CPU executor only.
    pub fn host_only(mut self, file: impl AsRef<Path>) -> Kernels {
        self.host_only.push(self.package.join(file));
        self
    }

    /// Of the folder, files whose kernels use no windows. All others are compiled for GPUs a second time, with a look at each address: such
    /// kernels reach parts of windows that lie on other hosts.
    pub fn without_windows(mut self, files: &[&'static str]) -> Kernels {
        self.without_windows.extend(files);
        self
    }

    /// Kernels of tests, benchmarks and examples: an unoptimized build has machine code of the newest architecture only, and the
    /// older ones' by PTX, which the driver compiles. Each architecture takes half a minute.
    pub fn of_tests(mut self) -> Kernels {
        self.for_users = false;
        self
    }

    /// Compiles them. `NVCC` names the compiler for GPUs, or is `none`; `GGAS_CUDA_ARCH` names one architecture; `GGAS_CUDA_PROXY=0` leaves
    /// out what jobs over hosts want of GPUs, windows whose parts kernels reach there.
    /// For `cargo clippy`, which links nothing and keeps build folders of its own, there is nothing to compile.
    ///
    /// Where they do not compile, the process ends with exit code 1, and on standard error stands what the compiler said.
    ///
    /// # Panics
    /// Where a file cannot be read.
    pub fn compile(&self) {
        if let Err(Failed { said, sentence }) = self.try_compile() {
            let said = said.trim_end();
            let gap = if said.is_empty() { "" } else { "\n\n" };
            eprintln!("{said}{gap}{sentence}");
            std::process::exit(1);
        }
    }

    fn try_compile(&self) -> Result<(), Failed> {
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
        let sources = files(&self.folder, &["cu"]);
        assert!(!sources.is_empty(), "{} has no .cu files", self.folder.display());
        for fatbin in [FATBIN, PROXY_FATBIN] {
            fs::write(out.join(fatbin), []).expect("OUT_DIR is writable");
        }
        if !for_clippy() {
            let includes: Vec<PathBuf> = headers().into_iter().chain(self.includes.clone()).collect();
            let for_cpus = host::compile(&out, &includes, sources.iter().chain(&self.host_only))?;
            let with_windows =
                |source: &&PathBuf| !self.without_windows.iter().any(|file| source.ends_with(file));
            let with_windows: Vec<PathBuf> = sources.iter().filter(with_windows).cloned().collect();
            let images = [
                Image { fatbin: FATBIN, sources: &sources, proxy: false },
                Image { fatbin: PROXY_FATBIN, sources: &with_windows, proxy: true },
            ];
            let for_gpus = nvcc::compile(&out, &includes, &images, self.for_users || is_optimized())?;
            for_cpus.link()?;
            for_gpus.into_iter().for_each(|line| println!("{line}"));
        }
        let others = self.includes.iter().filter(|folder| **folder != self.folder);
        for watched in self.watched().iter().chain(others).chain(&self.host_only).chain(&headers()) {
            println!("cargo::rerun-if-changed={}", watched.display());
        }
        Ok(())
    }

    /// The folder; where Rust code lies in it as well, whose changes must not compile the kernels anew, file by file.
    fn watched(&self) -> Vec<PathBuf> {
        if files(&self.folder, &["rs"]).is_empty() {
            return vec![self.folder.clone()];
        }
        files(&self.folder, &["cu", "cuh", "h", "def"])
    }
}

/// Why the build cannot go on.
struct Failed {
    /// The compiler's own words.
    said: String,
    /// What that means, and what to do.
    sentence: String,
}

/// The name of the crate whose build script this is.
fn package() -> String {
    env::var("CARGO_PKG_NAME").expect("cargo sets it")
}

/// What a crate embeds; empty where there is no code for GPUs.
const FATBIN: &str = "kernels.fatbin";
/// The same, of kernels that look at each address whether the host is to make the access.
const PROXY_FATBIN: &str = "kernels_proxy.fatbin";

/// What is compiled for GPUs into one file.
struct Image<'a> {
    fatbin: &'static str,
    sources: &'a [PathBuf],
    proxy: bool,
}

/// `--release` and what is made from it.
fn is_optimized() -> bool {
    env::var_os("PROFILE").is_some_and(|profile| profile == "release")
}

fn for_clippy() -> bool {
    let wrapper = env::var_os("RUSTC_WORKSPACE_WRAPPER").map(PathBuf::from);
    wrapper.is_some_and(|path| path.file_stem().is_some_and(|name| name == "clippy-driver"))
}

/// The suite, where this crate lies in it.
fn suite() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("this crate is kernels/compile")
}

/// Where the headers of the suite are.
fn headers() -> [PathBuf; 2] {
    ["kernels/include", "kmod/uapi"].map(|folder| suite().join(folder))
}

/// Files of a folder with one of these extensions, sorted.
fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let list = || -> io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect()
    };
    let mut found = list().unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()));
    found.retain(|path| path.extension().and_then(|e| e.to_str()).is_some_and(|e| extensions.contains(&e)));
    found.sort();
    found
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
