//! The kernels of the guests: where they come from, and modules for them.

use super::debs::{self, Archive};
use super::image;
use crate::place;
use crate::run::Step;
use crate::setup::Policy;
use crate::setup::apt::install_missing;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A module is built in seconds; a tool that hangs is not waited for.
const BUILD: Duration = Duration::from_secs(300);

/// A kernel to test on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Kernel {
    /// Debian 12's
    #[value(name = "6.1")]
    V6_1,
    /// Debian 12's newer one
    #[value(name = "6.12")]
    V6_12,
    /// Debian 13's backport
    #[value(name = "7.2")]
    V7_2,
    /// 6.1 with KASAN, lockdep, DMA API and leak checks, built here
    #[value(name = "debug")]
    Debug,
}

/// A kernel that is there.
pub struct Installed {
    pub kernel: Kernel,
    /// As `uname -r` shows it.
    pub release: String,
    /// What boots quickly, and what firmware would boot.
    pub image: PathBuf,
    pub packed: PathBuf,
    /// What modules are built against.
    headers: PathBuf,
    /// Folder of the modules that come with it; `None`: none do.
    stock: Option<PathBuf>,
    /// Root of a system whose compiler builds modules; `None`: this one.
    root: Option<PathBuf>,
}

impl Kernel {
    pub const ALL: [Kernel; 4] = [Kernel::V6_1, Kernel::V6_12, Kernel::V7_2, Kernel::Debug];

    pub fn name(self) -> &'static str {
        match self {
            Kernel::V6_1 => "6.1",
            Kernel::V6_12 => "6.12",
            Kernel::V7_2 => "7.2",
            Kernel::Debug => "debug",
        }
    }

    /// Why it cannot be used here, if it cannot.
    pub fn missing(self) -> Option<&'static str> {
        let root = self == Kernel::V7_2 && !place::is_root();
        root.then_some("modules for it are built in a changed root, which takes root")
    }

    /// Installs what its modules are built with, where that is this machine's and is missing.
    pub fn tools(self, policy: Policy) -> Result<()> {
        match self {
            Kernel::V6_1 | Kernel::V6_12 => {
                let builders = [("gcc-12", "gcc-12"), ("make", "make"), ("sparse", "sparse")];
                let why = "what builds and checks kernel modules, and unpacks kernels";
                install_missing(&[&builders[..], &image::TOOLS].concat(), why, policy)
            }
            Kernel::V7_2 => install_missing(&image::TOOLS, "what unpacks kernels", policy),
            Kernel::Debug => super::debug::tools(policy),
        }
    }

    /// Fetches or builds it, once.
    pub fn get(self, archive: &Archive) -> Result<Installed> {
        match self {
            Kernel::V6_1 => {
                // Images are signed, which takes time: headers may be there before them.
                let image = archive.newest("linux-image-6.1.0-", "-amd64")?;
                from_12(self, archive, &image, "linux-kbuild-6.1")
            }
            Kernel::V6_12 => {
                let image = archive.newest("linux-image-6.12.", "+deb12-amd64")?;
                let kbuild = image.replace("image", "kbuild").replace("-amd64", "");
                from_12(self, archive, &image, &kbuild)
            }
            Kernel::V7_2 => from_13(self, archive),
            Kernel::Debug => super::debug::get(archive),
        }
    }
}

/// A kernel of Debian 12: built with this machine's gcc 12.
fn from_12(kernel: Kernel, archive: &Archive, image: &str, kbuild: &str) -> Result<Installed> {
    let headers = &image.replace("image", "headers");
    let common = headers.replace("-amd64", "-common");
    let name = format!("kernel-{}", kernel.name());
    let root = archive.unpack(&name, "bookworm", &[headers, &common, kbuild, image], false)?;
    let release = headers.trim_start_matches("linux-headers-").to_owned();
    let headers = root.join("usr/src").join(headers);
    // Its one absolute path.
    let makefile = headers.join("Makefile");
    let text = fs::read_to_string(&makefile).with_context(|| format!("no {}", makefile.display()))?;
    let here = format!("{}/usr/src/", root.display());
    if !text.contains(&here) {
        fs::write(&makefile, text.replace("/usr/src/", &here))?;
    }
    let packed = root.join("boot").join(format!("vmlinuz-{release}"));
    let image = image::unpacked(&packed)?;
    let stock = Some(root.join("lib/modules").join(&release));
    Ok(Installed { kernel, release, image, packed, headers, stock, root: None })
}

