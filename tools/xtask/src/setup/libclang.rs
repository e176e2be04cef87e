//! libclang for bindgen: the wheel is pinned, so that the facts come out alike everywhere.

use super::apt::Policy;
use super::pip;
use crate::place;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

const WHEEL: &str = "libclang==18.1.1";

/// Folder that holds a libclang: `LIBCLANG_PATH`, or the wheel in `build/libclang`.
pub fn find() -> Result<PathBuf> {
    let named = std::env::var_os("LIBCLANG_PATH").map(PathBuf::from);
    let ours = inside(&place::build().join("libclang"));
    match named.into_iter().chain([ours]).find(|dir| holds_library(dir)) {
        Some(dir) => Ok(dir),
        None => bail!("`cargo xtask setup` fetches it (25 MB of Python wheel into build/libclang)"),
    }
}

/// Like [`find`], and installs the wheel when there is none.
pub fn libclang(policy: Policy) -> Result<PathBuf> {
    if let Ok(dir) = find() {
        return Ok(dir);
    }
    pip::require("libclang", policy)?;
    let folder = pip::install("libclang", &[WHEEL], |folder| {
        let dir = inside(folder);
        if holds_library(&dir) { Ok(()) } else { bail!("no libclang.so in {}", dir.display()) }
    });
    let folder = folder.context("cannot install libclang; set LIBCLANG_PATH to the folder of one")?;
    Ok(inside(&folder))
}

fn inside(folder: &Path) -> PathBuf {
    folder.join("clang/native")
}

fn holds_library(dir: &Path) -> bool {
    dir.join("libclang.so").exists() || dir.join("libclang.so.1").exists()
}
