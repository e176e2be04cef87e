//! The shim of one MPI library, compiled by its mpicc when it is first used, and kept in the user's cache.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::GmpiError;

const SOURCES: [(&str, &str); 5] = [
    ("mpi_carrier.c", include_str!("../../../shim/mpi_carrier.c")),
    ("mpi_comms.c", include_str!("../../../shim/mpi_comms.c")),
    ("mpi_carrier.h", include_str!("../../../shim/mpi_carrier.h")),
    ("mpi_comms.h", include_str!("../../../shim/mpi_comms.h")),
    ("gmpi_layout.h", include_str!("../../../../../kernels/include/ggas/gmpi_layout.h")),
];

/// A compiler that is not the one that `PATH` has first.
pub const COMPILER: &str = "GGAS_GMPI_MPICC";

/// A shim that was compiled before, for machines without the library's compiler.
pub const COMPILED: &str = "GGAS_GMPI_SHIM";

/// The compilers that may be of the library that started this process, likeliest first.
fn candidates(is_set: impl Fn(&str) -> bool) -> Vec<&'static str> {
    if is_set("OMPI_COMM_WORLD_SIZE") {
        vec!["mpicc.openmpi", "mpicc"]
    } else if is_set("PMI_SIZE") || is_set("PMI_FD") {
        vec!["mpicc.mpich", "mpicc"]
    } else {
        vec!["mpicc"]
    }
}

fn found(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The compiler of an Open MPI in a folder of its own, of which `OPAL_PREFIX` says that it was moved there: another one on the machine
/// fails then, as it looks there for its files, too.
fn moved(prefix: Option<OsString>) -> Option<PathBuf> {
    let compiler = Path::new(&prefix?).join("bin/mpicc");
    compiler.is_file().then_some(compiler)
}

fn refuse(text: String) -> GmpiError {
    GmpiError::Mpi(text)
}

/// The folder for shims: the user's own.
fn cache() -> Result<PathBuf, GmpiError> {
    let base = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    let base =
        base.ok_or_else(|| refuse("no place for GMPI's MPI shim: set XDG_CACHE_HOME or HOME".to_owned()))?;
    let folder = base.join("ggas-gmpi");
    let failed = |error| refuse(format!("{} for GMPI's MPI shim: {error}", folder.display()));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
    let about = fs::symlink_metadata(&folder).map_err(failed)?;
    // SAFETY: the call has no arguments and cannot fail.
    let own = about.is_dir() && about.uid() == unsafe { libc::geteuid() } && about.mode() & 0o022 == 0;
    if !own {
        let text = format!("{} is not this user's alone: GMPI loads code from there", folder.display());
        return Err(refuse(text));
    }
    Ok(folder)
}

/// The shim's library file, compiled if it was not yet.
pub fn shim() -> Result<PathBuf, GmpiError> {
    if let Some(given) = env::var_os(COMPILED).map(PathBuf::from) {
        return match given.is_file() {
            true => Ok(given),
            false => Err(refuse(format!("{COMPILED} is {}, and there is no such file", given.display()))),
        };
    }
    let compiler = match env::var_os(COMPILER) {
        Some(given) => PathBuf::from(given),
        None => moved(env::var_os("OPAL_PREFIX"))
            .or_else(|| candidates(|name| env::var_os(name).is_some()).into_iter().find_map(found))
            .ok_or_else(|| {
                refuse(format!(
                    "no mpicc was found, which GMPI needs once to compile its shim for the MPI library: install the library's \
                     development files, or set {COMPILER} to its mpicc, or {COMPILED} to a shim that was compiled elsewhere"
                ))
            })?,
    };
    let mut hasher = DefaultHasher::new();
    let about =
        fs::metadata(&compiler).map_err(|error| refuse(format!("{}: {error}", compiler.display())))?;
    // Another library in the same place is another file.
    (&compiler, about.mtime(), about.len(), shown(&compiler), SOURCES).hash(&mut hasher);
    let folder = cache()?;
    let library = folder.join(format!("libgmpi_carrier-{:016x}.so", hasher.finish()));
    if !library.is_file() {
        compile(&compiler, &folder, &library)?;
    }
    Ok(library)
}

/// What the compiler would do, which names headers and libraries.
fn shown(compiler: &Path) -> Vec<u8> {
    Command::new(compiler).arg("-show").output().map(|output| output.stdout).unwrap_or_default()
}

/// Compiles apart and then renames, so that processes that start together do not meet half a file.
fn compile(compiler: &Path, folder: &Path, library: &Path) -> Result<(), GmpiError> {
    let work = folder.join(format!("build-{}", std::process::id()));
    let failed = |error| refuse(format!("{}: {error}", work.display()));
    fs::create_dir_all(&work).map_err(failed)?;
    let files = SOURCES.map(|(name, text)| (work.join(name), text));
    for (file, text) in &files {
        fs::write(file, text).map_err(failed)?;
    }
    let made = work.join("shim.so");
    let output = Command::new(compiler)
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .arg(&made)
        .args(
            files.iter().map(|(file, _)| file).filter(|file| file.extension().is_some_and(|end| end == "c")),
        )
        .output()
        .map_err(|error| refuse(format!("{}: {error}", compiler.display())))?;
    let result = if output.status.success() {
        fs::rename(&made, library).map_err(failed)
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        // Launchers and compilers may come without the headers, as those of Debian's openmpi-bin do.
        let remedy = match said.contains("mpi.h") {
            true => {
                "; install the library's development files (Debian, Ubuntu: libopenmpi-dev, or libmpich-dev)"
            }
            false => "",
        };
        Err(refuse(format!("{} could not compile GMPI's shim{remedy}:\n{said}", compiler.display())))
    };
    // A folder that is left costs nothing.
    let _ = fs::remove_dir_all(&work);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_was_moved_has_its_own_compiler() {
        let prefix = env::temp_dir().join(format!("ggas-moved-mpi-{}", std::process::id()));
        fs::create_dir_all(prefix.join("bin")).expect("a folder");
        let of = || moved(Some(prefix.clone().into()));
        assert_eq!((moved(None), of()), (None, None), "it came without a compiler");
        fs::write(prefix.join("bin/mpicc"), "").expect("a file");
        assert_eq!(of(), Some(prefix.join("bin/mpicc")));
        fs::remove_dir_all(&prefix).expect("ours");
    }
}
