//! The settings in which every scenario of the matrix runs.

use std::fmt;
use std::time::Duration;

use ggas::{FabricKind, Faults, Path, PortConfig, Progress};

use crate::Bed;

/// Where origin and target are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One port that sends to itself.
    OnePort,
    /// Two ports of one node.
    OneNode,
    /// Two nodes.
    TwoNodes,
    /// Opposite corners of a 3x2x2 torus, three links apart.
    Torus,
}

/// What goes wrong on the links; the number is a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing: packets are handed over directly.
    None,
    /// Frames are lost and damaged.
    Lossy(u64),
    /// Frames overtake each other, come late and twice.
    Shuffled(u64),
    /// All of that, and credits run out.
    Everything(u64),
}

impl Trouble {
    /// As the network takes it.
    pub fn faults(self) -> Faults {
        let late = Duration::from_micros(100);
        match self {
            Trouble::None => Faults::none(),
            Trouble::Lossy(seed) => Faults::none().seed(seed).drop(0.03).corrupt(0.03),
            Trouble::Shuffled(seed) => {
                Faults::none().seed(seed).reorder(0.05).delay(0.02, late).duplicate(0.05)
            }
            Trouble::Everything(seed) => Faults::none()
                .seed(seed)
                .drop(0.02)
                .corrupt(0.02)
                .reorder(0.02)
                .delay(0.01, late)
                .duplicate(0.02)
                .starve(0.05),
        }
    }
}

/// One cell of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// How ports post.
    pub path: Path,
    /// Slots of the ring on the slot path.
    pub slots: u32,
    /// Who drives the nodes.
    pub progress: Progress,
    /// Where the ports are.
    pub shape: Shape,
    /// What joins the nodes.
    pub fabric: FabricKind,
    /// What goes wrong.
    pub trouble: Trouble,
}

impl Setting {
    /// How ports of this setting are opened.
    pub fn port(&self) -> PortConfig {
        PortConfig { path: Some(self.path), slots: self.slots, ..PortConfig::default() }
    }

    /// Whether a test may make things happen to nodes and links.
    pub fn has_events(&self) -> bool {
        self.fabric == FabricKind::InProcess
    }

    /// Whether links have faults, so that bulk data takes its time.
    pub fn troubled(&self) -> bool {
        self.trouble != Trouble::None
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setting { path, slots, progress, shape, fabric, trouble } = self;
        write!(f, "{shape:?}, {fabric:?} fabric, {path} path")?;
        if *path == Path::Slots {
            write!(f, " of {slots} slots")?;
        }
        write!(f, ", {progress:?} progress, trouble {trouble:?}")
    }
}

/// The whole matrix: both requester paths with one slot and with many, inline progress and NIC threads, loop-back
/// to networks, without faults and with seeds of three sorts of faults; and the fabric between processes.
pub fn settings() -> Vec<Setting> {
    let mut all = Vec::new();
    for (path, slots) in [(Path::Card, 256), (Path::Slots, 1), (Path::Slots, 256)] {
        for progress in [Progress::Inline, Progress::Threads(1)] {
            for shape in [Shape::OnePort, Shape::OneNode, Shape::TwoNodes, Shape::Torus] {
                for trouble in
                    [Trouble::None, Trouble::Lossy(1), Trouble::Shuffled(2), Trouble::Everything(3)]
                {
                    // What stays in a node crosses no links.
                    if trouble == Trouble::None || matches!(shape, Shape::TwoNodes | Shape::Torus) {
                        let fabric = FabricKind::InProcess;
                        all.push(Setting { path, slots, progress, shape, fabric, trouble });
                    }
                }
                let (fabric, trouble) = (FabricKind::Process, Trouble::None);
                all.push(Setting { path, slots, progress, shape, fabric, trouble });
            }
        }
    }
    all
}

/// Runs a scenario in every setting; a failure names the setting.
pub fn each(scenario: impl Fn(&Bed)) {
    each_of(|_| true, scenario);
}

/// As [`each`], in the settings that `wanted` picks.
pub fn each_of(wanted: impl Fn(&Setting) -> bool, scenario: impl Fn(&Bed)) {
    let picked: Vec<Setting> = settings().into_iter().filter(wanted).collect();
    assert!(!picked.is_empty(), "no setting was picked");
    for setting in picked {
        let named = Named(setting);
        scenario(&Bed::new(&setting));
        std::mem::forget(named);
    }
}

/// Says in which setting a scenario failed.
struct Named(Setting);

impl Drop for Named {
    fn drop(&mut self) {
        eprintln!("failed in the setting: {}", self.0);
    }
}
