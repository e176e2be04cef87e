//! Step `librma2`: the exported names and layouts, and the C programs of `tests/librma2` on the model.
//!
//! Headers and programs are compiled by gcc and clang as C and as C++ without a warning. The programs run plainly, and
//! under the sanitizers where the compiler has them; those that are for processes run as jobs.

mod installed;

use super::Context;
use crate::capi::{self, Profile};
use crate::place;
use crate::run::{ask, side_by_side};
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

const TESTS: &str = "tests/librma2";
/// Programs of one process.
const SINGLE: [&str; 24] = [
    "prototypes",
    "connect",
    "transfer",
    "illegal",
    "lock",
    "notify",
    "commands",
    "physical",
    "memory",
    "bad_input",
    "unaligned",
    "printing",
    "reasons",
    "list",
    "threads",
    "cache",
    "openclose",
    "fork",
    "signals",
    "velo_messages",
    "velo_bad_input",
    "velo_openclose",
    "full",
    "strangers",
];
/// Programs of two processes, on one node and on two, with their argument.
const PAIRS: [(&str, &str); 7] = [
    ("pair", ""),
    ("pair_refused", ""),
    ("pair_physical", ""),
    ("full", ""),
    ("closed_files", ""),
    ("death", "exit"),
    ("death", "kill"),
];
/// These count or fill the process's memory themselves, which a sanitizer's own bookkeeping is in the way of.
const NOT_SANITIZED: [&str; 4] = ["openclose", "noalloc", "fork", "velo_openclose"];

/// A card that no machine has.
const NO_CARD: &str = "/dev/no-such-card";
/// Variables of the environment, and their values.
type Variables = &'static [(&'static str, &'static str)];
/// What opening a port gives where the variables say so, and a part of its reason.
const DEVICES: [(Variables, &str, &str); 8] = [
    (&[("EXTOLL_DEVICE", "sim")], "0", ""),
    (&[("GGAS_DEVICE", "sim")], "0", ""),
    (&[("EXTOLL_DEVICE", "hw")], "-25", NO_CARD),
    (&[("GGAS_DEVICE", "hw")], "-25", NO_CARD),
    (&[], "-25", NO_CARD),
    (&[("EXTOLL_DEVICE", "gpu")], "-17", "sim or hw"),
    (&[("GGAS_DEVICE", "hw"), ("EXTOLL_DEVICE", "sim")], "-17", "differ"),
    (&[("GGAS_DEVICE", "nvlink"), ("GGAS_PROCESSOR", "cpu")], "-17", "Job::join"),
];

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];
const SANITIZERS: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
/// Seconds of the soak: the whole one once, where there is time.
const SOAK: u32 = 120;
const SHORT_SOAK: u32 = 10;

/// Seconds that a program or job may take; it is ended then. They take a minute at most on an idle machine, but the soak.
const LIMIT: &str = "900";

