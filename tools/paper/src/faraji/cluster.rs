//! Figure 6.14: 64 ranks on four nodes, whose cores and GPUs send at once, by the default order and mapped in three phases.

use ggas_mapping::flows::{Flow, exchange_us, lanes};
use ggas_mapping::{Assignment, Channel, Cluster, Links, MapError, Metric, Pattern, Search, Topology};
use ggas_plot::{Axis, Line, Picture, Scale};
use serde_json::json;

use crate::parameters::{Numbers, of_text};
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict};

const TEXT: &str = include_str!("cluster.toml");
const NODES: usize = 4;
const SIZES: [u64; 3] = [256, 64 << 10, 1 << 20];
const COLUMNS: &[&str] = &["CPUs-GPUs", "weight", "bytes", "default us", "mapped us", "gain %"];

/// A pattern of Table 6.1, without wraparound.
#[derive(Clone, Copy)]
enum Kind {
    Stencil(&'static str, &'static [usize]),
    Collective,
}

const KINDS: [Kind; 3] = [Kind::Stencil("2D", &[8, 8]), Kind::Stencil("3D", &[4, 4, 4]), Kind::Collective];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Stencil(name, _) => name,
            Kind::Collective => "Col",
        }
    }

    fn pattern(self, weight: u64, bytes: u64) -> Result<Pattern, MapError> {
        match self {
            Kind::Stencil(_, grid) => Pattern::stencil(grid, false, weight, bytes),
            Kind::Collective => Pattern::all_to_all(&[4, 4, 4], bytes),
        }
    }
}

/// The nodes for the mapper, and all of their links.
struct System {
    cluster: Cluster,
    cores: Topology,
    gpus: Topology,
    core_links: Links,
    gpu_links: Links,
}

impl System {
    fn new() -> Result<System, MapError> {
        let numbers = Numbers::of(TEXT);
        let channel = |name: &str, latency: &str, rate: &str| Channel {
            name: name.to_owned(),
            latency_us: Some(numbers.get(latency)),
            gbytes_per_s: Some(numbers.get(rate)),
        };
        let helios = Topology::named("helios")?;
        let of_cores = [
            channel("socket", "core_latency_us", "core_gbytes_per_s"),
            channel("QPI", "socket_latency_us", "socket_gbytes_per_s"),
        ];
        let network = |latency| channel("network", latency, "network_gbytes_per_s");
        let on_all = |name: &str, sizes: &[usize], channels: &[Channel], last: Channel| {
            let sizes: Vec<usize> = sizes.iter().copied().chain([NODES]).collect();
            nested(name, &sizes, channels.iter().cloned().chain([last]).collect())
        };
        let cores = on_all("cores", &[12, 2], &of_cores, network("host_latency_us"))?;
        let gpus = on_all("GPUs", &[2, 2, 2, 2], helios.channels(), network("gpu_latency_us"))?;
        Ok(System {
            cluster: Cluster {
                network: nested("InfiniBand", &[NODES], vec![network("host_latency_us")])?,
                cores: nested("node", &[12, 2], of_cores.to_vec())?,
                gpus: helios,
            },
            core_links: Links::of(&cores)?,
            gpu_links: Links::of(&gpus)?,
            cores,
            gpus,
        })
    }

    /// How long it takes when all send all of both patterns at once; what hosts and GPUs send to other nodes shares the network.
    fn us(&self, patterns: [&Pattern; 2], where_: &Assignment) -> f64 {
        let mut rates = lanes(&self.gpu_links);
        let gpu_lanes = rates.len();
        rates.extend(lanes(&self.core_links));
        let last = |links: &Links| links.levels() - 1;
        let network = |links: &Links| -> Vec<usize> {
            let is_last = |(_, link): &(usize, &ggas_mapping::Link)| link.level == last(links);
            links.links().iter().enumerate().filter(is_last).map(|(number, _)| number).collect()
        };
        let (of_gpus, of_cores) = (network(&self.gpu_links), network(&self.core_links));
        // A link of a core's node to the network is that of its GPUs.
        let core_lane = |link: usize, way: usize| match of_cores.iter().position(|one| *one == link) {
            Some(node) => 2 * of_gpus[node] + way,
            None => gpu_lanes + 2 * link + way,
        };
        let gpu_lane = |link: usize, way: usize| 2 * link + way;
        let [cpu, gpu] = patterns;
        let hosts = messages(cpu, (&self.cores, &self.core_links), &where_.node, &where_.core, &core_lane);
        let devices = messages(gpu, (&self.gpus, &self.gpu_links), &where_.node, &where_.gpu, &gpu_lane);
        exchange_us(&rates, &hosts.chain(devices).collect::<Vec<_>>())
    }
}

