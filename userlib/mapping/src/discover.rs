//! The GPUs of this host, and where their ways meet: from NVIDIA's management library, or from the tree of PCI devices in sysfs.
//!
//! Devices are numbered in the order of their PCI addresses, as CUDA does with `CUDA_DEVICE_ORDER=PCI_BUS_ID`. The topology has
//! distances only, until it is [`measured`](crate::Topology::measured).

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{P2pCapabilitiesIndex, P2pStatus, TopologyLevel};

use crate::{Channel, MapError, Topology};

/// The name that drivers install.
const LIBRARY: &str = "libnvidia-ml.so.1";
/// PCI's number of NVIDIA, and the classes of graphics and 3-d controllers.
const NVIDIA: &str = "0x10de";
const CLASSES: [&str; 2] = ["0x0300", "0x0302"];

/// Where two GPUs meet, the nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Meeting {
    Board,
    NvLink,
    Switch,
    Switches,
    HostBridge,
    Numa,
    Sockets,
}

impl Meeting {
    fn name(self) -> &'static str {
        match self {
            Meeting::Board => "board",
            Meeting::NvLink => "NVLink",
            Meeting::Switch => "PCIe switch",
            Meeting::Switches => "PCIe switches",
            Meeting::HostBridge => "host bridge",
            Meeting::Numa => "NUMA node",
            Meeting::Sockets => "sockets",
        }
    }
}

/// By `nvmlDeviceGetTopologyCommonAncestor`, as the thesis (6.3.1). That sees PCI only; which GPUs NVLink joins, directly or by
/// switches, `nvmlDeviceGetP2PStatus` says.
///
/// # Errors
/// [`MapError::Topology`]: there is no driver, or no GPU, or it does not tell.
pub fn nvml() -> Result<Topology, MapError> {
    let failed = |error: &dyn std::fmt::Display| wrong("NVML", format!("{error}; name a topology's file"));
    let nvml = Nvml::builder().lib_path(OsStr::new(LIBRARY)).init();
    let nvml = nvml.map_err(|error| failed(&format!("{LIBRARY}, which comes with the driver: {error}")))?;
    let count = nvml.device_count().map_err(|error| failed(&error))?;
    topology("NVML", count as usize, |one, other| {
        let failed = |error| failed(&format!("GPUs {one} and {other}: {error}"));
        let gpu = |index: usize| nvml.device_by_index(index as u32);
        let (gpu_one, gpu_other) = (gpu(one).map_err(failed)?, gpu(other).map_err(failed)?);
        // Drivers that do not know of it have none.
        let linked = gpu_one.p2p_status(&gpu_other, P2pCapabilitiesIndex::NvLink);
        let level = gpu_one.topology_common_ancestor(gpu_other).map_err(failed)?;
        Ok(match level {
            TopologyLevel::Internal => Meeting::Board,
            _ if matches!(linked, Ok(P2pStatus::Ok)) => Meeting::NvLink,
            TopologyLevel::Single => Meeting::Switch,
            TopologyLevel::Multiple => Meeting::Switches,
            TopologyLevel::HostBridge => Meeting::HostBridge,
            TopologyLevel::Node => Meeting::Numa,
            TopologyLevel::System => Meeting::Sockets,
        })
    })
}

/// By the PCI devices below `root`, which is `/sys` but for tests. Needs no driver.
///
/// # Errors
/// [`MapError::File`]: what is there cannot be read; [`MapError::Topology`]: there is no GPU.
pub fn sysfs(root: &Path) -> Result<Topology, MapError> {
    let folder = root.join("bus/pci/devices");
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| MapError::File { path, source }
    };
    let mut gpus = Vec::new();
    for entry in fs::read_dir(&folder).map_err(at(&folder))? {
        let path = entry.map_err(at(&folder))?.path();
        // A device may be unplugged at any time: it is no GPU then.
        let text = |name: &str| fs::read_to_string(path.join(name)).unwrap_or_default();
        if text("vendor").trim() == NVIDIA && CLASSES.iter().any(|class| text("class").starts_with(class)) {
            let numa = text("numa_node").trim().parse().unwrap_or(-1);
            gpus.push(Gpu { way: fs::canonicalize(&path).map_err(at(&path))?, numa });
        }
    }
    gpus.sort_by(|a, b| a.way.file_name().cmp(&b.way.file_name()));
    let place = folder.display().to_string();
    topology(&place, gpus.len(), |one, other| Ok(meeting(&gpus[one], &gpus[other])))
}

/// A GPU in sysfs.
struct Gpu {
    /// Host bridge, bridges, and the device itself.
    way: PathBuf,
    /// -1: the host has only one, or does not tell.
    numa: i32,
}

