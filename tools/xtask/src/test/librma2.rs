//! Step `librma2`: the exported names and layouts, and the C programs of `tests/librma2` on the model.
//!
//! Every program is compiled by gcc and clang as C and as C++ without a warning. They run as C, and as C++ under the
//! sanitizers; those that are for processes run as jobs.

use super::Context;
use crate::capi::{self, Profile};
use crate::place;
use crate::run::ask;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const TESTS: &str = "tests/librma2";
/// Programs of one process.
const SINGLE: [&str; 15] = [
    "connect",
    "transfer",
    "illegal",
    "lock",
    "notify",
    "commands",
    "physical",
    "memory",
    "bad_input",
    "threads",
    "cache",
    "openclose",
    "fork",
    "velo_messages",
    "velo_bad_input",
];
/// These count or fill the process's memory themselves, which a sanitizer's own bookkeeping is in the way of.
const NOT_SANITIZED: [&str; 3] = ["openclose", "noalloc", "fork"];

/// A way to build the programs.
struct Build {
    name: &'static str,
    compiler: &'static str,
    language: [&'static str; 3],
    sanitized: bool,
    run: bool,
}

const BUILDS: [Build; 4] = [
    Build { name: "gcc-c", compiler: "gcc", language: ["-x", "c", "-std=c11"], sanitized: false, run: true },
    Build {
        name: "gcc-c++",
        compiler: "g++",
        language: ["-x", "c++", "-std=c++17"],
        sanitized: true,
        run: true,
    },
    Build {
        name: "clang-c",
        compiler: "clang",
        language: ["-x", "c", "-std=c11"],
        sanitized: true,
        run: true,
    },
    Build {
        name: "clang-c++",
        compiler: "clang++",
        language: ["-x", "c++", "-std=c++17"],
        sanitized: false,
        run: false,
    },
];

pub fn check(context: &Context) -> Result<String> {
    let prefix = place::build().join("librma2");
    capi::build_into(&prefix, Profile::Debug)?;
    names(&prefix)?;
    let mut notes = Vec::new();
    for build in &BUILDS {
        if place::which(build.compiler).is_none() {
            notes.push(format!("no {}", build.compiler));
            continue;
        }
        let bin = prefix.join("tests").join(build.name);
        std::fs::create_dir_all(&bin)?;
        compile(context, build, &prefix, &bin)?;
        if build.run {
            run(context, build, &bin)?;
        }
        notes.push(build.name.to_owned());
    }
    Ok(notes.join(", "))
}

/// The exported names and versions are those that are checked in.
fn names(prefix: &Path) -> Result<()> {
    let mut found = BTreeSet::new();
    for library in ["librma2.so.2", "librma2rc.so.2", "libvelo2.so.2"] {
        let path = prefix.join("lib").join(library);
        let path = path.to_string_lossy();
        let listed = ask("nm", &["-D", "--defined-only", &path]).context("nm does not run (binutils)")?;
        for line in listed.lines() {
            let name = line.split_whitespace().nth(2).unwrap_or_default();
            found.insert(format!("{library} {name}"));
        }
        let dynamic = ask("readelf", &["-d", &path]).context("readelf does not run (binutils)")?;
        if !dynamic.contains(&format!("soname: [{library}]")) {
            bail!("{library} has another SONAME");
        }
    }
    same("symbols.txt", &found)
}

/// Compares lines with a checked-in file.
fn same(file: &str, found: &BTreeSet<String>) -> Result<()> {
    let path = place::root().join(TESTS).join(file);
    let text = std::fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
    let known: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    let lines = |set: Vec<&String>, sign: &str| {
        set.iter().map(|line| format!("  {sign} {line}\n")).collect::<String>()
    };
    let gone = lines(known.difference(found).collect(), "-");
    let new = lines(found.difference(&known).collect(), "+");
    if !gone.is_empty() || !new.is_empty() {
        bail!("the ABI is not that of {TESTS}/{file}:\n{gone}{new}");
    }
    Ok(())
}

fn programs() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(place::root().join(TESTS))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

fn compile(context: &Context, build: &Build, prefix: &Path, bin: &Path) -> Result<()> {
    let lib = prefix.join("lib");
    for name in programs()? {
        if build.sanitized && NOT_SANITIZED.contains(&name.as_str()) {
            continue;
        }
        let mut command = Command::new(build.compiler);
        command.args(build.language).arg(format!("{TESTS}/{name}.c")).args(["-x", "none"]);
        command.args(["-D_GNU_SOURCE", "-g", "-O1", "-Wall", "-Wextra", "-pedantic", "-Werror", "-pthread"]);
        if build.sanitized {
            command.args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
        }
        command.arg("-I").arg(prefix.join("include")).arg("-o").arg(bin.join(&name)).arg("-L").arg(&lib);
        command.arg(format!("-Wl,-rpath,{}", lib.display()));
        if name == "cache" {
            command.arg("-lrma2rc");
        }
        if name.starts_with("velo") {
            command.arg("-lvelo2");
        }
        command.arg("-lrma2");
        context.run(&format!("librma2 {} {name}", build.name), command)?;
    }
    Ok(())
}

fn run(context: &Context, build: &Build, bin: &Path) -> Result<()> {
    let program = |name: &str| {
        let mut command = Command::new("timeout");
        command.arg("300").arg(bin.join(name)).env("EXTOLL_WAIT_TIMEOUT", "60");
        command.env("EXTOLL_LOCKED_MEMORY", "unlimited");
        command
    };
    let step = |name: &str| format!("librma2 {} run {name}", build.name);
    let abi: PathBuf = bin.join("abi");
    let table = ask(&abi, &[]).context("the table of layouts does not print")?;
    same("abi.txt", &table.lines().map(str::to_owned).collect())?;
    for name in SINGLE.iter().chain(&["noalloc"]) {
        if !(build.sanitized && NOT_SANITIZED.contains(name)) {
            context.run(&step(name), program(name))?;
        }
    }
    for (device, result, reason) in
        [("sim", "0", ""), ("hw", "-25", "/dev/extoll0"), ("gpu", "-17", "sim or hw")]
    {
        let mut command = program("device");
        command.args([result, reason]).env("EXTOLL_DEVICE", device);
        context.run(&step("device"), command)?;
    }
    jobs(context, build, bin)
}

/// Programs of several processes: on one node, and on nodes of their own.
fn jobs(context: &Context, build: &Build, bin: &Path) -> Result<()> {
    let launch = bin.join("launch");
    let job = |name: &str, size: u32, per_node: u32, args: &[&str]| {
        let mut command = Command::new("timeout");
        command.arg("300").arg(&launch).arg(size.to_string()).arg(per_node.to_string());
        command.arg(bin.join(name)).args(args);
        command.env("EXTOLL_WAIT_TIMEOUT", "60").env("EXTOLL_LOCKED_MEMORY", "unlimited");
        context.run(&format!("librma2 {} job {name} {size} {per_node}", build.name), command)
    };
    for per_node in [1, 2] {
        job("pair", 2, per_node, &[])?;
        job("death", 2, per_node, &["exit"])?;
        job("death", 2, per_node, &["kill"])?;
    }
    // VELO: the whole of it in both slot sizes, on one node and between nodes.
    for (per_node, slots) in [(1, "128"), (2, "64")] {
        for name in ["velo_pair", "velo_flow"] {
            job(name, 2, per_node, &[slots])?;
        }
        job("velo_death", 2, per_node, &[])?;
    }
    job("velo_group", 4, 1, &[])?;
    // The whole soak is two minutes: RMA2_SOAK_SECONDS=120.
    let seconds = std::env::var("RMA2_SOAK_SECONDS").unwrap_or_else(|_| "10".into());
    job("soak", 4, 2, &[&seconds])
}
