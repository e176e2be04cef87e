//! A kernel that watches modules: Debian 12's source with KASAN, lockdep, DMA API, leak and fault checks.

use super::debs::{self, Archive};
use super::kernel::{Installed, Kernel};
use crate::run::Step;
use crate::setup::Policy;
use crate::setup::apt::{install, install_missing};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Four minutes on two cores that have nothing else to do.
const BUILD: Duration = Duration::from_secs(2400);
const UNPACK: Duration = Duration::from_secs(600);
/// Folders of the whole source, and of its scripts alone.
const TREE: &str = "debug-kernel";
const STYLE: &str = "kernel-style";
const CONFIG: &str = include_str!("debug.config");
/// Tools that the build of a kernel needs, and their packages.
const TOOLS: [(&str, &str); 7] = [
    ("gcc-12", "gcc-12"),
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("xz", "xz-utils"),
    ("perl", "perl"),
];

/// The kernel, built if it is not there or its configuration changed.
pub fn get(archive: &Archive) -> Result<Installed> {
    let tree = source(archive)?;
    let image = tree.join("arch/x86/boot/bzImage");
    let stamp = tree.join(".built-with");
    if fs::read_to_string(&stamp).ok().as_deref() != Some(CONFIG) || !image.exists() {
        build(&tree)?;
        fs::write(&stamp, CONFIG)?;
    }
    let release = fs::read_to_string(tree.join("include/config/kernel.release"))?.trim().to_owned();
    Ok(Installed::built(Kernel::Debug, release, image, tree))
}

/// The kernel's source, unpacked once.
pub fn source(archive: &Archive) -> Result<PathBuf> {
    let tree = debs::folder().join(TREE);
    if tree.join("Kbuild").exists() {
        return Ok(tree);
    }
    unpack(archive, &tree, &[])?;
    Ok(tree)
}

/// What judges the style of a kernel's source: it comes with that source, and needs no kernel that is built.
pub fn style(archive: &Archive) -> Result<()> {
    if checkpatch().is_some() {
        return Ok(());
    }
    let scripts = ["checkpatch.pl", "spelling.txt", "const_structs.checkpatch"];
    unpack(archive, &debs::folder().join(STYLE), &scripts)
}

/// The script that [`style`] has brought.
pub fn checkpatch() -> Option<PathBuf> {
    let script = |tree| debs::folder().join(tree).join("scripts/checkpatch.pl");
    [TREE, STYLE].map(script).into_iter().find(|script| script.exists())
}

/// Unpacks the source, or some of its scripts.
fn unpack(archive: &Archive, tree: &Path, scripts: &[&str]) -> Result<()> {
    let root = archive.unpack("kernel-source", "bookworm", &["linux-source-6.1"], false)?;
    fs::create_dir_all(tree)?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(root.join("usr/src/linux-source-6.1.tar.xz"));
    tar.args(["--strip-components=1", "-C"]).arg(tree);
    tar.args(scripts.iter().map(|script| format!("linux-source-6.1/scripts/{script}")));
    Step { name: "vm kernel source", command: tar, limit: UNPACK }.run()?;
    // Fetched again if it is asked for again.
    fs::remove_dir_all(root).context("the archive of the source stays")
}

/// Installs what its build needs and is missing.
pub fn tools(policy: Policy) -> Result<()> {
    let why = "what builds the debug kernel";
    install_missing(&TOOLS, why, policy)?;
    let headers = Path::new("/usr/include/gelf.h").exists() || Path::new("/usr/include/libelf.h").exists();
    if headers { Ok(()) } else { install(&["libelf-dev"], why, policy) }
}

fn build(tree: &Path) -> Result<()> {
    let make = |arguments: &[&str]| {
        let mut make = Command::new("make");
        make.arg("-C").arg(tree).args(["CC=gcc-12", "HOSTCC=gcc-12"]).args(arguments);
        make
    };
    fs::write(tree.join("kernel/configs/extoll.config"), CONFIG)?;
    let step = |name: &str, command| Step { name, command, limit: BUILD }.run().map(|_| ());
    step("vm debug kernel configuration", make(&["tinyconfig", "extoll.config"]))?;
    let config = fs::read_to_string(tree.join(".config"))?;
    let lost: Vec<&str> = CONFIG
        .lines()
        .filter(|line| line.starts_with("CONFIG_") && !config.lines().any(|have| have == *line))
        .collect();
    if !lost.is_empty() {
        bail!("the kernel's configuration did not take {}", lost.join(", "));
    }
    let jobs = format!("-j{}", std::thread::available_parallelism().map_or(2, usize::from));
    step("vm debug kernel", make(&[&jobs, "bzImage", "modules_prepare"]))?;
    // Symbols that modules may use, for modpost.
    let symbols = tree.join("Module.symvers");
    fs::copy(tree.join("vmlinux.symvers"), symbols).context("the kernel exports nothing")?;
    Ok(())
}
