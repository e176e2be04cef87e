//! Figure 3.3: GSB and BTB against a flat allreduce through the host, on one K20.

use ggas_plot::{Axis, Line, Picture, Scale};
use ggas_shared_gpu::Algorithm;
use serde_json::json;

use super::machine::{Machine, Way};
use crate::{Checked, Claim, Figure, PaperError, Report, Settings, Verdict};

const RANKS: [usize; 3] = [4, 8, 16];
const WAYS: [(&str, Way); 3] =
    [("MPI", Way::Mpi), ("GSB", Way::Ours(Algorithm::Gsb)), ("BTB", Way::Ours(Algorithm::Btb))];

struct Point {
    ranks: usize,
    bytes: usize,
    us: [f64; 3],
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let machine = Machine::k20();
    let sizes = (2..=24).map(|power| 1_usize << power);
    let points: Vec<Point> = RANKS
        .into_iter()
        .flat_map(|ranks| sizes.clone().map(move |bytes| (ranks, bytes)))
        .map(|(ranks, bytes)| {
            let us = WAYS.map(|(_, way)| machine.us_of(way, ranks, bytes).unwrap_or(f64::NAN));
            Point { ranks, bytes, us }
        })
        .collect();
    let mut report = Report {
        parameters: machine.parameters(),
        claims: claims(&points),
        checked: Checked::default(),
        ..Report::of("faraji", figure, settings, &settings.system("infiniband")?, COLUMNS, picture(&points))
    };
    report.systems = vec!["faraji-k20".to_owned()];
    report.notes.push(
        "The text tells no times of copies and kernels: starts are assumed, rates are of data sheets (k20.toml)."
            .to_owned(),
    );
    for Point { ranks, bytes, us: [mpi, gsb, btb] } in &points {
        let ratios = (json!(mpi / gsb), json!(mpi / btb));
        report.row([json!(ranks), json!(bytes), json!(mpi), json!(gsb), json!(btb), ratios.0, ratios.1]);
    }
    Ok(report)
}

const COLUMNS: &[&str] = &["processes", "bytes", "MPI us", "GSB us", "BTB us", "MPI/GSB", "MPI/BTB"];

fn claims(points: &[Point]) -> Vec<Verdict> {
    let of = |ranks: usize| points.iter().filter(move |point| point.ranks == ranks);
    let most = |way: usize| points.iter().map(|point| point.us[0] / point.us[way]).fold(0.0, f64::max);
    // The smallest size from which on GSB is never slower.
    let from = |ranks: usize| {
        let slower = of(ranks).filter(|point| point.us[1] >= point.us[0]).map(|point| point.bytes).max();
        slower.map_or(4.0, |bytes| 2.0 * bytes as f64)
    };
    let start = || {
        "the text tells no cost of starting a copy, and has GSB pay from 256 KB on the K80: starts that explain one of the two \
         contradict the other"
            .to_owned()
    };
    let grows = |ranks: usize| {
        let large: Vec<f64> = of(ranks).filter(|p| p.bytes >= 256 << 10).map(|p| p.us[0] / p.us[1]).collect();
        large.last().copied().unwrap_or(f64::NAN) / large.first().copied().unwrap_or(f64::NAN)
    };
    let gap = points.iter().map(|point| point.us[1] / point.us[2]).fold(0.0, f64::max);
    let small = |way: usize| {
        let times: Vec<f64> = of(16).filter(|p| p.bytes <= 128 << 10).map(|p| p.us[way]).collect();
        times.iter().copied().fold(0.0, f64::max) / times.first().copied().unwrap_or(f64::NAN)
    };
    vec![
        Claim::at_most("4 processes: GSB is quicker from, in bytes", "3.3.2, Fig. 3.3", 4.0, "B")
            .judge(from(4))
            .because(start),
        Claim::at_most("8 processes: GSB is quicker from, in bytes", "3.3.2, Fig. 3.3", 4.0, "B")
            .judge(from(8))
            .because(start),
        Claim::between(
            "16 processes: GSB is quicker from, in bytes",
            "3.3.2, Fig. 3.3",
            16384.0,
            32768.0,
            "B",
        )
        .judge(from(16))
        .because(start),
        Claim::between("most that GSB gains", "3.3.2, 3.4", 11.0, 44.0, "x").judge(most(1)),
        Claim::between("most that BTB gains", "3.4", 8.0, 32.0, "x").judge(most(2)),
        Claim::at_most("GSB over BTB, at its worst", "3.3.2: superior or at least similar", 1.1, "x")
            .judge(gap),
        Claim::at_most(
            "16 processes, GSB: 128 KB over 4 bytes",
            "3.3.2: oblivious to the size up to 128 KB",
            1.5,
            "x",
        )
        .judge(small(1)),
        Claim::at_least("16 processes: the gain at 16 MB over that at 256 KB", "3.3.2", 1.0, "x")
            .judge(grows(16)),
    ]
}

fn picture(points: &[Point]) -> Picture {
    let line = |(at, (name, _)): (usize, (&str, Way))| {
        let of_16 = points.iter().filter(|point| point.ranks == 16);
        Line::new(name, of_16.map(|point| (point.bytes as f64, point.us[at])).collect())
    };
    Picture {
        title: "Faraji, Fig. 3.3(c): allreduce of 16 processes on one GPU".to_owned(),
        x: Axis::new("vector, bytes", Scale::Sizes),
        y: Axis::new("allreduce, us", Scale::Logarithmic),
        lines: WAYS.into_iter().enumerate().map(line).collect(),
    }
}
