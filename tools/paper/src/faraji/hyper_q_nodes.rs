//! Figures 5.8 to 5.10: four nodes of System C, one GPU in each: the static and the dynamic algorithm in a node, the library between nodes.

use ggas_plot::{Axis, Line, Picture, Scale};
use ggas_shared_gpu::Algorithm::{self, Btb, Dynamic, Gsb, Static};
use ggas_shared_gpu::Copier::Engine;
use serde_json::json;

use super::flat::{Call, Library};
use super::hyper_q::starts;
use super::machine::{Machine, Way};
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict};

const NODES: usize = 4;
const RANKS: [usize; 3] = [4, 8, 16];
const COLUMNS: &[&str] =
    &["MPS", "processes", "bytes", "MPI us", "GDR us", "static us", "dynamic us", "MPI/static", "GDR/static"];
const OF_ALL: &[&str] = &["bytes", "MPI us", "GDR us", "GSB us", "BTB us", "static us", "dynamic us"];
/// The same for all figures of nodes.
const LIBRARIES: &str = "MPI stages whole vectors, and those of an allgather in blocks where that is quicker (FGP); GDR is the same library, or loads and \
     stores by processors (gdrcopy) or copies by the network card (loopback) where these are quicker. The step between nodes is MPI's, between vectors on GPUs.";

/// A collective of ranks on each of the nodes.
struct Point {
    has_mps: bool,
    ranks: usize,
    bytes: usize,
    mpi: f64,
    gdr: f64,
    best: f64,
    dynamic: f64,
}

impl Machine {
    /// The text's libraries, flat over all nodes: without GDR, and with it.
    pub(super) fn us_of_libraries(&self, call: Call, ranks: usize, bytes: usize) -> [f64; 2] {
        let us = |library| self.us_of_flat(library, call, (NODES, ranks), bytes).unwrap_or(f64::INFINITY);
        let mpi = match call {
            Call::Allreduce => us(Library::Staged),
            Call::Allgather => us(Library::Staged).min(us(Library::Pipelined)),
        };
        [mpi, mpi.min(us(Library::Mapped)).min(us(Library::Loopback))]
    }

    /// In three stages (5.3.3). Of an allgather the first is that of an allreduce without its kernel, and the last that of one of the
    /// whole result; each with the quickest of these algorithms.
    pub(super) fn us_in_stages(
        &self,
        call: Call,
        ways: &[Algorithm],
        ranks: usize,
        bytes: usize,
    ) -> Option<f64> {
        let quickest = |us: &dyn Fn(Algorithm) -> Option<f64>| {
            ways.iter().filter_map(|way| us(*way)).min_by(f64::total_cmp)
        };
        let all = |way, bytes| self.us_of(Way::Ours(way), ranks, bytes);
        match call {
            Call::Allreduce => Some(quickest(&|way| all(way, bytes))? + self.us_between(call, NODES, bytes)?),
            Call::Allgather => {
                let result = NODES * ranks * bytes;
                let gather = quickest(&|way| self.us_of_gathering(way, ranks, bytes))?;
                let spread =
                    quickest(&|way| Some(all(way, result)? - self.us_of_reduce(way, ranks, result)?))?;
                Some(gather + self.us_between(call, NODES, ranks * bytes)? + spread)
            }
        }
    }
}

fn measure(call: Call, sizes: impl Iterator<Item = usize> + Clone) -> Vec<Point> {
    let mut points = Vec::new();
    for (has_mps, ranks) in [false, true].into_iter().flat_map(|mps| RANKS.map(|ranks| (mps, ranks))) {
        let machine = Machine::odin(has_mps);
        let tables: Vec<Algorithm> = (0..ranks).map(|staged| Static { staged, by: Engine }).collect();
        for bytes in sizes.clone() {
            let us = |ways: &[Algorithm]| machine.us_in_stages(call, ways, ranks, bytes).unwrap_or(f64::NAN);
            let [mpi, gdr] = machine.us_of_libraries(call, ranks, bytes);
            points.push(Point {
                has_mps,
                ranks,
                bytes,
                mpi,
                gdr,
                best: us(&tables),
                dynamic: us(&[Dynamic]),
            });
        }
    }
    points
}

fn mean(ratios: impl Iterator<Item = f64>) -> f64 {
    let all: Vec<f64> = ratios.collect();
    all.iter().sum::<f64>() / all.len() as f64
}

fn with_mps(points: &[Point]) -> impl Iterator<Item = &Point> + Clone {
    points.iter().filter(|point| point.has_mps)
}

