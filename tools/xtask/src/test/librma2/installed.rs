//! What users do with the installed libraries: programs built by what pkg-config says, linked statically and with the
//! archive, started by the launcher, and in company of other libraries.

use super::{BUILDS, Context, LIMIT, TESTS, patient};
use crate::capi;
use crate::place;
use crate::run::{ask, cargo};
use anyhow::{Context as _, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the example says under `ggas run`, as its page shows.
const HELLO: &str = "[0] node 0: 22 bytes from node 1: hello, this is node 1\n";
/// Bytes of the shared library at most; it is built with checks here, and smaller without.
const SIZE: u64 = 9 << 19;
/// As a shell reads what pkg-config prints: names in it may hold spaces.
const BY_PKG_CONFIG: &str = r#"eval cc '"$1"' $4 $(pkg-config $3 --cflags --libs $5) -o '"$2"'"#;

pub fn check(context: &Context, prefix: &Path) -> Result<String> {
    context.run("librma2 ggas", cargo(&["build", "--workspace", "--bin", "ggas"]))?;
    let mut note = String::from("ggas run");
    small(prefix)?;
    if place::which("pkg-config").is_some() {
        note += ", pkg-config";
        note += by_pkg_config(context, prefix)?;
    } else {
        note += ", skipped pkg-config: apt-get install pkg-config";
    }
    by_archive(context, prefix)?;
    behind(context, prefix)?;
    through(context, prefix)?;
    by_launcher(context, prefix)?;
    Ok(note)
}

/// What debuggers read is beside the library, which names it, and not in it.
fn small(prefix: &Path) -> Result<()> {
    let library = prefix.join("lib/librma2.so.2");
    let bytes = std::fs::metadata(&library)?.len();
    ensure!(bytes < SIZE, "{} has {bytes} bytes", library.display());
    let sections =
        |path: &Path| ask("readelf", &["-SW", &path.to_string_lossy()]).context("no readelf (binutils)");
    let (ours, debug) = (sections(&library)?, sections(&prefix.join("lib/librma2.so.2.debug"))?);
    ensure!(
        !ours.contains(".debug_info") && !ours.contains(".symtab") && ours.contains(".gnu_debuglink"),
        "{} holds debug information",
        library.display()
    );
    ensure!(debug.contains(".debug_info"), "there is no debug information beside {}", library.display());
    Ok(())
}

/// A program of the tests, built by what pkg-config says of `package`.
fn built(prefix: &Path, source: &str, program: &Path, [pkg_config, compiler, package]: [&str; 3]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", BY_PKG_CONFIG, "sh", source]).arg(program).args([pkg_config, compiler, package]);
    command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    command
}

fn by_pkg_config(context: &Context, prefix: &Path) -> Result<&'static str> {
    let (lib, bin) = (prefix.join("lib"), prefix.join("tests"));
    let program = bin.join("by-pkg-config");
    let how = ["", "-Wall", "librma2"];
    context.run("librma2 by pkg-config", built(prefix, &format!("{TESTS}/connect.c"), &program, how))?;
    let mut command = Command::new(&program);
    command.env("LD_LIBRARY_PATH", &lib);
    context.run("librma2 by pkg-config run", command)?;
    hello(context, prefix)?;

    let probe =
        built(prefix, &format!("{TESTS}/launch.c"), &bin.join("probe-static"), ["", "-static", "librma2"])
            .output();
    if !probe.is_ok_and(|output| output.status.success()) {
        return Ok(" (not static: there is no libc.a)");
    }
    for (name, package) in [
        ("connect", "librma2"),
        ("physical", "librma2"),
        ("printing", "librma2"),
        ("velo_messages", "libvelo2"),
    ] {
        let program = bin.join(format!("{name}-static"));
        let how = ["--static", "-static -pthread -D_GNU_SOURCE", package];
        context.run(
            &format!("librma2 static {name}"),
            built(prefix, &format!("{TESTS}/{name}.c"), &program, how),
        )?;
        let kind = ask("readelf", &["-lW", &program.to_string_lossy()]).context("no readelf (binutils)")?;
        ensure!(!kind.contains("INTERP"), "{} is not static", program.display());
        let mut command = Command::new("timeout");
        command.arg(LIMIT).arg(&program);
        patient(&mut command);
        context.run(&format!("librma2 static run {name}"), command)?;
    }
    let program = bin.join("pair-static");
    let how = ["--static", "-static", "librma2"];
    context.run("librma2 static pair", built(prefix, &format!("{TESTS}/pair.c"), &program, how))?;
    context.run("librma2 static run pair", launched("1", &program))?;
    Ok(" also static")
}