/// A kernel of Debian 13: its tools need that system's compiler and C library.
fn from_13(kernel: Kernel, archive: &Archive) -> Result<Installed> {
    if let Some(why) = kernel.missing() {
        bail!("{why}; leave it out with --kernel");
    }
    let headers = archive.newest("linux-headers-7.2.", "+deb13-amd64")?;
    let binary = headers.replace("headers", "binary");
    let tools =
        ["base-files", "dash", "bash", "coreutils", "sed", "grep", "mawk", "findutils", "make", "gcc-14"];
    let libraries = ["binutils", "libelf1t64", "pahole", &headers, &binary];
    let root =
        archive.unpack("kernel-7.2", "trixie-backports", &[&tools[..], &libraries[..]].concat(), true)?;
    for (link, to) in [("usr/bin/awk", "mawk"), ("usr/bin/sh", "dash")] {
        if fs::symlink_metadata(root.join(link)).is_err() {
            std::os::unix::fs::symlink(to, root.join(link))?;
        }
    }
    for dir in ["proc", "module", "uapi", "tmp", "dev"] {
        fs::create_dir_all(root.join(dir))?;
    }
    let release = headers.trim_start_matches("linux-headers-").to_owned();
    let stock = root.join("usr/lib/modules").join(&release);
    let packed = stock.join("vmlinuz");
    let image = image::unpacked(&packed)?;
    let headers = Path::new("/usr/src").join(headers);
    Ok(Installed { kernel, release, image, packed, headers, stock: Some(stock), root: Some(root) })
}

impl Installed {
    /// A kernel that was built here.
    pub fn built(kernel: Kernel, release: String, image: PathBuf, tree: PathBuf) -> Installed {
        let packed = image.clone();
        Installed { kernel, release, image, packed, headers: tree, stock: None, root: None }
    }

    /// Folder of the modules that come with it.
    pub fn stock(&self) -> Result<&Path> {
        let none = || format!("no modules come with kernel {}", self.kernel.name());
        self.stock.as_deref().with_context(none)
    }

    /// The system whose tools build for it, where that is not this one.
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// Builds the modules of a folder of `kmod`, with every warning on; returns the folder with the `.ko` files.
    pub fn modules(&self, source: &str, extra: &[&str]) -> Result<PathBuf> {
        let out = debs::folder().join(format!("build-{}", self.kernel.name())).join(source);
        self.modules_of(&place::root().join("kmod"), &out, source, extra)
    }

    /// The same for another `kmod`, in folder `out`.
    pub fn modules_of(&self, kmod: &Path, out: &Path, source: &str, extra: &[&str]) -> Result<PathBuf> {
        copy_sources(&kmod.join(source), &out.join(source))?;
        for headers in ["uapi", "common"] {
            copy_sources(&kmod.join(headers), &out.join(headers))?;
        }
        let module = out.join(source);
        let mut make = match &self.root {
            None => {
                let mut make = Command::new("make");
                make.arg("-C").arg(&self.headers).arg(format!("M={}", module.display()));
                make
            }
            Some(root) => in_root(root, &self.headers, out, source),
        };
        make.args(["W=1", "CONFIG_DEBUG_INFO_BTF_MODULES="]).args(extra);
        if self.kernel == Kernel::Debug {
            // The kernel is built without, which takes a fifth less time; its modules are what is looked at.
            make.arg("UBSAN_SANITIZE=y");
        }
        make.arg("modules");
        let step = format!("vm {} {source}", self.kernel.name());
        Step { name: &step, command: make, limit: BUILD }.run()?;
        no_warnings(&step)?;
        Ok(module)
    }
}

/// `make` in a changed root that sees the module at /module, and a /proc, which objtool wants.
fn in_root(root: &Path, headers: &Path, out: &Path, source: &str) -> Command {
    let script = "set -e; mount --make-rprivate /; mount -t proc none \"$1/proc\"; \
                  mount --bind \"$2\" \"$1/module\"; root=$1; shift 2; exec chroot \"$root\" /usr/bin/make \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(root).arg(out);
    command.arg("-C").arg(headers).arg(format!("M=/module/{source}"));
    command
}

/// A warning is an error: the compiler's, modpost's, sparse's. So are sparse's errors, which do not end the build.
fn no_warnings(step: &str) -> Result<()> {
    let file: String = step.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let log = place::logs().join(file + ".log");
    let text = fs::read_to_string(&log).with_context(|| format!("no {}", place::shown(&log)))?;
    let bad = ["warning:", "WARNING:", "error:", "ERROR:"];
    let told: Vec<&str> = text.lines().filter(|line| bad.iter().any(|word| line.contains(word))).collect();
    // The tools' own remarks on their setting, not on the module.
    let harmless = ["the compiler differs from the one used to build the kernel", "Skipping BTF generation"];
    let real: Vec<&&str> =
        told.iter().filter(|line| !harmless.iter().any(|text| line.contains(text))).collect();
    if real.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = real.iter().take(20).map(|line| format!("  {line}")).collect();
    bail!("{} warnings, the first are\n{}\n  all of it: {}", real.len(), lines.join("\n"), place::shown(&log))
}

/// Copies a folder's sources, less what a build left in it. Those that are the same are not touched.
pub fn copy_sources(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("no {}", from.display()))? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_sources(&path, &target)?;
            continue;
        }
        let source =
            path.extension().is_some_and(|e| ["c", "h", "S"].contains(&e.to_string_lossy().as_ref()));
        if source || ["Kbuild", "Makefile"].contains(&entry.file_name().to_string_lossy().as_ref()) {
            let bytes = fs::read(&path)?;
            if fs::read(&target).ok().as_deref() != Some(&bytes) {
                fs::write(&target, bytes)?;
            }
        }
    }
    Ok(())
}