/// What the text says of both collectives.
fn claims(points: &[Point], source: &'static str) -> Vec<Verdict> {
    let short = with_mps(points).filter(|point| point.bytes < 16);
    let other = with_mps(points).filter(|point| point.bytes >= 16);
    let number = other.clone().count() as f64;
    let share = |of: &dyn Fn(&Point) -> f64| {
        // "Comparable or better": at most a tenth slower.
        other.clone().filter(|point| point.best <= 1.1 * of(point)).count() as f64 / number
    };
    vec![
        Claim::at_least("below 16 bytes, MPS: static over GDR, at its least", source, 1.0, "x")
            .judge(short.map(|point| point.best / point.gdr).fold(f64::INFINITY, f64::min)),
        Claim::at_least("from 16 bytes on, MPS: where static is no slower than MPI", source, 0.5, "of 1")
            .judge(share(&|point| point.mpi))
            .because(starts),
        Claim::at_least("from 16 bytes on, MPS: where static is no slower than GDR", source, 0.5, "of 1")
            .judge(share(&|point| point.gdr))
            .because(starts),
        Claim::at_most("MPS: dynamic over static, on average", source, 1.25, "x")
            .judge(mean(with_mps(points).map(|point| point.dynamic / point.best)))
            .because(|| {
                "each copy is assigned and seen to be complete by the leader, and the text tells no cost of that".to_owned()
            }),
        Claim::at_least("16 for each GPU: static without MPS over with it, on average", source, 1.0, "x")
            .judge(mean(of_mps(points, 16))),
    ]
}

fn of_mps(points: &[Point], ranks: usize) -> impl Iterator<Item = f64> {
    let without = points.iter().filter(move |point| !point.has_mps && point.ranks == ranks);
    let with = points.iter().filter(move |point| point.has_mps && point.ranks == ranks);
    without.zip(with).map(|(one, other)| one.best / other.best)
}

/// The smallest size from which on static is never slower than MPI.
fn pays_from(points: &[Point], ranks: usize) -> f64 {
    let own = with_mps(points).filter(|point| point.ranks == ranks);
    let slower = own.filter(|point| point.best >= point.mpi).map(|point| point.bytes).max();
    slower.map_or(4.0, |bytes| 4.0 * bytes as f64)
}

fn gain(points: &[Point], ranks: usize, bytes: usize) -> f64 {
    let own = with_mps(points).find(|point| point.ranks == ranks && point.bytes == bytes);
    own.map_or(f64::NAN, |point| point.mpi / point.best)
}

/// From 4 bytes to as many.
fn sizes(most: u32) -> impl Iterator<Item = usize> + Clone {
    (2..=most).step_by(2).map(|power| 1 << power)
}

pub(super) fn gather(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    const SOURCE: &str = "5.4.3, Fig. 5.8";
    let points = measure(Call::Allgather, sizes(20));
    let mut claims = claims(&points, SOURCE);
    for (ranks, paper) in RANKS.into_iter().zip([16384.0, 8192.0, 512.0]) {
        let text = format!("{ranks} for each GPU, MPS: static is quicker from, in bytes");
        claims.push(
            Claim::between(&text, SOURCE, paper / 2.0, paper * 2.0, "B")
                .judge(pays_from(&points, ranks))
                .because(starts),
        );
    }
    claims.extend([
        Claim::at_least(
            "16 for each GPU, MPS: what static gains at 1 MB over that at 4 KB",
            SOURCE,
            1.0,
            "x",
        )
        .judge(gain(&points, 16, 1 << 20) / gain(&points, 16, 4 << 10)),
        Claim::at_least(
            "64 KB, MPS: what static gains with 16 for each GPU over that with 4",
            SOURCE,
            1.0,
            "x",
        )
        .judge(gain(&points, 16, 64 << 10) / gain(&points, 4, 64 << 10)),
    ]);
    report((figure, settings), &points, claims, "allgather")
}

pub(super) fn reduce(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    const SOURCE: &str = "5.4.3, Fig. 5.9";
    let points = measure(Call::Allreduce, sizes(22));
    let mut claims = claims(&points, SOURCE);
    let all = |points: &[Point]| {
        mean(with_mps(points).filter(|point| point.bytes <= 1 << 20).map(|point| point.mpi / point.best))
    };
    let gathered = measure(Call::Allgather, sizes(20));
    claims.push(
        Claim::at_least("up to 1 MB, MPS: mean of what static gains over that of allgathers", SOURCE, 1.0, "x")
            .judge(all(&points) / all(&gathered))
            .because(|| {
                "sizes are those of a rank's vector: flat, all processes of a node get an allgather's result, 16 to 64 vectors long, from the host \
                 over the same lanes, and the text does not say how its library would spare that"
                    .to_owned()
            }),
    );
    report((figure, settings), &points, claims, "allreduce")
}

