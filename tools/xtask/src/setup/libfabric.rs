//! libfabric: its headers, for the build, bring the library with them.

use super::apt::{self, Policy};
use super::touch;
use anyhow::{Result, bail};
use std::io::Write;
use std::process::{Command, Stdio};

/// The first line of its version, with its headers installed if `policy` lets us.
pub fn libfabric(policy: Policy) -> Result<String> {
    if let Some(found) = headers() {
        return Ok(found);
    }
    apt::install(&["libfabric-dev"], "libfabric", policy)?;
    touch("userlib/wire/build.rs")?;
    match headers() {
        Some(found) => Ok(found),
        None => bail!("its package is installed, but the C compiler finds no rdma/fabric.h"),
    }
}

/// What the compiler finds: as the build does, it searches `CPATH` too.
fn headers() -> Option<String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut command = Command::new(compiler);
    command
        .args(["-E", "-P", "-x", "c", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let source = b"#include <rdma/fabric.h>\nheaders FI_MAJOR_VERSION FI_MINOR_VERSION\n";
    child.stdin.take()?.write_all(source).ok()?;
    let output = child.wait_with_output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.lines().rev().find_map(|line| line.trim().strip_prefix("headers "))?;
    output.status.success().then(|| format!("{} (headers)", version.trim().replace(' ', ".")))
}
