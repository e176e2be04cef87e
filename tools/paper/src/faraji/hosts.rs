//! Figure 2.2 and section 2.3.4: algorithms among hosts, and ways between GPUs and hosts, of the libraries that the text compares with.

use ggas_plot::{Axis, Line, Picture, Scale};
use serde_json::json;

use super::flat::{Call, Library};
use super::machine::{Machine, by_size};
use super::rounds::{Host, Round, allgather, allreduce, check};
use crate::{Checked, Claim, Figure, PaperError, Report, Settings, Verdict};

/// Nodes, and processes of each.
const CASES: [(usize, usize); 2] = [(1, 16), (4, 16)];
/// Names of [`Host::ALL`].
const NAMES: [&str; 5] = ["fan", "binomial", "doubling", "Rabenseifner", "ring"];
const COLUMNS: &[&str] = &[
    "processes",
    "bytes",
    "fan us",
    "binomial us",
    "doubling us",
    "Rabenseifner us",
    "ring us",
    "allgather: doubling us",
    "allgather: ring us",
];

struct Point {
    case: (usize, usize),
    bytes: usize,
    us: [f64; 5],
    /// Allgathers of as many bytes in all, by doubling and by the ring.
    gather: [f64; 2],
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let machine = Machine::k80();
    let point = |(nodes, ranks): (usize, usize), bytes: usize| {
        let us = |rounds: &[Round]| machine.ns_of(rounds, ranks) as f64 / 1e3;
        let of_gather = |host| {
            allgather(host, nodes * ranks, bytes / (nodes * ranks)).map_or(f64::NAN, |rounds| us(&rounds))
        };
        Point {
            case: (nodes, ranks),
            bytes,
            us: Host::ALL.map(|host| us(&allreduce(host, nodes * ranks, bytes))),
            gather: [Host::Doubling, Host::Ring].map(of_gather),
        }
    };
    let points: Vec<Point> =
        by_size(CASES, (6..=24).step_by(2)).map(|(case, bytes)| point(case, bytes)).collect();
    let line = |(at, name): (usize, &&str)| {
        let own = points.iter().filter(|point| point.case == CASES[1]);
        Line::new(name, own.map(|point| (point.bytes as f64, point.us[at])).collect())
    };
    let picture = Picture {
        title: "Faraji, Fig. 2.2: allreduce between 64 processes of four hosts".to_owned(),
        x: Axis::new("vector, bytes", Scale::Sizes),
        y: Axis::new("allreduce, us", Scale::Logarithmic),
        lines: NAMES.iter().enumerate().map(line).collect(),
    };
    let mut report = machine.report((figure, settings), COLUMNS, claims(&machine, &points), picture)?;
    report.checked = checked(settings.seed);
    report.notes.push("In host memory only; an allgather's bytes are those of its result.".to_owned());
    for Point { case: (nodes, ranks), bytes, us, gather } in &points {
        let [fan, binomial, doubling, halves, ring] = us.map(|us| json!(us));
        let [one, other] = gather.map(|us| json!(us));
        report.row([json!(nodes * ranks), json!(bytes), fan, binomial, doubling, halves, ring, one, other]);
    }
    Ok(report)
}

/// Each algorithm on words, with 2^n ranks and without.
fn checked(seed: u64) -> Checked {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut all = Checked::default();
    for (ranks, host) in [16, 24].into_iter().flat_map(|ranks| Host::ALL.map(|host| (ranks, host))) {
        let vectors: Vec<Vec<u64>> =
            (0..ranks).map(|_| (0..96).map(|_| random.u64(..1 << 32)).collect()).collect();
        let sum: Vec<u64> = (0..96).map(|at| vectors.iter().map(|vector| vector[at]).sum()).collect();
        all.add(check(&allreduce(host, ranks, 96), vectors, &sum));
    }
    all
}

