//! Figures 5.1 to 5.7: copies through the host and directly, of processes that share a GPU with MPS and without, on System C.

use ggas_plot::{Axis, Line, Picture, Scale};
use ggas_shared_gpu::model::Work;
use ggas_shared_gpu::{Algorithm, Copier, Place};
use serde_json::json;

use super::machine::{Machine, Way};
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict};

const PAIRS: usize = 4;
const RANKS: [usize; 3] = [4, 8, 16];
const OF_PAIRS: &[&str] =
    &["MPS", "bytes", "all staged us", "one direct us", "two direct us", "three direct us", "all direct us"];
const OF_RANKS: &[&str] =
    &["MPS", "processes", "bytes", "MPI us", "static us", "staged of static", "dynamic us", "MPI/static"];

/// Why rows with a start of their own do not hold.
pub(super) fn starts() -> String {
    "the text tells no cost of starting a copy, with MPS or without".to_owned()
}

/// Times of four pairs, by how many of them are direct.
struct Pairs {
    has_mps: bool,
    bytes: usize,
    us: [f64; PAIRS + 1],
}

impl Pairs {
    /// By how much a mix is quicker than either alone.
    fn gain_of_mix(&self) -> f64 {
        let alone = self.us[0].min(self.us[PAIRS]);
        alone / self.us[1..PAIRS].iter().copied().fold(f64::INFINITY, f64::min)
    }
}

pub(super) fn pairs(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let mut points = Vec::new();
    for has_mps in [false, true] {
        let machine = Machine::odin(has_mps);
        for bytes in (10..=24).map(|power| 1_usize << power) {
            let us =
                std::array::from_fn(|direct| machine.us_of_pairs(PAIRS, direct, bytes).unwrap_or(f64::NAN));
            points.push(Pairs { has_mps, bytes, us });
        }
    }
    let line = |(name, has_mps, direct): (&str, bool, usize)| {
        let own = points.iter().filter(|point| point.has_mps == has_mps);
        Line::new(name, own.map(|point| (point.bytes as f64, point.us[direct])).collect())
    };
    let picture = Picture {
        title: "Faraji, Figs. 5.1 and 5.2: four pairs on one GPU".to_owned(),
        x: Axis::new("message, bytes", Scale::Sizes),
        y: Axis::new("all have theirs, us", Scale::Logarithmic),
        lines: [
            ("all staged", false, 0),
            ("all direct", false, PAIRS),
            ("all staged, MPS", true, 0),
            ("two direct, MPS", true, 2),
            ("all direct, MPS", true, PAIRS),
        ]
        .into_iter()
        .map(line)
        .collect(),
    };
    let mut report =
        Machine::odin(true).report((figure, settings), OF_PAIRS, claims_of_pairs(&points), picture)?;
    for Pairs { has_mps, bytes, us } in &points {
        let [zero, one, two, three, four] = us.map(|us| json!(us));
        report.row([json!(u8::from(*has_mps)), json!(bytes), zero, one, two, three, four]);
    }
    Ok(report)
}

fn claims_of_pairs(points: &[Pairs]) -> Vec<Verdict> {
    let at = |has_mps: bool, bytes: usize, direct: usize| {
        let own = points.iter().find(|point| point.has_mps == has_mps && point.bytes == bytes);
        own.map_or(f64::NAN, |point| point.us[direct])
    };
    let mixes = || points.iter().filter(|point| point.has_mps && point.gain_of_mix() > 1.0);
    let mut claims = Vec::new();
    for (has_mps, how) in [(false, "without MPS"), (true, "with MPS")] {
        claims.push(
            Claim::at_least(&format!("4 KB {how}: direct over staged"), "5.1.1, Fig. 5.1", 1.0, "x")
                .judge(at(has_mps, 4 << 10, PAIRS) / at(has_mps, 4 << 10, 0))
                .because(starts),
        );
        claims.push(
            Claim::at_least(&format!("4 MB {how}: staged over direct"), "5.1.1, Fig. 5.1", 1.0, "x")
                .judge(at(has_mps, 4 << 20, 0) / at(has_mps, 4 << 20, PAIRS)),
        );
    }
    for (direct, what) in [(0, "staged"), (PAIRS, "direct")] {
        claims.push(
            Claim::at_least(&format!("4 KB, {what}: without MPS over with it"), "5.1.1, Fig. 5.1", 1.0, "x")
                .judge(at(false, 4 << 10, direct) / at(true, 4 << 10, direct)),
        );
        claims.push(
            Claim::at_most(&format!("1 MB, {what}: without MPS over with it"), "5.1.1: overhead", 1.0, "x")
                .judge(at(false, 1 << 20, direct) / at(true, 1 << 20, direct))
                .because(|| "the text finds no reason but the implementation, and no number".to_owned()),
        );
    }
    claims.push(
        Claim::between(
            "smallest size at which a mix is quickest, with MPS",
            "5.1.1, Fig. 5.2",
            4096.0,
            16384.0,
            "B",
        )
        .judge(mixes().map(|point| point.bytes as f64).reduce(f64::min))
        .because(starts),
    );
    claims.push(
        Claim::between(
            "largest size at which a mix is quickest, with MPS",
            "5.1.1, Fig. 5.2",
            131_072.0,
            524_288.0,
            "B",
        )
        .judge(mixes().map(|point| point.bytes as f64).reduce(f64::max))
        .because(starts),
    );
    claims
}

