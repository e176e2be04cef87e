//! The C library of GMPI's host side: part of `cargo xtask install`, and what its tests link with.

use crate::capi::{self, LINK, Profile, compiler, link_shared, objcopy, pack, work};
use crate::gaspi::{copy_kernel_headers, declared_in};
use crate::place;
use crate::run::Step;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const FOLDER: &str = "userlib/gmpi/c";
const HEADER: &str = "include/gmpi.h";
/// What kernels of programs ask of the executor.
const EXECUTOR: &str = "kernels/include/ggas/impl/exec.h";

/// Builds the library and installs it, its header, those for kernels and its pkg-config file below `prefix`.
pub fn build_into(prefix: &Path, profile: Profile) -> Result<()> {
    let archive = capi::archive("ggas-gmpi-c", "libgmpi_c.a", profile)?;
    let (lib, include) = (prefix.join("lib"), prefix.join("include"));
    for folder in [&include, &lib.join("pkgconfig")] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::copy(folder().join(HEADER), include.join("gmpi.h"))?;
    copy_kernel_headers(&include)?;
    let object = object(&archive)?;
    pack(&object, &lib.join("libgmpi.a"))?;
    link_shared(&object, &lib.join("libgmpi.so"), &folder().join("link/gmpi.map"))?;
    let template = folder().join("link/gmpi.pc.in");
    let text = fs::read_to_string(&template).with_context(|| format!("no {}", template.display()))?;
    let text = text.replace("@PREFIX@", &prefix.display().to_string());
    fs::write(lib.join("pkgconfig/gmpi.pc"), text.replace("@VERSION@", env!("CARGO_PKG_VERSION")))?;
    Ok(())
}

fn folder() -> PathBuf {
    place::root().join(FOLDER)
}

/// What programs use of the library: the functions of its header, and for their kernels what the executor has.
pub fn exported() -> Result<BTreeSet<String>> {
    let header = fs::read_to_string(folder().join(HEADER)).context("no gmpi.h")?;
    let executor = fs::read_to_string(place::root().join(EXECUTOR)).context("no exec.h")?;
    let mut names = declared_in(&header, &["gmpi_"]);
    let words = executor.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_ours = |word: &&str| word.starts_with("ggas_exec_") && *word != "ggas_exec_thread";
    names.extend(words.filter(is_ours).map(str::to_owned));
    Ok(names)
}

/// One object of all that they need; no other name is anybody's but its own.
fn object(archive: &Path) -> Result<PathBuf> {
    let (whole, object) = (work()?.join("gmpi-whole.o"), work()?.join("gmpi.o"));
    let mut command = compiler();
    command.args(["-r", "-nostdlib", "-Wl,--gc-sections", "-Wl,--force-group-allocation"]);
    command.args(exported()?.iter().map(|name| format!("-Wl,-u,{name}")));
    command.arg("-o").arg(&whole).arg(archive);
    Step { name: "gmpi object", command, limit: LINK }.run()?;
    // Variables that are one in all of a C++ program: its kernels have the same.
    let keep = ["--keep-global-symbol=gmpi_*", "--keep-global-symbol=ggas_exec_*", "--weaken-symbol=_Z*"];
    // The compiler's own notes, which tools of another release cannot read.
    let notes = ["--remove-section=.llvmbc", "--remove-section=.llvmcmd"];
    objcopy(&whole, &object, &[&["--strip-unneeded", "--wildcard"][..], &keep, &notes].concat())?;
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_headers() {
        let names = exported().unwrap();
        for name in ["gmpi_join", "gmpi_address", "gmpi_run_on_cpu", "gmpi_error_text", "ggas_exec_self"] {
            assert!(names.contains(name), "{name} of {names:?}");
        }
        let others = ["gmpi_ran", "gmpi_t", "gmpi_config", "ggas_exec_thread"];
        assert!(others.iter().all(|name| !names.contains(*name)), "{names:?}");
    }
}
