//! What a network is and what will happen in it, drawn from a seed.

use std::fmt;
use std::time::Duration;

use ggas::{Faults, Path, PortConfig, Progress};

use super::messages::Mailboxes;
use super::stores::Windows;

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What everything is drawn from.
    pub seed: u64,
    /// Nodes, 2 to 12.
    pub nodes: usize,
    /// The torus that joins them.
    pub torus: (u32, u32, u32),
    /// What happens to frames.
    pub faults: Faults,
    /// How ports post.
    pub path: Path,
    /// Slots of the ring on the slot path.
    pub slots: u32,
    /// Whether posting drives the cards as well.
    pub inline: bool,
    /// Bytes of each notification queue.
    pub queue_bytes: usize,
    /// Whether cards drop notifications that find no room for long.
    pub drops: bool,
    /// Commands of each program.
    pub commands: usize,
    /// Programs read notifications only where they must, so that queues fill up.
    pub floods: bool,
    /// Bytes of the longest transfer, and of each area.
    pub largest: usize,
    /// Programs stand still for minutes now and then.
    pub stands: bool,
    /// Links and cards stop and go on.
    pub breaks: bool,
    /// Nodes die and return.
    pub deaths: bool,
    /// Programs send messages as well, to mailboxes like these.
    pub mailboxes: Option<Mailboxes>,
    /// Programs store and load through windows like these.
    pub windows: Option<Windows>,
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Plan {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x5eed);
        let shape = random.choice([
            (2, 1, 1),
            (3, 1, 1),
            (2, 2, 1),
            (5, 1, 1),
            (3, 2, 1),
            (2, 2, 2),
            (4, 2, 1),
            (3, 2, 2),
        ]);
        let torus = shape.unwrap_or((2, 1, 1));
        let places = (torus.0 * torus.1 * torus.2) as usize;
        let nodes = random.usize(2.max(places - 1)..=places);
        let (breaks, deaths) = (random.u8(..3) == 0, random.u8(..4) == 0);
        let floods = nodes <= 5 && random.u8(..4) == 0;
        let largest = 1 << if floods { random.u32(4..=6) } else { random.u32(4..=12) };
        Plan {
            seed,
            nodes,
            torus,
            faults: faults(&mut random),
            path: if random.bool() { Path::Card } else { Path::Slots },
            slots: 1 << random.u32(0..=6),
            inline: random.bool(),
            queue_bytes: if floods { 4096 } else { 4096 << random.u32(0..=2) },
            floods,
            drops: !deaths && random.u8(..4) == 0,
            commands: if floods { random.usize(300..=900) } else { random.usize(4..=1 + 240 / nodes) },
            largest,
            stands: random.u8(..4) == 0,
            breaks,
            deaths,
            mailboxes: Mailboxes::of(seed, floods),
            windows: Windows::of(seed),
        }
    }

    /// How ports are opened.
    pub fn port(&self) -> PortConfig {
        PortConfig {
            path: Some(self.path),
            slots: self.slots,
            queue_bytes: self.queue_bytes,
            segment_bytes: 4096,
            post_timeout: Duration::from_secs(60),
            ..PortConfig::default()
        }
    }

    /// Who drives the cards beside the simulation.
    pub fn progress(&self) -> Progress {
        if self.inline { Progress::Inline } else { Progress::Threads(1) }
    }

    /// Bytes of each area.
    pub fn bytes(&self) -> usize {
        4 * self.largest
    }
}

fn faults(random: &mut fastrand::Rng) -> Faults {
    let mut faults = Faults::none().seed(random.u64(..));
    let mut rate = |one_in: u8, most: f64| if random.u8(..one_in) == 0 { random.f64() * most } else { 0.0 };
    let [drop, corrupt, duplicate, reorder, starve] =
        [(3, 0.2), (3, 0.2), (4, 0.1), (4, 0.2), (4, 0.2)].map(|(n, m)| rate(n, m));
    let delay = rate(4, 0.1);
    faults = faults.drop(drop).corrupt(corrupt).duplicate(duplicate).reorder(reorder).starve(starve);
    faults = faults.delay(delay, Duration::from_micros(random.u64(1..5000)));
    if random.bool() { faults.through_links() } else { faults }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (x, y, z) = self.torus;
        write!(f, "seed {}: {} nodes on {x}x{y}x{z}, {} path", self.seed, self.nodes, self.path)?;
        if self.path == Path::Slots {
            write!(f, " of {} slots", self.slots)?;
        }
        write!(
            f,
            ", {} commands each of up to {} bytes, queues of {}",
            self.commands, self.largest, self.queue_bytes
        )?;
        if let Some(Mailboxes { bytes, slots, class }) = self.mailboxes {
            write!(f, ", messages of class {class} to mailboxes of {bytes} bytes in {slots:?}")?;
        }
        if let Some(Windows { mask }) = self.windows {
            write!(f, ", windows of {}", if mask { "an address mask" } else { "intervals" })?;
        }
        for (said, what) in [
            (self.inline, "inline"),
            (self.floods, "queues fill up"),
            (self.drops, "full queues drop"),
            (self.stands, "programs stand still"),
            (self.breaks, "links break"),
            (self.deaths, "nodes die"),
        ] {
            if said {
                write!(f, ", {what}")?;
            }
        }
        write!(f, "; {:?}", self.faults)
    }
}
