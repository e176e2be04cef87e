//! Figures 6.4 to 6.8: 16 ranks on the text's tree of 16 GPUs, by the default order, mapped, and at random.

use ggas_mapping::{Links, MapError, Mapping, Metric, Pattern, Search, Topology, flows, map};
use ggas_plot::{Axis, Line, Picture, Scale};
use serde_json::json;

use crate::{Claim, Figure, PaperError, Report, Settings, Verdict};

const KIB: u64 = 1 << 10;
const SIZES: [u64; 5] = [256, 4 * KIB, 64 * KIB, 1024 * KIB, 16 * 1024 * KIB];
const COLUMNS: &[&str] =
    &["pattern", "bytes", "default us", "latency %", "bandwidth %", "distance %", "random %", "random SD %"];
const METRICS: [Metric; 3] = [Metric::Latency, Metric::Bandwidth, Metric::Distance];

/// A pattern of the text's microbenchmarks.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    grid: &'static [usize],
    wrap: bool,
    weight: u64,
    collective: bool,
}

const fn stencil(name: &'static str, grid: &'static [usize], wrap: bool, weight: u64) -> Case {
    Case { name, grid, wrap, weight, collective: false }
}

const CASES: [Case; 9] = [
    stencil("2D", &[4, 4], false, 1),
    stencil("2D wrap", &[4, 4], true, 1),
    stencil("3D", &[2, 2, 4], false, 1),
    stencil("3D wrap", &[2, 2, 4], true, 1),
    stencil("2D weighted", &[4, 4], false, 3),
    stencil("2D wrap weighted", &[4, 4], true, 3),
    stencil("3D weighted", &[2, 2, 4], false, 3),
    stencil("3D wrap weighted", &[2, 2, 4], true, 3),
    Case { name: "COLL", grid: &[4, 2, 2], wrap: false, weight: 1, collective: true },
];

impl Case {
    fn pattern(&self, bytes: u64) -> Result<Pattern, MapError> {
        match self.collective {
            true => Pattern::all_to_all(self.grid, bytes),
            false => Pattern::stencil(self.grid, self.wrap, self.weight, bytes),
        }
    }
}

struct Point {
    case: &'static str,
    bytes: u64,
    default_us: f64,
    /// Shorter than the default by so many %, by metric.
    gains: [f64; 3],
    /// Of four mappings at random: mean and standard deviation.
    random: (f64, f64),
}

fn measure(helios: &Topology, case: &Case, bytes: u64) -> Result<Point, MapError> {
    let pattern = case.pattern(bytes)?;
    let default_us = flows::time_us(helios, &pattern, &Mapping::default_of(helios, &pattern)?)?;
    let gain =
        |mapping: &Mapping| Ok(100.0 * (1.0 - flows::time_us(helios, &pattern, mapping)? / default_us));
    let mut gains = [0.0; 3];
    for (gained, metric) in gains.iter_mut().zip(METRICS) {
        *gained = gain(&map(helios, &pattern, metric, Search::default())?)?;
    }
    let random: Vec<f64> = (1..=4)
        .map(|seed| gain(&Mapping::random(helios, &pattern, seed)?))
        .collect::<Result<_, MapError>>()?;
    let mean = random.iter().sum::<f64>() / 4.0;
    let deviation = (random.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / 3.0).sqrt();
    Ok(Point { case: case.name, bytes, default_us, gains, random: (mean, deviation) })
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let helios = Topology::named("helios")?;
    let mut points = Vec::new();
    for case in &CASES {
        for bytes in SIZES {
            points.push(measure(&helios, case, bytes)?);
        }
    }
    let far = worst_between_sockets(&helios)?;
    let system = settings.system("infiniband")?;
    let mut report = Report {
        claims: claims(&points, far),
        ..Report::of("faraji", figure, settings, &system, COLUMNS, picture(&points))
    };
    report.systems = vec!["helios (userlib/mapping/topologies)".to_owned()];
    report.notes.push(
        "The text tells ratios of latencies and rates between levels; their absolute values are assumed (helios.toml)."
            .to_owned(),
    );
    for point in &points {
        let [latency, bandwidth, distance] = point.gains.map(|gain| json!(gain));
        let (mean, deviation) = point.random;
        let (case, bytes, us) = (json!(point.case), json!(point.bytes), json!(point.default_us));
        report.row([case, bytes, us, latency, bandwidth, distance, json!(mean), json!(deviation)]);
    }
    Ok(report)
}

