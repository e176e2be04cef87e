//! Figure 9 (section 5.3): one iteration of a two-dimensional Jacobi relaxation, NxN points a node, without
//! overlap.

use ggas_plot::{Axis, Line, Picture, Scale};
use serde_json::json;

use super::SYSTEM;
use super::relax::{self, Relaxation};
use super::way::{Way, faster};
use crate::parameters::parameters;
use crate::{Checked, Claim, Figure, PaperError, Report, Settings, Verdict};
use extoll_sim::timed::System;

/// Points along a side of a node's grid.
const SIDES: [usize; 9] = [16, 32, 64, 128, 256, 384, 512, 768, 1024];
/// Nodes along a side: the one in the middle has four neighbours.
const ACROSS: usize = 3;
/// Iterations that are timed together, and those from which values are compared.
const ITERATIONS: usize = 8;
const SMALL: usize = 24;

/// Times of an iteration in us, in the order of [`Way::ALL`].
struct Point {
    side: usize,
    us: [f64; 4],
}

impl Point {
    fn of(&self, way: Way) -> f64 {
        self.us[way as usize]
    }
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let mut checked = Checked::default();
    for way in Way::ALL {
        let small = Relaxation { across: ACROSS, side: SMALL, iterations: ITERATIONS, values: true };
        checked.add(relax::measure(&system, way, small, settings.seed)?.1);
    }
    let points = sweep(&system, settings.seed)?;
    let mut report = Report {
        parameters: parameters(settings, SYSTEM),
        claims: claims(&system, &points),
        checked,
        notes: vec![
            format!(
                "{} nodes; the mean of {ITERATIONS} iterations; GPU-TN's only kernel goes through all of them",
                ACROSS * ACROSS
            ),
            format!(
                "the figure's points are lengths only; the comparison is of the same programs with N = {SMALL}"
            ),
        ],
        ..Report::of(
            "gpu-tn",
            figure,
            settings,
            &system,
            &[
                "N",
                "CPU us",
                "HDN us",
                "GDS us",
                "GPU-TN us",
                "CPU over HDN",
                "GDS over HDN",
                "GPU-TN over HDN",
            ],
            picture(&points),
        )
    };
    for point in &points {
        let [cpu, hdn, gds, tn] = point.us.map(|us| json!(us));
        let over = |way: Way| json!(point.of(Way::Hdn) / point.of(way));
        report.row([json!(point.side), cpu, hdn, gds, tn, over(Way::Cpu), over(Way::Gds), over(Way::Tn)]);
    }
    Ok(report)
}

fn sweep(system: &System, seed: u64) -> Result<Vec<Point>, PaperError> {
    let mut points = Vec::new();
    for side in SIDES {
        let mut us = [0.0; 4];
        for way in Way::ALL {
            let relaxation = Relaxation { across: ACROSS, side, iterations: ITERATIONS, values: false };
            us[way as usize] = relax::measure(system, way, relaxation, seed)?.0.as_us() / ITERATIONS as f64;
        }
        points.push(Point { side, us });
    }
    Ok(points)
}

fn claims(system: &System, points: &[Point]) -> Vec<Verdict> {
    let gain = |point: &Point, way: Way| faster(point.of(Way::Tn), point.of(way));
    // "Medium" is the size at which GPU-TN's gain on GDS is the nearest to the paper's; what it gains on HDN there,
    // and whether the host is slower there, is the test.
    let distance = |point: &&Point| (gain(point, Way::Gds) - 10.0).abs();
    let medium = points.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let Some(medium) = medium else { return Vec::new() };
    let at = format!("N = {}", medium.side);
    let overhead = (system.gpu.launch_ns + system.gpu.end_ns) / 1e3;
    let why = || {
        format!(
            "GPU-TN's only kernel saves {overhead:.1} us of launch and end in every iteration (Table 2), \
             {:.0} % of GDS's {:.1} us",
            100.0 * overhead / medium.of(Way::Gds),
            medium.of(Way::Gds)
        )
    };
    let host = || {
        let cores = system.host.cores;
        format!(
            "both compute from one memory, {:.0} GB/s with all {cores} cores (Table 2), {} B a point; the \
             host needs no launch",
            system.host.memory_bytes_per_ns * cores as f64,
            relax::TOUCHED
        )
    };
    let order = [Way::Tn, Way::Gds, Way::Hdn].map(|way| (way.name(), medium.of(way)));
    let mut claims = vec![
        Claim::near(&format!("GPU-TN over GDS, medium grids ({at})"), "5.3, Fig. 9", 10.0, 10.0, "%")
            .judge(gain(medium, Way::Gds))
            .because(why),
        Claim::near(&format!("GPU-TN over HDN, the same grids ({at})"), "5.3, Fig. 9", 20.0, 10.0, "%")
            .judge(gain(medium, Way::Hdn))
            .because(why),
        Claim::order(&format!("an iteration in us, {at}"), "5.3, Fig. 9", &order),
        Claim::at_least(&format!("the host's time over HDN's, {at}: useful to offload"), "5.3", 1.0, "")
            .judge(medium.of(Way::Cpu) / medium.of(Way::Hdn))
            .because(host),
    ];
    if let (Some(small), Some(large)) = (points.first(), points.last()) {
        let order = [("largest N", gain(large, Way::Hdn)), ("smallest N", gain(small, Way::Hdn))];
        claims.push(Claim::order("GPU-TN's gain on HDN in %", "5.3", &order));
    }
    claims
}

fn picture(points: &[Point]) -> Picture {
    let line = |way: Way| {
        let speedup = |point: &Point| (point.side as f64, point.of(Way::Hdn) / point.of(way));
        Line::new(way.name(), points.iter().map(speedup).collect())
    };
    Picture {
        title: "GPU-TN, Fig. 9: an iteration of Jacobi".to_owned(),
        x: Axis::new("N", Scale::Logarithmic),
        y: Axis::new("speed-up over HDN", Scale::Linear),
        lines: Way::ALL.map(line).to_vec(),
    }
}