/// Groups of places that are part of larger ones.
fn nested(name: &str, sizes: &[usize], channels: Vec<Channel>) -> Result<Topology, MapError> {
    let places: usize = sizes.iter().product();
    let level = |one: usize, other: usize| {
        let mut of_group = 1;
        let level = sizes.iter().position(|size| {
            of_group *= size;
            one / of_group == other / of_group
        });
        level.unwrap_or_default() as u8
    };
    let rows: Vec<Vec<u8>> =
        (0..places).map(|one| (0..places).map(|other| level(one, other)).collect()).collect();
    Topology::new(name.to_owned(), (0..places).map(|place| place.to_string()).collect(), channels, &rows)
}

fn messages<'a>(
    pattern: &'a Pattern,
    (topology, links): (&'a Topology, &'a Links),
    node: &'a [usize],
    there: &'a [usize],
    lane: &'a dyn Fn(usize, usize) -> usize,
) -> impl Iterator<Item = Flow> + 'a {
    let on_each = topology.places() / NODES;
    pattern.messages().map(move |(from, to, bytes)| {
        let place = |rank: usize| node[rank] * on_each + there[rank];
        let (start, end) = (place(from), place(to));
        let (up, down) = links.path(start, end);
        let lanes = up.iter().map(|link| lane(*link, 0)).chain(down.iter().map(|link| lane(*link, 1)));
        let latency = topology.channels()[topology.level(start, end)].latency_us;
        Flow {
            process: from,
            latency_us: latency.unwrap_or(f64::NAN),
            bytes: bytes as f64,
            lanes: lanes.collect(),
        }
    })
}

struct Point {
    name: String,
    weight: u64,
    /// Whether larger messages go along a dimension of any of the two.
    has_weights: bool,
    bytes: u64,
    default_us: f64,
    mapped_us: f64,
}

impl Point {
    fn gain(&self) -> f64 {
        100.0 * (1.0 - self.mapped_us / self.default_us)
    }
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = System::new()?;
    let mut points = Vec::new();
    for weight in [1, 3] {
        for (cpus, gpus) in KINDS.into_iter().flat_map(|cpus| KINDS.map(|gpus| (cpus, gpus))) {
            let patterns =
                |bytes| Ok::<_, MapError>((cpus.pattern(weight, bytes)?, gpus.pattern(weight, bytes)?));
            // Volumes in proportion are mapped alike.
            let (cpu, gpu) = patterns(1 << 20)?;
            let mapped = system.cluster.map(&cpu, &gpu, Metric::Bandwidth, Search::default())?;
            let default = system.cluster.default_of(&cpu, &gpu)?;
            for bytes in SIZES {
                let (cpu, gpu) = patterns(bytes)?;
                points.push(Point {
                    name: format!("{}-{}", cpus.name(), gpus.name()),
                    weight,
                    has_weights: [cpus, gpus].iter().any(|kind| !matches!(kind, Kind::Collective)),
                    bytes,
                    default_us: system.us([&cpu, &gpu], &default),
                    mapped_us: system.us([&cpu, &gpu], &mapped),
                });
            }
        }
    }
    let mut report = Report {
        claims: claims(&points),
        parameters: of_text(TEXT),
        ..Report::of("faraji", figure, settings, &settings.system("infiniband")?, COLUMNS, picture(&points))
    };
    report.systems = vec!["faraji-cluster, helios (userlib/mapping/topologies)".to_owned()];
    report.notes.push(
        "The text tells ratios between a node's channels only; what else is of the network and the cores is assumed (cluster.toml)."
            .to_owned(),
    );
    for point in &points {
        let (name, weight) = (json!(point.name), json!(point.weight));
        let (default, mapped) = (json!(point.default_us), json!(point.mapped_us));
        report.row([name, weight, json!(point.bytes), default, mapped, json!(point.gain())]);
    }
    Ok(report)
}