/// The weighted 3D stencil's load of the link between the sockets: by the default over that of the mapping.
fn worst_between_sockets(helios: &Topology) -> Result<f64, MapError> {
    let pattern = Pattern::stencil(&[2, 2, 4], false, 3, 1 << 20)?;
    let links = Links::of(helios)?;
    let worst = |mapping: &Mapping| links.congestion(&pattern, mapping).map(|found| found.worst(3));
    let mapped = map(helios, &pattern, Metric::Bandwidth, Search::default())?;
    Ok(worst(&Mapping::default_of(helios, &pattern)?)? / worst(&mapped)?)
}

fn claims(points: &[Point], far: f64) -> Vec<Verdict> {
    let of = |case: &'static str| points.iter().filter(move |point| point.case == case);
    let best = |point: &Point| point.gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let most = |case: &'static str| of(case).map(best).fold(f64::NEG_INFINITY, f64::max);
    let least = |case: &'static str| of(case).map(|point| point.gains[1]).fold(f64::INFINITY, f64::min);
    let weighted = || CASES.iter().filter(|case| case.weight == 3).map(|case| most(case.name));
    let alone = || {
        "the model has messages take their latency and share links, and nothing else: what the library and the GPUs add to each exchange, \
         which no mapping shortens, the text does not tell"
            .to_owned()
    };
    let random_worse =
        points.iter().filter(|point| point.random.0 < 0.0).count() as f64 / points.len() as f64;
    vec![
        Claim::between("2D, not weighted: most that a mapping gains", "6.4.2, Fig. 6.4(a)", 10.0, 30.0, "%")
            .judge(most("2D"))
            .because(alone),
        Claim::between("2D with wraparound: most that a mapping gains", "6.4.2: no gain", -1.0, 1.0, "%")
            .judge(most("2D wrap")),
        Claim::at_least(
            "3D with wraparound: least that the bandwidth metric gains at any size",
            "6.4.2",
            0.0,
            "%",
        )
        .judge(least("3D wrap")),
        Claim::between("weighted: most that a mapping gains", "6.4.2, Fig. 6.5: up to 65%", 55.0, 75.0, "%")
            .judge(weighted().fold(0.0, f64::max))
            .because(alone),
        Claim::between("3D weighted: most that a mapping gains", "6.4.2: about 50%", 40.0, 60.0, "%")
            .judge(most("3D weighted"))
            .because(alone),
        Claim::between(
            "all-to-all of sub-communicators: most that a mapping gains",
            "6.4.2, Fig. 6.6: up to 70%",
            60.0,
            80.0,
            "%",
        )
        .judge(most("COLL"))
        .because(alone),
        Claim::near(
            "3D weighted: load between the sockets, before over after",
            "Fig. 6.7(b): 1600 to 264",
            1600.0 / 264.0,
            0.1,
            "x",
        )
        .judge(far),
        Claim::at_least(
            "mappings at random that are worse than the default, of all points",
            "6.4.2, Fig. 6.8",
            0.5,
            "of 1",
        )
        .judge(random_worse),
    ]
}

fn picture(points: &[Point]) -> Picture {
    let line = |case: &Case| {
        let own = points.iter().filter(|point| point.case == case.name);
        Line::new(case.name, own.map(|point| (point.bytes as f64, point.gains[1])).collect())
    };
    Picture {
        title: "Faraji, Figs. 6.4-6.6: gain by the bandwidth metric".to_owned(),
        x: Axis::new("message, bytes", Scale::Sizes),
        y: Axis::new("shorter than the default, %", Scale::Linear),
        lines: CASES.iter().map(line).collect(),
    }
}
