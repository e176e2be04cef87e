//! The headers that the kernel, C, C++ and nvcc share: each compiles by itself, without a warning. So do the sources of the program for
//! ThreadSanitizer, which is not built every day.

use super::Context;
use crate::place;
use crate::run::side_by_side;
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDERS: [&str; 2] = ["kmod/uapi/extoll", "kernels/include/ggas"];
/// The program for ThreadSanitizer; its `flags` are what `kernels/tests/tsan.rs` compiles it with, too.
const TSAN: &str = "kernels/exec/tsan";

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
    let sources = with_extension(TSAN, "cpp")?;
    side_by_side(&sources, |source| for_tsan(context, source))?;
    let mut notes = vec![format!("{} headers, {} sources for tsan", headers.len(), sources.len())];
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
        found.extend(with_extension(folder, "h")?);
    }
    found.retain(|path| path.file_name().is_none_or(|name| name != "vocab.h"));
    found.sort();
    Ok(found)
}

/// Files of a folder of the checkout, as seen from there.
fn with_extension(folder: &str, extension: &str) -> Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(place::root().join(folder)).with_context(|| format!("cannot read {folder}"))?;
    let names = entries.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
    let paths = names.iter().map(|name| Path::new(folder).join(name));
    let found: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    if found.is_empty() {
        bail!("no file in {folder} ends in .{extension}");
    }
    Ok(found)
}

/// Each file is a translation unit of its own.
fn compiler(program: &str, language: &str, standard: &str, headers: &[PathBuf]) -> Command {
    let mut command = Command::new(program);
    command.args(["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", standard]);
    command.args(includes()).args(["-x", language]).args(headers);
    command
}

fn for_tsan(context: &Context, source: &Path) -> Result<()> {
    let mut command = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()));
    command.arg(format!("@{TSAN}/flags")).arg("-fsyntax-only").arg(source);
    let name = source.file_stem().unwrap_or_default().to_string_lossy();
    context.run(&format!("headers tsan {name}"), command)
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
