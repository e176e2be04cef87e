//! Debian packages without installing them: apt with a state of its own, `dpkg -x` into folders of `build/vm`.
//!
//! The archive is the one that the machine's own apt uses. Its lists know nothing of what is installed here, so a
//! package comes with everything that it needs, and what is unpacked runs on whatever C library comes with it.

use crate::place;
use crate::run::{Step, ask};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Downloads are a few hundred MB.
const DOWNLOAD: Duration = Duration::from_secs(900);

/// Folder of everything that the virtual machines need.
pub fn folder() -> PathBuf {
    place::build().join("vm")
}

/// Debian's archive, and packages in it.
pub struct Archive {
    config: PathBuf,
    packages: PathBuf,
}

impl Archive {
    /// The archive, with lists that are a day old at most.
    pub fn open() -> Result<Archive> {
        let (main, security) = mirrors()?;
        let dir = folder().join("apt");
        let archive = Archive { config: dir.join("apt.conf"), packages: dir.join("packages") };
        for sub in ["lists/partial", "cache/archives/partial", "sources", "packages"] {
            fs::create_dir_all(dir.join(sub))?;
        }
        let source = |uri: &str, suites: &str| {
            format!("Types: deb\nURIs: {uri}\nSuites: {suites}\nComponents: main\nSigned-By: {KEYRING}\n")
        };
        let sources = source(&main, "bookworm bookworm-backports trixie trixie-backports")
            + "\n"
            + &source(&security, "bookworm-security");
        fs::write(dir.join("status"), "")?;
        fs::write(&archive.config, config(&dir))?;
        let place = dir.join("sources/debian.sources");
        let stamp = dir.join("updated");
        let fresh = |time: std::time::SystemTime| time.elapsed().is_ok_and(|age| age.as_secs() < 24 * 3600);
        let updated = fs::metadata(&stamp).and_then(|m| m.modified()).is_ok_and(fresh);
        if fs::read_to_string(&place).unwrap_or_default() != sources || !updated {
            fs::write(&place, &sources)?;
            let mut update = archive.apt("apt-get");
            update.args(["update", "-q"]);
            Step { name: "vm apt update", command: update, limit: DOWNLOAD }.run()?;
            fs::write(&stamp, "")?;
        }
        Ok(archive)
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", &self.config).env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    /// The newest package of a family: `before` and `after` stand around numbers and dots.
    pub fn newest(&self, before: &str, after: &str) -> Result<String> {
        let pattern = format!("^{}[0-9.]*{}$", escaped(before), escaped(after));
        let mut search = self.apt("apt-cache");
        search.args(["search", "--names-only", &pattern]);
        let out = search.output().context("apt-cache does not run")?;
        let text = String::from_utf8_lossy(&out.stdout);
        let version = |name: &str| -> Vec<u32> {
            let middle = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)).unwrap_or("");
            middle.split('.').map(|part| part.parse().unwrap_or(0)).collect()
        };
        let names = text.lines().filter_map(|line| line.split_whitespace().next());
        let newest = names.max_by_key(|name| version(name)).map(str::to_owned);
        newest.with_context(|| format!("Debian's archive has no package like {before}*{after}"))
    }

    /// Unpacks packages, and with `closure` everything that they depend on, into folder `name`; once for each set of
    /// packages. `suite`: where to take them from first.
    pub fn unpack(&self, name: &str, suite: &str, packages: &[&str], closure: bool) -> Result<PathBuf> {
        let root = folder().join(name);
        let stamp = root.join(".packages");
        let wanted = packages.join(" ");
        if fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
            return Ok(root);
        }
        let _ = fs::remove_dir_all(&root);
        let cache = self.packages.join(name);
        let _ = fs::remove_dir_all(&cache);
        fs::create_dir_all(cache.join("partial"))?;
        fs::create_dir_all(&root)?;
        let mut get = self.apt("apt-get");
        get.args(["-y", "-q", "-t", suite, "-o", &format!("Dir::Cache::archives={}", cache.display())]);
        if closure {
            get.args(["install", "--download-only", "--no-install-recommends"]).args(packages);
        } else {
            // From any folder: the step starts in the checkout.
            let line = format!("cd {} && exec apt-get -q -t {suite} download {wanted}", cache.display());
            get = self.apt("sh");
            get.args(["-c", &line]);
        }
        Step { name: &format!("vm fetch {name}"), command: get, limit: DOWNLOAD }.run()?;
        let mut extract = Command::new("sh");
        let line = format!(
            "set -e; for deb in {0}/*.deb; do dpkg -x $deb {1}; done",
            cache.display(),
            root.display()
        );
        extract.args(["-c", &line]);
        Step { name: &format!("vm unpack {name}"), command: extract, limit: DOWNLOAD }.run()?;
        fs::remove_dir_all(&cache)?;
        fs::write(&stamp, wanted)?;
        Ok(root)
    }
}

fn escaped(text: &str) -> String {
    text.chars().flat_map(|c| if ".+".contains(c) { vec!['\\', c] } else { vec![c] }).collect()
}

fn config(dir: &Path) -> String {
    let at = |sub: &str| dir.join(sub).display().to_string();
    format!(
        "Dir::State::lists \"{}\";\nDir::State::status \"{}\";\nDir::Cache \"{}\";\n\
         Dir::Etc::sourcelist \"/dev/null\";\nDir::Etc::sourceparts \"{}\";\nDir::Etc::preferencesparts \"/dev/null\";\n\
         Acquire::Languages \"none\";\nAcquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n\
         APT::Sandbox::User \"root\";\nAPT::Architecture \"amd64\";\nAPT::Architectures {{ \"amd64\"; }};\n",
        at("lists"),
        at("status"),
        at("cache"),
        at("sources")
    )
}

/// Where the machine's own apt finds Debian, and Debian's security updates.
fn mirrors() -> Result<(String, String)> {
    let how = "virtual machines need Debian's archive; on Debian 12 or newer this works by itself, elsewhere add a \
               Debian mirror to apt's sources and install debian-archive-keyring";
    if !Path::new(KEYRING).exists() {
        bail!("no {KEYRING}: {how}");
    }
    let format = "$(REPO_URI)";
    let listed = ask("apt-get", &["indextargets", "--format", format, "Created-By: Packages"]);
    let listed = listed.context(how)?;
    let ends = |name: &str| {
        listed.lines().map(|uri| uri.trim_end_matches('/')).find(|uri| uri.ends_with(name)).map(str::to_owned)
    };
    let main = ends("/debian").with_context(|| format!("apt's sources name no Debian mirror: {how}"))?;
    let security = ends("/debian-security").unwrap_or_else(|| main.clone() + "-security");
    Ok((main, security))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_for_the_search() {
        assert_eq!(escaped("linux-headers-6.12.+deb"), "linux-headers-6\\.12\\.\\+deb");
    }
}
