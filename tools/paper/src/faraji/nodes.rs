//! Figure 3.6: GSB and BTB in nodes with a GPU each, MPI between them, against MPI alone.

use ggas_plot::{Axis, Line, Picture, Scale};
use ggas_shared_gpu::Algorithm::{self, Btb, Gsb};
use serde_json::json;

use super::flat::{Call, Library};
use super::machine::{Machine, Way, by_size};
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict};

const NODES: usize = 4;
const RANKS: [usize; 4] = [4, 8, 16, 24];
const COLUMNS: &[&str] = &["processes", "bytes", "MPI us", "GSB us", "BTB us", "MPI/GSB", "MPI/BTB"];

pub(super) struct Point {
    pub(super) ranks: usize,
    pub(super) bytes: usize,
    /// MPI, GSB, BTB.
    us: [f64; 3],
}

impl Point {
    pub(super) fn gain(&self, way: usize) -> f64 {
        self.us[0] / self.us[way]
    }
}

pub(super) fn points(machine: &Machine) -> Vec<Point> {
    let point = |ranks: usize, bytes: usize| {
        let levels = |way: Algorithm| machine.us_of_levels((way, way), (NODES, 1, ranks), bytes);
        let mpi = machine.us_of_flat(Library::Staged, Call::Allreduce, (NODES, ranks), bytes);
        Point { ranks, bytes, us: [mpi, levels(Gsb), levels(Btb)].map(|us| us.unwrap_or(f64::NAN)) }
    };
    by_size(RANKS, 2..=24).map(|(ranks, bytes)| point(ranks, bytes)).collect()
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let machine = Machine::k80();
    let points = points(&machine);
    let alone = |way| machine.us_of(way, 24, 16 << 20).unwrap_or(f64::NAN);
    let of_a_node = alone(Way::Mpi) / alone(Way::Ours(Gsb));
    let mut report =
        machine.report((figure, settings), COLUMNS, claims(&points, of_a_node), picture(&points))?;
    report
        .notes
        .push("The step between nodes is MPI's, between leaders whose vectors are on their GPUs.".to_owned());
    for point in &points {
        let [mpi, gsb, btb] = point.us.map(|us| json!(us));
        let (processes, bytes) = (json!(NODES * point.ranks), json!(point.bytes));
        report.row([processes, bytes, mpi, gsb, btb, json!(point.gain(1)), json!(point.gain(2))]);
    }
    Ok(report)
}

fn claims(points: &[Point], of_a_node: f64) -> Vec<Verdict> {
    const SOURCE: &str = "3.3.4, Fig. 3.6";
    let pays_from = |ranks: usize| {
        let of = points.iter().filter(|point| point.ranks == ranks && point.gain(1) <= 1.0);
        of.map(|point| point.bytes).max().map_or(4.0, |bytes| 2.0 * bytes as f64)
    };
    let pays = |ranks: usize| {
        let text = format!("{} processes: GSB is quicker from, in bytes", NODES * ranks);
        Claim::between(&text, SOURCE, 131_072.0, 524_288.0, "B").judge(pays_from(ranks)).because(|| {
            "the text tells no cost of starting a copy; the model's are assumed, as in figure 3.4".to_owned()
        })
    };
    let most = |way: usize| points.iter().map(|point| point.gain(way)).fold(0.0, f64::max);
    let at = |ranks: usize, bytes: usize, of: &dyn Fn(&Point) -> f64| {
        points.iter().find(|point| point.ranks == ranks && point.bytes == bytes).map_or(f64::NAN, of)
    };
    let gap = |ranks: usize, bytes: usize| at(ranks, bytes, &|point| point.us[2] / point.us[1] - 1.0);
    let mut claims: Vec<Verdict> = RANKS.into_iter().map(pays).collect();
    claims.push(
        Claim::at_least("BTB over GSB, at its least", SOURCE, 1.0, "x")
            .judge(points.iter().map(|point| point.us[2] / point.us[1]).fold(f64::INFINITY, f64::min)),
    );
    for ranks in RANKS {
        let text = format!("{} processes: BTB's gap to GSB, 16 MB over 4 bytes", NODES * ranks);
        claims.push(Claim::at_most(&text, SOURCE, 1.0, "x").judge(gap(ranks, 16 << 20) / gap(ranks, 4)));
    }
    claims.extend([
        Claim::between("most that GSB gains", "3.4: up to 5 times", 2.5, 10.0, "x").judge(most(1)),
        Claim::between("most that BTB gains", "3.4: up to 5 times", 2.5, 10.0, "x").judge(most(2)),
        Claim::at_most("24 for each GPU, 16 MB: GSB's gain over that in a node", "3.4: 5 and 22", 1.0, "x")
            .judge(at(24, 16 << 20, &|point| point.gain(1)) / of_a_node),
    ]);
    claims
}

fn picture(points: &[Point]) -> Picture {
    let line = |(at, name): (usize, &str)| {
        let shown = points.iter().filter(|point| point.ranks == 24);
        Line::new(name, shown.map(|point| (point.bytes as f64, point.us[at])).collect())
    };
    Picture {
        title: "Faraji, Fig. 3.6(d): allreduce of 96 processes on four nodes with a GPU each".to_owned(),
        x: Axis::new("vector, bytes", Scale::Sizes),
        y: Axis::new("allreduce, us", Scale::Logarithmic),
        lines: ["MPI", "GSB", "BTB"].into_iter().enumerate().map(line).collect(),
    }
}
