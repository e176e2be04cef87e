//! The C library of GASPI: part of `cargo xtask install`, and what its tests link with.

use crate::capi::{self, LINK, Profile, compiler, link_shared, objcopy, pack, work};
use crate::place;
use crate::run::{Step, cargo};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const FOLDER: &str = "userlib/gaspi/c";
/// Where programs for GASPI look for the library.
const LIB: &str = "lib64";
/// Other libraries that build files name: this one checks and counts in any case.
const NAMES: [&str; 2] = ["libGPI2-dbg", "libGPI2-stats"];
/// Modules for Fortran, each behind those that it uses.
const MODULES: [&str; 3] = ["GASPI_types", "GASPI", "GASPI_Ext"];
/// Programs beside the library.
const PROGRAMS: [&str; 3] = ["gaspi_run", "gaspi_logger", "ggas"];
/// What names of its functions begin with.
const OURS: [&str; 2] = ["gaspi_", "pgaspi_"];
/// What programs with kernels include, `ggas/gaspi.cuh` and its like, and the folders that these headers are in.
const FOR_KERNELS: [(&str, &str); 2] = [("kernels/include", "ggas"), ("kmod/uapi", "extoll")];

/// Builds the library and installs it, its headers and its pkg-config file below `prefix`.
pub fn build_into(prefix: &Path, profile: Profile) -> Result<()> {
    let archive = capi::archive("ggas-gaspi-c", "libgaspi_c.a", profile)?;
    let (lib, include, bin) = (prefix.join(LIB), prefix.join("include"), prefix.join("bin"));
    for folder in [&include, &bin, &lib.join("pkgconfig")] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    for path in headers()? {
        fs::copy(&path, include.join(path.file_name().context("a header without a name")?))?;
    }
    copy_kernel_headers(&include)?;
    fortran(&include)?;
    let object = object(&archive, &include)?;
    pack(&object, &lib.join("libGPI2.a"))?;
    link_shared(&object, &lib.join("libGPI2.so"), &folder().join("link/GPI2.map"))?;
    for (name, ending) in NAMES.into_iter().flat_map(|name| [(name, "so"), (name, "a")]) {
        let link = lib.join(format!("{name}.{ending}"));
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link)?;
        }
        symlink(format!("libGPI2.{ending}"), &link)
            .with_context(|| format!("cannot make {}", link.display()))?;
    }
    let template = folder().join("link/GPI2.pc.in");
    let text = fs::read_to_string(&template).with_context(|| format!("no {}", template.display()))?;
    fs::write(lib.join("pkgconfig/GPI2.pc"), text.replace("@PREFIX@", &prefix.display().to_string()))?;
    let mut command = cargo(&["build"]);
    command.args(PROGRAMS.iter().flat_map(|name| ["--bin", name]));
    match profile {
        Profile::Release => command.args(["--package", "ggas-gaspi-c", "--package", "ggas-cli", "--release"]),
        Profile::Debug => command.arg("--workspace"),
    };
    Step { name: "gaspi_run build", command, limit: Duration::from_secs(3600) }.run()?;
    for name in PROGRAMS {
        fs::copy(capi::target().join(profile.folder()).join(name), bin.join(name))?;
    }
    Ok(())
}

/// What programs with kernels include.
pub fn copy_kernel_headers(include: &Path) -> Result<()> {
    FOR_KERNELS.iter().try_for_each(|(from, folder)| {
        copy_headers(&place::root().join(from).join(folder), &include.join(folder))
    })
}

/// Copies a folder of headers with the folders in it.
fn copy_headers(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("no {}", from.display()))? {
        let path = entry?.path();
        let into = to.join(path.file_name().context("a header without a name")?);
        match path.extension().and_then(OsStr::to_str) {
            _ if path.is_dir() => copy_headers(&path, &into)?,
            Some("h" | "cuh") => drop(fs::copy(&path, &into)?),
            _ => {}
        }
    }
    Ok(())
}