/// A way to build the programs.
struct Build {
    name: &'static str,
    compiler: &'static str,
    language: [&'static str; 3],
    sanitized: bool,
    run: Run,
}

/// When the programs of a build are run as well.
#[derive(PartialEq, Eq)]
enum Run {
    Always,
    /// By `cargo xtask long`.
    Thorough,
}

const BUILDS: [Build; 4] = [
    Build {
        name: "gcc-c",
        compiler: "gcc",
        language: ["-x", "c", "-std=c11"],
        sanitized: false,
        run: Run::Always,
    },
    Build {
        name: "gcc-c++",
        compiler: "g++",
        language: ["-x", "c++", "-std=c++17"],
        sanitized: true,
        run: Run::Thorough,
    },
    Build {
        name: "clang-c",
        compiler: "clang",
        language: ["-x", "c", "-std=c11"],
        sanitized: true,
        run: Run::Always,
    },
    Build {
        name: "clang-c++",
        compiler: "clang++",
        language: ["-x", "c++", "-std=c++17"],
        sanitized: false,
        run: Run::Thorough,
    },
];

pub fn check(context: &Context) -> Result<String> {
    // As people have them, and as pkg-config has to say.
    let prefix = place::build().join("librma2 for tests");
    capi::build_into(&prefix, Profile::Debug)?;
    names(&prefix)?;
    let mut notes = Vec::new();
    for build in &BUILDS {
        if place::which(build.compiler).is_none() {
            let package = if build.compiler.starts_with('c') { "clang" } else { "g++" };
            notes.push(format!("skipped {}: apt-get install {package}", build.name));
            continue;
        }
        let bin = prefix.join("tests").join(build.name);
        std::fs::create_dir_all(&bin)?;
        let sanitized = build.sanitized && has_sanitizers(build, &bin);
        headers(context, build, &prefix)?;
        compile(context, build, sanitized, &prefix, &bin)?;
        if build.run == Run::Always || build.run == Run::Thorough && context.thorough {
            run(context, build, sanitized, &prefix, &bin)?;
        }
        notes.push(match (build.sanitized, sanitized) {
            (true, false) => format!("{} without sanitizers (apt-get install libclang-rt-dev)", build.name),
            (true, true) => format!("{} sanitized", build.name),
            _ => build.name.to_owned(),
        });
    }
    notes.push(installed::check(context, &prefix)?);
    Ok(notes.join(", "))
}

/// Whether the compiler has the sanitizers' libraries, which are packages of their own.
fn has_sanitizers(build: &Build, bin: &Path) -> bool {
    let probe = bin.join("probe.c");
    let written = std::fs::write(&probe, "int main(void) { return 0; }\n").is_ok();
    let mut command = Command::new(build.compiler);
    command.args(build.language).args(SANITIZERS).arg(&probe).arg("-o").arg(bin.join("probe"));
    written && command.output().is_ok_and(|output| output.status.success())
}

/// Each header by itself, as a program that knows no extensions would include it.
fn headers(context: &Context, build: &Build, prefix: &Path) -> Result<()> {
    let include = prefix.join("include");
    let mut command = Command::new(build.compiler);
    command.args(build.language).args(WARNINGS).arg("-fsyntax-only").arg("-I").arg(&include);
    for entry in std::fs::read_dir(&include)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let source = prefix.join("tests").join(format!("{name}.c"));
        std::fs::write(&source, format!("#include \"{name}\"\nint main(void) {{ return 0; }}\n"))?;
        command.arg(source);
    }
    context.run(&format!("librma2 {} headers", build.name), command)
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

fn compile(context: &Context, build: &Build, sanitized: bool, prefix: &Path, bin: &Path) -> Result<()> {
    let lib = prefix.join("lib");
    let mut names = programs()?;
    names.retain(|name| !(sanitized && NOT_SANITIZED.contains(&name.as_str())));
    side_by_side(&names, |name| {
        let mut command = Command::new(build.compiler);
        command.args(build.language).arg(format!("{TESTS}/{name}.c")).args(["-x", "none"]);
        command.args(["-D_GNU_SOURCE", "-g", "-O1", "-pthread"]).args(WARNINGS);
        if sanitized {
            command.args(SANITIZERS);
        }
        command.arg("-I").arg(prefix.join("include")).arg("-o").arg(bin.join(name)).arg("-L").arg(&lib);
        command.arg(format!("-Wl,-rpath,{}", lib.display()));
        if name == "cache" {
            command.arg("-lrma2rc");
        }
        if name.starts_with("velo") || name == "reasons" {
            command.arg("-lvelo2");
        }
        // Hosts of plug-ins, and programs that have it through others, do not know the library.
        command.arg(if matches!(name.as_str(), "plugin" | "through") { "-ldl" } else { "-lrma2" });
        context.run(&format!("librma2 {} {name}", build.name), command)
    })
}

fn run(context: &Context, build: &Build, sanitized: bool, prefix: &Path, bin: &Path) -> Result<()> {
    let program = |name: &str| {
        let mut command = Command::new("timeout");
        command.arg(LIMIT).arg(bin.join(name));
        patient(&mut command);
        command
    };
    let step = |name: &str| format!("librma2 {} run {name}", build.name);
    let abi: PathBuf = bin.join("abi");
    let table = ask(&abi, &[]).context("the table of layouts does not print")?;
    same("abi.txt", &table.lines().map(str::to_owned).collect())?;
    for name in SINGLE.iter().chain(&["noalloc"]) {
        if !(sanitized && NOT_SANITIZED.contains(name)) {
            context.run(&step(name), program(name))?;
        }
    }
    nothing_is_left()?;
    let mut limited = program("cache");
    limited.arg("limit");
    context.run(&step("cache limit"), limited)?;
    let mut reasons = program("reasons");
    reasons.env("GGAS_QUIET", "0");
    context.run(&step("reasons aloud"), reasons)?;
    let mut plugin = program("plugin");
    plugin.arg(prefix.join("lib/librma2.so.2"));
    context.run(&step("plugin"), plugin)?;
    for (variables, result, reason) in DEVICES {
        let mut command = program("device");
        command.args([result, reason]).env_remove("EXTOLL_DEVICE").env("EXTOLL_CARD", NO_CARD);
        command.envs(variables.iter().copied());
        context.run(&step("device"), command)?;
    }
    jobs(context, build, bin)
}

/// The programs' own waits: longer than a busy machine keeps a process from running. Each program has a network of its
/// own: those that are started plainly would meet the user's.
fn patient(command: &mut Command) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let network = format!("librma2-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    command.env("GGAS_NETWORK", network).env("GGAS_QUIET", "1");
    // Whatever card there is.
    command.env_remove("GGAS_DEVICE").env("EXTOLL_DEVICE", "sim");
    command.env("EXTOLL_WAIT_TIMEOUT", "60").env("EXTOLL_POST_TIMEOUT", "60");
    command.env("EXTOLL_LOCKED_MEMORY", "unlimited");
}

/// Programs that end leave their networks, which go with their last member.
fn nothing_is_left() -> Result<()> {
    let user = ask("id", &["-u"]).context("id -u does not run")?;
    let usual = || format!("/dev/shm/ggas-{}", user.trim()).into();
    let folder: PathBuf = std::env::var_os("GGAS_RUNTIME_DIR").map_or_else(usual, PathBuf::from);
    let Ok(networks) = std::fs::read_dir(&folder) else { return Ok(()) };
    let own = format!("librma2-{}-", std::process::id());
    let names = networks.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    match Vec::from_iter(names.filter(|name| name.starts_with(&own))) {
        left if left.is_empty() => Ok(()),
        left => bail!("programs left networks behind in {}: {}", folder.display(), left.join(", ")),
    }
}

/// Programs of several processes: on one node, and on nodes of their own.
fn jobs(context: &Context, build: &Build, bin: &Path) -> Result<()> {
    let launch = bin.join("launch");
    let job = |name: &str, size: u32, per_node: u32, args: &[&str]| {
        let mut command = Command::new("timeout");
        command.arg(LIMIT).arg(&launch).arg(size.to_string()).arg(per_node.to_string());
        command.arg(bin.join(name)).args(args);
        patient(&mut command);
        context.run(&format!("librma2 {} job {name} {size} {per_node}", build.name), command)
    };
    for per_node in [1, 2] {
        for (name, argument) in PAIRS {
            job(name, 2, per_node, &[argument][usize::from(argument.is_empty())..])?;
        }
        job("death_middle", 3, per_node, &[])?;
    }
    // VELO: the whole of it in both slot sizes, on one node and between nodes.
    for (per_node, slots) in [(1, "128"), (2, "64")] {
        for name in ["velo_pair", "velo_flow"] {
            job(name, 2, per_node, &[slots])?;
        }
        job("velo_death", 2, per_node, &[])?;
    }
    job("velo_group", 4, 1, &[])?;
    let whole = !build.sanitized && context.thorough;
    let seconds = if whole { SOAK } else { SHORT_SOAK };
    let seconds = std::env::var("RMA2_SOAK_SECONDS").unwrap_or_else(|_| seconds.to_string());
    job("soak", 4, 2, &[&seconds])
}
