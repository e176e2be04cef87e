//! The C libraries: `cargo xtask install`, and what the tests link with.

use crate::run::{Step, ask, cargo};
use crate::{gaspi, gmpi, hpe, place};
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Version of the interface: the number behind `.so`.
const SONAME: &str = "2";
const FOLDER: &str = "userlib/capi";
/// What the library exports under names of its own.
const OURS: [&str; 3] = ["rma2_", "RMA2_", "extoll2_"];
/// Calls of the C library that come to it: their names, and what is called (`hooks.rs`). The archive leaves the last
/// ones out: a program that is linked statically has one allocator, which is in one piece with these.
const WATCHED: [(&str, &str); 16] = [
    ("munmap", "munmap"),
    ("mmap", "mmap"),
    ("mmap64", "mmap"),
    ("mremap", "mremap"),
    ("madvise", "madvise"),
    ("shmdt", "shmdt"),
    ("open", "open"),
    ("open64", "open"),
    ("__open_2", "open_2"),
    ("__open64_2", "open_2"),
    ("close", "close"),
    ("ioctl", "ioctl"),
    ("free", "free"),
    ("realloc", "realloc"),
    ("brk", "brk"),
    ("sbrk", "sbrk"),
];
const IN_ARCHIVE: usize = 12;
/// librma2rc has these too; in a program that holds both archives its own count.
const REPLACED: [&str; 2] = ["rma2_register_cached", "rma2_unregister_cached"];
/// What pkg-config's files cannot hold.
const UNFIT: [char; 5] = ['"', '\\', '$', '#', '\n'];

/// Longest that linking takes.
pub(crate) const LINK: Duration = Duration::from_secs(300);

/// How fast the libraries are to be, against how fast they are to be built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    Release,
    Debug,
}

impl Profile {
    pub(crate) fn folder(self) -> &'static str {
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
    gaspi::build_into(&prefix, profile)?;
    gmpi::build_into(&prefix, profile)?;
    hpe::build_into(&prefix, profile)?;
    say!("{}", recipe(&prefix.display().to_string()));
    Ok(ExitCode::SUCCESS)
}

/// How programs are built with what is installed, and run.
fn recipe(prefix: &str) -> String {
    let build = |folder, library| {
        format!(
            "eval cc program.c -o program $(PKG_CONFIG_PATH='{prefix}/{folder}/pkgconfig' pkg-config --cflags --libs {library})"
        )
    };
    [
        format!("installed librma2, libvelo2, libgmpi, libggas_hpe_preload, libGPI2, gaspi_run and ggas below {prefix}"),
        format!("  build:  {}   (or libvelo2, gmpi, ggas_hpe)", build("lib", "librma2")),
        format!("  run:    LD_LIBRARY_PATH='{prefix}/lib' ./program"),
        format!("  GASPI:  {}", build("lib64", "GPI2")),
        format!("          LD_LIBRARY_PATH='{prefix}/lib64' '{prefix}/bin/gaspi_run' -n 2 ./program"),
    ]
    .join("\n")
}

/// The same without a word.
pub fn build_into(prefix: &Path, profile: Profile) -> Result<()> {
    if prefix.to_str().is_none_or(|text| text.contains(UNFIT)) {
        bail!("{}: choose a prefix of letters, digits and spaces, for pkg-config", prefix.display());
    }
    let archive = archive("ggas-capi", "librma2.a", profile)?;
    let (lib, include) = (prefix.join("lib"), prefix.join("include"));
    for folder in [&lib, &include, &lib.join("pkgconfig")] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    headers(&include)?;
    shared(&archive, &lib)?;
    fixed(&archive, &lib)?;
    thin(&lib, "librma2rc", "rma2rc.c", None)?;
    thin(&lib, "libvelo2", "velo2.c", Some("libvelo2.map"))?;
    for name in ["librma2", "libvelo2"] {
        let template = place::root().join(FOLDER).join(format!("link/{name}.pc.in"));
        let text = fs::read_to_string(&template).with_context(|| format!("no {}", template.display()))?;
        let text = text.replace("@PREFIX@", &prefix.display().to_string());
        let text = text.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
        fs::write(lib.join(format!("pkgconfig/{name}.pc")), text)?;
    }
    Ok(())
}

