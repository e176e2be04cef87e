//! The headers that the kernel, C, C++ and nvcc share: each compiles by itself, without a warning.

use super::Context;
use crate::place;
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDERS: [&str; 2] = ["kmod/uapi/extoll", "kernels/include/ggas"];

pub fn check(context: &Context) -> Result<String> {
    let headers = headers()?;
    let sparse = place::which("sparse");
    let checkpatch = checkpatch();
    context.run("headers as C", compiler("cc", "c", "-std=gnu11", &headers))?;
    context.run("headers as C++", compiler("c++", "c++", "-std=c++17", &headers))?;
    if let Some(sparse) = &sparse {
        let mut command = Command::new(sparse);
        // What the kernel's own build passes (Makefile, CHECKFLAGS).
        command.args(["-D__linux__", "-Wbitwise", "-Wno-return-void", "-Wno-unknown-attribute"]);
        command.args(["-Wsparse-error", "-std=gnu11"]).args(includes()).args(&headers);
        context.run("headers by sparse", command)?;
    }
    let mut notes = vec![format!("{} headers", headers.len())];
    match checkpatch {
        Some(script) => style(context, &script)?,
        None => notes.push("no checkpatch.pl (part of the kernel's source; CHECKPATCH=path)".into()),
    }
    if sparse.is_none() {
        notes.push("no sparse (apt-get install sparse)".into());
    }
    Ok(notes.join(", "))
}

/// Plain headers; `.cuh` files are kernels' own and are compiled with them.
fn headers() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        let folder = place::root().join(folder);
        let entries =
            std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            let own = path.file_name().is_some_and(|name| name == "vocab.h");
            if path.extension().is_some_and(|e| e == "h") && !own {
                found.push(path.strip_prefix(place::root()).unwrap_or(&path).to_path_buf());
            }
        }
    }
    if found.is_empty() {
        bail!("no headers in {}", FOLDERS.join(", "));
    }
    found.sort();
    Ok(found)
}

/// Each file is a translation unit of its own.
fn compiler(program: &str, language: &str, standard: &str, headers: &[PathBuf]) -> Command {
    let mut command = Command::new(program);
    command.args(["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", standard]);
    command.args(includes()).args(["-x", language]).args(headers);
    command
}

fn includes() -> [&'static str; 4] {
    ["-I", "kmod/uapi", "-I", "kernels/include"]
}

/// The kernel's style checker: `CHECKPATCH`, the search path, or an installed kernel source.
fn checkpatch() -> Option<PathBuf> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let build = format!("/lib/modules/{}/build/scripts/checkpatch.pl", release.trim());
    let named = std::env::var_os("CHECKPATCH").map(PathBuf::from);
    named.or_else(|| place::which("checkpatch.pl")).or(Some(build.into())).filter(|path| path.exists())
}

fn style(context: &Context, script: &Path) -> Result<()> {
    let mut command = Command::new("perl");
    command.arg(script).args(["--no-tree", "--terse", "--no-summary", "--ignore", "COMPLEX_MACRO", "--file"]);
    for header in headers()?.iter().filter(|path| path.starts_with("kmod")) {
        command.arg(header);
    }
    context.run("headers checkpatch", command)
}
