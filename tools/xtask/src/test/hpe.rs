//! Step `hpe`: the installed C library of HPE exports what its header declares, and the programs of its tests run with it, linked as pkg-config
//! says and preloaded. What its functions do, `cargo test -p ggas-hpe-preload` tests.

use super::Context;
use crate::capi::Profile;
use crate::run::ask;
use crate::{hpe, place};
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const TESTS: &str = "userlib/hpe/preload/tests";
/// File calls in place of the C library's.
const CALLS: [&str; 10] =
    ["read", "write", "pread", "pwrite", "readv", "writev", "preadv", "pwritev", "fread", "fwrite"];
/// As a shell reads what pkg-config prints: names in it may hold spaces.
const BY_PKG_CONFIG: &str =
    r#"eval cc -Wall -Wextra -Werror -O1 '"$1"' $(pkg-config --cflags --libs ggas_hpe) -pthread -o '"$2"'"#;

pub fn check(context: &Context) -> Result<String> {
    let prefix = place::build().join("hpe for tests");
    hpe::build_into(&prefix, Profile::Debug)?;
    let count = names(&prefix)?;
    // A program that knows nothing of the library when it is built.
    let files = prefix.join("files");
    let mut command = Command::new("cc");
    command.args(["-Wall", "-Wextra", "-Werror", "-O1", "-I"]).arg(prefix.join("include"));
    command.arg(format!("{TESTS}/files.c")).args(["-ldl", "-o"]).arg(&files);
    context.run("hpe files build", command)?;
    // By its name: where it is may hold spaces, which part names there.
    let mut command = Command::new(&files);
    command.env("LD_PRELOAD", hpe::LIBRARY).env("LD_LIBRARY_PATH", prefix.join("lib"));
    said(&mut command, "all well\n")?;
    if place::which("pkg-config").is_none() {
        return Ok(format!("{count} functions, skipped pkg-config: apt-get install pkg-config"));
    }
    let spread = prefix.join("spread");
    let mut command = Command::new("sh");
    command.args(["-c", BY_PKG_CONFIG, "sh"]).arg(format!("{TESTS}/spread.c")).arg(&spread);
    command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    context.run("hpe by pkg-config", command)?;
    let mut command = Command::new(&spread);
    command.arg("2").env("LD_LIBRARY_PATH", prefix.join("lib")).env("GGAS_HPE_DEVICES", "2");
    said(command.env("CUDA_VISIBLE_DEVICES", ""), "all well\n")?;
    Ok(format!("{count} functions, pkg-config"))
}

fn library(prefix: &Path) -> PathBuf {
    prefix.join("lib").join(hpe::LIBRARY)
}

/// Runs a program that ends well and prints this.
fn said(command: &mut Command, expected: &str) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?} does not run"))?;
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success() && out == expected, "{command:?}: {}: {out}{error}", output.status);
    Ok(())
}

/// What the library exports is what the header declares, and the file calls.
fn names(prefix: &Path) -> Result<usize> {
    let declared = hpe::declared()?;
    let listed = ask("nm", &["-D", "--defined-only", &library(prefix).to_string_lossy()]);
    let listed = listed.context("nm does not run (binutils)")?;
    let found: BTreeSet<&str> = listed.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let wanted = declared.iter().map(String::as_str).chain(CALLS);
    let missing: Vec<_> = wanted.filter(|name| !found.contains(name)).collect();
    ensure!(missing.is_empty(), "{} lacks {missing:?}", hpe::LIBRARY);
    Ok(declared.len())
}
