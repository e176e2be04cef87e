//! Step `librma2`: the exported names and layouts, and the C programs of `tests/librma2` on the model.
//!
//! Headers and programs are compiled by gcc and clang as C and as C++ without a warning. The programs run plainly, and
//! under the sanitizers where the compiler has them; those that are for processes run as jobs.

use super::Context;
use crate::capi::{self, Profile};
use crate::place;
use crate::run::{ask, cargo, side_by_side};
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const TESTS: &str = "tests/librma2";
/// Programs of one process.
const SINGLE: [&str; 19] = [
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
    "threads",
    "cache",
    "openclose",
    "fork",
    "signals",
    "velo_messages",
    "velo_bad_input",
    "velo_openclose",
    "full",
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

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];
const SANITIZERS: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
/// What the example says under `ggas run`, as its page shows.
const HELLO: &str = "[0] node 0: 22 bytes from node 1: hello, this is node 1\n";
/// Seconds of the soak: the whole one in CI, once.
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
            let package = if build.compiler.starts_with('c') { "clang" } else { "g++" };
            notes.push(format!("skipped {}: apt-get install {package}", build.name));
            continue;
        }
        let bin = prefix.join("tests").join(build.name);
        std::fs::create_dir_all(&bin)?;
        let sanitized = build.sanitized && has_sanitizers(build, &bin);
        headers(context, build, &prefix)?;
        compile(context, build, sanitized, &prefix, &bin)?;
        if build.run {
            run(context, build, sanitized, &prefix, &bin)?;
        }
        notes.push(match (build.sanitized, sanitized) {
            (true, false) => format!("{} without sanitizers (apt-get install libclang-rt-dev)", build.name),
            (true, true) => format!("{} sanitized", build.name),
            _ => build.name.to_owned(),
        });
    }
    notes.push(installed(context, &prefix)?);
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

/// What users do: a program built by what pkg-config says, one that is linked with the archive, and the launcher.
fn installed(context: &Context, prefix: &Path) -> Result<String> {
    let (lib, bin) = (prefix.join("lib"), prefix.join("tests"));
    let (plain, fixed) = (bin.join("by-pkg-config"), bin.join("by-archive"));
    let source = format!("{TESTS}/connect.c");
    let mut note = String::from("ggas run");
    context.run("librma2 ggas", cargo(&["build", "--workspace", "--bin", "ggas"]))?;
    if place::which("pkg-config").is_some() {
        let mut command = Command::new("sh");
        let line = r#"cc "$1" $(pkg-config --cflags --libs librma2) -o "$2" && LD_LIBRARY_PATH="$3" "$2""#;
        command.args(["-c", line, "sh", &source]).arg(&plain).arg(&lib);
        command.env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
        context.run("librma2 by pkg-config", command)?;
        hello(context, prefix)?;
        note += ", pkg-config";
    } else {
        note += ", skipped pkg-config: apt-get install pkg-config";
    }
    let mut command = Command::new("cc");
    command.arg(&source).arg("-I").arg(prefix.join("include")).arg(lib.join("librma2.a"));
    command.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&fixed);
    context.run("librma2 by archive", command)?;
    context.run("librma2 by archive run", Command::new(&fixed))?;

    behind(context, prefix)?;
    let Some(program) = BUILDS.iter().map(|b| bin.join(b.name).join("pair")).find(|path| path.exists())
    else {
        bail!("neither gcc nor clang is installed: apt-get install g++");
    };
    for per_node in ["1", "2"] {
        let mut command = Command::new("timeout");
        command.arg(LIMIT).arg(capi::target().join("debug/ggas"));
        command.args(["run", "-n", "2", "--per-node", per_node, "--"]).arg(&program);
        patient(&mut command);
        context.run(&format!("librma2 ggas run {per_node}"), command)?;
    }
    Ok(note)
}

/// The example of the user's page, as that page builds and starts it.
fn hello(context: &Context, prefix: &Path) -> Result<()> {
    let (lib, program) = (prefix.join("lib"), prefix.join("tests/hello"));
    let mut command = Command::new("sh");
    let line = r#"cc "$1" -Wall -Wextra -pedantic -Werror $(pkg-config --cflags --libs librma2) -o "$2""#;
    command.args(["-c", line, "sh", "userlib/capi/examples/hello.c"]).arg(&program);
    command.env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
    context.run("librma2 hello", command)?;
    let mut command = Command::new("timeout");
    command.arg(LIMIT).arg(capi::target().join("debug/ggas")).args(["run", "-n", "2", "--"]).arg(&program);
    command.env("LD_LIBRARY_PATH", &lib);
    let output = command.output().context("timeout does not run (coreutils)")?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || said != HELLO {
        bail!(
            "hello.c ended with {} and said:\n{said}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

/// A library behind librma2 that watches for memory to go away, and a program with both.
fn behind(context: &Context, prefix: &Path) -> Result<()> {
    let (lib, bin) = (prefix.join("lib"), prefix.join("tests"));
    let cc = || {
        let mut command = Command::new("cc");
        command.args(["-D_GNU_SOURCE", "-I"]).arg(prefix.join("include")).arg(format!("{TESTS}/behind.c"));
        command
    };
    let (library, program) = (bin.join("libbehind.so"), bin.join("behind"));
    let mut command = cc();
    command.args(["-DBEHIND", "-shared", "-fPIC", "-o"]).arg(&library);
    context.run("librma2 behind library", command)?;
    let mut command = cc();
    command.arg("-o").arg(&program).args(["-Wl,--no-as-needed", "-L"]).arg(&lib).arg("-lrma2").arg(&library);
    command.arg(format!("-Wl,-rpath,{}", lib.display()));
    context.run("librma2 behind program", command)?;
    context.run("librma2 behind", Command::new(&program))
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
        if name.starts_with("velo") {
            command.arg("-lvelo2");
        }
        // A plug-in's host does not know the library.
        command.arg(if name == "plugin" { "-ldl" } else { "-lrma2" });
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
    let mut limited = program("cache");
    limited.arg("limit");
    context.run(&step("cache limit"), limited)?;
    let mut plugin = program("plugin");
    plugin.arg(prefix.join("lib/librma2.so.2"));
    context.run(&step("plugin"), plugin)?;
    for (device, result, reason) in
        [("sim", "0", ""), ("hw", "-25", "/dev/extoll0"), ("gpu", "-17", "sim or hw")]
    {
        let mut command = program("device");
        command.args([result, reason]).env("EXTOLL_DEVICE", device);
        context.run(&step("device"), command)?;
    }
    jobs(context, build, bin)
}

/// The programs' own waits: longer than a busy machine keeps a process from running.
fn patient(command: &mut Command) {
    command.env("EXTOLL_WAIT_TIMEOUT", "60").env("EXTOLL_POST_TIMEOUT", "60");
    command.env("EXTOLL_LOCKED_MEMORY", "unlimited");
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
    let whole = !build.sanitized && std::env::var_os("CI").is_some();
    let seconds = if whole { SOAK } else { SHORT_SOAK };
    let seconds = std::env::var("RMA2_SOAK_SECONDS").unwrap_or_else(|_| seconds.to_string());
    job("soak", 4, 2, &[&seconds])
}