fn claims(machine: &Machine, points: &[Point]) -> Vec<Verdict> {
    const SOURCE: &str = "2.3.3, Fig. 2.2";
    const RANKS: usize = 16;
    let met = |rounds: &[Round]| rounds.iter().filter(|round| round.meets).count() as f64;
    let of = |host| met(&allreduce(host, RANKS, 1 << 20));
    let gathered = |host| allgather(host, RANKS, 64).map(|rounds| met(&rounds));
    let at = |case, bytes: usize, way: usize| {
        points.iter().find(|point| point.case == case && point.bytes == bytes).map_or(f64::NAN, |p| p.us[way])
    };
    let gather = |case, bytes: usize| {
        let own = points.iter().find(|point| point.case == case && point.bytes == bytes);
        own.map_or(f64::NAN, |point| point.gather[1] / point.gather[0])
    };
    let [node, nodes] = CASES;
    let (short, long) = (64, 16 << 20);
    let dear = |host| machine.with("message_us", 1000.0).ns_of(&allreduce(host, RANKS, short), RANKS) as f64;
    vec![
        Claim::near("16 processes: steps of recursive doubling (log P)", SOURCE, 4.0, 0.0, "steps")
            .judge(of(Host::Doubling)),
        Claim::near("16 processes: steps of a binomial tree, one way (log P)", SOURCE, 4.0, 0.0, "steps")
            .judge(of(Host::Binomial) / 2.0),
        Claim::near("16 processes: steps of the ring's allgather (P - 1)", SOURCE, 15.0, 0.0, "steps")
            .judge(gathered(Host::Ring)),
        Claim::at_most(
            "16 processes, 64 bytes, 1 ms for each meeting: fan-in and fan-out over the binomial tree",
            "2.3.3: useful when synchronization is costly",
            1.0,
            "x",
        )
        .judge(dear(Host::Fan { radix: 7 }) / dear(Host::Binomial)),
        Claim::at_most("a node, 64 bytes: binomial tree over ring", "2.3.3: favored for short", 1.0, "x")
            .judge(at(node, short, 1) / at(node, short, 4)),
        Claim::at_least("a node, 16 MB: binomial tree over ring", "2.3.3: favored for short", 1.0, "x")
            .judge(at(node, long, 1) / at(node, long, 4)),
        Claim::at_most("4 nodes, 64 bytes: doubling over Rabenseifner's", "2.3.3", 1.0, "x")
            .judge(at(nodes, short, 2) / at(nodes, short, 3)),
        Claim::at_least("a node, 16 MB: doubling over ring", "2.3.3: avoided for large", 1.0, "x")
            .judge(at(node, long, 2) / at(node, long, 4)),
        Claim::at_least("4 nodes, 16 MB: doubling over ring", "2.3.3: avoided for large", 1.0, "x")
            .judge(at(nodes, long, 2) / at(nodes, long, 4)),
        Claim::at_least(
            "4 nodes, allgather, 4 KB: ring over doubling",
            "2.3.3: efficient only for large",
            1.0,
            "x",
        )
        .judge(gather(nodes, 4 << 10)),
        Claim::at_most(
            "4 nodes, allgather, 16 MB: ring over doubling",
            "2.3.3: efficient for large",
            1.0,
            "x",
        )
        .judge(gather(nodes, long)),
    ]
}

const LIBRARIES: [(&str, Library); 4] = [
    ("whole", Library::Staged),
    ("blocks", Library::Pipelined),
    ("gdrcopy", Library::Mapped),
    ("loopback", Library::Loopback),
];
const OF_LIBRARIES: &[&str] = &[
    "bytes",
    "whole us",
    "blocks us",
    "gdrcopy us",
    "loopback us",
    "allgather: whole us",
    "allgather: blocks us",
    "allgather: gdrcopy us",
    "allgather: loopback us",
];

/// Times by library of an allreduce and of an allgather of so many bytes of each rank.
struct Ways {
    bytes: usize,
    us: [[f64; 4]; 2],
}

pub(super) fn libraries(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let machine = Machine::odin(true);
    let us = |library, call, bytes| machine.us_of_flat(library, call, CASES[1], bytes).unwrap_or(f64::NAN);
    let times =
        |bytes| [Call::Allreduce, Call::Allgather].map(|call| LIBRARIES.map(|(_, way)| us(way, call, bytes)));
    let points: Vec<Ways> =
        (2..=22).map(|power| 1 << power).map(|bytes| Ways { bytes, us: times(bytes) }).collect();
    let line = |(at, (name, _)): (usize, &(&str, Library))| {
        Line::new(name, points.iter().map(|point| (point.bytes as f64, point.us[0][at])).collect())
    };
    let picture = Picture {
        title: "Faraji, 2.3.4: flat allreduce of 64 processes on four nodes, with MPS".to_owned(),
        x: Axis::new("vector, bytes", Scale::Sizes),
        y: Axis::new("allreduce, us", Scale::Logarithmic),
        lines: LIBRARIES.iter().enumerate().map(line).collect(),
    };
    let mut report =
        machine.report((figure, settings), OF_LIBRARIES, claims_of_libraries(&points), picture)?;
    report
        .notes
        .push("With MPS. Figures 5.8 to 5.10 take the quickest of these that a library has.".to_owned());
    for Ways { bytes, us: [reduced, gathered] } in &points {
        let [a, b, c, d] = reduced.map(|us| json!(us));
        let [e, f, g, h] = gathered.map(|us| json!(us));
        report.row([json!(bytes), a, b, c, d, e, f, g, h]);
    }
    Ok(report)
}

fn claims_of_libraries(points: &[Ways]) -> Vec<Verdict> {
    let at = |bytes: usize, call: usize, way: usize| {
        points
            .iter()
            .find(|point| point.bytes == bytes)
            .map_or(f64::NAN, |point| point.us[call][way] / point.us[call][0])
    };
    const HIDES: &str = "2.3.4: hides the latency of copies";
    const SHORT: &str = "2.3.4: lower latency, for small messages";
    vec![
        Claim::at_most("allreduce, 4 MB: in blocks over whole", HIDES, 1.0, "x").judge(at(4 << 20, 0, 1)),
        Claim::at_most("allgather, 1 MB of each: in blocks over whole", HIDES, 1.0, "x").judge(at(
            1 << 20,
            1,
            1,
        )),
        Claim::at_most("allreduce, 16 bytes: gdrcopy over whole", SHORT, 1.0, "x").judge(at(16, 0, 2)),
        Claim::at_most("allreduce, 16 bytes: loopback over whole", SHORT, 1.0, "x").judge(at(16, 0, 3)),
        Claim::at_least("allreduce, 64 KB: gdrcopy over whole", SHORT, 1.0, "x").judge(at(64 << 10, 0, 2)),
        Claim::at_least("allreduce, 4 MB: loopback over whole", SHORT, 1.0, "x").judge(at(4 << 20, 0, 3)),
    ]
}
