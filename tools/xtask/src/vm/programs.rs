//! Programs for the guests: small ones on the module's calls alone, linked statically, and those on the library, which
//! come with the shared libraries that they are linked with here.

use super::debs::{self, Archive};
use super::rdma;
use crate::capi::{self, Profile};
use crate::place;
use crate::run::{Step, cargo};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Programs of the workspace, and examples.
const OURS: [&str; 3] = ["hw-suite", "ggas", "own-kernel"];
const EXAMPLES: [&str; 1] = ["ring"];
/// What is at the other end of guests' Ethernet devices.
const WIRE: &str = "ggas-hca-judge";
/// In a guest, `tests/librma2/NAME.c` is called so.
const LIBRMA2: &str = "rma2-";
/// From nothing, on a machine that does something else too.
const BUILD: Duration = Duration::from_secs(1200);
const COMPILE: Duration = Duration::from_secs(120);

/// A program, and all that it needs: paths in a guest, and here.
pub struct Program {
    pub name: String,
    pub files: Vec<(String, PathBuf)>,
    /// Every guest has it; others are large, and scenarios name them.
    pub small: bool,
}

/// Builds the server of the guests' devices, the small programs, and those on the library that are named; `hosts`: those
/// that run beside guests, examples of `fpga-sim/vm`; `wired`: guests have Ethernet devices.
pub fn build(
    archive: &Archive,
    large: &BTreeSet<&str>,
    hosts: &BTreeSet<&str>,
    wired: bool,
) -> Result<Vec<Program>> {
    let out = folder()?;
    let mut built = small(archive, large)?;
    let wanted = |name: &&str| large.contains(name);
    let ours: Vec<_> = OURS.into_iter().filter(wanted).collect();
    let examples: Vec<_> = EXAMPLES.into_iter().filter(wanted).collect();
    // Of the whole workspace: what the tests built is not built again with other features.
    let mut binaries = vec!["build", "--workspace", "--bin", "extoll-vm-server"];
    binaries.extend(ours.iter().flat_map(|name| ["--bin", name]));
    binaries.extend(wired.then_some(["--bin", WIRE]).iter().flatten());
    binaries.extend(examples.iter().chain(hosts).flat_map(|name| ["--example", name]));
    Step { name: "vm server", command: cargo(&binaries), limit: BUILD }.run()?;
    let debug = capi::target().join("debug");
    for name in ours {
        built.push(with_libraries(name, &debug.join(name), &out, None)?);
    }
    for name in examples {
        built.push(with_libraries(name, &debug.join("examples").join(name), &out, None)?);
    }
    let librma2: Vec<_> = large.iter().filter_map(|name| name.strip_prefix(LIBRMA2)).collect();
    if !librma2.is_empty() {
        let prefix = place::build().join("librma2");
        capi::build_into(&prefix, Profile::Debug)?;
        for name in librma2 {
            built.push(on_librma2(name, &prefix, &out)?);
        }
    }
    Ok(built)
}

/// What of [`build`] takes no cargo: the small programs, and those on RDMA.
pub fn small(archive: &Archive, large: &BTreeSet<&str>) -> Result<Vec<Program>> {
    let out = folder()?;
    let mut built = bare(&out)?;
    built.extend(rdma::programs(archive, large, &out)?);
    Ok(built)
}

fn folder() -> Result<PathBuf> {
    let out = debs::folder().join("bin");
    std::fs::create_dir_all(&out)?;
    Ok(out)
}

/// A program of `tests/librma2`, with the libraries in `prefix`.
fn on_librma2(name: &str, prefix: &Path, out: &Path) -> Result<Program> {
    let source = format!("tests/librma2/{name}.c");
    if !place::root().join(&source).exists() {
        bail!("no program is called `{LIBRMA2}{name}`: there is no {source}");
    }
    let program = out.join(format!("{name}.linked"));
    let mut compile = compiler();
    compile.args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-pthread", "-I"]).arg(prefix.join("include"));
    compile.arg(source).arg("-L").arg(prefix.join("lib")).arg("-Wl,--as-needed");
    compile.args(["-lvelo2", "-lrma2rc", "-lrma2", "-o"]).arg(&program);
    Step { name: &format!("vm program {LIBRMA2}{name}"), command: compile, limit: COMPILE }.run()?;
    with_libraries(&format!("{LIBRMA2}{name}"), &program, out, Some(&prefix.join("lib")))
}

