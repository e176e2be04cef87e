//! Files of networks of hosts whose nodes are all on this one.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};

use ggas_wire::{WireError, choose};

pub const SECRET: &str = "00112233445566778899aabbccddeeff";
/// Below the ports that the system gives to whoever asks for none.
const FIRST_PORT: u16 = 7000;

/// A file of hosts that goes with its value.
pub struct Hosts(PathBuf);

impl Hosts {
    /// Places that nobody else takes, before or after: an address that is this process's alone, with ports that are given
    /// once. `None`, with the reason on standard error: nothing carries packets here.
    pub fn new(nodes: u16) -> Option<Hosts> {
        if let Err(
            error @ (WireError::Nothing { .. } | WireError::Missing { .. } | WireError::NotBuilt { .. }),
        ) = choose()
        {
            eprintln!("skipped: {error}");
            return None;
        }
        static NEXT: AtomicU16 = AtomicU16::new(FIRST_PORT);
        let first = NEXT.fetch_add(nodes, Ordering::Relaxed);
        let host = Ipv4Addr::from((127 << 24 | 1 << 22) + std::process::id() % (1 << 22)); // a process id has 22 bits
        let places: String = (first..first + nodes).map(|port| format!("{host}:{port}\n")).collect();
        Some(Hosts::of(&places, SECRET))
    }

    pub fn of(places: &str, secret: &str) -> Hosts {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let name = format!("ggas-hosts-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::write(&path, format!("secret {secret}\n{places}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        Hosts(path)
    }

    /// One more line.
    #[allow(dead_code, reason = "not all tests need it")]
    pub fn append(&self, line: &str) {
        let text = fs::read_to_string(&self.0).unwrap();
        fs::write(&self.0, text + line).unwrap();
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    #[allow(dead_code, reason = "not all tests need it")]
    pub fn place(&self, node: usize) -> String {
        fs::read_to_string(&self.0).unwrap().lines().nth(node + 1).unwrap().to_owned()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