/// A library as cargo makes it: an archive of all of it, or what is linked already.
pub(crate) fn archive(package: &str, name: &str, profile: Profile) -> Result<PathBuf> {
    let mut command = cargo(&["build", "--lib"]);
    match profile {
        Profile::Release => command.args(["--package", package, "--release"]),
        // With the features that tests have, so as to build nothing twice.
        Profile::Debug => command.arg("--workspace"),
    };
    Step { name: &format!("{package} build"), command, limit: Duration::from_secs(3600) }.run()?;
    let archive = target().join(profile.folder()).join(name);
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

/// Links the shared library with its versions: rustc cannot give symbols a version. What debuggers and backtraces
/// read goes into a file beside it, where they look for it.
fn shared(archive: &Path, lib: &Path) -> Result<()> {
    let folder = folder();
    let whole = pieces(lib)?.join("librma2.so");
    let mut command = compiler();
    command.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&whole);
    command.arg(format!("-Wl,-soname,librma2.so.{SONAME}"));
    command.arg(format!("-Wl,--version-script={}", folder.join("librma2.map").display()));
    command.args(["-Wl,--gc-sections", "-Wl,--as-needed", "-Wl,-z,relro,-z,now", "-Wl,-z,nodelete"]);
    command.args(WATCHED.map(watched)).arg(folder.join("start.c"));
    command.arg("-Wl,--whole-archive").arg(archive);
    command.args(["-Wl,--no-whole-archive", "-lpthread", "-ldl", "-lm", "-lgcc_s", "-lc"]);
    Step { name: "librma2 link", command, limit: LINK }.run()?;

    let library = lib.join(format!("librma2.so.{SONAME}"));
    let debug = lib.join(format!("librma2.so.{SONAME}.debug"));
    objcopy(&whole, &debug, &["--only-keep-debug", "--compress-debug-sections=zlib"])?;
    objcopy(&whole, &library, &["--strip-unneeded", &format!("--add-gnu-debuglink={}", debug.display())])?;
    point(lib, "librma2")
}

/// The archive, of one object: of the Rust libraries in it only what ours needs is there, and their names are nobody's
/// but its own, so that they meet no others.
fn fixed(archive: &Path, lib: &Path) -> Result<()> {
    let pieces = pieces(lib)?;
    let (start, object) = (pieces.join("start.o"), pieces.join("rma2.o"));
    let mut command = compiler();
    command.args(["-c", "-fPIC", "-O2"]).arg(folder().join("start.c")).arg("-o").arg(&start);
    Step { name: "librma2 start", command, limit: LINK }.run()?;

    let exported = ask("nm", &["-D", "--defined-only", &lib.join("librma2.so").to_string_lossy()]);
    let exported = exported.context("nm does not run (binutils)")?;
    let names = exported.lines().filter_map(|line| line.split_whitespace().nth(2)?.split('@').next());
    let ours = names.filter(|name| OURS.iter().any(|prefix| name.starts_with(prefix)));
    let mut command = compiler();
    command.args(["-r", "-nostdlib", "-Wl,--gc-sections", "-Wl,--force-group-allocation"]);
    command.args(ours.map(|name| format!("-Wl,-u,{name}")));
    command.args(WATCHED[..IN_ARCHIVE].iter().map(|names| watched(*names)));
    command.arg("-o").arg(&object).arg(&start).arg(archive);
    Step { name: "librma2 archive", command, limit: LINK }.run()?;

    let member = pieces.join("librma2.o");
    let public = OURS.map(|prefix| format!("{prefix}*")).into_iter();
    let public = public.chain(WATCHED[..IN_ARCHIVE].iter().map(|(name, _)| (*name).to_owned()));
    let mut options = vec!["--strip-unneeded".to_owned(), "--wildcard".to_owned()];
    options.extend(public.map(|name| format!("--keep-global-symbol={name}")));
    options.extend(REPLACED.map(|name| format!("--weaken-symbol={name}")));
    // The compiler's own notes, which tools of another release cannot read.
    options.extend([".llvmbc", ".llvmcmd"].map(|name| format!("--remove-section={name}")));
    objcopy(&object, &member, &options.iter().map(String::as_str).collect::<Vec<_>>())?;
    pack(&member, &lib.join("librma2.a"))
}

/// Has a call of the C library lead to ours.
fn watched((name, ours): (&str, &str)) -> String {
    format!("-Wl,--defsym={name}=ggas_watch_{ours}")
}

