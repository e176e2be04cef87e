//! Figure 11 (section 5.4.2): six workloads on 8 nodes, projected from the share of their time in allreduces.

use ggas_plot::{Axis, Line, Picture, Scale};
use serde_json::json;

use super::SYSTEM;
use super::ring::{self, Ring};
use super::way::Way;
use crate::parameters::parameters;
use crate::{Checked, Claim, Figure, PaperError, Report, Settings, Verdict};
use extoll_sim::timed::System;

/// A workload of Table 3.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Its name there.
    pub name: &'static str,
    /// Share of its time in which it is blocked on allreduces, by the host between kernels (HDN).
    pub blocked: f64,
    /// Allreduces of a training.
    pub reductions: u64,
}

impl Workload {
    /// Speed-up of the whole over HDN, where an allreduce takes `time`, and `hdn` with HDN.
    pub fn projected(&self, time: f64, hdn: f64) -> f64 {
        1.0 / (1.0 - self.blocked + self.blocked * time / hdn)
    }
}

const fn workload(name: &'static str, blocked: f64, reductions: u64) -> Workload {
    Workload { name, blocked, reductions }
}

/// Those of Table 3.
pub const WORKLOADS: [Workload; 6] = [
    workload("AlexNet", 0.14, 4672),
    AN4_LSTM,
    CIFAR,
    workload("Large Synth", 0.28, 52_800),
    workload("MNIST Conv", 0.12, 900_000),
    workload("MNIST Hidden", 0.29, 900_000),
];
/// The one that gains most, and what section 5.4.2 says that it gains with GPU-TN over HDN and over GDS, in percent.
pub const AN4_LSTM: Workload = workload("AN4 LSTM", 0.50, 131_192);
/// See [`AN4_LSTM`].
pub const AN4_LSTM_GAINS: [f64; 2] = [20.0, 5.0];
const CIFAR: Workload = workload("CIFAR", 0.04, 939_820);
const NODES: usize = 8;
/// Bytes of an allreduce: the paper does not tell them, so all are shown.
pub const SIZES: [usize; 9] =
    [4 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 8 << 20];

/// One size of allreduces: times in us of HDN, GDS, GPU-TN.
struct Point {
    bytes: usize,
    us: [f64; 3],
}

impl Point {
    /// Speed-up of a workload over HDN.
    fn projected(&self, workload: &Workload, way: usize) -> f64 {
        workload.projected(self.us[way], self.us[0])
    }

    /// How much quicker than HDN and than GDS the workload is with GPU-TN, in percent.
    fn gains(&self, workload: &Workload) -> (f64, f64) {
        let tn = self.projected(workload, 2);
        (100.0 * (tn - 1.0), 100.0 * (tn / self.projected(workload, 1) - 1.0))
    }
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let (points, checked) = sweep(&system, settings.seed)?;
    let mut report = Report {
        parameters: parameters(settings, SYSTEM),
        claims: claims(&points),
        checked,
        notes: vec![
            "projection: 1/(1 - b + b t/t_HDN), b the share of Table 3, t an allreduce on 8 nodes (Fig. \
             10's programs)"
                .to_owned(),
            "the paper does not tell the sizes of the workloads' allreduces: all sizes are projected"
                .to_owned(),
        ],
        ..Report::of(
            "gpu-tn",
            figure,
            settings,
            &system,
            &[
                "workload",
                "blocked %",
                "reductions",
                "bytes",
                "GDS over HDN",
                "GPU-TN over HDN",
                "GPU-TN over GDS",
            ],
            picture(&points),
        )
    };
    for workload in &WORKLOADS {
        for point in &points {
            let [gds, tn] = [1, 2].map(|way| point.projected(workload, way));
            let (share, bytes) = (json!(100.0 * workload.blocked), json!(point.bytes));
            report.row([
                json!(workload.name),
                share,
                json!(workload.reductions),
                bytes,
                json!(gds),
                json!(tn),
                json!(tn / gds),
            ]);
        }
    }
    Ok(report)
}

fn sweep(system: &System, seed: u64) -> Result<(Vec<Point>, Checked), PaperError> {
    let (mut points, mut checked) = (Vec::new(), Checked::default());
    for bytes in SIZES {
        let mut us = [0.0; 3];
        for (us, way) in us.iter_mut().zip(Way::GPU) {
            // Values where they cost little.
            let cores = system.host.cores;
            let ring = Ring { nodes: NODES, elements: bytes / 4, cores, values: bytes <= 64 << 10 };
            let (time, compared) = ring::measure(system, way, ring, seed)?;
            *us = time.as_us();
            checked.add(compared);
        }
        points.push(Point { bytes, us });
    }
    Ok((points, checked))
}

fn claims(points: &[Point]) -> Vec<Verdict> {
    let [an4_over_hdn, an4_over_gds] = AN4_LSTM_GAINS;
    // The size that fits the first claim best is the size for all: both claims are of the same allreduces.
    let distance = |point: &&Point| (point.gains(&AN4_LSTM).0 - an4_over_hdn).abs();
    let best = points.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let Some(best) = best else { return Vec::new() };
    let (over_hdn, over_gds) = best.gains(&AN4_LSTM);
    let at = format!("at {} KiB an allreduce", best.bytes >> 10);
    let most = |workload: &Workload| points.iter().map(|point| point.gains(workload).0).fold(0.0, f64::max);
    let mut by_share = WORKLOADS;
    by_share.sort_by(|a, b| a.blocked.total_cmp(&b.blocked));
    let order = by_share.map(|workload| (workload.name, most(&workload)));
    vec![
        Claim::near(
            &format!("AN4 LSTM with GPU-TN over HDN, {at}"),
            "5.4.2, Fig. 11",
            an4_over_hdn,
            10.0,
            "%",
        )
        .judge(over_hdn),
        Claim::near(
            &format!("AN4 LSTM with GPU-TN over GDS, {at}"),
            "5.4.2, Fig. 11",
            an4_over_gds,
            10.0,
            "%",
        )
        .judge(over_gds)
        .because(|| {
            let gds = 100.0 * (best.projected(&AN4_LSTM, 1) - 1.0);
            format!(
                "20 % over HDN and 5 % over GDS ask for GDS 14 % over HDN, here {gds:.1} %: in Fig. 8 \
                     itself GDS wins 10 % of a message and GPU-TN 35 %, so GDS cannot have most of the \
                     gain on messages of that kind"
            )
        }),
        Claim::at_most("CIFAR gains little at any size", "5.4.2", 5.0, "%").judge(most(&CIFAR)),
        Claim::order("the most that a workload gains over HDN, in %", "Table 3, Fig. 11", &order),
    ]
}

fn picture(points: &[Point]) -> Picture {
    let line = |workload: Workload| {
        let speedups = points.iter().map(|point| (point.bytes as f64, point.projected(&workload, 2)));
        Line::new(workload.name, speedups.collect())
    };
    Picture {
        title: "GPU-TN, Fig. 11: projected on 8 nodes".to_owned(),
        x: Axis::new("bytes of an allreduce", Scale::Sizes),
        y: Axis::new("GPU-TN's speed-up over HDN", Scale::Linear),
        lines: WORKLOADS.map(line).to_vec(),
    }
}
