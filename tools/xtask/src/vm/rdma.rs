//! RDMA in guests: Debian 12's rdma-core and iproute2, and our programs on libibverbs. All of it comes from packages,
//! and brings its own C library: nothing of it has to be installed here.

use super::debs::Archive;
use super::programs::{self, Program};
use crate::place;
use crate::run::Step;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Programs of the packages.
const THEIRS: [&str; 3] = ["rdma", "ibv_devinfo", "ibv_rc_pingpong"];
/// In a guest, `tests/vm/rxe/NAME.c` is called so.
const OURS: &str = "rxe-";
const PACKAGES: [&str; 4] = ["libibverbs-dev", "ibverbs-providers", "ibverbs-utils", "iproute2"];
const LIBRARIES: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
const COMPILE: Duration = Duration::from_secs(120);

/// Those of the programs `named` that are on RDMA; fetches the packages if one is.
pub fn programs(archive: &Archive, named: &BTreeSet<&str>, out: &Path) -> Result<Vec<Program>> {
    let theirs = THEIRS.iter().filter(|name| named.contains(*name));
    let ours = named.iter().filter_map(|name| name.strip_prefix(OURS));
    let (theirs, ours): (Vec<_>, Vec<_>) = (theirs.collect(), ours.collect());
    if theirs.is_empty() && ours.is_empty() {
        return Ok(Vec::new());
    }
    let root = archive.unpack("rdma", "bookworm", &PACKAGES, true)?;
    let mut all = Vec::new();
    for name in theirs {
        let places = ["usr/bin", "bin", "sbin"].map(|folder| root.join(folder).join(name));
        let file = places.into_iter().find(|path| path.is_file());
        all.push(with_libraries(&root, name, file.with_context(|| format!("Debian has no {name}"))?)?);
    }
    for name in ours {
        all.push(with_libraries(&root, &format!("{OURS}{name}"), compiled(&root, name, out)?)?);
    }
    Ok(all)
}

/// A program of `tests/vm/rxe`.
fn compiled(root: &Path, name: &str, out: &Path) -> Result<PathBuf> {
    let source = format!("tests/vm/rxe/{name}.c");
    if !place::root().join(&source).exists() {
        bail!("no program is called `{OURS}{name}`: there is no {source}");
    }
    let program = out.join(format!("{OURS}{name}"));
    let mut compile = programs::compiler();
    compile.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-isystem"]);
    compile.arg(root.join("usr/include")).arg("-o").arg(&program).arg(&source);
    // The guest has what this library needs; the linker has no business with it.
    compile.arg("-Wl,--allow-shlib-undefined").arg(root.join(LIBRARIES[0]).join("libibverbs.so"));
    Step { name: &format!("vm program {OURS}{name}"), command: compile, limit: COMPILE }.run()?;
    Ok(program)
}

/// A program, what the packages' own loader takes for it, and what libibverbs looks for by itself: the provider for rxe.
fn with_libraries(root: &Path, name: &str, program: PathBuf) -> Result<Program> {
    let provider = provider(root)?;
    let mut files = vec![(format!("bin/{name}"), program.clone())];
    let folder = "usr/lib/x86_64-linux-gnu/libibverbs";
    let file = provider.file_name().unwrap_or_default().to_string_lossy();
    files.push((format!("{folder}/{file}"), provider.clone()));
    files.push(("rxe-up".into(), place::root().join("tests/vm/rxe/up.sh")));
    files.push(("etc/libibverbs.d/rxe.driver".into(), root.join("etc/libibverbs.d/rxe.driver")));
    for user in [&program, &provider] {
        for library in libraries(root, user)? {
            let file = library.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let folder = if file.starts_with("ld-linux") { "lib64" } else { "lib" };
            files.push((format!("{folder}/{file}"), library));
        }
    }
    Ok(Program { name: name.to_owned(), files, small: false })
}

/// Its name has the number of the library's private interface.
fn provider(root: &Path) -> Result<PathBuf> {
    let folder = root.join(LIBRARIES[0]).join("libibverbs");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))?;
    let is = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("librxe-rdmav"))
    };
    entries.filter_map(|entry| Some(entry.ok()?.path())).find(is).context("rdma-core has no provider for rxe")
}

fn libraries(root: &Path, program: &Path) -> Result<Vec<PathBuf>> {
    let mut loader = Command::new(root.join(LIBRARIES[1]).join("ld-linux-x86-64.so.2"));
    let path = LIBRARIES.map(|folder| root.join(folder).display().to_string()).join(":");
    loader.args(["--library-path", &path, "--list"]).arg(program);
    let out = loader.output().context("the packages' loader does not run")?;
    let found = programs::libraries(&String::from_utf8_lossy(&out.stdout));
    found.with_context(|| format!("{}: {}", program.display(), String::from_utf8_lossy(&out.stderr).trim()))
}
