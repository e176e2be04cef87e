//! Where we are: the checkout, its build folder, the user, the terminal.

use std::fs;
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Root of the checkout.
pub fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = manifest.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    here.ancestors().nth(2).unwrap_or(Path::new(".")).to_path_buf()
}

/// Everything that xtask installs or writes lies here; deleting it is harmless.
pub fn build() -> PathBuf {
    root().join("build")
}

/// Whole output of every command that xtask ran.
pub fn logs() -> PathBuf {
    build().join("log")
}

/// `path` as seen from the checkout's root, for messages.
pub fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// The effective user is root.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// Standard input is a terminal, so a question can be asked.
pub fn interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && !ci()
}

/// A continuous integration service runs us: plain lines, no moving progress.
pub fn ci() -> bool {
    std::env::var_os("CI").is_some_and(|v| v != "false" && v != "0" && !v.is_empty())
}

/// Days of the world's time since 1970, by which things take turns.
pub fn day() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() / 86400)
}

/// First executable of this name on the search path.
pub fn which(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return executable(Path::new(name)).then(|| PathBuf::from(name));
    }
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(name)).find(|p| executable(p))
}

fn executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|m| m.is_file() && m.mode() & 0o111 != 0)
}