/// A library of one C file whose work librma2 does: shared, and as an archive.
fn thin(lib: &Path, name: &str, source: &str, versions: Option<&str>) -> Result<()> {
    let object = pieces(lib)?.join(format!("{name}.o"));
    let mut command = compiler();
    command.args(["-c", "-fPIC", "-O2", "-Wall", "-Wextra", "-pedantic", "-std=c11", "-I"]);
    command.arg(lib.with_file_name("include")).arg(folder().join(source)).arg("-o").arg(&object);
    Step { name: &format!("{name} object"), command, limit: LINK }.run()?;
    pack(&object, &lib.join(format!("{name}.a")))?;

    let mut command = compiler();
    command.arg("-shared").arg(&object).arg("-o").arg(lib.join(format!("{name}.so.{SONAME}")));
    command.arg(format!("-Wl,-soname,{name}.so.{SONAME}"));
    if let Some(versions) = versions {
        command.arg(format!("-Wl,--version-script={}", folder().join(versions).display()));
    }
    // librma2 lies beside it, for programs that do not name it themselves.
    command.arg("-Wl,-rpath,$ORIGIN").arg("-L").arg(lib).arg("-lrma2");
    Step { name: &format!("{name} link"), command, limit: LINK }.run()?;
    point(lib, name)
}

fn folder() -> PathBuf {
    place::root().join(FOLDER).join("link")
}

/// Where pieces are made that are not installed.
pub(crate) fn work() -> Result<PathBuf> {
    let work = target().join("capi");
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    Ok(work)
}

/// The same for libraries in `PREFIX/lib`: two prefixes may be made at the same time.
fn pieces(lib: &Path) -> Result<PathBuf> {
    let prefix = lib.parent().and_then(Path::file_name).unwrap_or_default();
    let pieces = work()?.join(prefix);
    fs::create_dir_all(&pieces).with_context(|| format!("cannot make {}", pieces.display()))?;
    Ok(pieces)
}

pub(crate) fn objcopy(from: &Path, to: &Path, options: &[&str]) -> Result<()> {
    let mut command = Command::new("objcopy");
    command.args(options).arg(from).arg(to);
    Step { name: "librma2 objcopy (binutils)", command, limit: LINK }.run().map(|_| ())
}

/// A shared library of one object that has all of ours; `names`: the version script with what it exports.
pub(crate) fn link_shared(object: &Path, library: &Path, names: &Path) -> Result<()> {
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    let mut command = compiler();
    command.args(["-shared", "-Wl,--as-needed", "-Wl,-z,relro,-z,now,-z,nodelete"]);
    command.arg(format!("-Wl,-soname,{name}")).arg("-o").arg(library);
    command.arg(format!("-Wl,--version-script={}", names.display()));
    command.arg(object).args(["-lpthread", "-ldl", "-lm", "-lgcc_s", "-lc"]);
    Step { name: &format!("{name} link"), command, limit: LINK }.run().map(|_| ())
}

/// An archive of one object.
pub(crate) fn pack(object: &Path, archive: &Path) -> Result<()> {
    if archive.symlink_metadata().is_ok() {
        fs::remove_file(archive)?;
    }
    let mut command = Command::new("ar");
    command.arg("crsD").arg(archive).arg(object);
    Step { name: "librma2 ar (binutils)", command, limit: LINK }.run().map(|_| ())
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
pub(crate) fn compiler() -> Command {
    Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_prefixes_share_no_pieces() {
        let of = |prefix: &str| pieces(&Path::new(prefix).join("lib")).unwrap();
        let (tests, guests) = (of("build/librma2 for tests"), of("build/librma2"));
        assert!(tests.is_dir() && guests.is_dir());
        assert_ne!(tests, guests);
    }

    #[test]
    fn the_recipe_makes_the_program_that_it_runs() {
        let text = recipe("/p q");
        assert_eq!(text.matches("cc program.c -o program $(PKG_CONFIG_PATH='/p q/lib").count(), 2, "{text}");
        assert!(text.contains("-n 2 ./program"));
        for name in ["libgmpi", "libggas_hpe_preload", "libGPI2", "(or libvelo2, gmpi, ggas_hpe)"] {
            assert!(text.contains(name), "{name}: {text}");
        }
    }
}
