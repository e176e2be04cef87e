//! Whether a GPU is near the network card: below the same root complex, as sysfs shows it (thesis 4.4.1).

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Devices by their PCI addresses, and by the numbers of their device nodes.
const DEVICES: &str = "/sys/bus/pci/devices";
const NODES: &str = "/sys/dev/char";

/// The root complex above a device's place in sysfs, such as `pci0000:40`; `None` where sysfs does not show the device.
fn root_complex(place: &Path) -> Option<String> {
    let place = place.canonicalize().ok()?;
    let mut parts = place.components().filter_map(|part| part.as_os_str().to_str());
    parts.find(|part| part.starts_with("pci") && part.contains(':')).map(str::to_owned)
}

/// Whether two devices are below one root complex.
fn are_near(one: &Path, other: &Path) -> bool {
    let root = root_complex(one);
    root.is_some() && root == root_complex(other)
}

/// Whether a GPU, by its PCI address, is below the root complex of the card with this device node.
pub(super) fn is_near(gpu: &str, card: &str) -> bool {
    let Ok(node) = std::fs::metadata(card) else { return false };
    let (major, minor) = (libc::major(node.rdev()), libc::minor(node.rdev()));
    let card = Path::new(NODES).join(format!("{major}:{minor}")).join("device");
    are_near(&Path::new(DEVICES).join(gpu.to_lowercase()), &card)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_near_below_the_same_root_complex_and_at_no_other() {
        let base = std::env::temp_dir().join(format!("ggas-gaspi-locality-{}", std::process::id()));
        let places = [
            ("gpu", "pci0000:40/0000:40:01.1/0000:41:00.0"),
            ("card", "pci0000:40/0000:40:03.1/0000:42:00.0"),
            ("far", "pci0000:80/0000:80:01.1/0000:81:00.0"),
        ];
        std::fs::create_dir_all(&base).unwrap();
        for (name, place) in places {
            let place = base.join(place);
            std::fs::create_dir_all(&place).unwrap();
            std::os::unix::fs::symlink(&place, base.join(name)).unwrap();
        }
        let near = |one, other| are_near(&base.join(one), &base.join(other));
        assert!(near("gpu", "card"));
        assert!(!near("gpu", "far"));
        assert!(!near("gpu", "none") && !near("none", "none"), "sysfs does not show it");
        assert_eq!(root_complex(&base.join("far")).as_deref(), Some("pci0000:80"));
        assert!(!is_near("0000:41:00.0", "/dev/no-such-card"));
        std::fs::remove_dir_all(&base).unwrap();
    }
}
