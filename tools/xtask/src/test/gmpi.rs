//! Step `gmpi`: the names that the installed C library of GMPI exports are those of its headers, and the example builds and runs with it. What
//! its functions do, `cargo test -p ggas-gmpi-c` tests.

use super::Context;
use crate::capi::Profile;
use crate::run::ask;
use crate::{gmpi, place};
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const EXAMPLE: &str = "userlib/gmpi/c/examples/ring";

pub fn check(context: &Context) -> Result<String> {
    let prefix = place::build().join("gmpi for tests");
    gmpi::build_into(&prefix, Profile::Debug)?;
    let count = names(&prefix)?;
    for library in ["libgmpi.so", "libgmpi.a"] {
        let program = build(context, &prefix, library)?;
        let mut command = Command::new("timeout");
        command.arg("300").arg(program).env("LD_LIBRARY_PATH", prefix.join("lib"));
        command.env("GGAS_DEVICE", "sim").env("GGAS_PROCESSOR", "cpu");
        context.run(&format!("gmpi ring {library}"), command)?;
    }
    Ok(format!("{count} names"))
}

/// The example, as its page says.
fn build(context: &Context, prefix: &Path, library: &str) -> Result<std::path::PathBuf> {
    let (object, program) = (prefix.join("ring.o"), prefix.join(format!("ring-{library}")));
    let mut command = Command::new("c++");
    command.args(["-x", "c++", "-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror"]);
    command.args(["-fno-exceptions", "-fno-rtti", "-fno-strict-aliasing", "-I"]).arg(prefix.join("include"));
    command.arg("-c").arg(format!("{EXAMPLE}/ring.cu")).arg("-o").arg(&object);
    context.run("gmpi ring kernels", command)?;
    let mut command = Command::new("cc");
    command.args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-std=c11", "-I"]).arg(prefix.join("include"));
    command.arg(format!("{EXAMPLE}/main.c")).arg(&object).arg(prefix.join("lib").join(library));
    command.args(["-pthread", "-ldl", "-lm", "-o"]).arg(&program);
    context.run(&format!("gmpi ring build {library}"), command)?;
    Ok(program)
}

/// What the libraries export is what the headers declare.
fn names(prefix: &Path) -> Result<usize> {
    let declared = gmpi::exported()?;
    for (library, what) in [("libgmpi.so", "-D"), ("libgmpi.a", "-g")] {
        let path = prefix.join("lib").join(library);
        let listed = ask("nm", &[what, "--defined-only", &path.to_string_lossy()]);
        let listed = listed.context("nm does not run (binutils)")?;
        // Of C++, a variable that is one in all of a program keeps its name in the archive.
        let names = listed.lines().filter(|line| !line.contains(" _Z"));
        let names = names.filter_map(|line| line.split_whitespace().nth(2).map(str::to_owned));
        let found: BTreeSet<String> = names.collect();
        let missing: Vec<_> = declared.difference(&found).collect();
        ensure!(missing.is_empty(), "{library} lacks {missing:?}");
        // The executor has a few for itself.
        let besides: Vec<_> =
            found.difference(&declared).filter(|name| !name.starts_with("ggas_exec_")).collect();
        ensure!(besides.is_empty(), "{library} has {besides:?} besides");
    }
    Ok(declared.len())
}
