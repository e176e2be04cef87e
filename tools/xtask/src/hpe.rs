//! The C library of HPE, which programs link or preload: part of `cargo xtask install`.

use crate::capi::{self, Profile, objcopy};
use crate::gaspi::declared_in;
use crate::place;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const FOLDER: &str = "userlib/hpe/preload";
const HEADER: &str = "include/ggas_hpe.h";
/// The name by which it is linked and preloaded.
pub const LIBRARY: &str = "libggas_hpe_preload.so";

/// Builds the library and installs it, its header and its pkg-config file below `prefix`.
pub fn build_into(prefix: &Path, profile: Profile) -> Result<()> {
    let library = capi::archive("ggas-hpe-preload", LIBRARY, profile)?;
    let (lib, include) = (prefix.join("lib"), prefix.join("include"));
    for folder in [&include, &lib.join("pkgconfig")] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::copy(folder().join(HEADER), include.join("ggas_hpe.h"))?;
    objcopy(&library, &lib.join(LIBRARY), &["--strip-debug"])?;
    let template = folder().join("link/ggas_hpe.pc.in");
    let text = fs::read_to_string(&template).with_context(|| format!("no {}", template.display()))?;
    let text = text.replace("@PREFIX@", &prefix.display().to_string());
    fs::write(lib.join("pkgconfig/ggas_hpe.pc"), text.replace("@VERSION@", env!("CARGO_PKG_VERSION")))?;
    Ok(())
}

fn folder() -> PathBuf {
    place::root().join(FOLDER)
}

/// Names of the functions that its header declares.
pub fn declared() -> Result<BTreeSet<String>> {
    let header = fs::read_to_string(folder().join(HEADER)).context("no ggas_hpe.h")?;
    Ok(declared_in(&header, &["ggas_hpe_"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_header() {
        let names = declared().unwrap();
        for name in ["ggas_hpe_alloc", "ggas_hpe_alloc_spread", "ggas_hpe_copy", "ggas_hpe_owner"] {
            assert!(names.contains(name), "{name} of {names:?}");
        }
    }
}
