//! Step `gaspi`: the names that the library exports are those of its headers, and the C programs of `tests/gaspi` run as jobs.

use super::Context;
use crate::capi::Profile;
use crate::run::ask;
use crate::{gaspi, place};
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

const TESTS: &str = "tests/gaspi";
/// Programs, and with how many processes they run.
const PROGRAMS: [(&str, &[&str]); 7] = [
    ("abi", &["1"]),
    ("codes", &["1", "2", "8"]),
    ("transfer", &["1", "2", "8"]),
    ("meet", &["1", "2", "8"]),
    ("gpu", &["1", "2", "8"]),
    ("profile", &["2"]),
    ("threads", &["1", "3"]),
];
/// Programs that say themselves who they are.
const WITHOUT_LAUNCHER: [&str; 2] = ["start", "said"];
/// Compilers, languages, and what is linked.
const BUILDS: [(&str, [&str; 3], &str); 2] =
    [("gcc", ["-x", "c", "-std=c11"], "libGPI2.so"), ("g++", ["-x", "c++", "-std=c++17"], "libGPI2.a")];
/// Seconds that a job may take; a few on an idle machine.
const LIMIT: &str = "300";

/// Runs of `jacobi` in which a rank dies.
const DEATHS: u64 = 10;

pub fn check(context: &Context) -> Result<String> {
    let prefix = place::build().join("gaspi for tests");
    gaspi::build_into(&prefix, Profile::Debug)?;
    let count = names(&prefix)?;
    deaths(context, &prefix, 1, DEATHS)?;
    for name in WITHOUT_LAUNCHER {
        let program = prefix.join(format!("{name}-gcc"));
        build(context, &prefix, BUILDS[0], name, &program)?;
        let mut command = Command::new("timeout");
        command.arg(LIMIT).arg(&program).env("LD_LIBRARY_PATH", prefix.join("lib64"));
        context.run(&format!("gaspi {name}"), command)?;
    }
    for (compiler, language, library) in BUILDS {
        if place::which(compiler).is_none() {
            continue;
        }
        for (name, sizes) in PROGRAMS {
            let program = prefix.join(format!("{name}-{compiler}"));
            build(context, &prefix, (compiler, language, library), name, &program)?;
            for size in sizes {
                let mut command = job(&prefix, &["-s", "-n", size]);
                command.arg(&program);
                context.run(&format!("gaspi {compiler} {name} {size}"), command)?;
            }
        }
    }
    let fortran = fortran(context, &prefix)?;
    Ok(format!("{count} functions{fortran}"))
}

/// The modules for Fortran, where this machine has a compiler.
fn fortran(context: &Context, prefix: &Path) -> Result<&'static str> {
    if place::which("gfortran").is_none() {
        return Ok(", no gfortran");
    }
    let program = prefix.join("fortran");
    let mut command = Command::new("gfortran");
    command.args(["-std=f2008", "-Wall", "-Wextra", "-Werror", "-O1", "-I"]).arg(prefix.join("include"));
    command.arg(format!("{TESTS}/fortran.f90")).arg("-J").arg(prefix).arg("-L").arg(prefix.join("lib64"));
    command.args(["-lGPI2", "-o"]).arg(&program);
    context.run("gaspi fortran build", command)?;
    let mut command = job(prefix, &["-s", "-n", "2"]);
    command.arg(&program);
    context.run("gaspi fortran", command)?;
    Ok("")
}

/// `cargo xtask long`: a rank dies at a moment that was never tried before, a thousand times.
pub fn long(context: &Context) -> Result<String> {
    const RUNS: u64 = 1000;
    let prefix = place::build().join("gaspi for tests");
    gaspi::build_into(&prefix, Profile::Debug)?;
    let first = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_secs()) << 16;
    deaths(context, &prefix, first, RUNS)?;
    Ok(format!("{RUNS} deaths, seeds from {first}"))
}

/// Runs of `jacobi`, each of which ends with the right field.
fn deaths(context: &Context, prefix: &Path, first: u64, runs: u64) -> Result<()> {
    let program = prefix.join("jacobi-gcc");
    build(context, prefix, BUILDS[0], "jacobi", &program)?;
    for seed in first..first + runs {
        let ranks = 2 + seed % 6;
        let mut command = job(prefix, &["-k", "-n", &ranks.to_string()]);
        command.arg(&program).arg(seed.to_string());
        context.run(&format!("gaspi jacobi {seed}"), command)?;
    }
    Ok(())
}

/// A job that `gaspi_run` starts, on the model.
fn job(prefix: &Path, options: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.arg(LIMIT).arg(prefix.join("bin/gaspi_run")).args(options);
    command.env("GGAS_DEVICE", "sim").env("LD_LIBRARY_PATH", prefix.join("lib64"));
    command
}

fn build(
    context: &Context,
    prefix: &Path,
    (compiler, language, library): (&str, [&str; 3], &str),
    name: &str,
    program: &Path,
) -> Result<()> {
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-O1", "-D_GNU_SOURCE", "-I"]);
    command.arg(prefix.join("include")).args(language).arg(format!("{TESTS}/{name}.c"));
    command.args(["-x", "none"]).arg(prefix.join("lib64").join(library));
    command.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(program);
    context.run(&format!("gaspi {compiler} {name} build"), command)
}

/// What the libraries export is what the headers declare.
fn names(prefix: &Path) -> Result<usize> {
    let declared = gaspi::declared()?;
    for (library, what) in [("libGPI2.so", "-D"), ("libGPI2.a", "-g")] {
        let path = prefix.join("lib64").join(library);
        let listed = ask("nm", &[what, "--defined-only", &path.to_string_lossy()]);
        let listed = listed.context("nm does not run (binutils)")?;
        // Of C++, a variable that is one in all of a program (`u`) keeps its name in the archive.
        let names = listed.lines().filter(|line| !line.contains(" u _Z"));
        let names = names.filter_map(|line| line.split_whitespace().nth(2).map(str::to_owned));
        let found: BTreeSet<String> = names.collect();
        let missing: Vec<_> = declared.difference(&found).collect();
        let besides: Vec<_> = found.difference(&declared).collect();
        ensure!(
            missing.is_empty() && besides.is_empty(),
            "{library} lacks {missing:?}, and has {besides:?} besides"
        );
        let weak = |name: &str| listed.lines().any(|line| line.ends_with(&format!(" W {name}")));
        ensure!(weak("gaspi_write") && !weak("pgaspi_write"), "{library}: only the names gaspi_X are weak");
    }
    Ok(declared.len())
}