/// The sources of the modules, and what the compiler of this machine makes of them: another one reads its own only.
fn fortran(include: &Path) -> Result<()> {
    let sources = MODULES.map(|name| include.join(format!("{name}.f90")));
    for source in &sources {
        let from = folder().join("fortran").join(source.file_name().context("a module without a name")?);
        fs::copy(&from, source).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    if place::which("gfortran").is_none() {
        return Ok(());
    }
    let mut command = Command::new("gfortran");
    command.args(["-std=f2008", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-J"]).arg(include);
    command.args(sources);
    Step { name: "gaspi modules for Fortran", command, limit: Duration::from_secs(600) }.run().map(|_| ())
}

fn folder() -> PathBuf {
    place::root().join(FOLDER)
}

fn headers() -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder().join("include"))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    paths.sort();
    Ok(paths)
}

/// Names of the functions that the headers declare.
pub fn declared() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for path in headers()? {
        names.append(&mut declared_in(&fs::read_to_string(&path)?, &OURS));
    }
    Ok(names)
}

/// Functions that a header declares whose names begin so.
pub fn declared_in(header: &str, prefixes: &[&str]) -> BTreeSet<String> {
    let function = |line: &str| {
        let (before, _) = line.split_once('(')?;
        let name = before.rsplit([' ', '*']).next()?;
        let is_ours = prefixes.iter().any(|prefix| name.starts_with(prefix));
        let is_other = ["typedef", "static"].iter().any(|word| line.starts_with(word));
        (is_ours && !is_other && before.contains(' ')).then(|| name.to_owned())
    };
    header.lines().filter_map(function).collect()
}

/// One object of all that the functions need. Their first names are weak, so that tools may have functions of these names;
/// no other name is anybody's but its own.
fn object(archive: &Path, include: &Path) -> Result<PathBuf> {
    let (print, whole) = (work()?.join("gaspi-print.o"), work()?.join("gaspi-whole.o"));
    let mut command = compiler();
    command.args(["-c", "-fPIC", "-O2", "-Wall", "-Wextra", "-pedantic", "-std=c11", "-I"]).arg(include);
    command.arg(folder().join("link/print.c")).arg("-o").arg(&print);
    Step { name: "gaspi print", command, limit: LINK }.run()?;

    let mut command = compiler();
    command.args(["-r", "-nostdlib", "-Wl,--gc-sections", "-Wl,--force-group-allocation"]);
    command.args(declared()?.iter().map(|name| format!("-Wl,-u,{name}")));
    command.arg("-o").arg(&whole).arg(&print).arg(archive);
    Step { name: "gaspi object", command, limit: LINK }.run()?;

    let object = work()?.join("GPI2.o");
    let keep = ["--keep-global-symbol=gaspi_*", "--keep-global-symbol=pgaspi_*", "--weaken-symbol=gaspi_*"];
    // The compiler's own notes, which tools of another release cannot read.
    let notes = ["--remove-section=.llvmbc", "--remove-section=.llvmcmd"];
    objcopy(&whole, &object, &[&["--strip-unneeded", "--wildcard"][..], &keep, &notes].concat())?;
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kernels_include_is_installed() {
        let to = std::env::temp_dir().join(format!("ggas-headers-{}", std::process::id()));
        copy_kernel_headers(&to).unwrap();
        // All that it includes is found there.
        let mut command = Command::new("c++");
        command.args(["-std=c++20", "-fsyntax-only", "-x", "c++", "-I"]).arg(&to);
        let compiled = command.arg(to.join("ggas/gaspi.cuh")).status();
        assert!(compiled.unwrap().success());
        fs::remove_dir_all(&to).unwrap();
    }

    #[test]
    fn modules_for_fortran_have_what_the_headers_have() {
        for module in &MODULES[1..] {
            let text = |path: PathBuf| fs::read_to_string(&path).unwrap();
            let header = text(folder().join(format!("include/{module}.h")));
            let source = text(folder().join(format!("fortran/{module}.f90")));
            let bound = source.split("name=\"").skip(1).filter_map(|rest| rest.split('"').next());
            assert_eq!(
                bound.map(str::to_owned).collect::<BTreeSet<_>>(),
                declared_in(&header, &OURS),
                "{module}"
            );
        }
    }
}
