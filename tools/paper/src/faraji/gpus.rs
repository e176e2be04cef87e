//! Figures 4.6 to 4.9: the four combinations of GSB and BTB inside and between the GPUs of a node and of four, and flat through the host.

use ggas_plot::{Axis, Line, Picture, Scale};
use ggas_shared_gpu::Algorithm::{self, Btb, Gsb};
use serde_json::json;

use super::flat::{Call, Library};
use super::machine::{Machine, by_size};
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict};

const NODES: usize = 4;
/// GPUs of a node, and processes on each: "up to 24 processes".
const CASES: [(usize, usize); 5] = [(4, 2), (4, 4), (4, 6), (8, 2), (8, 3)];
const WAYS: [(&str, (Algorithm, Algorithm)); 4] =
    [("GSB-GSB", (Gsb, Gsb)), ("BTB-GSB", (Btb, Gsb)), ("BTB-BTB", (Btb, Btb)), ("GSB-BTB", (Gsb, Btb))];
const COLUMNS: &[&str] =
    &["GPUs", "processes", "bytes", "MPI us", "GSB-GSB us", "BTB-GSB us", "BTB-BTB us", "GSB-BTB us"];

struct Point {
    case: (usize, usize),
    bytes: usize,
    mpi: f64,
    us: [f64; 4],
}

fn measure(machine: &Machine, nodes: usize) -> Vec<Point> {
    let point = |(case, bytes): ((usize, usize), usize)| {
        let (gpus, per_gpu) = case;
        let flat = machine.with_gpus_of(per_gpu);
        let mpi = flat.us_of_flat(Library::Staged, Call::Allreduce, (nodes, gpus * per_gpu), bytes);
        let us = |pair| machine.us_of_levels(pair, (nodes, gpus, per_gpu), bytes).unwrap_or(f64::NAN);
        Point { case, bytes, mpi: mpi.unwrap_or(f64::NAN), us: WAYS.map(|(_, pair)| us(pair)) }
    };
    by_size(CASES, 18..=24).map(point).collect()
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let points = measure(&Machine::k80(), 1);
    report((figure, settings), &points, claims(&points), 1)
}

pub(super) fn on_nodes(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let points = measure(&Machine::k80(), NODES);
    let claims = claims_of_nodes(&points, &measure(&Machine::k80(), 1));
    report((figure, settings), &points, claims, NODES)
}

fn report(
    of: (&Figure, &Settings),
    points: &[Point],
    claims: Vec<Verdict>,
    nodes: usize,
) -> Result<Report, PaperError> {
    let title = match nodes {
        1 => "Faraji, Figs. 4.6 and 4.7: allreduce of 24 processes on 8 GPUs".to_owned(),
        _ => format!(
            "Faraji, Figs. 4.8 and 4.9: allreduce of {} processes, 24 on 8 GPUs of each node",
            24 * nodes
        ),
    };
    let mut report = Machine::k80().report(of, COLUMNS, claims, picture(title, points))?;
    report.notes.push(
        "The text names 4 and 8 GPUs and 24 processes of a node; the other numbers are ours.".to_owned(),
    );
    for Point { case: (gpus, per_gpu), bytes, mpi, us } in points {
        let [one, two, three, four] = us.map(|us| json!(us));
        let (gpus, processes) = (json!(nodes * gpus), json!(nodes * gpus * per_gpu));
        report.row([gpus, processes, json!(bytes), json!(mpi), one, two, three, four]);
    }
    Ok(report)
}

fn least(points: &[Point], of: impl Fn(&Point) -> f64) -> f64 {
    points.iter().map(of).fold(f64::INFINITY, f64::min)
}

fn at(points: &[Point], case: (usize, usize), bytes: usize, of: impl Fn(&Point) -> f64) -> f64 {
    points.iter().find(|point| point.case == case && point.bytes == bytes).map_or(f64::NAN, of)
}

/// Most that a hierarchy saves, in percent.
fn saved(points: &[Point]) -> f64 {
    points.iter().map(|point| 100.0 * (1.0 - point.us[0].min(point.us[3]) / point.mpi)).fold(0.0, f64::max)
}

/// What a hierarchy gains over the flat way.
fn gain(point: &Point) -> f64 {
    point.mpi / point.us[0]
}

/// By how much something of one case is above that of another, at a size.
fn over(points: &[Point], cases: [(usize, usize); 2], bytes: usize, of: fn(&Point) -> f64) -> f64 {
    let [one, other] = cases.map(|case| at(points, case, bytes, of));
    one / other
}

/// That the flat way is never quicker, and why it may be.
fn never_flat(points: &[Point], source: &'static str, why: &'static str) -> Verdict {
    let claim = Claim::at_least("flat over GSB-GSB, at its least", source, 1.0, "x");
    claim.judge(least(points, gain)).because(|| why.to_owned())
}