/// A collective of ranks on one GPU.
struct Point {
    has_mps: bool,
    ranks: usize,
    bytes: usize,
    mpi: f64,
    /// By the best table, which has so many staged copies.
    best: (f64, usize),
    dynamic: f64,
}

type Time = fn(&Machine, Way, usize, usize) -> Option<f64>;

fn measure(time: Time) -> Vec<Point> {
    let mut points = Vec::new();
    for has_mps in [false, true] {
        let machine = Machine::odin(has_mps);
        let us = |way, ranks, bytes| time(&machine, way, ranks, bytes).unwrap_or(f64::INFINITY);
        for ranks in RANKS {
            for bytes in (2..=22).step_by(2).map(|power| 1_usize << power) {
                let ours = |algorithm| us(Way::Ours(algorithm), ranks, bytes);
                let tables =
                    (0..ranks).map(|staged| (ours(Algorithm::Static { staged, by: Copier::Engine }), staged));
                let best = tables.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::NAN, 0));
                let (mpi, dynamic) = (us(Way::Mpi, ranks, bytes), ours(Algorithm::Dynamic));
                points.push(Point { has_mps, ranks, bytes, mpi, best, dynamic });
            }
        }
    }
    points
}

fn report(
    (figure, settings): (&Figure, &Settings),
    points: &[Point],
    claims: Vec<Verdict>,
    what: &str,
) -> Result<Report, PaperError> {
    let line = |name: &str, has_mps: bool, of: &dyn Fn(&Point) -> f64| {
        let own = points.iter().filter(|point| point.has_mps == has_mps && point.ranks == 16);
        Line::new(name, own.map(|point| (point.bytes as f64, of(point))).collect())
    };
    let picture = Picture {
        title: format!("Faraji, Fig. {}(c): {what} of 16 processes on one GPU", figure.number()),
        x: Axis::new("vector, bytes", Scale::Sizes),
        y: Axis::new(&format!("{what}, us"), Scale::Logarithmic),
        lines: vec![
            line("MPI", false, &|point| point.mpi),
            line("static", false, &|point| point.best.0),
            line("dynamic", false, &|point| point.dynamic),
            line("MPI, MPS", true, &|point| point.mpi),
            line("static, MPS", true, &|point| point.best.0),
            line("dynamic, MPS", true, &|point| point.dynamic),
        ],
    };
    let mut report = Machine::odin(true).report((figure, settings), OF_RANKS, claims, picture)?;
    report.notes.push(
        "Static's table is the best of all in virtual time, where the text has a rounded average of 1,000 runs.".to_owned(),
    );
    for Point { has_mps, ranks, bytes, mpi, best: (best, staged), dynamic } in points {
        let (mps, ratio) = (json!(u8::from(*has_mps)), json!(mpi / best));
        let (ranks, bytes, mpi) = (json!(ranks), json!(bytes), json!(mpi));
        report.row([mps, ranks, bytes, mpi, json!(best), json!(staged), json!(dynamic), ratio]);
    }
    Ok(report)
}