fn claims(points: &[Point]) -> Vec<Verdict> {
    let of = |bytes: u64| points.iter().filter(move |point| point.bytes == bytes);
    let mean = |gains: &mut dyn Iterator<Item = f64>| {
        let all: Vec<f64> = gains.collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    let gaining =
        |bytes| of(bytes).filter(|point| point.gain() >= 1.0).count() as f64 / of(bytes).count() as f64;
    let of_weight = |weight: u64| {
        let long = points.iter().filter(|point| point.bytes > 256 && point.has_weights);
        mean(&mut long.filter(|point| point.weight == weight).map(Point::gain))
    };
    let unmoved = of(256).filter(|point| point.gain() < 5.0).count() as f64 / of(256).count() as f64;
    let starts = || {
        "the model has short messages take their latency one after the other, and the mapping saves latencies, too: what else the library \
         does for each message, the text does not tell"
            .to_owned()
    };
    let cut = || {
        "of a 2D and a 3D stencil that are not weighted no cut between the nodes is smaller than the default's, and the network is what \
         they wait for"
            .to_owned()
    };
    let alone = || {
        "the model has messages take their latency and share links, and nothing else: what the library and the GPUs add to each exchange, \
         which no mapping shortens, the text does not tell"
            .to_owned()
    };
    vec![
        Claim::at_least(
            "256 B: pairs that gain less than 5 %, of all",
            "6.4.3, Fig. 6.14(a): most cases",
            0.5,
            "of 1",
        )
        .judge(unmoved)
        .because(starts),
        Claim::at_least("64 KB: pairs that gain, of all", "6.4.3, Fig. 6.14(b): consistent", 1.0, "of 1")
            .judge(gaining(64 << 10))
            .because(cut),
        Claim::at_least("1 MB: pairs that gain, of all", "6.4.3, Fig. 6.14(c): consistent", 1.0, "of 1")
            .judge(gaining(1 << 20))
            .because(cut),
        Claim::between("most that the mapping gains", "6.4.3: up to 91.4 %", 80.0, 95.0, "%")
            .judge(points.iter().map(Point::gain).fold(f64::NEG_INFINITY, f64::max))
            .because(alone),
        Claim::at_least("mean gain at 1 MB over that at 64 KB", "6.4.3: increases with the size", 1.0, "x")
            .judge(mean(&mut of(1 << 20).map(Point::gain)) / mean(&mut of(64 << 10).map(Point::gain))),
        Claim::at_least("mean gain at 64 KB over that at 256 B", "6.4.3: increases with the size", 1.0, "x")
            .judge(mean(&mut of(64 << 10).map(Point::gain)) / mean(&mut of(256).map(Point::gain))),
        Claim::at_least(
            "64 KB and 1 MB, with a stencil: mean gain, weighted over not weighted",
            "6.4.3: generally higher",
            1.0,
            "x",
        )
        .judge(of_weight(3) / of_weight(1)),
    ]
}

fn picture(points: &[Point]) -> Picture {
    let mut names: Vec<&str> = points.iter().map(|point| point.name.as_str()).collect();
    names.dedup();
    names.truncate(KINDS.len() * KINDS.len());
    let line = |name: &&str| {
        let own = points.iter().filter(|point| point.name == **name && point.weight == 1);
        Line::new(name, own.map(|point| (point.bytes as f64, point.gain())).collect())
    };
    Picture {
        title: "Faraji, Fig. 6.14: 64 ranks on four nodes, not weighted: gain by three phases".to_owned(),
        x: Axis::new("message, bytes", Scale::Sizes),
        y: Axis::new("shorter than the default, %", Scale::Linear),
        lines: names.iter().map(line).collect(),
    }
}