fn report(
    of: (&Figure, &Settings),
    points: &[Point],
    claims: Vec<Verdict>,
    what: &str,
) -> Result<Report, PaperError> {
    let line = |name: &str, value: &dyn Fn(&Point) -> f64| {
        let own = with_mps(points).filter(|point| point.ranks == 16);
        Line::new(name, own.map(|point| (point.bytes as f64, value(point))).collect())
    };
    let picture = Picture {
        title: format!("Faraji, Fig. {}(c): {what} of 64 processes on four nodes, with MPS", of.0.number()),
        x: Axis::new("vector, bytes", Scale::Sizes),
        y: Axis::new(&format!("{what}, us"), Scale::Logarithmic),
        lines: vec![
            line("MPI", &|point| point.mpi),
            line("GDR", &|point| point.gdr),
            line("static", &|point| point.best),
            line("dynamic", &|point| point.dynamic),
        ],
    };
    let mut report = Machine::odin(true).report(of, COLUMNS, claims, picture)?;
    report.notes.push(LIBRARIES.to_owned());
    for Point { has_mps, ranks, bytes, mpi, gdr, best, dynamic } in points {
        let (mps, processes) = (json!(u8::from(*has_mps)), json!(NODES * ranks));
        let (of_mpi, of_gdr) = (json!(mpi / best), json!(gdr / best));
        let us = [mpi, gdr, best, dynamic].map(|us| json!(us));
        let [mpi, gdr, best, dynamic] = us;
        report.row([mps, processes, json!(bytes), mpi, gdr, best, dynamic, of_mpi, of_gdr]);
    }
    Ok(report)
}

/// Times of 16 ranks on each of the nodes, in the order of the columns.
struct All {
    bytes: usize,
    us: [f64; 6],
}

const NAMES: [&str; 6] = ["MPI", "GDR", "GSB", "BTB", "static", "dynamic"];
const STATIC: usize = 4;

fn compare(machine: &Machine, bytes: usize) -> All {
    let stages =
        |ways: &[Algorithm]| machine.us_in_stages(Call::Allreduce, ways, 16, bytes).unwrap_or(f64::INFINITY);
    // Reduce, the library's allreduce, and broadcast, as figure 3.6 has them.
    let levels = |way| machine.us_of_levels((way, way), (NODES, 1, 16), bytes).unwrap_or(f64::INFINITY);
    let tables: Vec<Algorithm> = (0..16).map(|staged| Static { staged, by: Engine }).collect();
    let [mpi, gdr] = machine.us_of_libraries(Call::Allreduce, 16, bytes);
    All { bytes, us: [mpi, gdr, levels(Gsb), levels(Btb), stages(&tables), stages(&[Dynamic])] }
}

pub(super) fn all(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let machine = Machine::odin(true);
    let points: Vec<All> = sizes(24).map(|bytes| compare(&machine, bytes)).collect();
    let line = |(at, name): (usize, &&str)| {
        Line::new(name, points.iter().map(|point| (point.bytes as f64, point.us[at])).collect())
    };
    let picture = Picture {
        title: "Faraji, Fig. 5.10: allreduce of 64 processes on four nodes, with MPS".to_owned(),
        x: Axis::new("vector, bytes", Scale::Sizes),
        y: Axis::new("allreduce, us", Scale::Logarithmic),
        lines: NAMES.iter().enumerate().map(line).collect(),
    };
    let mut report = machine.report((figure, settings), OF_ALL, claims_of_all(&points), picture)?;
    report.notes.push(LIBRARIES.to_owned());
    for All { bytes, us } in &points {
        let [mpi, gdr, gsb, btb, best, dynamic] = us.map(|us| json!(us));
        report.row([json!(bytes), mpi, gdr, gsb, btb, best, dynamic]);
    }
    Ok(report)
}

fn claims_of_all(points: &[All]) -> Vec<Verdict> {
    let share = |other: usize| {
        points.iter().filter(|point| point.us[STATIC] <= point.us[other]).count() as f64 / points.len() as f64
    };
    let is_best = |other: usize| {
        let text = format!("sizes at which static is no slower than {}", NAMES[other]);
        Claim::at_least(&text, "5.4.4, Fig. 5.10: in most cases", 0.5, "of 1")
            .judge(share(other))
            .because(starts)
    };
    let mut claims: Vec<Verdict> = [0, 1, 2, 3, 5].into_iter().map(is_best).collect();
    for (other, name) in [(2, "GSB"), (3, "BTB")] {
        let at =
            |bytes: usize| points.iter().find(|point| point.bytes == bytes).map(|p| p.us[0] / p.us[other]);
        claims.push(
            Claim::at_most(&format!("4 KB: MPI over {name}"), "5.4.4: behind for small and medium", 1.0, "x")
                .judge(at(4 << 10))
                .because(starts),
        );
        claims.push(
            Claim::at_least(&format!("4 MB: MPI over {name}"), "5.4.4: ahead for large", 1.0, "x")
                .judge(at(4 << 20)),
        );
    }
    claims
}