/// The smallest size from which on a way is never slower than MPI, of 16 processes with MPS.
fn pays_from(points: &[Point], of: impl Fn(&Point) -> f64) -> f64 {
    let own = points.iter().filter(|point| point.has_mps && point.ranks == 16);
    let slower = own.filter(|point| of(point) >= point.mpi).map(|point| point.bytes).max();
    slower.map_or(4.0, |bytes| 4.0 * bytes as f64)
}

/// Without MPS over with it, on average over all sizes and numbers of processes.
fn gain_of_mps(points: &[Point], of: impl Fn(&Point) -> f64) -> f64 {
    let (without, with): (Vec<&Point>, Vec<&Point>) = points.iter().partition(|point| !point.has_mps);
    let gains: Vec<f64> = without.iter().zip(with).map(|(one, other)| of(one) / of(other)).collect();
    gains.iter().sum::<f64>() / gains.len() as f64
}

fn claims(points: &[Point], source: &'static str, pays: [(f64, f64); 2], mps: [f64; 2]) -> Vec<Verdict> {
    let dynamic_over_static = |least: usize| {
        let own = points.iter().filter(|point| point.has_mps && point.ranks == 16 && point.bytes >= least);
        let ratios: Vec<f64> = own.map(|point| point.dynamic / point.best.0).collect();
        ratios.iter().sum::<f64>() / ratios.len() as f64
    };
    let mut claims = Vec::new();
    type Of = fn(&Point) -> f64;
    let ways: [(&str, Of); 2] = [("static", |point| point.best.0), ("dynamic", |point| point.dynamic)];
    for ((name, of), ((low, high), gain)) in ways.into_iter().zip(pays.into_iter().zip(mps)) {
        claims.push(
            Claim::between(
                &format!("16 processes, MPS: {name} is quicker from, in bytes"),
                source,
                low,
                high,
                "B",
            )
            .judge(pays_from(points, of))
            .because(starts),
        );
        claims.push(
            Claim::between(
                &format!("{name}: without MPS over with it, on average"),
                source,
                0.7 * gain,
                1.3 * gain,
                "x",
            )
            .judge(gain_of_mps(points, of))
            .because(starts),
        );
    }
    claims.push(
        Claim::at_most("16 processes, MPS: dynamic over static, on average", "5.4.2: comparable", 1.25, "x")
            .judge(dynamic_over_static(0))
            .because(|| {
                "each copy is assigned and seen to be complete by the leader, and the text tells no cost of that"
                    .to_owned()
            }),
    );
    claims.push(
        Claim::at_most("the same from 1 MB on, over all sizes", "5.4.2: decreases with the size", 1.0, "x")
            .judge(dynamic_over_static(1 << 20) / dynamic_over_static(0))
            .because(|| {
                "static has all copies of an allgather direct from 64 KB on, and the dynamic algorithm tries a staged one in each call"
                    .to_owned()
            }),
    );
    claims
}

pub(super) fn gather(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let points = measure(Machine::us_of_gather);
    let claims = claims(&points, "5.4.2, Fig. 5.5", [(2048.0, 8192.0), (4096.0, 16384.0)], [2.17, 2.0]);
    report((figure, settings), &points, claims, "allgather")
}

pub(super) fn reduce(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let points = measure(Machine::us_of);
    let mut claims = claims(&points, "5.4.2, Fig. 5.6", [(16.0, 64.0), (2048.0, 8192.0)], [2.49, 2.62]);
    let spans = Machine::odin(true).spans_of(Algorithm::Dynamic, 16, 128 << 10);
    type Is = fn(Place, Place) -> bool;
    let staged = |is: Is| {
        let of = |span: &&ggas_shared_gpu::model::Span| {
            span.rank > 0 && matches!(span.work, Work::Copy { to, from, .. } if is(to, from))
        };
        spans.iter().filter(of).count() as f64
    };
    let (into, out): (Is, Is) = (
        |to, from| matches!((to, from), (Place::Staging(_), Place::Input(_))),
        |to, from| matches!((to, from), (Place::Output(_), Place::Staging(_))),
    );
    for (what, is) in [("gather", into), ("broadcast", out)] {
        let text = format!("16 processes, 128 KB, MPS, dynamic: staged copies in the {what}");
        let paper = if what == "gather" { 2.0 } else { 3.0 };
        claims.push(
            Claim::near(&text, "5.4.2, Fig. 5.7", paper, 2.0, "of 15").judge(staged(is)).because(starts),
        );
    }
    report((figure, settings), &points, claims, "allreduce")
}
