//! Figures 4.6 and 4.7: the four combinations of GSB and BTB inside and between the GPUs of a node, and flat through the host.

use ggas_plot::{Axis, Line, Picture, Scale};
use ggas_shared_gpu::Algorithm::{self, Btb, Gsb};
use serde_json::json;

use super::machine::Machine;
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict};

/// GPUs, and processes on each: "up to 24 processes".
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

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let machine = Machine::k80();
    let points: Vec<Point> = CASES
        .into_iter()
        .flat_map(|case| (18..=24).map(move |power| (case, 1_usize << power)))
        .map(|(case, bytes)| Point {
            case,
            bytes,
            mpi: machine.us_of_flat(case, bytes).unwrap_or(f64::NAN),
            us: WAYS.map(|(_, pair)| machine.us_of_two(pair, case, bytes).unwrap_or(f64::NAN)),
        })
        .collect();
    let mut report = machine.report((figure, settings), COLUMNS, claims(&points), picture(&points))?;
    report.notes.push("The text names 4 and 8 GPUs and 24 processes; the other numbers are ours.".to_owned());
    for Point { case: (gpus, per_gpu), bytes, mpi, us } in &points {
        let [one, two, three, four] = us.map(|us| json!(us));
        report.row([json!(gpus), json!(gpus * per_gpu), json!(bytes), json!(mpi), one, two, three, four]);
    }
    Ok(report)
}

fn claims(points: &[Point]) -> Vec<Verdict> {
    let least = |of: &dyn Fn(&Point) -> f64| points.iter().map(of).fold(f64::INFINITY, f64::min);
    let of = |gpus: usize, per_gpu: usize, bytes: usize, of: &dyn Fn(&Point) -> f64| {
        points.iter().find(|p| p.case == (gpus, per_gpu) && p.bytes == bytes).map_or(f64::NAN, of)
    };
    let gain = |point: &Point| point.mpi / point.us[0];
    let best = points.iter().map(|p| 1.0 - p.us[0].min(p.us[3]) / p.mpi).fold(0.0, f64::max);
    vec![
        Claim::at_least("flat over GSB-GSB, at its least", "4.3, Fig. 4.6: in all cases", 1.0, "x")
            .judge(least(&gain))
            .because(|| {
                "two processes on a GPU and at most 512 KiB, where the starts of copies count, of which the text tells no cost"
                    .to_owned()
            }),
        Claim::at_least(
            "4 GPUs, 24 processes: the gain at 16 MB over that at 256 KB",
            "4.3, Fig. 4.6",
            1.0,
            "x",
        )
        .judge(of(4, 6, 16 << 20, &gain) / of(4, 6, 256 << 10, &gain)),
        Claim::at_least("4 GPUs, 4 MB: the gain of 24 processes over that of 8", "4.3, Fig. 4.6", 1.0, "x")
            .judge(of(4, 6, 4 << 20, &gain) / of(4, 2, 4 << 20, &gain)),
        Claim::at_least("BTB-GSB over GSB-GSB, at its least", "4.3, Fig. 4.7(a): never better", 1.0, "x")
            .judge(least(&|p| p.us[1] / p.us[0])),
        Claim::at_least("GSB-GSB over GSB-BTB, at its least", "4.3, Fig. 4.7(c): in all cases", 1.0, "x")
            .judge(least(&|p| p.us[0] / p.us[3])),
        Claim::at_least(
            "16 MB: GSB-GSB over BTB-BTB, 8 GPUs over 4",
            "4.3, Fig. 4.7(b): better with more GPUs",
            1.0,
            "x",
        )
        .judge(of(8, 2, 16 << 20, &|p| p.us[0] / p.us[2]) / of(4, 2, 16 << 20, &|p| p.us[0] / p.us[2])),
        Claim::at_most(
            "4 GPUs, 16 MB: GSB-GSB over BTB-BTB, 6 on each over 2",
            "4.3, Fig. 4.7(b): worse with more processes",
            1.0,
            "x",
        )
        .judge(of(4, 6, 16 << 20, &|p| p.us[0] / p.us[2]) / of(4, 2, 16 << 20, &|p| p.us[0] / p.us[2])),
        Claim::between("most that a hierarchy saves", "1.2, 7: up to 80 %", 70.0, 95.0, "%")
            .judge(100.0 * best),
    ]
}

fn picture(points: &[Point]) -> Picture {
    let line = |name: &str, of: &dyn Fn(&Point) -> f64| {
        let case = points.iter().filter(|point| point.case == (8, 3));
        Line::new(name, case.map(|point| (point.bytes as f64, of(point))).collect())
    };
    let ours = WAYS.iter().enumerate().map(|(at, (name, _))| line(name, &|p: &Point| p.us[at]));
    Picture {
        title: "Faraji, Figs. 4.6 and 4.7: allreduce of 24 processes on 8 GPUs".to_owned(),
        x: Axis::new("vector, bytes", Scale::Sizes),
        y: Axis::new("allreduce, us", Scale::Logarithmic),
        lines: std::iter::once(line("MPI", &|p: &Point| p.mpi)).chain(ours).collect(),
    }
}
