//! Counters of energy that a machine may have, and why it has none.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::Class;

/// A counter that only rises, apart from where it begins anew.
pub(super) trait Counter: Send {
    /// Joules since some moment.
    fn joules(&mut self) -> Result<f64, String>;
}

/// A component of the machine whose energy is counted.
pub(super) struct Component {
    pub class: Class,
    /// Such as `gpu 0` or `package 1`.
    pub name: String,
    /// The counter, and where it is read.
    pub source: String,
    pub counter: Box<dyn Counter>,
    /// Joules at which the counter begins anew; `None`: it does not.
    pub wraps_at: Option<f64>,
}

/// A component whose energy cannot be read here.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Missing {
    /// What it is.
    pub component: String,
    /// Why, and what to do.
    pub reason: String,
}

/// What a source of counters gave.
#[derive(Default)]
pub(super) struct Found {
    pub components: Vec<Component>,
    pub missing: Vec<Missing>,
}

impl Found {
    pub fn missing(component: &str, reason: impl Into<String>) -> Self {
        let missing = Missing { component: component.to_owned(), reason: reason.into() };
        Self { missing: vec![missing], ..Self::default() }
    }

    pub fn extend(&mut self, other: Self) {
        self.components.extend(other.components);
        self.missing.extend(other.missing);
    }
}

/// The counter of one domain of powercap: a file in microjoules.
struct EnergyFile(PathBuf);

impl Counter for EnergyFile {
    fn joules(&mut self) -> Result<f64, String> {
        Ok(number(&self.0)? / 1e6)
    }
}

/// Packages and their memory by Intel's or AMD's RAPL, from powercap in the sysfs at `sysfs` (usually `/sys`). Other
/// domains are parts of these.
pub(super) fn powercap(sysfs: &Path) -> Found {
    let control = sysfs.join("class/powercap");
    let mut zones: Vec<PathBuf> = fs::read_dir(&control)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|zone| zone.file_name().is_some_and(|name| name.to_string_lossy().starts_with("intel-rapl:")))
        .collect();
    zones.sort();
    let mut found = Found::default();
    for zone in zones {
        let Ok(name) = fs::read_to_string(zone.join("name")) else { continue };
        let (class, name) = match name.trim() {
            // `package-0`, and `package-0-die-1` on processors of several dies.
            name if name.starts_with("package-") => (Class::Cpu, name.replacen('-', " ", 1)),
            "dram" => (Class::Dram, format!("dram {}", parent(&zone))),
            _ => continue,
        };
        found.extend(energy_file(class, &name, &zone));
    }
    found
}

fn energy_file(class: Class, name: &str, zone: &Path) -> Found {
    let mut counter = EnergyFile(zone.join("energy_uj"));
    if let Err(reason) = counter.joules() {
        return Found::missing(name, reason);
    }
    let wraps_at = match number(&zone.join("max_energy_range_uj")) {
        Ok(range) => Some(range / 1e6),
        Err(reason) => return Found::missing(name, reason),
    };
    let source = format!("RAPL, {}", counter.0.display());
    let component = Component { class, name: name.to_owned(), source, counter: Box::new(counter), wraps_at };
    Found { components: vec![component], missing: Vec::new() }
}

/// The number of the package that a zone `intel-rapl:0:2` is part of.
fn parent(zone: &Path) -> String {
    let name = zone.file_name().unwrap_or_default().to_string_lossy();
    name.split(':').nth(1).unwrap_or("?").to_owned()
}

fn number(path: &Path) -> Result<f64, String> {
    let text = fs::read_to_string(path).map_err(|error| refusal(path, &error))?;
    let value = text.trim().parse().ok().filter(|value: &f64| value.is_finite());
    value.ok_or_else(|| format!("{} says `{}`, no number", path.display(), text.trim()))
}

fn refusal(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            format!("{} is for root only: run as root, or have root make it readable", path.display())
        }
        _ => format!("{}: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(sysfs: &Path, zone: &str, name: &str, energy: &str) -> PathBuf {
        let folder = sysfs.join("class/powercap").join(zone);
        fs::create_dir_all(&folder).expect("a folder");
        for (file, text) in [("name", name), ("energy_uj", energy), ("max_energy_range_uj", "262143328850\n")]
        {
            fs::write(folder.join(file), text).expect("a file");
        }
        folder
    }

    #[test]
    fn packages_and_memory_are_found_and_their_parts_are_not() {
        let sysfs = tempfile::tempdir().expect("a folder");
        let at = sysfs.path();
        zone(at, "intel-rapl:0", "package-0\n", "1500000\n");
        zone(at, "intel-rapl:0:0", "core\n", "1\n");
        zone(at, "intel-rapl:0:1", "dram\n", "250000\n");
        zone(at, "intel-rapl:1", "package-1\n", "42\n");
        zone(at, "intel-rapl:2", "psys\n", "0\n");
        zone(at, "intel-rapl-mmio:0", "package-0\n", "0\n");
        let mut found = powercap(at);
        let names: Vec<&str> = found.components.iter().map(|c| &*c.name).collect();
        assert_eq!(names, ["package 0", "dram 0", "package 1"]);
        assert_eq!(found.components[0].counter.joules(), Ok(1.5));
        assert_eq!(found.components[1].counter.joules(), Ok(0.25));
        assert_eq!(found.components[0].wraps_at, Some(262_143.328_85));
        assert!(found.missing.is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_missing_and_says_why() {
        let sysfs = tempfile::tempdir().expect("a folder");
        assert!(powercap(sysfs.path()).components.is_empty(), "no powercap at all");
        let package = zone(sysfs.path(), "intel-rapl:0", "package-0\n", "no number\n");
        zone(sysfs.path(), "intel-rapl:1", "package-1\n", "nan\n");
        zone(sysfs.path(), "intel-rapl:0:1", "dram\n", "1\n");
        fs::remove_file(sysfs.path().join("class/powercap/intel-rapl:0:1/max_energy_range_uj"))
            .expect("gone");
        let found = powercap(sysfs.path());
        assert!(found.components.is_empty());
        assert!(found.missing[0].reason.contains("no number"), "{:?}", found.missing);
        assert!(found.missing[1].reason.contains("max_energy_range_uj"), "{:?}", found.missing);
        assert!(found.missing[2].reason.contains("says `nan`, no number"), "{:?}", found.missing);
        let denied = refusal(&package, &ErrorKind::PermissionDenied.into());
        assert!(denied.contains("root"), "{denied}");
    }
}