/// The example of the user's page, as that page builds and starts it.
fn hello(context: &Context, prefix: &Path) -> Result<()> {
    let program = prefix.join("tests/hello");
    let how = ["", "-Wall -Wextra -pedantic -Werror", "librma2"];
    context.run("librma2 hello", built(prefix, "userlib/capi/examples/hello.c", &program, how))?;
    let mut command = Command::new("timeout");
    command.arg(LIMIT).arg(capi::target().join("debug/ggas")).args(["run", "-n", "2", "--"]).arg(&program);
    command.env("LD_LIBRARY_PATH", prefix.join("lib"));
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

/// Programs that hold all of the library, and see their memory go away too.
fn by_archive(context: &Context, prefix: &Path) -> Result<()> {
    let (lib, bin) = (prefix.join("lib"), prefix.join("tests"));
    for (name, more) in
        [("connect", None), ("memory", None), ("cache", Some("librma2rc.a")), ("physical", None)]
    {
        let program = bin.join(format!("{name}-by-archive"));
        let mut command = Command::new("cc");
        command.args(["-D_GNU_SOURCE", "-I"]).arg(prefix.join("include")).arg(format!("{TESTS}/{name}.c"));
        command.args(more.map(|name| lib.join(name))).arg(lib.join("librma2.a"));
        command.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
        context.run(&format!("librma2 by archive {name}"), command)?;
        let mut command = Command::new("timeout");
        command.arg(LIMIT).arg(&program);
        patient(&mut command);
        context.run(&format!("librma2 by archive run {name}"), command)?;
    }
    Ok(())
}

/// The C compiler on a program that is a library as well.
fn cc(prefix: &Path, source: &str) -> Command {
    let mut command = Command::new("cc");
    command.args(["-Wall", "-Wextra", "-D_GNU_SOURCE"]);
    // As distributions build: calls are checked, under names of their own.
    command.args(["-O1", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-I"]);
    command.arg(prefix.join("include")).arg(format!("{TESTS}/{source}.c"));
    command
}

/// A library behind librma2 that watches for memory to go away, and a program with both.
fn behind(context: &Context, prefix: &Path) -> Result<()> {
    let (lib, bin) = (prefix.join("lib"), prefix.join("tests"));
    let (library, program) = (bin.join("libbehind.so"), bin.join("behind"));
    let mut command = cc(prefix, "behind");
    command.args(["-DBEHIND", "-shared", "-fPIC", "-o"]).arg(&library);
    context.run("librma2 behind library", command)?;
    let mut command = cc(prefix, "behind");
    command.arg("-o").arg(&program).args(["-Wl,--no-as-needed", "-L"]).arg(&lib).arg("-lrma2").arg(&library);
    command.arg(format!("-Wl,-rpath,{}", lib.display()));
    context.run("librma2 behind program", command)?;
    context.run("librma2 behind", Command::new(&program))
}

/// Programs that have librma2 through another library: linked with that one, and loading it, in all ways in which
/// addresses of functions come into a program.
fn through(context: &Context, prefix: &Path) -> Result<()> {
    let (lib, bin) = (prefix.join("lib"), prefix.join("tests"));
    let library = |name: &str| bin.join(format!("lib{name}.so"));
    for name in ["through", "late", "claims"] {
        let mut command = cc(prefix, "through");
        command.arg(format!("-D{}", name.to_uppercase())).args(["-shared", "-fPIC", "-o"]).arg(library(name));
        if name == "through" {
            command.arg("-L").arg(&lib).arg("-lrma2").arg(format!("-Wl,-rpath,{}", lib.display()));
        }
        context.run(&format!("librma2 through lib{name}"), command)?;
    }
    let beside = [format!("-Wl,-rpath,{}", bin.display()), format!("-Wl,-rpath-link,{}", lib.display())];
    for [code, kind] in [["-fPIE", "-pie"], ["-fno-pie", "-no-pie"]] {
        for binding in ["lazy", "now"] {
            for (how, libraries) in
                [("linked", &["-lthrough"][..]), ("beside", &["-lclaims", "-lthrough"]), ("loads", &[])]
            {
                let (name, program) =
                    (format!("librma2 {how} {binding} {kind}"), bin.join(format!("{how}-{binding}{kind}")));
                let mut command = cc(prefix, "through");
                command.args([code, kind]).arg(format!("-Wl,-z,{binding}")).arg("-o").arg(&program);
                command
                    .args(["-Wl,--no-as-needed", "-L"])
                    .arg(&bin)
                    .args(libraries)
                    .arg("-ldl")
                    .args(&beside);
                context.run(&name, command)?;
                let run = |args: &[PathBuf]| {
                    let mut command = Command::new("timeout");
                    command.arg(LIMIT).arg(&program).arg(library("late")).args(args);
                    context.run(&format!("{name} run {}", args.len()), command)
                };
                if how == "loads" {
                    run(&[library("through")])?;
                    run(&[library("through"), "lazy".into()])?;
                } else {
                    run(&[])?;
                }
            }
        }
    }
    Ok(())
}

/// By `ggas run`, on nodes of their own and on one.
fn by_launcher(context: &Context, prefix: &Path) -> Result<()> {
    let paths = BUILDS.iter().map(|build| prefix.join("tests").join(build.name).join("pair"));
    let Some(program) = paths.into_iter().find(|path| path.exists()) else {
        bail!("neither gcc nor clang is installed: apt-get install g++");
    };
    for per_node in ["1", "2"] {
        context.run(&format!("librma2 ggas run {per_node}"), launched(per_node, &program))?;
    }
    Ok(())
}

/// Two processes.
fn launched(per_node: &str, program: &PathBuf) -> Command {
    let mut command = Command::new("timeout");
    command.arg(LIMIT).arg(capi::target().join("debug/ggas"));
    command.args(["run", "-n", "2", "--per-node", per_node, "--"]).arg(program);
    patient(&mut command);
    command
}
