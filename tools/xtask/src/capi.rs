//! The C libraries: `cargo xtask install`, and what the tests link with.

use crate::place;
use crate::run::{Step, cargo};
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Version of the interface: the number behind `.so`.
const SONAME: &str = "2";
const FOLDER: &str = "userlib/capi";
/// Packages that depend on this one.
const DEPENDENTS: [&str; 2] = ["ggas-benches", "ggas-cli"];

/// How fast the libraries are to be, against how fast they are to be built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    Release,
    Debug,
}

impl Profile {
    fn folder(self) -> &'static str {
        match self {
            Profile::Release => "release",
            Profile::Debug => "debug",
        }
    }
}

/// Builds the libraries and installs them, their headers and their pkg-config file below `prefix`.
pub fn install(prefix: &Path, profile: Profile) -> Result<ExitCode> {
    let prefix = std::path::absolute(prefix).context("no such prefix")?;
    build_into(&prefix, profile)?;
    println!("installed librma2 and libvelo2 below {}", prefix.display());
    println!(
        "  build:  cc program.c $(PKG_CONFIG_PATH={0}/lib/pkgconfig pkg-config --cflags --libs librma2)   (or libvelo2)",
        prefix.display()
    );
    println!("  run:    LD_LIBRARY_PATH={}/lib ./program", prefix.display());
    Ok(ExitCode::SUCCESS)
}

/// The same without a word.
pub fn build_into(prefix: &Path, profile: Profile) -> Result<()> {
    let archive = archive(profile)?;
    let (lib, include) = (prefix.join("lib"), prefix.join("include"));
    for folder in [&lib, &include, &lib.join("pkgconfig")] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    headers(&include)?;
    link(&archive, &lib)?;
    for name in ["librma2", "libvelo2"] {
        let template = place::root().join(FOLDER).join(format!("link/{name}.pc.in"));
        let text = fs::read_to_string(&template).with_context(|| format!("no {}", template.display()))?;
        let text = text.replace("@PREFIX@", &prefix.display().to_string());
        let text = text.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
        fs::write(lib.join(format!("pkgconfig/{name}.pc")), text)?;
    }
    Ok(())
}

/// All of the library as an archive, from cargo.
fn archive(profile: Profile) -> Result<PathBuf> {
    let mut command = cargo(&["build", "--lib", "--features", "ggas-capi/interpose"]);
    match profile {
        Profile::Release => command.args(["--package", "ggas-capi", "--release"]),
        // With the features that tests have, so as to build nothing twice; but not what this feature would change.
        Profile::Debug => {
            command.arg("--workspace").args(DEPENDENTS.iter().flat_map(|name| ["--exclude", name]))
        }
    };
    Step { name: "librma2 build", command, limit: Duration::from_secs(3600) }.run()?;
    let archive = target().join(profile.folder()).join("librma2.a");
    if !archive.exists() {
        bail!("cargo made no {}", archive.display());
    }
    Ok(archive)
}

/// Where cargo puts what it builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| place::root().join("target"), Into::into)
}

fn headers(include: &Path) -> Result<()> {
    for entry in fs::read_dir(place::root().join(FOLDER).join("include"))? {
        let path = entry?.path();
        if let Some(name) = path.file_name().filter(|_| path.extension().is_some_and(|e| e == "h")) {
            fs::copy(&path, include.join(name))?;
        }
    }
    Ok(())
}

/// Links the shared libraries with their versions: rustc cannot give symbols a version.
fn link(archive: &Path, lib: &Path) -> Result<()> {
    let folder = place::root().join(FOLDER).join("link");
    let mut command = compiler();
    command.arg("-shared").arg("-o").arg(lib.join(format!("librma2.so.{SONAME}")));
    command.arg(format!("-Wl,-soname,librma2.so.{SONAME}"));
    command.arg(format!("-Wl,--version-script={}", folder.join("librma2.map").display()));
    command.args([
        "-Wl,--gc-sections",
        "-Wl,--as-needed",
        "-Wl,-z,relro,-z,now",
        "-Wl,-z,nodelete",
        "-Wl,--whole-archive",
    ]);
    command.arg(archive).args(["-Wl,--no-whole-archive", "-lpthread", "-ldl", "-lm", "-lgcc_s", "-lc"]);
    Step { name: "librma2 link", command, limit: Duration::from_secs(300) }.run()?;
    point(lib, "librma2")?;
    fs::copy(archive, lib.join("librma2.a"))?;

    thin(lib, "librma2rc", "rma2rc.c", None)?;
    thin(lib, "libvelo2", "velo2.c", Some("libvelo2.map"))
}

/// A library of one C file whose work librma2 does.
fn thin(lib: &Path, name: &str, source: &str, versions: Option<&str>) -> Result<()> {
    let folder = place::root().join(FOLDER).join("link");
    let mut command = compiler();
    command.args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-pedantic", "-std=c11", "-I"]);
    command.arg(lib.with_file_name("include")).arg(folder.join(source));
    command.arg("-o").arg(lib.join(format!("{name}.so.{SONAME}")));
    command.arg(format!("-Wl,-soname,{name}.so.{SONAME}"));
    if let Some(versions) = versions {
        command.arg(format!("-Wl,--version-script={}", folder.join(versions).display()));
    }
    // librma2 lies beside it, for programs that do not name it themselves.
    command.arg("-Wl,-rpath,$ORIGIN").arg("-L").arg(lib).arg("-lrma2");
    Step { name: &format!("{name} link"), command, limit: Duration::from_secs(300) }.run()?;
    point(lib, name)
}

/// `libX.so`, which `-lX` looks for.
fn point(lib: &Path, name: &str) -> Result<()> {
    let link = lib.join(format!("{name}.so"));
    if link.symlink_metadata().is_ok() {
        fs::remove_file(&link)?;
    }
    symlink(format!("{name}.so.{SONAME}"), &link).with_context(|| format!("cannot make {}", link.display()))
}

/// The C compiler: `CC`, or `cc`.
fn compiler() -> Command {
    Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
}
