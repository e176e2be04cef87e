//! Figures 3.3 and 3.4: GSB and BTB against a flat allreduce through the host, on a K20 and on one GPU of a K80.

use ggas_plot::{Axis, Line, Picture, Scale};
use ggas_shared_gpu::Algorithm;
use serde_json::json;

use super::machine::{Machine, Way, by_size};
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict};

const WAYS: [(&str, Way); 3] =
    [("MPI", Way::Mpi), ("GSB", Way::Ours(Algorithm::Gsb)), ("BTB", Way::Ours(Algorithm::Btb))];
const COLUMNS: &[&str] = &["processes", "bytes", "MPI us", "GSB us", "BTB us", "MPI/GSB", "MPI/BTB"];
const OF_K80: [usize; 4] = [4, 8, 16, 24];

struct Point {
    ranks: usize,
    bytes: usize,
    us: [f64; 3],
}

pub(super) fn on_k20(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let points = points(&Machine::k20(), &[4, 8, 16]);
    let picture = picture("3.3(c)", 16, &points);
    report(&Machine::k20(), (figure, settings), &points, claims_of_k20(&points), picture)
}

pub(super) fn on_k80(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let points = points(&Machine::k80(), &OF_K80);
    let picture = picture("3.4(d)", 24, &points);
    report(&Machine::k80(), (figure, settings), &points, claims_of_k80(&points), picture)
}

/// From 4 bytes to 16 MiB.
fn points(machine: &Machine, ranks: &[usize]) -> Vec<Point> {
    let us = |ranks, bytes| WAYS.map(|(_, way)| machine.us_of(way, ranks, bytes).unwrap_or(f64::NAN));
    by_size(ranks.iter().copied(), 2..=24)
        .map(|(ranks, bytes)| Point { ranks, bytes, us: us(ranks, bytes) })
        .collect()
}

fn report(
    machine: &Machine,
    of: (&Figure, &Settings),
    points: &[Point],
    claims: Vec<Verdict>,
    picture: Picture,
) -> Result<Report, PaperError> {
    let mut report = machine.report(of, COLUMNS, claims, picture)?;
    for Point { ranks, bytes, us: [mpi, gsb, btb] } in points {
        let ratios = (json!(mpi / gsb), json!(mpi / btb));
        report.row([json!(ranks), json!(bytes), json!(mpi), json!(gsb), json!(btb), ratios.0, ratios.1]);
    }
    Ok(report)
}

/// The smallest size from which on GSB is never slower.
fn pays_from(points: &[Point], ranks: usize) -> f64 {
    let of = points.iter().filter(|point| point.ranks == ranks);
    let slower = of.filter(|point| point.us[1] >= point.us[0]).map(|point| point.bytes).max();
    slower.map_or(4.0, |bytes| 2.0 * bytes as f64)
}

/// Most that a way gains over the flat one.
fn most(points: &[Point], way: usize) -> f64 {
    points.iter().map(|point| point.us[0] / point.us[way]).fold(0.0, f64::max)
}

/// GSB over BTB, at its worst: never more than a tenth behind.
fn is_no_worse(points: &[Point]) -> Verdict {
    let gap = points.iter().map(|point| point.us[1] / point.us[2]).fold(0.0, f64::max);
    Claim::at_most("GSB over BTB, at its worst", "3.3.2: superior or at least similar", 1.1, "x").judge(gap)
}

fn claims_of_k20(points: &[Point]) -> Vec<Verdict> {
    let of = |ranks: usize| points.iter().filter(move |point| point.ranks == ranks);
    let start = || {
        "the text tells no cost of starting a copy, and has GSB pay from 256 KB on the K80: starts that explain one of the two \
         contradict the other"
            .to_owned()
    };
    let grows = |ranks: usize| {
        let large: Vec<f64> = of(ranks).filter(|p| p.bytes >= 256 << 10).map(|p| p.us[0] / p.us[1]).collect();
        large.last().copied().unwrap_or(f64::NAN) / large.first().copied().unwrap_or(f64::NAN)
    };
    let small = |way: usize| {
        let times: Vec<f64> = of(16).filter(|p| p.bytes <= 128 << 10).map(|p| p.us[way]).collect();
        times.iter().copied().fold(0.0, f64::max) / times.first().copied().unwrap_or(f64::NAN)
    };
    vec![
        Claim::at_most("4 processes: GSB is quicker from, in bytes", "3.3.2, Fig. 3.3", 4.0, "B")
            .judge(pays_from(points, 4))
            .because(start),
        Claim::at_most("8 processes: GSB is quicker from, in bytes", "3.3.2, Fig. 3.3", 4.0, "B")
            .judge(pays_from(points, 8))
            .because(start),
        Claim::between(
            "16 processes: GSB is quicker from, in bytes",
            "3.3.2, Fig. 3.3",
            16384.0,
            32768.0,
            "B",
        )
        .judge(pays_from(points, 16))
        .because(start),
        Claim::between("most that GSB gains", "3.3.2, 3.4", 11.0, 44.0, "x").judge(most(points, 1)),
        Claim::between("most that BTB gains", "3.4", 8.0, 32.0, "x").judge(most(points, 2)),
        is_no_worse(points),
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

fn claims_of_k80(points: &[Point]) -> Vec<Verdict> {
    let start = || {
        "the text tells no cost of starting a copy, and has GSB pay at all sizes on the K20: starts that explain one of the two \
         contradict the other"
            .to_owned()
    };
    let pays = |ranks: usize| {
        Claim::between(
            &format!("{ranks} processes: GSB is quicker from, in bytes"),
            "3.3.2, Fig. 3.4",
            131_072.0,
            524_288.0,
            "B",
        )
        .judge(pays_from(points, ranks))
        .because(start)
    };
    let mut claims: Vec<Verdict> = OF_K80.into_iter().map(pays).collect();
    claims.push(
        Claim::between("most that GSB gains", "3.3.2, Fig. 3.4", 9.75, 39.0, "x").judge(most(points, 1)),
    );
    claims.push(is_no_worse(points));
    claims
}

fn picture(figure: &str, ranks: usize, points: &[Point]) -> Picture {
    let line = |(at, (name, _)): (usize, (&str, Way))| {
        let shown = points.iter().filter(|point| point.ranks == ranks);
        Line::new(name, shown.map(|point| (point.bytes as f64, point.us[at])).collect())
    };
    Picture {
        title: format!("Faraji, Fig. {figure}: allreduce of {ranks} processes on one GPU"),
        x: Axis::new("vector, bytes", Scale::Sizes),
        y: Axis::new("allreduce, us", Scale::Logarithmic),
        lines: WAYS.into_iter().enumerate().map(line).collect(),
    }
}