/// That 24 processes on 4 GPUs gain more than 8.
fn more_processes(points: &[Point], name: &'static str, source: &'static str) -> Verdict {
    Claim::at_least(name, source, 1.0, "x").judge(over(points, [(4, 6), (4, 2)], 4 << 20, gain))
}

/// That one way is never quicker than another.
fn never(points: &[Point], [one, other]: [usize; 2], source: &'static str) -> Verdict {
    let name = format!("{} over {}, at its least", WAYS[one].0, WAYS[other].0);
    Claim::at_least(&name, source, 1.0, "x").judge(least(points, |point| point.us[one] / point.us[other]))
}

/// As on one node, but for what the fixed step between nodes takes.
fn claims_of_nodes(points: &[Point], of_a_node: &[Point]) -> Vec<Verdict> {
    let lower = points.iter().zip(of_a_node).filter(|(four, one)| gain(four) <= gain(one)).count() as f64;
    vec![
        never_flat(
            points,
            "4.3.3, Fig. 4.8: in all cases",
            "two processes on each GPU: the flat way has all GPUs' lanes and many cores at once, the step between nodes those of one process",
        ),
        Claim::at_least("cases with a lower gain than on one node", "4.3.3, Fig. 4.8", 1.0, "of 1")
            .judge(lower / points.len() as f64)
            .because(|| {
                "where the gain on one node is below 1, what both ways take between nodes brings it nearer to 1".to_owned()
            }),
        more_processes(
            points,
            "4 GPUs of a node, 4 MB: the gain of 24 processes on it over that of 8",
            "4.3.3: the more processes per node, the higher",
        ),
        never(points, [1, 0], "4.3.3, Fig. 4.9(a): as in 4.7(a)"),
        never(points, [0, 3], "4.3.3, Fig. 4.9(c): of choice"),
        never(points, [2, 3], "4.3.3, Fig. 4.9: of choice"),
        Claim::between("most that a hierarchy saves", "1.2, 7: up to 65 % across the cluster", 50.0, 80.0, "%")
            .judge(saved(points)),
        Claim::at_most("the same, over that on one node", "1.2, 7: 65 and 80 %", 1.0, "x")
            .judge(saved(points) / saved(of_a_node)),
    ]
}

fn claims(points: &[Point]) -> Vec<Verdict> {
    let gsb_over_btb = |cases| over(points, cases, 16 << 20, |point| point.us[0] / point.us[2]);
    vec![
        never_flat(
            points,
            "4.3, Fig. 4.6: in all cases",
            "two processes on a GPU and at most 512 KiB, where the starts of copies count, of which the text tells no cost",
        ),
        Claim::at_least(
            "4 GPUs, 24 processes: the gain at 16 MB over that at 256 KB",
            "4.3, Fig. 4.6",
            1.0,
            "x",
        )
        .judge(at(points, (4, 6), 16 << 20, gain) / at(points, (4, 6), 256 << 10, gain)),
        more_processes(points, "4 GPUs, 4 MB: the gain of 24 processes over that of 8", "4.3, Fig. 4.6"),
        never(points, [1, 0], "4.3, Fig. 4.7(a): never better"),
        never(points, [0, 3], "4.3, Fig. 4.7(c): in all cases"),
        Claim::at_least(
            "16 MB: GSB-GSB over BTB-BTB, 8 GPUs over 4",
            "4.3, Fig. 4.7(b): better with more GPUs",
            1.0,
            "x",
        )
        .judge(gsb_over_btb([(8, 2), (4, 2)])),
        Claim::at_most(
            "4 GPUs, 16 MB: GSB-GSB over BTB-BTB, 6 on each over 2",
            "4.3, Fig. 4.7(b): worse with more processes",
            1.0,
            "x",
        )
        .judge(gsb_over_btb([(4, 6), (4, 2)])),
        Claim::between("most that a hierarchy saves", "1.2, 7: up to 80 %", 70.0, 95.0, "%")
            .judge(saved(points)),
    ]
}

fn picture(title: String, points: &[Point]) -> Picture {
    let line = |name: &str, of: &dyn Fn(&Point) -> f64| {
        let case = points.iter().filter(|point| point.case == (8, 3));
        Line::new(name, case.map(|point| (point.bytes as f64, of(point))).collect())
    };
    let ours = WAYS.iter().enumerate().map(|(at, (name, _))| line(name, &|p: &Point| p.us[at]));
    Picture {
        title,
        x: Axis::new("vector, bytes", Scale::Sizes),
        y: Axis::new("allreduce, us", Scale::Logarithmic),
        lines: std::iter::once(line("MPI", &|p: &Point| p.mpi)).chain(ours).collect(),
    }
}