/// The server of the guests' devices.
pub fn server() -> PathBuf {
    capi::target().join("debug/extoll-vm-server")
}

/// The program at the other end of the guests' Ethernet devices.
pub fn wire() -> PathBuf {
    capi::target().join("debug").join(WIRE)
}

/// A program that runs on this host beside guests.
pub fn host(name: &str) -> PathBuf {
    capi::target().join("debug/examples").join(name)
}

/// Those on the module's calls: one for each C file of `tests/vm`.
fn bare(out: &Path) -> Result<Vec<Program>> {
    let mut built = Vec::new();
    let folders = ["tests/vm", "kmod/uapi/extoll", "kmod/uapi/gpumap"];
    let headers: Vec<PathBuf> =
        folders.into_iter().map(|folder| with(folder, "h")).collect::<Result<Vec<_>>>()?.concat();
    for path in with("tests/vm", "c")? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let program = out.join(&name);
        let file = || Program {
            files: vec![(format!("bin/{name}"), program.clone())],
            name: name.clone(),
            small: true,
        };
        if headers.iter().chain([&path]).all(|source| changed(source) < changed(&program)) {
            built.push(file());
            continue;
        }
        let mut compile = compiler();
        compile.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread"]);
        compile.args(["-Ikmod/uapi", "-Itests/vm", "-o"]).arg(&program).arg(&path);
        Step { name: &format!("vm program {name}"), command: compile, limit: COMPILE }.run()?;
        built.push(file());
    }
    Ok(built)
}

/// Files of a folder of the checkout with this extension.
fn with(folder: &str, extension: &str) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(place::root().join(folder)).with_context(|| format!("no {folder}"))?;
    let files = entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>()?;
    Ok(files.into_iter().filter(|file| file.extension().is_some_and(|end| end == extension)).collect())
}

fn changed(file: &Path) -> Option<SystemTime> {
    std::fs::metadata(file).and_then(|metadata| metadata.modified()).ok()
}

/// A program and what the loader takes for it, without the parts for debuggers: guests have their files in memory.
/// `beside`: a folder of libraries that the loader does not know.
fn with_libraries(name: &str, program: &Path, out: &Path, beside: Option<&Path>) -> Result<Program> {
    let mut ldd = Command::new("ldd");
    ldd.arg(program);
    if let Some(folder) = beside {
        ldd.env("LD_LIBRARY_PATH", folder);
    }
    let told = ldd.output().context("ldd does not run")?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let mut files = vec![(format!("bin/{name}"), stripped(program, &out.join(name))?)];
    for library in libraries(&told).with_context(|| format!("ldd {}", program.display()))? {
        let file = library.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // The program names its loader by a path; the loader looks for the rest in /lib too.
        let folder = if file.starts_with("ld-linux") { "lib64" } else { "lib" };
        let ours = beside.is_some_and(|folder| library.starts_with(folder));
        let from = if ours { stripped(&library, &out.join(&file))? } else { library };
        files.push((format!("{folder}/{file}"), from));
    }
    Ok(Program { name: name.to_owned(), files, small: false })
}

/// The files that ldd names.
pub fn libraries(told: &str) -> Result<Vec<PathBuf>> {
    if let Some(line) = told.lines().find(|line| line.contains("not found")) {
        bail!("{}", line.trim());
    }
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    let found: Vec<PathBuf> = told.lines().filter_map(path).collect();
    if found.is_empty() { bail!("it names no library") } else { Ok(found) }
}

fn stripped(file: &Path, to: &Path) -> Result<PathBuf> {
    if changed(to) > changed(file) {
        return Ok(to.to_owned());
    }
    let mut strip = Command::new("strip");
    strip.arg("--strip-debug").arg("-o").arg(to).arg(file);
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    Step { name: &format!("vm strip {name}"), command: strip, limit: COMPILE }.run()?;
    Ok(to.to_owned())
}

pub fn compiler() -> Command {
    Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_what_ldd_found() {
        let told = "\tlinux-vdso.so.1 (0x7f)\n\tlibrma2.so.2 => /x/librma2.so.2 (0x7f)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f)\n\t/lib64/ld-linux-x86-64.so.2 (0x7f)\n";
        let found = libraries(told).unwrap();
        let names: Vec<_> = found.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(
            names,
            ["/x/librma2.so.2", "/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]
        );
        assert!(libraries("\tlibrma2.so.2 => not found\n").is_err());
        assert!(libraries("\tnot a dynamic executable\n").is_err());
    }
}
