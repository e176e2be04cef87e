//! Looks at the modules' source and at the interface that they share with programs, without running them.

use super::debs;
use super::debug;
use super::kernel::{Installed, Kernel};
use crate::place;
use crate::run::Step;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(300);

/// Remarks of checkpatch that are about a patch to the kernel's tree, which our modules are not: they support
/// several versions, in `compat.h`.
const NOT_OURS: [&str; 5] = [
    "LINUX_VERSION_CODE",
    "CONSTANT_COMPARISON",
    "FILE_PATH_CHANGES",
    "EMBEDDED_FILENAME",
    "SPDX_LICENSE_TAG",
];

/// A check, and what it is called.
pub type Check = (&'static str, fn(&Installed, &[String]) -> Result<()>);

/// The kernel with whose checks the style is judged.
pub const STYLE: Kernel = Kernel::V7_2;

/// Checks whose tools come with a kernel.
pub fn of(kernel: Kernel) -> &'static [Check] {
    match kernel {
        Kernel::V6_1 | Kernel::V6_12 => &[("sparse", sparse)],
        Kernel::V7_2 => &[("pahole", pahole), ("checkpatch", checkpatch)],
        Kernel::Debug => &[],
    }
}

/// Address spaces, byte orders, locks, as sparse sees them; any remark is an error.
fn sparse(kernel: &Installed, modules: &[String]) -> Result<()> {
    if place::which("sparse").is_none() {
        bail!("sparse is missing: apt-get install sparse");
    }
    modules.iter().try_for_each(|module| kernel.modules(module, &["C=2"]).map(|_| ()))
}

/// Style, as the kernel's own tool sees it.
fn checkpatch(_: &Installed, modules: &[String]) -> Result<()> {
    let script = debug::checkpatch().context("checkpatch.pl was not unpacked")?;
    let mut command = Command::new("perl");
    command.arg(script).args(["--no-tree", "--strict", "--terse", "--no-summary", "--max-line-length=120"]);
    command.arg(format!("--ignore={}", NOT_OURS.join(","))).arg("-f");
    for folder in modules.iter().map(String::as_str).chain(["common"]) {
        for file in sources(&place::root().join("kmod").join(folder), &["c", "h"])? {
            command.arg(file);
        }
    }
    Step { name: "vm checkpatch", command, limit: LIMIT }.run().map(|_| ())
}

/// No holes, no padding in what crosses between kernel and programs: every structure of the headers.
fn pahole(kernel: &Installed, _modules: &[String]) -> Result<()> {
    let out = debs::folder().join("uapi.o");
    let source = debs::folder().join("uapi.c");
    let uapi = place::root().join("kmod/uapi");
    let mut text = String::new();
    for (i, header) in sources(&uapi.join("extoll"), &["h"])?.iter().enumerate() {
        let name = header.file_name().unwrap_or_default().to_string_lossy();
        text += &format!("#include \"extoll/{name}\"\n");
        for structure in structures(&fs::read_to_string(header)?) {
            text += &format!("struct {structure} use_{structure}_{i};\n");
        }
    }
    fs::write(&source, text)?;
    let mut compile = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compile.args(["-std=gnu11", "-g", "-c", "-I"]).arg(&uapi).arg("-o").arg(&out).arg(&source);
    Step { name: "vm uapi", command: compile, limit: LIMIT }.run()?;
    let root = kernel.root().context("pahole comes with kernel 7.2")?;
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let mut command = Command::new(libraries.join("ld-linux-x86-64.so.2"));
    command.arg("--library-path").arg(&libraries).arg(root.join("usr/bin/pahole")).arg(&out);
    let told = command.output().context("pahole does not run")?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    if !told.contains("struct ") {
        bail!("pahole sees no structure");
    }
    let bad: Vec<&str> =
        told.lines().filter(|line| line.contains("hole") || line.contains("padding")).collect();
    if !bad.is_empty() {
        bail!("structures with holes or padding:\n{}\n{told}", bad.join("\n"));
    }
    Ok(())
}

/// Names of the structures that a header defines.
fn structures(text: &str) -> Vec<&str> {
    let defined = |line: &'_ str| line.starts_with("struct ") && line.trim_end().ends_with('{');
    text.lines().filter(|line| defined(line)).filter_map(|line| line.split_whitespace().nth(1)).collect()
}

fn sources(dir: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("no {}", dir.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| extensions.contains(&e.to_string_lossy().as_ref())) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_of_a_header_are_found() {
        let text = "struct a {\n\tint x;\n};\nstruct b;\nstruct c f(struct a *a);\nstruct d  {\n";
        assert_eq!(structures(text), ["a", "d"]);
    }
    /// What DKMS is told to build and install is what the folders build, but for what only tests need.
    #[test]
    fn dkms_knows_the_modules() {
        let kmod = place::root().join("kmod");
        let told = fs::read_to_string(kmod.join("dkms.conf")).unwrap();
        let values = |key: &str| -> Vec<String> {
            let lines = told.lines().filter(|line| line.starts_with(key));
            lines.map(|line| line.split('"').nth(1).unwrap().to_owned()).collect()
        };
        let named: Vec<_> =
            values("BUILT_MODULE_NAME").into_iter().zip(values("BUILT_MODULE_LOCATION")).collect();
        assert_eq!(named.len(), values("DEST_MODULE_LOCATION").len());
        let mut built = Vec::new();
        for folder in ["extoll", "gpumap"] {
            let kbuild = fs::read_to_string(kmod.join(folder).join("Kbuild")).unwrap();
            let objects = kbuild.lines().filter_map(|line| line.strip_prefix("obj-")?.split_once("= "));
            let objects = objects.map(|(_, names)| names);
            let modules = objects.flat_map(str::split_whitespace).filter_map(|name| name.strip_suffix(".o"));
            built.extend(
                modules.filter(|name| *name != "gpustub").map(|name| (name.to_owned(), folder.to_owned())),
            );
            for key in ["MAKE", "CLEAN"] {
                assert!(
                    values(key)[0].contains(&format!("make -C {folder} KDIR=${{kernel_source_dir}}")),
                    "{key}"
                );
            }
        }
        assert_eq!(named, built);
    }
}
