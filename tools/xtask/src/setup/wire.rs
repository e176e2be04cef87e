//! The libraries that join hosts: their headers, for the build, bring the libraries with them.

use super::apt::{self, Policy};
use super::touch;
use anyhow::{Result, bail};
use std::io::Write;
use std::process::{Command, Stdio};

/// A library whose headers the build looks for.
pub struct Wire {
    pub name: &'static str,
    package: &'static str,
    header: &'static str,
    /// Macros that are its version.
    version: &'static str,
}

/// Those that `userlib/wire` has a shim for.
pub const ALL: [Wire; 2] = [
    Wire {
        name: "libfabric",
        package: "libfabric-dev",
        header: "rdma/fabric.h",
        version: "FI_MAJOR_VERSION FI_MINOR_VERSION",
    },
    Wire {
        name: "UCX",
        package: "libucx-dev",
        header: "ucp/api/ucp.h",
        version: "UCP_API_MAJOR UCP_API_MINOR",
    },
];

impl Wire {
    /// Its version, with its headers installed if `policy` lets us.
    pub fn look(&self, policy: Policy) -> Result<String> {
        if let Some(found) = self.headers() {
            return Ok(found);
        }
        apt::install(&[self.package], self.name, policy)?;
        touch("userlib/wire/build.rs")?;
        match self.headers() {
            Some(found) => Ok(found),
            None => bail!("its package is installed, but the C compiler finds no {}", self.header),
        }
    }

    /// What the compiler finds: as the build does, it searches `CPATH` too.
    fn headers(&self) -> Option<String> {
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let mut command = Command::new(compiler);
        command
            .args(["-E", "-P", "-x", "c", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let source = format!("#include <{}>\nheaders {}\n", self.header, self.version);
        child.stdin.take()?.write_all(source.as_bytes()).ok()?;
        let output = child.wait_with_output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.lines().rev().find_map(|line| line.trim().strip_prefix("headers "))?;
        output.status.success().then(|| format!("{} (headers)", version.trim().replace(' ', ".")))
    }
}