fn meeting(one: &Gpu, other: &Gpu) -> Meeting {
    let names = |gpu: &Gpu| {
        gpu.way.components().map(|part: Component<'_>| part.as_os_str().to_owned()).collect::<Vec<_>>()
    };
    let (one_way, other_way) = (names(one), names(other));
    let common = one_way.iter().zip(&other_way).take_while(|(a, b)| a == b).count();
    let last = one_way[..common].last().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if last.starts_with("pci") {
        return Meeting::HostBridge;
    }
    if last.matches(':').count() == 2 {
        // Below a switch a GPU has the switch's port above it, and nothing else.
        let is_next = one_way.len() - common <= 2 && other_way.len() - common <= 2;
        return if is_next { Meeting::Switch } else { Meeting::Switches };
    }
    if one.numa == other.numa { Meeting::Numa } else { Meeting::Sockets }
}

/// The levels are those that are there, from the nearest on.
fn topology(
    origin: &str,
    gpus: usize,
    meeting: impl Fn(usize, usize) -> Result<Meeting, MapError>,
) -> Result<Topology, MapError> {
    if gpus == 0 {
        return Err(wrong(origin, "there is no GPU of NVIDIA; name a topology's file".to_owned()));
    }
    let mut meetings = vec![Vec::with_capacity(gpus); gpus];
    for (one, row) in meetings.iter_mut().enumerate() {
        for other in 0..gpus {
            row.push(if one == other { None } else { Some(meeting(one.min(other), one.max(other))?) });
        }
    }
    let mut known: Vec<Meeting> = meetings.iter().flatten().copied().flatten().collect();
    known.sort_unstable();
    known.dedup();
    if known.is_empty() {
        known.push(Meeting::Board);
    }
    let level =
        |at: &Option<Meeting>| at.and_then(|at| known.iter().position(|one| *one == at)).unwrap_or(0) as u8;
    let rows: Vec<Vec<u8>> = meetings.iter().map(|row| row.iter().map(level).collect()).collect();
    let channel = |at: &Meeting| Channel { name: at.name().to_owned(), latency_us: None, gbytes_per_s: None };
    let devices = (0..gpus).map(|gpu| gpu.to_string()).collect();
    Topology::new("this host".to_owned(), devices, known.iter().map(channel).collect(), &rows)
}

fn wrong(origin: &str, message: String) -> MapError {
    MapError::Topology { origin: origin.to_owned(), message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A device at this place below `devices`.
    fn device(root: &Path, way: &str, class: &str, numa: i32) {
        let device = root.join("devices").join(way);
        fs::create_dir_all(&device).expect("made");
        for (name, text) in [("vendor", NVIDIA), ("class", class), ("numa_node", &numa.to_string())] {
            fs::write(device.join(name), format!("{text}\n")).expect("written");
        }
        let all = root.join("bus/pci/devices");
        fs::create_dir_all(&all).expect("made");
        symlink(&device, all.join(way.rsplit('/').next().expect("a name"))).expect("linked");
    }

    #[test]
    fn ways_meet_where_sysfs_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let gpu = |way: &str, numa| device(folder.path(), way, "0x030200", numa);
        // Two below one switch, one below a switch behind that one's, one at another root port, one host bridge further, one far.
        gpu("pci0000:00/0000:00:02.0/0000:03:00.0/0000:04:08.0/0000:05:00.0", 0);
        gpu("pci0000:00/0000:00:02.0/0000:03:00.0/0000:04:10.0/0000:06:00.0", 0);
        gpu("pci0000:00/0000:00:02.0/0000:03:00.0/0000:04:12.0/0000:07:00.0/0000:08:00.0/0000:09:00.0", 0);
        gpu("pci0000:00/0000:00:03.0/0000:0a:00.0", 0);
        gpu("pci0000:40/0000:40:01.0/0000:41:00.0", 0);
        gpu("pci0000:80/0000:80:01.0/0000:81:00.0", 1);
        device(folder.path(), "pci0000:80/0000:80:02.0", "0x020000", 1);
        let topology = sysfs(folder.path()).expect("six GPUs");
        assert_eq!(topology.places(), 6);
        let names: Vec<_> =
            (1..6).map(|gpu| topology.channels()[topology.level(0, gpu)].name.as_str()).collect();
        assert_eq!(names, ["PCIe switch", "PCIe switches", "host bridge", "NUMA node", "sockets"]);
        assert_eq!(topology.level(4, 5), topology.level(0, 5));
        assert_eq!(
            crate::Metric::Distance.weights(&topology).expect("no measurement"),
            [5.0, 4.0, 3.0, 2.0, 1.0]
        );
        assert!(crate::Metric::Bandwidth.weights(&topology).is_err());
    }

    #[test]
    fn a_host_without_gpus_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(matches!(sysfs(folder.path()), Err(MapError::File { .. })));
        device(folder.path(), "pci0000:00/0000:00:02.0", "0x020000", 0);
        assert!(sysfs(folder.path()).expect_err("none").to_string().contains("no GPU of NVIDIA"));
        device(folder.path(), "pci0000:00/0000:00:03.0", "0x030200", -1);
        assert_eq!(sysfs(folder.path()).expect("one").places(), 1);
    }
}
