//! Figure 10 (section 5.4.1): an allreduce of 8 MB of floats on 2 to 32 nodes, as speed-up over the CPU's.

use ggas_plot::{Axis, Line, Picture, Scale};
use serde_json::json;

use super::SYSTEM;
use super::ring::{self, Ring};
use super::way::Way;
use crate::parameters::parameters;
use crate::{Checked, Claim, Figure, PaperError, Report, Settings, Verdict, today};
use extoll_sim::timed::System;

/// 8 MB of single-precision floats.
const ELEMENTS: usize = 8 * 1024 * 1024 / 4;
/// The figure's axis ends at 32; the text names 24.
const NODES: [usize; 10] = [2, 4, 6, 8, 12, 16, 20, 24, 28, 32];
/// Nodes and elements for the comparison with a serial sum: lengths alone cannot show a wrong schedule.
const SMALL: (usize, usize) = (6, 5000);

/// Times of all ways on one number of nodes, in us, in the order of [`Way::ALL`].
struct Point {
    nodes: usize,
    us: [f64; 4],
    /// The host's with one core.
    one_core: f64,
}

impl Point {
    fn speedup(&self, way: Way) -> f64 {
        self.us[Way::Cpu as usize] / self.us[way as usize]
    }
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let mut checked = Checked::default();
    for way in Way::ALL {
        let (nodes, elements) = SMALL;
        let small = Ring { nodes, elements, cores: system.host.cores, values: true };
        checked.add(ring::measure(&system, way, small, settings.seed)?.1);
    }
    let mut points = Vec::new();
    for nodes in NODES {
        let mut us = [0.0; 4];
        for way in Way::ALL {
            us[way as usize] = time(&system, way, nodes, system.host.cores, settings.seed)?;
        }
        points.push(Point { nodes, us, one_core: time(&system, Way::Cpu, nodes, 1, settings.seed)? });
    }
    let mut report = Report {
        parameters: parameters(settings, SYSTEM),
        claims: claims(&system, &points),
        checked,
        notes: vec![
            "the figure's points are lengths only; the comparison is of the same programs on 6 nodes"
                .to_owned(),
        ],
        ..Report::of(
            "gpu-tn",
            figure,
            settings,
            &system,
            &[
                "nodes",
                "CPU, 1 core us",
                "CPU us",
                "HDN us",
                "GDS us",
                "GPU-TN us",
                "HDN speed-up",
                "GDS speed-up",
                "GPU-TN speed-up",
            ],
            picture(&points),
        )
    };
    for point in &points {
        let [cpu, hdn, gds, tn] = point.us.map(|us| json!(us));
        let [s_hdn, s_gds, s_tn] = Way::GPU.map(|way| json!(point.speedup(way)));
        report.row([json!(point.nodes), json!(point.one_core), cpu, hdn, gds, tn, s_hdn, s_gds, s_tn]);
    }
    Ok(report)
}

fn time(system: &System, way: Way, nodes: usize, cores: u64, seed: u64) -> Result<f64, PaperError> {
    let ring = Ring { nodes, elements: ELEMENTS, cores, values: false };
    Ok(ring::measure(system, way, ring, seed)?.0.as_us())
}

fn claims(system: &System, points: &[Point]) -> Vec<Verdict> {
    let at = |nodes: usize| points.iter().find(|point| point.nodes == nodes);
    let speedup = |nodes: usize, way: Way| at(nodes).map(|point| point.speedup(way));
    let few = |way: Way, why: &dyn Fn() -> String| {
        Claim::near(&format!("speed-up of {} with few (2) nodes", way.name()), "5.4.1, Fig. 10", 1.4, 0.1, "")
            .judge(speedup(2, way))
            .because(why)
    };
    let as_above = || "as above".to_owned();
    let mut claims =
        vec![few(Way::Hdn, &|| shares(system, points)), few(Way::Gds, &as_above), few(Way::Tn, &as_above)];
    let below = points.iter().find(|point| point.speedup(Way::Hdn) < 1.0).map(|point| point.nodes as f64);
    claims.push(
        Claim::between("HDN becomes slower than the CPU at about 24 nodes", "5.4.1", 20.0, 28.0, "nodes")
            .judge(below)
            .because(as_above),
    );
    claims.push(
        Claim::at_least("speed-up of GPU-TN on 32 nodes", "5.4.1", 1.0, "")
            .judge(speedup(32, Way::Tn))
            .because(|| shares(system, points)),
    );
    if let Some(point) = at(32) {
        let order = [Way::Hdn, Way::Gds, Way::Tn].map(|way| (way.name(), point.speedup(way)));
        claims.push(
            Claim::order("speed-up on 32 nodes", "5.4.1, Fig. 10", &order)
                .today(today::allreduce_by_kernel()),
        );
    }
    claims
}

/// What the paper's parameters say of the additions and of the launches.
fn shares(system: &System, points: &[Point]) -> String {
    let (Some(few), Some(many)) = (points.first(), points.iter().find(|point| point.nodes == 24)) else {
        return String::new();
    };
    let (rate, cores) = (system.host.memory_bytes_per_ns, system.host.cores);
    let launches = (many.nodes as f64 - 1.0) * (system.gpu.launch_ns + system.gpu.end_ns) / 1e3;
    let hdn = Way::Hdn as usize;
    // A speed-up of 1.4 with few nodes, as the time that the host's additions must take longer; with many nodes the
    // whole vector but a part is added, with two the half.
    let longer = 0.4 * few.us[hdn] * 2.0 * (many.nodes as f64 - 1.0) / many.nodes as f64;
    format!(
        "CPU and GPU add from one memory ({:.0} GB/s, Table 2; sums are no work beside that), so that \
         with all {cores} cores the host is as quick as a kernel without its launch. With one core \
         ({rate:.1} GB/s) HDN's speed-up is {:.2} on {} nodes and {:.2} on {}. Nor do 1.4 with few nodes \
         and 1 at 24 go together: for 1.4 the host's additions must take {longer:.0} us longer than the \
         GPU's, and on 24 nodes HDN loses {launches:.0} us by launches and ends of 3 us (Table 2)",
        rate * cores as f64,
        few.one_core / few.us[hdn],
        few.nodes,
        many.one_core / many.us[hdn],
        many.nodes,
    )
}

fn picture(points: &[Point]) -> Picture {
    let line = |way: Way| {
        Line::new(way.name(), points.iter().map(|point| (point.nodes as f64, point.speedup(way))).collect())
    };
    Picture {
        title: "GPU-TN, Fig. 10: allreduce of 8 MB".to_owned(),
        x: Axis::new("nodes", Scale::Linear),
        y: Axis::new("speed-up over the CPU", Scale::Linear),
        lines: Way::ALL.map(line).to_vec(),
    }
}
